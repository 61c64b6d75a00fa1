#include "symbolic/values/class_value.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/subclasses.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_writes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/list.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_proxy.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {
PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }
// The entry of a metaclass's method where it is written in Python; null: type's own.
PyObject* python_meta_method(Executor& ex, PyTypeObject* meta, const char* name) {
  if (meta == &PyType_Type) return nullptr;
  PyObject* found = lookup_type(ex, meta, interned(name));
  return found && PyFunction_Check(found) ? found : nullptr;
}

PyTypeObject* abc_meta() { return as_type(library_object("abc", "ABCMeta")); }
PyTypeObject* enum_meta() {
  PyObject* meta = library_object("enum", "EnumMeta");
  return meta ? as_type(meta) : &PyType_Type;
}
}  // namespace

bool is_enum_class(PyTypeObject* type) {
  return Py_TYPE(type) != &PyType_Type && enum_meta() != &PyType_Type &&
         PyType_IsSubtype(Py_TYPE(type), enum_meta());
}

ValuePtr make_class(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (source && source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<ClassValue>(PyRef::borrow(object), source);
}

ValuePtr type_of(Executor& ex, const ValuePtr& value) { return constant_value(ex, as_object(value->type())); }

// ---- attributes

namespace {

// What CPython computes for a class: names, bases, MRO. Plain objects that change with the class only.
bool is_class_property(std::string_view name) {
  static constexpr std::string_view kNames[] = {"__name__", "__qualname__", "__module__",
                                                "__mro__",  "__bases__",    "__base__",
                                                "__doc__",  "__flags__",    "__basicsize__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

ValuePtr freshly(Executor& ex, PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      items.push_back(freshly(ex, PyTuple_GET_ITEM(object, i)));
    return new_constant_tuple(PyRef::borrow(object), std::move(items));
  }
  return is_plain_constant(object) ? ex.constant(PyRef::borrow(object)) : constant_value(ex, object);
}

// type.mro computes what __mro__ is.
ValuePtr method_resolution_order(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return make_list(ex, items_of(ex, self->get_attribute(ex, interned("__mro__"))));
}

// Those that live, guarded one by one. Classes that captured code makes are none of them (interop/subclasses.h).
ValuePtr list_subclasses(Executor& ex, const ValuePtr& self, const CallArgs&) {
  if (ex.state().made_classes.first_step >= 0) break_graph("CD0200", "__subclasses__ of " + self->describe());
  PyObject* cls = self->real_object();
  const PyRef list = subclasses(cls);
  if (!list) throw PythonError{};
  return make_list(
      ex, items_of(ex, ex.wrap(list.get(), derived_source(SourceKind::kSubclasses, constant_source(cls)))));
}

constexpr BuiltinMethodRow kClassValueMethods[] = {{"mro", method_resolution_order},
                                                   {"__subclasses__", list_subclasses}};

}  // namespace

// type_getattro (Objects/typeobject.c)
ValuePtr ClassValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  guard_class(ex, object());
  if (python_meta_method(ex, type(), "__getattribute__")) return SymbolicValue::get_attribute(ex, name);
  if (is_stand_in_ && recipe_ && text == "__mro__") return SymbolicValue::get_attribute(ex, name);
  if (is_class_property(text)) {
    PyRef property = checked_user(ex, PyObject_GetAttr(object_.get(), name));
    // A metaclass's mro() sees new bases before the version of the class changes.
    if (type() != &PyType_Type && text == "__bases__")
      add_guard(ex, GuardKind::kIdentity, attribute_source(constant_source(object_.get()), name),
                property.get());
    // To be renamed does not change the version of the class.
    const bool is_its_name = text == "__name__" || text == "__qualname__";
    if (is_its_name && PyType_HasFeature(object(), Py_TPFLAGS_HEAPTYPE) &&
        !PyType_HasFeature(object(), Py_TPFLAGS_IMMUTABLETYPE) &&
        !ex.state().made_classes.own.contains(object_.get()))
      add_guard(ex, GuardKind::kEquals, attribute_source(constant_source(object_.get()), name),
                property.get());
    return freshly(ex, property.get());
  }
  if (text == "__class__") return type_of(ex, shared_from_this());
  if (text == "__dict__") return namespace_of_now(ex);
  if (text == "__subclasses__" || text == "mro") {
    const bool is_types_own = lookup_type(ex, type(), name) == _PyType_Lookup(&PyType_Type, name);
    if (!is_types_own || is_stand_in_) return SymbolicValue::get_attribute(ex, name);
    return find_builtin_method(shared_from_this(), name, kClassValueMethods);
  }
  PyObject* meta_attribute = lookup_type(ex, type(), name);
  if (meta_attribute && is_data_descriptor(ex, meta_attribute) && type() != &PyType_Type &&
      Py_TYPE(meta_attribute)->tp_descr_get && !Py_IS_TYPE(meta_attribute, &PyGetSetDescr_Type))
    return bind_descriptor(ex, meta_attribute, shared_from_this(), type());
  if (ValuePtr written = written_attribute(ex, object(), name)) return written;
  if (PyObject* found = _PyType_Lookup(object(), name)) {
    if (is_enum_class(object()) && Py_TYPE(found) == object()) return constant_value(ex, found);
    return bind_descriptor(ex, found, nullptr, object());
  }
  if (type() != &PyType_Type)
    if (ValuePtr written = written_attribute(ex, type(), name)) return written;
  if (meta_attribute && PyFunction_Check(meta_attribute))
    return make_bound_method(ex, constant_value(ex, meta_attribute), shared_from_this());
  if (is_enum_class(object()) || meta_attribute) {
    // Enum members (3.11's EnumType.__getattr__) and C methods of the metaclass.
    PyRef value = checked_user(ex, PyObject_GetAttr(object_.get(), name));
    return ex.wrap(value.get(), PyType_IsSubtype(Py_TYPE(value.get()), object())
                                    ? constant_source(value.get())
                                    : attribute_source(constant_source(object_.get()), name));
  }
  if (PyObject* getattr = python_meta_method(ex, type(), "__getattr__"))
    return bind_descriptor(ex, getattr, shared_from_this(), type())
        ->call(ex, positional({ex.constant(PyRef::borrow(name))}));
  raise_error(ex, PyExc_AttributeError,
              std::string("type object '") + object()->tp_name + "' has no attribute '" +
                  PyUnicode_AsUTF8(name) + "'");
}

// A class that is guarded is as it is; one that captured code has made is not written to from here on.
ValuePtr ClassValue::namespace_of_now(Executor& ex) {
  if (shown_) return shown_;
  auto dict = new_dict();
  const PyRef entries = checked(PyMapping_Items(own_entries(object()).get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries.get()); ++i) {
    PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(entries.get(), i), 0),
             *entry = PyTuple_GET_ITEM(PyList_GET_ITEM(entries.get(), i), 1);
    ValuePtr value = written_in_class(ex, object(), name);
    if (!value)
      value =
          PyFunction_Check(entry) ? constant_value(ex, entry) : ex.wrap(entry, held_by_guarded_source(entry));
    dict->store(ex, ex.constant(PyRef::borrow(name)), value);
  }
  if (const auto written = ex.state().class_attributes.find(object());
      written != ex.state().class_attributes.end())
    for (const auto& [name, value] : written->second) dict->store(ex, ex.constant(name), value);
  const SourcePtr from = attribute_source(constant_source(object_.get()), interned("__dict__"));
  return shown_ = std::make_shared<MappingProxyValue>(dict, from);
}

void ClassValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (shown_)
    break_graph("CD0201",
                absl::StrCat(PyUnicode_AsUTF8(name), " of ", describe(), ", whose __dict__ is looked at"));
  const bool is_types_own = type()->tp_setattro == PyType_Type.tp_setattro;
  if (!is_types_own) return SymbolicValue::set_attribute(ex, name, value);
  if (is_stand_in_ || !write_class_attribute(ex, shared_from_this(), name, value))
    set_class_attribute(ex, object_.get(), name, value);
}

ValuePtr ClassValue::call_special(Executor& ex, const char* name, std::vector<ValuePtr> arguments) {
  PyObject* method = python_meta_method(ex, type(), name);
  if (!method) return nullptr;
  return bind_descriptor(ex, method, shared_from_this(), type())->call(ex, positional(std::move(arguments)));
}

// Of a class that captured code has made: by its own __class_getitem__, or by that of typing.Generic.
ValuePtr ClassValue::get_item_of_made(Executor& ex, const ValuePtr& key) {
  Executor::State& state = ex.state();
  PyObject* found = _PyType_Lookup(object(), interned("__class_getitem__"));
  if (!found) return SymbolicValue::get_item(ex, key);
  const PyRef function = wrapped_function(found, &PyClassMethod_Type);
  if (function && state.made_classes.values.contains(function.get()))
    return bind_descriptor(ex, found, nullptr, object())->call(ex, positional({key}));
  const PyRef index = key->materialize(ex);
  if (!index) return SymbolicValue::get_item(ex, key);
  PyRef alias = checked_user(ex, PyObject_GetItem(object_.get(), index.get()));
  state.made_classes.own.insert(alias.get());
  state.kept.push_back(alias);
  return constant_value(ex, alias.get());
}

ValuePtr ClassValue::get_item(Executor& ex, const ValuePtr& key) {
  if (is_enum_class(object())) {
    PyRef name = string_argument(ex, key);
    PyRef member = checked_user(ex, PyObject_GetItem(object_.get(), name.get()));
    return constant_value(ex, member.get());
  }
  if (ValuePtr item = call_special(ex, "__getitem__", {key})) return item;
  PyObject* own = is_stand_in_ ? nullptr : lookup_type(ex, object(), interned("__class_getitem__"));
  const PyRef function = wrapped_function(own, &PyClassMethod_Type);
  if (function && PyFunction_Check(function.get()) && !is_of_standard_library(function.get()))
    return bind_descriptor(ex, own, nullptr, object())->call(ex, positional({key}));
  // list[int] and user generics: annotations.
  if (is_stand_in_ && !recipe_) return get_item_of_made(ex, key);
  PyRef index = is_stand_in_ ? PyRef() : key->materialize(ex);
  if (!index) return SymbolicValue::get_item(ex, key);
  PyRef alias = checked_user(ex, PyObject_GetItem(object_.get(), index.get()));
  return constant_value(ex, alias.get());
}

namespace {
std::vector<ValuePtr> enum_members(Executor& ex, PyObject* cls) {
  std::vector<ValuePtr> members;
  PyRef list = checked_user(ex, PySequence_List(cls));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    members.push_back(constant_value(ex, PyList_GET_ITEM(list.get(), i)));
  return members;
}
}  // namespace

bool ClassValue::contains(Executor& ex, const ValuePtr& item) {
  if (!is_enum_class(object()))
    if (const ValuePtr found = call_special(ex, "__contains__", {item})) return is_true(ex, found);
  if (!is_enum_class(object()) || !item->real_object()) return SymbolicValue::contains(ex, item);
  int found = PySequence_Contains(object_.get(), item->real_object());
  if (found < 0) raise_current_error(ex);
  return found;
}

ValuePtr ClassValue::length(Executor& ex) {
  if (!is_enum_class(object())) {
    const ValuePtr length = call_special(ex, "__len__", {});
    return length ? checked_length(ex, length) : SymbolicValue::length(ex);
  }
  return ex.constant_int(PyObject_Size(object_.get()));
}

ValuePtr ClassValue::iterate(Executor& ex) {
  if (is_enum_class(object())) return new_tuple(enum_members(ex, object_.get()))->iterate(ex);
  if (ValuePtr iterator = call_special(ex, "__iter__", {})) return iterator;
  if (python_meta_method(ex, type(), "__getitem__")) return SymbolicValue::iterate(ex);
  raise_error(ex, PyExc_TypeError, "'" + type_name(shared_from_this()) + "' object is not iterable");
}

std::optional<bool> ClassValue::truth(Executor& ex) {
  if (is_enum_class(object())) return true;  // EnumType.__bool__
  if (const ValuePtr truth = call_special(ex, "__bool__", {})) return checked_truth(ex, truth);
  const ValuePtr length = call_special(ex, "__len__", {});
  return !length || is_true(ex, checked_length(ex, length));
}

// int | str
ValuePtr ClassValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  const bool is_asked = !reflected || other->type() != type();
  if (ValuePtr result = is_asked ? call_special(ex, number_method(nb_op, reflected), {other}) : nullptr)
    return implemented(result);
  auto object = other->as_constant();
  if (nb_op == kNbOr && is_stand_in_) break_graph("CD0209", "| of " + describe());
  if (nb_op != kNbOr || !object) return nullptr;
  PyObject* left = reflected ? object->get() : object_.get();
  PyObject* right = reflected ? object_.get() : object->get();
  return ex.constant(checked_user(ex, PyNumber_Or(left, right)));
}

ValuePtr ClassValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  const auto by_metaclass = [&](PyObject* own) {
    return implemented(bind_descriptor(ex, own, shared_from_this(), type())->call(ex, positional({other})));
  };
  if (PyObject* own = python_meta_method(ex, type(), kComparisons[py_op].method)) return by_metaclass(own);
  // object_richcompare: != is the opposite of a class's own ==, and only what is the same is known to be equal.
  if (PyObject* own = py_op == Py_NE ? python_meta_method(ex, type(), "__eq__") : nullptr) {
    ValuePtr equal = by_metaclass(own);
    return equal ? ex.constant_bool(!is_true(ex, equal)) : nullptr;
  }
  if ((py_op != Py_EQ && py_op != Py_NE) || !is_same_object(*other)) return nullptr;
  return ex.constant_bool(py_op == Py_EQ);
}

RecipePtr ClassValue::recipe(Executor&) {
  if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
  return recipe_;
}

void ClassValue::emit_effects(Executor& ex) { emit_class_writes(ex, *this); }

RecipePtr class_recipe(Executor& ex, PyTypeObject* type) {
  const auto& known = ex.state().by_object;
  const auto made = known.find(as_object(type));
  auto* cls = made == known.end() ? nullptr : dynamic_cast<ClassValue*>(made->second.get());
  return cls && cls->is_stand_in() ? cls->recipe(ex) : make_recipe(RecipeKind::kConstant, as_object(type));
}

// ---- instances

namespace {
// What the program's _missing_ gives for a value that no member has (Enum.__new__); null: there is a member, or no such method.
ValuePtr missing_member(Executor& ex, const ValuePtr& cls, const ValuePtr& value, const PyRef& object) {
  auto* type = as_type(cls->real_object());
  const PyRef function = wrapped_function(lookup_type(ex, type, interned("_missing_")), &PyClassMethod_Type);
  if (!function || !PyFunction_Check(function.get()) || is_of_standard_library(function.get()))
    return nullptr;
  if (PyObject_TypeCheck(object.get(), type)) return nullptr;
  const PyRef members = checked(PyObject_GetAttrString(as_object(type), "_value2member_map_"));
  const int known = PySequence_Contains(members.get(), object.get());
  if (known < 0) break_graph("CD0216", cls->describe());
  if (known) return nullptr;
  ValuePtr found = call_method(ex, cls, "_missing_", {value});
  if (found->real_object() && PyObject_TypeCheck(found->real_object(), type)) return found;
  if (!is_none(found)) break_graph("CD0216", cls->describe());
  const PyRef message = checked(PyUnicode_FromFormat("%R is not a valid %U", object.get(),
                                                     reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname));
  raise_error(ex, PyExc_ValueError, PyUnicode_AsUTF8(message.get()));
}
}  // namespace

ValuePtr ClassValue::call(Executor& ex, const CallArgs& args) {
  if (ValuePtr made = call_builtin_class(ex, object(), args)) return made;
  if (is_enum_class(object())) {
    const bool is_lookup = args.positional.size() == 1 && args.keywords.empty();
    PyObject* module = own_type_entry(object(), interned("__module__"));
    const bool is_of_enum = module && PyUnicode_CompareWithASCIIString(module, "enum") == 0;
    if (!is_lookup && is_of_enum && PyObject_Size(object_.get()) == 0)
      return make_enum_of_names(ex, object(), args);
    const std::optional<PyRef> constant = is_lookup ? args.positional[0]->as_constant() : std::nullopt;
    const PyRef number = constant ? *constant : is_lookup ? args.positional[0]->materialize(ex) : PyRef();
    if (!number) break_graph("CD0216", describe());
    if (ValuePtr found = missing_member(ex, shared_from_this(), args.positional[0], number)) return found;
    return constant_value(ex, checked_user(ex, PyObject_CallOneArg(object_.get(), number.get())).get());
  }
  if (PyExceptionClass_Check(object_.get())) return construct_exception(ex, object(), args);
  if (PyObject* own = python_meta_method(ex, type(), "__call__"))
    return bind_descriptor(ex, own, shared_from_this(), type())->call(ex, args);
  // That of typing.TypedDict is the class dict.
  PyObject* caller = type() == &PyType_Type ? nullptr : lookup_type(ex, type(), interned("__call__"));
  if (caller && PyType_Check(caller)) return constant_value(ex, caller)->call(ex, args);
  return construct(ex, args);
}

// object_new raises a TypeError that names the methods.
void ClassValue::refuse_abstract(Executor& ex, PyTypeObject* cls, const CallArgs& args) const {
  const bool is_objects =
      lookup_type(ex, cls, interned("__new__")) == _PyType_Lookup(&PyBaseObject_Type, interned("__new__"));
  const bool has_arguments = !args.positional.empty() || !args.keywords.empty();
  if (!is_objects || (has_arguments && cls->tp_init == PyBaseObject_Type.tp_init))
    break_graph("CD0216", describe());
  const PyRef none = checked(PyTuple_New(0));
  checked_user(ex, PyBaseObject_Type.tp_new(cls, none.get(), nullptr));
  break_graph("CD0216", describe());
}

// type_call (Objects/typeobject.c)
ValuePtr ClassValue::construct(Executor& ex, const CallArgs& args) {
  PyTypeObject* cls = object();
  if (PyType_HasFeature(cls, Py_TPFLAGS_IS_ABSTRACT)) refuse_abstract(ex, cls, args);
  bool python_class = PyType_HasFeature(cls, Py_TPFLAGS_HEAPTYPE) && builtin_base(cls) != cls;
  if (!python_class) break_graph("CD0212", describe());
  // When an instance dies is for Python to say.
  if (lookup_type(ex, cls, interned("__del__"))) break_graph("CD0221", describe());
  PyObject* constructor = lookup_type(ex, cls, interned("__new__"));
  ValuePtr self;
  if (PyCFunction_Check(constructor)) {
    self = construct_builtin(ex, builtin_base(cls), cls, args);
  } else {
    CallArgs with_class = args;
    with_class.positional.insert(with_class.positional.begin(), shared_from_this());
    self = bind_descriptor(ex, constructor, nullptr, cls)->call(ex, with_class);
    if (!PyType_IsSubtype(self->type(), cls)) return self;
  }
  PyObject* initializer = lookup_type(ex, self->type(), interned("__init__"));
  ValuePtr returned = bind_descriptor(ex, initializer, self, self->type())->call(ex, args);
  if (!is_none(returned))
    raise_error(ex, PyExc_TypeError, "__init__() should return None, not '" + type_name(returned) + "'");
  return self;
}

namespace {
// object_new (Objects/typeobject.c): arguments are for an __init__ that looks at them.
void refuse_arguments_of_new(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  if (args.positional.empty() && args.keywords.empty()) return;
  if (type->tp_new != PyBaseObject_Type.tp_new)
    raise_error(ex, PyExc_TypeError, "object.__new__() takes exactly one argument (the type to instantiate)");
  if (type->tp_init == PyBaseObject_Type.tp_init)
    raise_error(ex, PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
}
}  // namespace

ValuePtr construct_builtin(Executor& ex, PyTypeObject* base, PyTypeObject* type, const CallArgs& args) {
  if (base == &PyType_Type) return make_class_of_namespace(ex, type, args);
  bool immutable = base == &PyTuple_Type || base == &PyFrozenSet_Type;
  if (immutable && !args.keywords.empty()) break_graph("CD0216", std::string("class ") + type->tp_name);
  ValuePtr storage;
  auto first = [&]() -> ValuePtr { return args.positional.empty() ? nullptr : args.positional[0]; };
  if (base == &PyBaseObject_Type) {
    refuse_arguments_of_new(ex, type, args);
  } else if (base == &PyList_Type) {
    storage = new_list({});
  } else if (PyType_IsSubtype(base, &PyDict_Type)) {
    auto dict = new_dict(base);
    if (base == default_dict_type()) dict->set_default_factory(first() ? first() : ex.none());
    storage = dict;
  } else if (base == deque_type()) {
    storage = new_deque({}, DequeValue::kUnbounded);
  } else if (base == &PySet_Type) {
    storage = new_set(ex, {}, &PySet_Type);
  } else if (base == &PyFrozenSet_Type) {
    storage = new_set(ex, first() ? items_of(ex, first()) : std::vector<ValuePtr>(), &PyFrozenSet_Type);
  } else if (base == &_PyWeakref_RefType) {
    storage = make_weak_reference(ex, args);
    if (type != base && !made_reference_in(storage))
      storage = nullptr;  // an object's own is no part of another
    if (!storage) break_graph("CD0216", std::string("class ") + type->tp_name);
  } else if (base == &PyTuple_Type) {
    storage = new_tuple(first() ? items_of(ex, first()) : std::vector<ValuePtr>());
  } else if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type) {
    storage = fold_call(ex, as_object(base), args);
    if (type != base) storage = ex.constant(materialize(ex, storage));  // what instances are made of
  } else {
    break_graph("CD0216", std::string("class ") + type->tp_name);
  }
  if (storage && type == base) return storage;
  return UserObjectValue::make(type, std::move(storage));
}

// ---- isinstance, issubclass

namespace {

// typing.Mapping, of which a test asks what it stands for.
bool is_bare_alias(PyObject* object) {
  PyObject* alias = library_object("typing", "_SpecialGenericAlias");
  return alias && PyType_Check(alias) && PyObject_TypeCheck(object, as_type(alias));
}

// PySequence: a tuple of classes, or a union, one by one.
template <typename Test>
bool any_class(Executor& ex, const ValuePtr& classes, const char* function, Test&& test, int nested = 0) {
  constexpr int kDeepest = 20;  // Python has a limit of its own, by how deep it is in calls
  if (nested > kDeepest) break_graph("CD0216", std::string(function) + " with deeply nested tuples");
  if (auto* tuple = tuple_in(classes)) {
    for (const ValuePtr& item : tuple->items(ex))
      if (any_class(ex, item, function, test, nested + 1)) return true;
    return false;
  }
  PyObject* object = classes->real_object();
  if (object && std::string_view(Py_TYPE(object)->tp_name) == "types.UnionType") {
    PyRef items = checked(PyObject_GetAttrString(object, "__args__"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items.get(), i);
      if (PyType_Check(item) && test(item)) return true;
    }
    return false;
  }
  if (object && PyType_Check(object)) return test(object);
  if (object && is_bare_alias(object)) {
    PyRef origin = checked(PyObject_GetAttrString(object, "__origin__"));
    if (PyType_Check(origin.get())) return test(origin.get());
  }
  const bool is_instance = std::string_view(function) == "isinstance";
  if (object && is_instance) break_graph("CD0216", "isinstance with " + classes->describe());
  raise_error(ex, PyExc_TypeError,
              std::string(function) + "() arg 2 must be a " +
                  (is_instance ? "type, a tuple of types" : "class, a tuple of classes") + ", or a union");
}

bool is_abstract_kind(PyObject* cls) { return PyType_IsSubtype(Py_TYPE(cls), abc_meta()); }

// What a metaclass of the program's says of a test, bound to the class; null: it is type's own test, or ABCMeta's.
ValuePtr own_test(Executor& ex, PyObject* cls, const char* name) {
  PyTypeObject* meta = Py_TYPE(cls);
  if (meta == &PyType_Type || meta == abc_meta()) return nullptr;
  PyObject* found = lookup_type(ex, meta, interned(name));
  if (found == _PyType_Lookup(&PyType_Type, interned(name)) ||
      found == _PyType_Lookup(abc_meta(), interned(name)))
    return nullptr;
  return bind_descriptor(ex, found, constant_value(ex, cls), meta);
}

bool check_subclass(Executor& ex, PyTypeObject* type, PyObject* cls) {
  if (const ValuePtr test = own_test(ex, cls, "__subclasscheck__"))
    return is_true(ex, test->call(ex, positional({constant_value(ex, as_object(type))})));
  return is_plain_subclass(ex, type, cls);
}

// The class that an object says it is of, where that is another one than it has; null: it says nothing else.
PyTypeObject* claimed_type(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  PyObject* name = interned("__class__");
  if (!object || lookup_type(ex, value->type(), name) == _PyType_Lookup(&PyBaseObject_Type, name))
    return nullptr;
  const ValuePtr claimed = value->get_attribute(ex, name);
  PyObject* type = claimed->real_object();
  return type && PyType_Check(type) && as_type(type) != value->type() ? as_type(type) : nullptr;
}

bool check_instance(Executor& ex, const ValuePtr& value, PyObject* cls) {
  if (as_object(value->type()) == cls) return true;
  if (const ValuePtr test = own_test(ex, cls, "__instancecheck__"))
    return is_true(ex, test->call(ex, positional({value})));
  return is_plain_instance(ex, value, cls);
}

}  // namespace

// ABCMeta's answer is asked for: its caches, registries and hooks are those of plain Python.
bool is_plain_subclass(Executor& ex, PyTypeObject* type, PyObject* cls) {
  if (PyType_IsSubtype(type, as_type(cls))) return true;
  if (!is_abstract_kind(cls)) return false;
  const int result = PyObject_IsSubclass(as_object(type), cls);
  if (result < 0) raise_current_error(ex);
  if (!result) guard_not_registered(ex, type, cls);
  return result;
}

void guard_not_registered(Executor& ex, PyTypeObject* type, PyObject* cls) {
  if (!ex.state().made_classes.own.contains(as_object(type)))
    add_guard(ex, GuardKind::kNotSubclass, constant_source(as_object(type)), cls);
}

// type.__instancecheck__ and ABCMeta's (object_isinstance, Objects/abstract.c; _abc__abc_instancecheck_impl, Modules/_abc.c)
bool is_plain_instance(Executor& ex, const ValuePtr& value, PyObject* cls) {
  PyTypeObject* claimed = claimed_type(ex, value);
  if (!is_abstract_kind(cls))
    return PyType_IsSubtype(value->type(), as_type(cls)) ||
           (claimed && PyType_IsSubtype(claimed, as_type(cls)));
  return (claimed && check_subclass(ex, claimed, cls)) || check_subclass(ex, value->type(), cls);
}

// PyObject_IsInstance
bool is_instance(Executor& ex, const ValuePtr& value, const ValuePtr& classes) {
  if (const ValuePtr shown = without_proxy(ex, value); shown != value && is_instance(ex, shown, classes))
    return true;
  return any_class(ex, classes, "isinstance", [&](PyObject* cls) { return check_instance(ex, value, cls); });
}

bool is_subclass(Executor& ex, const ValuePtr& cls, const ValuePtr& classes) {
  PyObject* type = cls->real_object();
  if (!type || !PyType_Check(type)) raise_error(ex, PyExc_TypeError, "issubclass() arg 1 must be a class");
  return any_class(ex, classes, "issubclass",
                   [&](PyObject* other) { return check_subclass(ex, as_type(type), other); });
}

}  // namespace cdynamo::symbolic
