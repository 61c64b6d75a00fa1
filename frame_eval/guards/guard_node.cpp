#include "frame_eval/guards/guard_node.h"

#include <cstring>

#include "frame_eval/hook/frame.h"
#include "symbolic/interop/abstract_class.h"
#include "symbolic/interop/any_key.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/interop/complex_access.h"
#include "symbolic/interop/context_access.h"
#include "symbolic/interop/decimal_access.h"
#include "symbolic/interop/deque_access.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/interop/iterator_access.h"
#include "symbolic/interop/key_order.h"
#include "symbolic/interop/proxied_mapping.h"
#include "symbolic/interop/shown.h"
#include "symbolic/interop/subclasses.h"
#include "symbolic/interop/weak_elements.h"
#include "symbolic/interop/weak_reference_access.h"

namespace cdynamo::frame_eval {
namespace {

// Runs no Python code, and so lets no other thread in, unless a key of the dict has the same hash and is no
// built-in object.
PyObject* dict_item(PyObject* dict, PyObject* key, Py_hash_t hash) {
  if (!dict || !PyDict_Check(dict)) return nullptr;
  if (!PyUnicode_CheckExact(key) && !(key = symbolic::stood_for(key))) return nullptr;
  PyObject* item = _PyDict_GetItem_KnownHash(dict, key, hash);
  if (!item) PyErr_Clear();
  return item;
}

PyObject* dict_entry_at(PyObject* dict, int index, bool want_key) {
  if (!PyDict_Check(dict) || index >= PyDict_GET_SIZE(dict)) return nullptr;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (int i = 0; i <= index; ++i)
    if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
  return want_key ? key : value;
}

PyObject* sequence_item(PyObject* object, Py_ssize_t index, PyRef& owner) {
  if (PyTuple_Check(object))
    return index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, index) : nullptr;
  if (PyList_Check(object)) return index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, index) : nullptr;
  if (!symbolic::is_deque(object)) return nullptr;
  owner = symbolic::deque_item(object, index);
  return owner.get();
}

bool same_constant(PyObject* expected, PyObject* actual);
using symbolic::is_instance_of_program;

// Numbers are equal across types, in sets and tuples too: {1} == {True}. Ints alone are not among themselves.
bool may_equal_others(PyObject* element) {
  return (PyNumber_Check(element) && !PyLong_CheckExact(element)) || PyTuple_CheckExact(element) ||
         is_instance_of_program(element);
}

bool any_may_equal_others(PyObject* set) {
  PyRef iterator = PyRef::steal(PyObject_GetIter(set));
  while (PyRef element = PyRef::steal(iterator ? PyIter_Next(iterator.get()) : nullptr))
    if (may_equal_others(element.get())) return true;
  return false;
}

bool has_same_element(PyObject* set, PyObject* wanted) {
  PyRef iterator = PyRef::steal(PyObject_GetIter(set));
  while (PyRef element = PyRef::steal(iterator ? PyIter_Next(iterator.get()) : nullptr))
    if (same_constant(element.get(), wanted)) return true;
  return false;
}

bool same_elements(PyObject* expected, PyObject* actual) {
  if (PySet_GET_SIZE(expected) != PySet_GET_SIZE(actual)) return false;
  const bool one_by_one = any_may_equal_others(expected) || any_may_equal_others(actual);
  PyRef iterator = PyRef::steal(PyObject_GetIter(actual));
  const auto is_there = [&](PyObject* element) {
    if (is_instance_of_program(element)) return has_same_element(expected, element);
    return PySet_Contains(expected, element) == 1 &&
           (!one_by_one || !(PyNumber_Check(element) || PyTuple_CheckExact(element)) ||
            has_same_element(expected, element));
  };
  while (PyRef element = PyRef::steal(iterator ? PyIter_Next(iterator.get()) : nullptr))
    if (!is_there(element.get())) {
      PyErr_Clear();
      return false;
    }
  if (PyErr_Occurred()) PyErr_Clear();
  return static_cast<bool>(iterator);
}

// Comparing runs no code of the program's: a class, and an instance of one, is itself alone. Named tuples are compared as tuples.
bool same_constant(PyObject* expected, PyObject* actual) {
  if (expected == actual) return true;
  if (symbolic::is_weak_element(expected)) return symbolic::stood_for(expected) == actual;
  if (Py_TYPE(expected) != Py_TYPE(actual) || PyType_Check(expected)) return false;
  const bool is_named_tuple = PyTuple_Check(expected) && Py_TYPE(expected)->tp_dictoffset == 0;
  if (is_instance_of_program(expected) && !is_named_tuple) return false;
  if (PyFloat_CheckExact(expected)) {
    const double a = PyFloat_AS_DOUBLE(expected), b = PyFloat_AS_DOUBLE(actual);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (PyComplex_CheckExact(expected)) {
    const Py_complex a = PyComplex_AsCComplex(expected), b = PyComplex_AsCComplex(actual);
    return std::memcmp(&a, &b, sizeof a) == 0;  // the signs of zeros, too
  }
  if (PyTuple_CheckExact(expected) || is_named_tuple) {
    const Py_ssize_t n = PyTuple_GET_SIZE(expected);
    if (n != PyTuple_GET_SIZE(actual)) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!same_constant(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(actual, i))) return false;
    return true;
  }
  if (PyAnySet_Check(expected)) return same_elements(expected, actual);
  const int equal = PyObject_RichCompareBool(expected, actual, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool same_items(PyObject* expected, PyObject* keys) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); ++i)
    if (PyObject* known = PyTuple_GET_ITEM(expected, i);
        known != symbolic::any_key() && !same_constant(known, PyTuple_GET_ITEM(keys, i)))
      return false;
  return true;
}

bool same_keys(PyObject* expected, PyObject* dict) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
  if (PyODict_Check(dict)) {
    const PyRef keys = symbolic::keys_in_order(dict);
    if (!keys) PyErr_Clear();
    return keys && same_items(expected, keys.get());
  }
  Py_ssize_t position = 0, i = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (PyObject* known = PyTuple_GET_ITEM(expected, i++);
        known != symbolic::any_key() && !same_constant(known, key))
      return false;
  return true;
}

bool same_length(PyObject* object, Py_ssize_t length) {
  if (PyList_Check(object)) return PyList_GET_SIZE(object) == length;
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object) == length;
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object) == length;
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object) == length;
  return symbolic::is_deque(object) && symbolic::deque_length(object) == length;
}

bool same_function(const Leaf& leaf, PyObject* object) {
  if (!PyFunction_Check(object)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  if (function->func_code != leaf.object.get() || function->vectorcall != leaf.vectorcall) return false;
  if (leaf.index == symbolic::kSameDefaults)
    return function->func_defaults == leaf.defaults.get() &&
           function->func_kwdefaults == leaf.kwdefaults.get();
  // Those that were used have guards of their own.
  PyObject* defaults = function->func_defaults;
  return (defaults ? PyTuple_GET_SIZE(defaults) : -1) == leaf.num_defaults &&
         (function->func_kwdefaults != nullptr) == leaf.has_kwdefaults;
}

PyObject* closure_name() {
  static PyObject* name = PyUnicode_InternFromString("__closure__");
  return name;
}

std::string type_name(const ConstantRef& type) {
  PyObject* object = type.get();
  return object ? reinterpret_cast<PyTypeObject*>(object)->tp_name : "a class that is gone";
}

std::string repr(PyObject* object) {
  if (!object) return "an object that is gone";
  std::string result = symbolic::shown_repr(object);
  if (result.empty()) return std::string("<") + Py_TYPE(object)->tp_name + " object>";
  if (result.size() > 80) result = result.substr(0, 77) + "...";
  return result;
}

}  // namespace

PyObject* instance_dict(PyObject* object) {
  if (PyModule_Check(object)) return PyModule_GetDict(object);
  PyObject** pointer = _PyObject_GetDictPtr(object);
  if (!pointer) return nullptr;
  if (!*pointer && PyFunction_Check(object)) {  // made when it is first looked at
    *pointer = PyDict_New();
    if (!*pointer) PyErr_Clear();
  }
  return *pointer;
}

Py_hash_t hash_of(PyObject* key) {
  const Py_hash_t hash = key ? PyObject_Hash(key) : 0;
  if (hash == -1) PyErr_Clear();  // it is in no dict then
  return hash;
}

PyObject* access(const GuardNode& node, PyObject* parent, const symbolic::Roots& roots, PyRef& owner) {
  const symbolic::Source& source = *node.source;
  switch (source.kind) {
    case SourceKind::kArgument:
      return source.index < roots.num_arguments ? roots.arguments[source.index] : nullptr;
    case SourceKind::kFunction: return roots.function;
    case SourceKind::kGlobal:
      return source.key ? dict_item(roots.globals, source.key.get(), node.key_hash) : roots.globals;
    case SourceKind::kBuiltin: return dict_item(roots.builtins, source.key.get(), node.key_hash);
    case SourceKind::kClosure:
    case SourceKind::kClosureCell: {
      if (!roots.closure || source.index >= PyTuple_GET_SIZE(roots.closure)) return nullptr;
      PyObject* cell = PyTuple_GET_ITEM(roots.closure, source.index);
      return source.kind == SourceKind::kClosureCell ? cell : PyCell_GET(cell);
    }
    case SourceKind::kConstant: return source.object.get();
    case SourceKind::kHandled:
      owner = PyRef::steal(PyErr_GetHandledException());
      return owner ? owner.get() : Py_None;
    case SourceKind::kModuleGlobal:
      return dict_item(PyModule_Check(parent) ? PyModule_GetDict(parent) : parent, source.key.get(),
                       node.key_hash);
    case SourceKind::kInstanceDict: return instance_dict(parent);
    case SourceKind::kAttribute:
      if (PyFunction_Check(parent) && source.key.get() == closure_name()) {
        PyObject* closure = PyFunction_GET_CLOSURE(parent);
        return closure ? closure : Py_None;
      }
      owner = PyRef::steal(PyObject_GetAttr(parent, source.key.get()));
      if (!owner) PyErr_Clear();
      return owner.get();
    case SourceKind::kItem:
      return source.key ? dict_item(parent, source.key.get(), node.key_hash)
                        : sequence_item(parent, source.index, owner);
    case SourceKind::kDictValueAt: return dict_entry_at(parent, source.index, false);
    case SourceKind::kDictKeyAt: return dict_entry_at(parent, source.index, true);
    case SourceKind::kType: return reinterpret_cast<PyObject*>(Py_TYPE(parent));
    case SourceKind::kMethodSelf: return PyMethod_Check(parent) ? PyMethod_GET_SELF(parent) : nullptr;
    case SourceKind::kMethodFunction: return PyMethod_Check(parent) ? PyMethod_GET_FUNCTION(parent) : nullptr;
    case SourceKind::kCellContents: return PyCell_Check(parent) ? PyCell_GET(parent) : nullptr;
    case SourceKind::kUpcoming: owner = symbolic::upcoming_item(parent, source.index); return owner.get();
    case SourceKind::kUpcomingCount: owner = symbolic::upcoming_count(parent); return owner.get();
    case SourceKind::kIteratorPart: owner = symbolic::iterator_part(parent, source.index); return owner.get();
    case SourceKind::kContextValue: owner = symbolic::context_value(parent); return owner.get();
    case SourceKind::kWeakReference: owner = symbolic::weak_reference(parent); return owner.get();
    case SourceKind::kReferent: owner = symbolic::referent(parent); return owner.get();
    case SourceKind::kProxied: owner = symbolic::proxied_mapping(parent); return owner.get();
    case SourceKind::kSubclasses: owner = symbolic::subclasses(parent); return owner.get();
    case SourceKind::kRealView: owner = symbolic::real_view(parent); return owner.get();
    case SourceKind::kHeld: owner = symbolic::held_result(parent, source.key.get()); return owner.get();
    case SourceKind::kCacheRules: owner = symbolic::cache_rules(parent); return owner.get();
    case SourceKind::kCacheIsFull: owner = symbolic::cache_is_full(parent, source.index); return owner.get();
    case SourceKind::kDecimalRules: owner = symbolic::decimal_rules(parent); return owner.get();
    case SourceKind::kComputed: break;  // ComputedNode
  }
  return nullptr;
}

static PyRef evaluated(const symbolic::Computation::Operand& operand, const graph::SymContext& sym,
                       const int64_t* symbols) {
  if (operand.integers.empty())
    return PyRef::steal(PyLong_FromLongLong(sym.evaluate(operand.integer, symbols)));
  PyRef integers = PyRef::steal(PyTuple_New(std::ssize(operand.integers)));
  for (size_t i = 0; integers && i < operand.integers.size(); ++i) {
    PyObject* integer = PyLong_FromLongLong(sym.evaluate(operand.integers[i], symbols));
    if (!integer) return {};
    PyTuple_SET_ITEM(integers.get(), static_cast<Py_ssize_t>(i), integer);
  }
  return integers;
}

PyRef ComputedNode::compute(const std::vector<PyObject*>& objects, const graph::SymContext* sym,
                            const int64_t* symbols) const {
  const symbolic::Computation& computation = *node.source->computation;
  PyObject* numbers[symbolic::Computation::kMostOperands];
  PyRef made[symbolic::Computation::kMostOperands];
  for (size_t i = 0; i < slots.size(); ++i) {
    const symbolic::Computation::Operand& operand = computation.operands[i];
    if (slots[i] >= 0) {
      numbers[i] = objects[slots[i]];
    } else if (operand.constant) {
      numbers[i] = operand.constant.get();
    } else {
      // What an expression relies on, such as a divisor that is not zero, is checked after this.
      try {
        made[i] = evaluated(operand, *sym, symbols);
      } catch (const std::domain_error&) {
        return {};
      }
      numbers[i] = made[i].get();
    }
    if (!numbers[i]) return PyErr_Clear(), PyRef();
  }
  return computation.call(numbers);
}

bool is_settled(const GuardNode& node) {
  if (!node.children.empty() || !node.inputs.empty() || !node.symbols.empty() || node.slot >= 0) return false;
  for (const Leaf& leaf : node.leaves) {
    switch (leaf.kind) {
      case GuardKind::kIdentity: break;
      case GuardKind::kEquals:
        if (PyAnySet_Check(leaf.object.get())) return false;
        break;
      default: return false;
    }
  }
  return true;
}

namespace {

bool is_unchanged(const Leaf& leaf, PyObject* object) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (leaf.type_version != 0 && type->tp_version_tag == leaf.type_version) return true;
  if (!leaf.contents) {
    ClassContents::note_change(type);
    return false;
  }
  if (!leaf.contents->are_those_of(type)) return false;
  leaf.type_version = cdynamo_type_version(type);
  return true;
}

// What is no subclass stays none until some class is registered with some abstract one.
bool is_no_subclass(const Leaf& leaf, PyObject* object) {
  PyObject* base = leaf.object.get();
  if (!base) return false;
  PyRef token = symbolic::abc_cache_token();
  if (leaf.cache_token && symbolic::same_token(leaf.cache_token.get(), token.get())) return true;
  const int found = PyObject_IsSubclass(object, base);
  if (found < 0) PyErr_Clear();
  if (found != 0) return false;
  leaf.cache_token = std::move(token);
  return true;
}

}  // namespace

static bool dies_quietly(PyObject* object) {
  return Py_REFCNT(object) > 1 || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || !symbolic::runs_code_when_all_of_it_dies(object);
}

bool is_absent(const Leaf& leaf, PyObject* dict) {
  PyObject* key = leaf.object.get();  // null: a function or a class that is gone
  return key && symbolic::stood_for(key) && !dict_item(dict, key, leaf.hash);
}

bool check_leaf(const Leaf& leaf, PyObject* object) {
  switch (leaf.kind) {
    case GuardKind::kType: return reinterpret_cast<PyObject*>(Py_TYPE(object)) == *leaf.object.place();
    case GuardKind::kIdentity: return object == leaf.object.get();
    case GuardKind::kEquals:
      // Of a set, and of an instance of a subclass of set, the type has a guard of its own.
      if (PyAnySet_Check(leaf.object.get()))
        return PyAnySet_Check(object) && same_elements(leaf.object.get(), object);
      return same_constant(leaf.object.get(), object);
    case GuardKind::kSetLayout:
      return PyAnySet_Check(object) && symbolic::same_layout(leaf.object.get(), object, same_constant);
    case GuardKind::kLength: return same_length(object, leaf.index);
    case GuardKind::kDictKeys: return same_keys(leaf.object.get(), object);
    case GuardKind::kKeyAbsent: return PyDict_Check(object) && is_absent(leaf, object);
    case GuardKind::kAttributeAbsent: {
      PyObject* dict = instance_dict(object);
      return !dict || is_absent(leaf, dict);
    }
    case GuardKind::kTypeUnchanged: return object == *leaf.object.place() && is_unchanged(leaf, object);
    case GuardKind::kNotSubclass: return is_no_subclass(leaf, object);
    case GuardKind::kFunctionCode: return same_function(leaf, object);
    case GuardKind::kDiesQuietly: return dies_quietly(object);
    case GuardKind::kDynamicFloat: return PyFloat_CheckExact(object);
    case GuardKind::kDynamicInt: {
      PyObject* type = leaf.object.get();
      if (type ? symbolic::as_object(Py_TYPE(object)) != type : !PyLong_CheckExact(object)) return false;
      int overflow = 0;
      const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
      return overflow == 0 && -symbolic::kLargestSymbol <= value && value <= symbolic::kLargestSymbol;
    }
    case GuardKind::kTensor:
    case GuardKind::kSameObject:
    case GuardKind::kDistinctObjects:
    case GuardKind::kDistinctTensors: return true;  // checked by the tree
  }
  return false;
}

std::string guard_text(const symbolic::Guard& guard) {
  switch (guard.kind) {
    case GuardKind::kType: return "type is " + type_name(guard.object);
    case GuardKind::kIdentity: return "is the same object";
    case GuardKind::kEquals: return "== " + repr(guard.object.get());
    case GuardKind::kSetLayout: return "in the order of " + repr(guard.object.get());
    case GuardKind::kLength: return "len == " + std::to_string(guard.index);
    case GuardKind::kDictKeys: return "keys == " + repr(guard.object.get());
    case GuardKind::kKeyAbsent: return "has no key " + repr(guard.object.get());
    case GuardKind::kAttributeAbsent: return "has no attribute " + repr(guard.object.get());
    case GuardKind::kTypeUnchanged: return "class is unchanged";
    case GuardKind::kNotSubclass: return "is no subclass of " + type_name(guard.object);
    case GuardKind::kDynamicInt: return "an int, any value";
    case GuardKind::kDynamicFloat: return "a float, any value";
    case GuardKind::kFunctionCode: return "function is unchanged";
    case GuardKind::kDiesQuietly: return "runs no code as it dies";
    case GuardKind::kSameObject: return "is " + guard.other->name();
    case GuardKind::kDistinctObjects:
      if (guard.other) return "is not " + guard.other->name();
      return guard.index ? "is written to, and no other object"
                         : "is none of the objects that are written to";
    case GuardKind::kDistinctTensors: return "shares no memory with what is written";
    case GuardKind::kTensor: break;
  }
  const symbolic::TensorGuard& tensor = guard.tensor;
  std::string text = std::string(runtime::info(tensor.dtype).short_name) + "[";
  for (size_t d = 0; d < tensor.sizes.size(); ++d) text += (d ? ", " : "") + tensor.sizes[d].str();
  text += "], strides (";
  for (size_t d = 0; d < tensor.strides.size(); ++d) text += (d ? ", " : "") + tensor.strides[d].str();
  return text + ")" + (tensor.requires_grad ? ", requires_grad" : "");
}

std::string explain_leaf(const Leaf& leaf, const symbolic::Source& source, PyObject* object) {
  const std::string name = source.name();
  switch (leaf.kind) {
    case GuardKind::kType:
      return "type of " + name + " was " + type_name(leaf.object) + ", is " + Py_TYPE(object)->tp_name;
    case GuardKind::kIdentity:
      return name + " is another object than before (was " + repr(leaf.object.get()) + ")";
    case GuardKind::kEquals: return name + " was " + repr(leaf.object.get()) + ", is " + repr(object);
    case GuardKind::kSetLayout: return "the elements of " + name + " are in another order";
    case GuardKind::kLength: {
      const Py_ssize_t length = PyObject_Size(object);
      if (length < 0) PyErr_Clear();
      return "len(" + name + ") was " + std::to_string(leaf.index) + ", is " + std::to_string(length);
    }
    case GuardKind::kDictKeys:
      return "the keys of " + name + " were " + repr(leaf.object.get()) + " and have changed";
    case GuardKind::kKeyAbsent:
    case GuardKind::kAttributeAbsent:
      return name + " has " + repr(leaf.object.get()) + " now, which it had not";
    case GuardKind::kTypeUnchanged: return "class " + name + " has been changed";
    case GuardKind::kNotSubclass: return name + " is a subclass of " + type_name(leaf.object) + " now";
    case GuardKind::kFunctionCode: return "function " + name + " has been replaced or changed";
    case GuardKind::kDiesQuietly: return "code runs where " + name + " dies";
    case GuardKind::kDynamicFloat:
    case GuardKind::kDynamicInt:
      return name + " is " + repr(object) + ", no plain number of that kind any more";
    default: return name + " has changed";
  }
}

}  // namespace cdynamo::frame_eval
