#include "symbolic/values/instance_key.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/set_layout.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/tensor_key.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// How often a dict or set calls __hash__ and __eq__ is its own affair: here they change nothing but what they make, and append
// nothing to the graph.
class KeyRegion {
 public:
  explicit KeyRegion(Executor& ex)
      : ex_(ex), regions_(ex.state().isolated_regions.size()), nodes_(ex.graph().nodes.size()) {
    const auto* outer = ex.isolated_region();
    ex.enter_isolated_region("__hash__ or __eq__ of a key", outer ? outer->region : 0, /*pure=*/true);
    ex.state().isolated_regions.back().may_be_left_out = true;
    ++ex.state().key_calls.running;
  }
  KeyRegion(const KeyRegion&) = delete;
  KeyRegion& operator=(const KeyRegion&) = delete;
  ~KeyRegion() {
    ex_.state().isolated_regions.resize(regions_);
    --ex_.state().key_calls.running;
  }
  void require_no_nodes(const SymbolicValue& instance) const {
    if (ex_.graph().nodes.size() != nodes_) break_graph("CD0210", instance.describe());
  }

 private:
  Executor& ex_;
  const size_t regions_, nodes_;
};

// ---- the object that stands for an instance

struct InstanceKey {
  PyObject_HEAD;
  Executor* ex;
  std::weak_ptr<SymbolicValue> instance;  // held by the dict or set that holds the key
  Py_hash_t hash;
  bool reads_changed;  // __hash__ has read what captured code has changed of a live object
};

extern PyTypeObject instance_key_type;

InstanceKey* as_instance_key(PyObject* object) {
  return Py_IS_TYPE(object, &instance_key_type) ? reinterpret_cast<InstanceKey*>(object) : nullptr;
}

// Null: which value the other key stands for is not known.
ValuePtr value_of_key(Executor& ex, PyObject* key) {
  if (const InstanceKey* instance = as_instance_key(key)) return instance->instance.lock();
  if (const auto known = ex.state().by_object.find(key); known != ex.state().by_object.end())
    return known->second;
  if (Py_IS_TYPE(key, &PyBaseObject_Type) || is_tensor_key(key) || holds_instance_key(key)) return nullptr;
  return ex.constant(PyRef::borrow(key));
}

// What a comparison has thrown is kept while CPython unwinds with an error of this class.
thread_local std::exception_ptr thrown;

PyObject* comparison_failed() {
  static PyObject* error = PyErr_NewException("cdynamo.ComparisonFailed", nullptr, nullptr);
  return error;
}

PyObject* compare_keys(PyObject* self, PyObject* other, int py_op) {
  if (py_op != Py_EQ) Py_RETURN_NOTIMPLEMENTED;
  try {
    const InstanceKey* key = as_instance_key(self);
    Executor& ex = *key->ex;
    const ValuePtr left = key->instance.lock(), right = value_of_key(ex, other);
    if (!left || !right) break_graph("CD0210", left ? left->describe() : "an instance");
    const KeyRegion region(ex);
    const bool equal = values_equal(ex, left, right);
    region.require_no_nodes(*left);
    return PyBool_FromLong(equal);
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
  } catch (...) {
    thrown = std::current_exception();
    PyErr_SetNone(comparison_failed());
  }
  return nullptr;
}

void free_key(PyObject* self) {
  std::destroy_at(&reinterpret_cast<InstanceKey*>(self)->instance);
  PyObject_Free(self);
}

PyTypeObject instance_key_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "cdynamo.InstanceKey",
    .tp_basicsize = sizeof(InstanceKey),
    .tp_dealloc = free_key,
    .tp_hash = [](PyObject* self) { return as_instance_key(self)->hash; },
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_richcompare = compare_keys,
};

template <typename Condition>
bool any_element(PyObject* object, const Condition& condition) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (condition(PyTuple_GET_ITEM(object, i))) return true;
  } else if (PyFrozenSet_CheckExact(object)) {
    const PyRef elements = checked(elements_of(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i)
      if (condition(PyList_GET_ITEM(elements.get(), i))) return true;
  }
  return false;
}

// Of a new object. What it writes may not be made of a hash by identity, which is another one later.
void call_first(Executor& ex, const UserObjectValue& instance, SymbolicValue& method) {
  Executor::State::KeyCalls& calls = ex.state().key_calls;
  const Executor::State::KeyCalls outer = calls;
  calls.hashes_identity = calls.writes = false;
  ++calls.running;
  const absl::Cleanup done = [&] {
    --calls.running;
    calls.hashes_identity |= outer.hashes_identity;
    calls.writes |= outer.writes;
  };
  method.call(ex, {});
  if (calls.hashes_identity && calls.writes) break_graph("CD0210", instance.describe());
}

// No object's of which identity alone is hashed.
bool is_hash_known(PyObject* key) {
  if (is_plain_constant(key) || as_instance_key(key)) return true;
  return (PyTuple_CheckExact(key) || PyFrozenSet_CheckExact(key)) &&
         !any_element(key, [](PyObject* element) { return !is_hash_known(element); });
}

}  // namespace

PyRef instance_key(Executor& ex, UserObjectValue& instance) {
  const ValuePtr self = instance.shared_from_this();
  const ValuePtr method = instance.special(ex, "__hash__", true);
  // The first call, which CPython makes too, may keep what it gives (`self._hash = ...`); those that follow may not differ.
  if (method && instance.is_new() && !instance.note_hashed()) call_first(ex, instance, *method);
  const bool outer_changed = std::exchange(ex.state().key_calls.reads_changed, false);
  const KeyRegion region(ex);
  if (!method && !instance.storage()) break_graph("CD0210", instance.describe());
  const Py_hash_t hash = method ? hash_of_returned(ex, self, method->call(ex, {}))
                                : PyObject_Hash(instance.storage()->hash_key(ex).get());
  if (hash == -1) raise_current_error(ex);
  region.require_no_nodes(instance);
  if (!instance_key_type.tp_dict && PyType_Ready(&instance_key_type) < 0) throw PythonError{};
  PyRef object = checked(PyType_GenericAlloc(&instance_key_type, 0));
  auto* key = reinterpret_cast<InstanceKey*>(object.get());
  std::construct_at(&key->instance, self);
  key->ex = &ex;
  key->hash = hash;
  key->reads_changed = std::exchange(ex.state().key_calls.reads_changed, outer_changed);
  ex.state().key_calls.reads_changed |= key->reads_changed;
  return object;
}

Py_hash_t hash_of_returned(Executor& ex, const ValuePtr& instance, const ValuePtr& returned) {
  const PyRef number = returned->materialize(ex);
  if (!number) break_graph("CD0210", instance->describe());
  if (!PyLong_Check(number.get()))
    raise_error(ex, PyExc_TypeError, "__hash__ method should return an integer");
  int overflow = 0;
  const long long given = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (overflow) return PyLong_Type.tp_hash(number.get());
  return given == -1 ? -2 : given;
}

Py_hash_t hash_of_value(Executor& ex, const ValuePtr& value) {
  const PyRef key = value->hash_key(ex);
  // A hash by identity is that of an object which is not made yet, or another one in another call. As a part of a key it only says
  // which keys are compared.
  const bool is_known = value->as_constant() || is_hash_known(key.get());
  if (!is_known && ex.state().key_calls.running)
    ex.state().key_calls.hashes_identity = true;
  else if (!is_known && value->source && value->real_object() == key.get())
    add_guard(ex, GuardKind::kIdentity, value->source, key.get());
  else if (!is_known)
    break_graph("CD0210", value->describe());
  const Py_hash_t hash = PyObject_Hash(key.get());
  if (hash == -1) raise_current_error(ex);
  return hash;
}

bool holds_instance_key(PyObject* key) {
  return as_instance_key(key) || any_element(key, holds_instance_key);
}

bool holds_instance(PyObject* object) {
  return any_element(object, [](PyObject* element) {
    return (PyType_HasFeature(Py_TYPE(element), Py_TPFLAGS_HEAPTYPE) && !PyType_Check(element)) ||
           holds_instance(element);
  });
}

void require_same_hash(Executor& ex, const ValuePtr& value, PyObject* key) {
  if (!holds_instance_key(key)) return;
  ex.state().key_calls.reads_changed = false;
  const PyRef now = value->hash_key(ex);
  if (ex.state().key_calls.reads_changed || PyObject_Hash(now.get()) != PyObject_Hash(key))
    break_graph("CD0210", absl::StrCat(value->describe(), ", which has changed"));
}

void require_no_comparison(std::span<PyObject* const> keys) {
  if (std::ranges::none_of(keys, holds_instance_key)) return;
  absl::flat_hash_map<Py_hash_t, PyObject*> seen;
  for (PyObject* key : keys) {
    const auto [other, is_new] = seen.try_emplace(PyObject_Hash(key), key);
    if (!is_new && (holds_instance_key(key) || holds_instance_key(other->second)))
      break_graph("CD0210", "keys that hash alike, of a new dict or set");
  }
}

void rethrow_error_of_comparison() {
  if (!thrown || !PyErr_ExceptionMatches(comparison_failed())) return;
  PyErr_Clear();
  std::rethrow_exception(std::exchange(thrown, nullptr));
}

void throw_error_of_keys() {
  rethrow_error_of_comparison();
  throw PythonError{};
}

}  // namespace cdynamo::symbolic
