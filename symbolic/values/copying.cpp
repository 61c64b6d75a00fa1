// copy.copy and copy.deepcopy. Their Python goes by id() and __reduce_ex__, which a capture cannot; what they
// do to containers and plain instances is done here. An object with hooks of its own (__copy__, __reduce__
// ...) is left to Python.

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/list.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Values that copy gives back as they are.
bool is_atomic(const ValuePtr& value) {
  PyTypeObject* type = value->type();
  return value->as_constant() || type == &PyFunction_Type || type == &PyCFunction_Type ||
         type == &PyLong_Type || type == &PyFloat_Type || type == &PyRange_Type;
}

// collections.namedtuple writes one for each class, in a namespace of its own.
bool has_constructor_of_named_tuples(Executor& ex, PyTypeObject* type) {
  const PyRef function = wrapped_function(lookup_type(ex, type, interned("__new__")), &PyStaticMethod_Type);
  PyObject* name = function && PyFunction_Check(function.get())
                       ? PyDict_GetItemString(PyFunction_GET_GLOBALS(function.get()), "__name__")
                       : nullptr;
  return name && PyUnicode_Check(name) && std::string_view(PyUnicode_AsUTF8(name)).starts_with("namedtuple_");
}

// copyreg.pickle: how the program has instances of the class copied. Asked after the class's own __copy__ and __deepcopy__.
bool has_registered_reduction(Executor& ex, PyTypeObject* type) {
  PyObject* table = library_object("copyreg", "dispatch_table");
  if (PyDict_Contains(table, as_object(type))) return true;
  add_guard(ex, GuardKind::kKeyAbsent, constant_source(table), as_object(type));
  return false;
}

// A named tuple whose class adds nothing to how it is copied: tuple's __new__ makes another one of its parts, as
// __getnewargs__ says.
bool is_plain_named_tuple(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  if (!object || !object->storage() || object->storage()->type() != &PyTuple_Type) return false;
  if (has_registered_reduction(ex, object->type())) return false;
  const auto has_hook = [&](const char* hook) {
    return lookup_type(ex, object->type(), interned(hook)) !=
           _PyType_Lookup(&PyBaseObject_Type, interned(hook));
  };
  for (const char* hook : {"__copy__", "__deepcopy__", "__getstate__", "__setstate__", "__reduce__",
                           "__reduce_ex__", "__getnewargs_ex__"})
    if (has_hook(hook)) return false;
  PyObject* arguments = lookup_type(ex, object->type(), interned("__getnewargs__"));
  PyObject* of_named_tuples = library_object("inspect", "Arguments.__getnewargs__");
  const bool is_named_tuple = arguments && PyFunction_Check(arguments) &&
                              PyFunction_GET_CODE(arguments) == PyFunction_GET_CODE(of_named_tuples);
  DictValue* attributes = is_named_tuple ? object->instance_dict(ex) : nullptr;
  return is_named_tuple && has_constructor_of_named_tuples(ex, object->type()) &&
         (!attributes || attributes->size(ex) == 0);
}

// An instance whose class leaves copying to object, but perhaps for its __getstate__ and __setstate__: a new one with the same
// attributes.
UserObjectValue* plain_instance(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  if (!object || object->storage() || builtin_base(object->type()) != &PyBaseObject_Type) return nullptr;
  for (const char* hook : {"__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__slots__", "__new__"})
    if (lookup_type(ex, object->type(), interned(hook)) != _PyType_Lookup(&PyBaseObject_Type, interned(hook)))
      return nullptr;
  return object->instance_dict(ex) && !has_registered_reduction(ex, object->type()) ? object : nullptr;
}

// state_dict()'s OrderedDict has one.
bool has_no_attributes(Executor& ex, const ValuePtr& value) {
  if (!value->source) return !dict_in(value)->known_attributes();
  PyObject** dict = _PyObject_GetDictPtr(value->real_object());
  if (dict && *dict && PyDict_GET_SIZE(*dict) > 0) return false;
  add_guard(ex, GuardKind::kLength, attribute_source(value->source, interned("__dict__")), nullptr, 0);
  return true;
}

bool is_parameter(Executor& ex, const ValuePtr& value) {
  return is_array(value) && std::string_view(value->type()->tp_name) == "Parameter" &&
         is_true(ex, value->get_attribute(ex, interned("is_leaf")));
}

struct Copier {
  Executor& ex;
  bool deep;
  absl::flat_hash_map<const SymbolicValue*, ValuePtr> memo = {};
  std::vector<ValuePtr> arrays = {};
  ValuePtr shown_memo = nullptr;

  ValuePtr part(const ValuePtr& value) { return deep ? copy(value) : value; }

  ValuePtr copy(const ValuePtr& value) {
    check_stack();
    if (is_atomic(value)) return value;
    if (!deep && (value->type() == &PyFrozenSet_Type || value->type() == &PySlice_Type)) return value;
    if (auto known = memo.find(value.get()); known != memo.end()) return known->second;
    if (deep) note_identity(ex, *value);
    PyTypeObject* type = value->type();
    if (type == &PyList_Type) return copy_list(value);
    if (type == &PyTuple_Type) return deep ? copy_tuple(value) : value;
    const bool plain_ordered = type == ordered_dict_type() && has_no_attributes(ex, value);
    if (type == &PyDict_Type || plain_ordered || type == default_dict_type()) return copy_dict(value);
    if (type == deque_type()) return copy_deque(value);
    if (type == &PySet_Type)
      return memo[value.get()] = new_set(ex, parts(set_in(value)->items(ex)), &PySet_Type);
    if (ValuePtr method = own_method(value)) return memo[value.get()] = copy_by(method);
    if (UserObjectValue* object = plain_instance(ex, value)) return copy_instance(value, *object);
    if (is_plain_named_tuple(ex, value)) return copy_named_tuple(value);
    if (deep && is_parameter(ex, value))
      return memo[value.get()] = polyfill(ex, PythonSide::kTorchPolyfills, "deepcopy_parameter")
                                     ->call(ex, positional({value}));
    if (ValuePtr array = copy_of_array(ex, value, deep, arrays)) return memo[value.get()] = array;
    break_graph("CD0212", std::string(deep ? "copy.deepcopy" : "copy.copy") + " of " + value->describe());
  }

  // The class's own __copy__ or __deepcopy__, where it is Python's; null: it has none.
  ValuePtr own_method(const ValuePtr& value) {
    if (!dynamic_cast<UserObjectValue*>(value.get())) return nullptr;
    const char* name = deep ? "__deepcopy__" : "__copy__";
    PyObject* found = lookup_type(ex, value->type(), interned(name));
    return found && PyFunction_Check(found) ? lookup_special(ex, value, name) : nullptr;
  }
  // What a __deepcopy__ is given for the memo stands for the copier, which goes on where it is handed to deepcopy.
  ValuePtr copy_by(const ValuePtr& method) {
    if (!deep) return method->call(ex, {});
    if (!shown_memo) shown_memo = new_dict();
    struct Active {
      explicit Active(Copier& copier) { active().push_back(&copier); }
      ~Active() { active().pop_back(); }
    } scope(*this);
    ValuePtr copied = method->call(ex, positional({shown_memo}));
    // What it has noted there is by numbers of objects.
    if (dict_in(shown_memo)->size(ex)) break_graph("CD0212", "copy.deepcopy that writes to its memo");
    return copied;
  }
  static std::vector<Copier*>& active() {
    static thread_local std::vector<Copier*> copiers;
    return copiers;
  }

  std::vector<ValuePtr> parts(const std::vector<ValuePtr>& items) {
    std::vector<ValuePtr> copies;
    for (const ValuePtr& item : items) copies.push_back(part(item));
    return copies;
  }
  ValuePtr copy_list(const ValuePtr& value) {
    auto copied = new_list({});
    memo[value.get()] = copied;
    std::vector<ValuePtr> items = parts(list_in(value)->items(ex));
    copied->mutable_items(ex) = std::move(items);
    return copied;
  }
  ValuePtr copy_deque(const ValuePtr& value) {
    DequeValue& deque = *deque_in(value);
    auto copied = new_deque({}, deque.max_length(ex));
    memo[value.get()] = copied;
    for (ValuePtr& item : parts(deque.items(ex))) copied->append(ex, std::move(item));
    return copied;
  }
  // _deepcopy_tuple: a tuple of what cannot change stays.
  ValuePtr copy_tuple(const ValuePtr& value) {
    const std::vector<ValuePtr>& items = tuple_in(value)->items(ex);
    std::vector<ValuePtr> copies = parts(items);
    return memo[value.get()] = copies == items ? value : ValuePtr(new_tuple(std::move(copies)));
  }
  ValuePtr copy_named_tuple(const ValuePtr& value) {
    std::vector<ValuePtr> items = parts(tuple_in(value)->items(ex));
    return memo[value.get()] = UserObjectValue::make(value->type(), new_tuple(std::move(items)));
  }
  ValuePtr copy_dict(const ValuePtr& value) {
    DictValue& dict = *dict_in(value);
    auto copied = new_dict(value->type());
    memo[value.get()] = copied;
    copied->set_default_factory(dict.default_factory());
    for (const DictValue::Entry& entry : dict.entries(ex))
      copied->store(ex, part(entry.key), part(entry.value));
    return copied;
  }
  ValuePtr copy_instance(const ValuePtr& value, UserObjectValue& object) {
    ValuePtr copied = UserObjectValue::make(object.type(), nullptr);
    memo[value.get()] = copied;
    const ValuePtr state = part(state_of(value, object));
    const ValuePtr set_state = lookup_special(ex, copied, "__setstate__");
    DictValue* items = dict_in(state);
    if (!items) break_graph("CD0212", "copying a state of " + state->describe());
    if (items->size(ex) == 0) return copied;
    if (set_state) return set_state->call(ex, positional({state})), copied;
    DictValue* attributes = dynamic_cast<UserObjectValue&>(*copied).instance_dict(ex);
    for (const DictValue::Entry& entry : items->entries(ex)) attributes->store(ex, entry.key, entry.value);
    return copied;
  }
  // copyreg.__reduce_ex__ asks the class's own __getstate__, or takes a copy of the attributes.
  ValuePtr state_of(const ValuePtr& value, UserObjectValue& object) {
    PyObject* own = lookup_type(ex, object.type(), interned("__getstate__"));
    if (own && PyFunction_Check(own)) return lookup_special(ex, value, "__getstate__")->call(ex, {});
    auto state = new_dict();
    for (const DictValue::Entry& entry : object.instance_dict(ex)->entries(ex))
      state->store(ex, entry.key, entry.value);
    return state;
  }
};

ValuePtr shallow_copy(Executor& ex, const CallArgs& args) {
  require_count(ex, "copy", args, 1, 1);
  return Copier{ex, false}.copy(args.positional[0]);
}
ValuePtr deep_copy(Executor& ex, const CallArgs& args) {
  const std::vector<ValuePtr> bound = bind_arguments(ex, "deepcopy", args, {"x", "memo?"});
  if (bound[1] && !is_none(bound[1])) {
    for (Copier* copier : Copier::active())
      if (copier->shown_memo == bound[1]) return copier->copy(bound[0]);
    break_graph("CD0212", "copy.deepcopy with a memo of the program's");
  }
  return Copier{ex, true}.copy(args.positional[0]);
}

constexpr BuiltinRow kCopyingFunctions[] = {
    {"copy", "copy", shallow_copy},
    {"copy", "deepcopy", deep_copy},
};

}  // namespace

std::span<const BuiltinRow> copy_functions() { return kCopyingFunctions; }

}  // namespace cdynamo::symbolic
