#include "symbolic/frames/read_state.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/module_value.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using ObjectSet = absl::flat_hash_set<PyObject*>;

// What was there before and has been changed.
ObjectSet changed_objects(const Executor::State& state) {
  ObjectSet changed;
  for (const ValuePtr& value : state.mutated)
    if (PyObject* object = value->real_object()) changed.insert(object);
  for (const auto& [object, value] : state.by_object) {
    const auto* instance = dynamic_cast<const UserObjectValue*>(value.get());
    if (instance && state.mutated_set.contains(instance->known_instance_dict())) changed.insert(object);
  }
  return changed;
}

bool is_of_library(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return true;
  PyObject* name = own_type_entry(type, interned("__module__"));
  PyObject* module =
      name && PyUnicode_Check(name) ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name) : nullptr;
  return module && PyModule_Check(module) && is_library_module(module);
}

// Goes through what can be reached; nothing of Python's runs meanwhile.
class Search {
 public:
  explicit Search(const Executor::State& state) : state_(state), changed_(changed_objects(state)) {}

  void add(PyObject* object) {
    if (!object) return;
    found_ |= changed_.contains(object);
    if (PyObject_IS_GC(object) && seen_.insert(object).second) pending_.push_back(object);
  }
  bool finds_changed() {
    constexpr size_t kMany = 20'000;
    while (!found_ && !pending_.empty() && seen_.size() < kMany) {
      PyObject* object = pending_.back();
      pending_.pop_back();
      look_into(object);
    }
    return found_ || !pending_.empty();
  }

 private:
  void look_into(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (PyFunction_Check(object)) return add_function(object);
    if (PyModule_Check(object)) {
      if (!is_library_module(object)) add_names_of(PyModule_GetDict(object));
      return;
    }
    if (PyType_Check(object)) {
      if (is_of_library(reinterpret_cast<PyTypeObject*>(object))) return;
      add_parts(own_entries(reinterpret_cast<PyTypeObject*>(object)).get());
      return add(reinterpret_cast<PyTypeObject*>(object)->tp_bases);
    }
    if (tensor_kind(object) == TensorKind::kNone) add_parts(object);
    if (!is_of_library(type)) add(as_object(type));
  }
  void add_parts(PyObject* object) {
    const traverseproc traverse = Py_TYPE(object)->tp_traverse;
    if (!traverse) return;
    traverse(
        object,
        [](PyObject* part, void* self) {
          // The class is looked at by itself.
          if (!PyType_Check(part) ||
              !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(part), Py_TPFLAGS_HEAPTYPE) ||
              !is_of_library(reinterpret_cast<PyTypeObject*>(part)))
            static_cast<Search*>(self)->add(part);
          return 0;
        },
        this);
  }
  void add_names_of(PyObject* globals) {
    for (const auto& [namespace_, name] : state_.globals_order) found_ |= namespace_ == globals;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(globals, &at, &name, &value);) add(value);
  }
  void add_function(PyObject* function) {
    add(PyFunction_GET_CLOSURE(function));
    add(PyFunction_GET_DEFAULTS(function));
    add(PyFunction_GET_KW_DEFAULTS(function));
    add(reinterpret_cast<PyFunctionObject*>(function)->func_dict);
    add_code(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function));
  }
  void add_code(PyObject* code_object, PyObject* globals) {
    const auto* code = reinterpret_cast<PyCodeObject*>(code_object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
      PyObject* name = PyTuple_GET_ITEM(code->co_names, i);
      found_ |= state_.globals.contains({globals, name});
      add(PyDict_GetItemWithError(globals, name));
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i)
      if (PyObject* inner = PyTuple_GET_ITEM(code->co_consts, i); PyCode_Check(inner))
        add_code(inner, globals);
  }

  const Executor::State& state_;
  const ObjectSet changed_;
  ObjectSet seen_;
  std::vector<PyObject*> pending_;
  bool found_ = false;
};

void add_value(Executor& ex, Search& search, const ValuePtr& value) {
  search.add(value->real_object());
  if (auto* tuple = tuple_in(value))
    for (const ValuePtr& item : tuple->items(ex)) add_value(ex, search, item);
}

}  // namespace

bool may_read_changes(Executor& ex, PyObject* function, const CallArgs& args) {
  const Executor::State& state = ex.state();
  if (state.mutated.empty() && state.globals_order.empty()) return false;
  Search search(state);
  search.add(function);
  for (const ValuePtr& value : args.positional) add_value(ex, search, value);
  for (const Keyword& keyword : args.keywords) add_value(ex, search, keyword.value);
  return search.finds_changed();
}

}  // namespace cdynamo::symbolic
