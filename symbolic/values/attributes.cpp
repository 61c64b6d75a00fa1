#include "symbolic/values/attributes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/class_writes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

PyObject* lookup_type(Executor& ex, PyTypeObject* type, PyObject* name) {
  guard_class(ex, type);
  return _PyType_Lookup(type, name);
}

PyRef own_entries(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyRef::steal(PyType_GetDict(type));  // static types keep theirs in the interpreter
#else
  return PyRef::borrow(type->tp_dict);
#endif
}

PyObject* own_type_entry(PyTypeObject* type, PyObject* name) {
  const PyRef dict = own_entries(type);
  return dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
}

bool is_data_descriptor(Executor& ex, PyObject* descriptor) {
  guard_class(ex, Py_TYPE(descriptor));
  return Py_TYPE(descriptor)->tp_descr_set != nullptr;
}

namespace {

bool is_tuple_getter(PyObject* descriptor) {
  return std::string_view(Py_TYPE(descriptor)->tp_name) == "_collections._tuplegetter" ||
         std::string_view(Py_TYPE(descriptor)->tp_name) == "collections._tuplegetter";
}

// A namedtuple's field (Modules/_collectionsmodule.c): reduces to (index, doc).
ValuePtr tuple_field(Executor& ex, PyObject* descriptor, const ValuePtr& self) {
  PyRef reduced = checked(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
  PyObject* index = PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0);
  TupleValue* tuple = tuple_in(self);
  if (!tuple) break_graph("CD0218", self->describe());
  return tuple->get_item(ex, ex.constant(PyRef::borrow(index)));
}

ValuePtr class_entry(Executor& ex, PyObject* object) {
  return ex.wrap(object, held_by_guarded_source(object));
}

// The name that the class, which a function has made, or a base of it has the object by; null: no class of that kind does.
PyRef name_in_made_class(PyTypeObject* cls, PyObject* object) {
  if (!Py_IS_TYPE(cls, &PyType_Type) || !PyType_HasFeature(cls, Py_TPFLAGS_HEAPTYPE)) return {};
  const char* where = PyUnicode_AsUTF8(reinterpret_cast<PyHeapTypeObject*>(cls)->ht_qualname);
  if (!where) throw PythonError{};
  if (!absl::StrContains(where, "<locals>") || !cls->tp_mro) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cls->tp_mro); ++i) {
    const PyRef entries = own_entries(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(cls->tp_mro, i)));
    PyObject *name, *entry;
    for (Py_ssize_t at = 0; PyDict_Next(entries.get(), &at, &name, &entry);)
      if (entry == object) return PyRef::borrow(name);
  }
  return {};
}

// Data. What a class that comes and goes holds, and no weak reference can be to, is found through the class: it dies with that.
ValuePtr data_of_class(Executor& ex, PyObject* object, PyTypeObject* owner) {
  PyObject* cls = reinterpret_cast<PyObject*>(owner);
  const bool is_held = PyObject_IS_GC(object) && !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
  // It stands for one that no graph hands out.
  const bool is_captured = ex.state().made_classes.own.contains(cls);
  const PyRef name = is_held && !is_captured ? name_in_made_class(owner, object) : PyRef();
  if (!name) return class_entry(ex, object);
  return ex.wrap(object, attribute_source(constant_source(cls), name.get()));
}

ValuePtr bind_property(Executor& ex, PyObject* descriptor, const ValuePtr& self) {
  PyRef getter = checked(PyObject_GetAttrString(descriptor, "fget"));
  if (getter.get() == Py_None) raise_error(ex, PyExc_AttributeError, "unreadable attribute");
  return constant_value(ex, getter.get())->call(ex, positional({self}));
}

// functools.cached_property: the first read computes, and keeps the result in the instance's __dict__.
ValuePtr bind_cached_property(Executor& ex, PyObject* descriptor, const ValuePtr& self) {
  auto* object = dynamic_cast<UserObjectValue*>(self.get());
  DictValue* dict = object ? object->instance_dict(ex) : nullptr;
  if (!dict) break_graph("CD0218", self->describe());
  PyRef function = checked(PyObject_GetAttrString(descriptor, "func"));
  PyRef name = checked(PyObject_GetAttrString(descriptor, "attrname"));
  ValuePtr key = ex.constant(name);
  if (ValuePtr kept = dict->lookup(ex, key)) return kept;
  ValuePtr value = constant_value(ex, function.get())->call(ex, positional({self}));
  dict->store(ex, key, value);
  return value;
}

// A descriptor whose __get__ is written in Python.
ValuePtr bind_user_descriptor(Executor& ex, PyObject* descriptor, const ValuePtr& self, PyTypeObject* owner) {
  ValuePtr value = class_entry(ex, descriptor);
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  ValuePtr get = object ? object->special(ex, "__get__", true) : nullptr;
  if (!get) break_graph("CD0218", std::string(Py_TYPE(descriptor)->tp_name) + " of " + owner->tp_name);
  ValuePtr owner_value = constant_value(ex, reinterpret_cast<PyObject*>(owner));
  return get->call(ex, positional({self ? self : ex.none(), owner_value}));
}

// A function of a compiler's (Cython) that is bound as Python's functions are. Null: it is not.
ValuePtr bind_like_function(Executor& ex, PyObject* descriptor, const ValuePtr& self, PyTypeObject* owner) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  PyObject* object = self->real_object();
  if (!object || !PyType_HasFeature(kind, Py_TPFLAGS_METHOD_DESCRIPTOR)) return nullptr;
  PyRef bound = checked_user(ex, kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(owner)));
  if (!PyMethod_Check(bound.get()) || PyMethod_GET_FUNCTION(bound.get()) != descriptor ||
      PyMethod_GET_SELF(bound.get()) != object)
    return nullptr;
  return make_bound_method(ex, class_entry(ex, descriptor), self);
}

ValuePtr bind_slot(Executor& ex, PyObject* descriptor, const ValuePtr& self, bool member) {
  auto* object = dynamic_cast<UserObjectValue*>(self.get());
  if (!object) return self->get_attribute(ex, reinterpret_cast<PyDescrObject*>(descriptor)->d_name);
  return member ? object->slot(ex, descriptor) : object->c_attribute(ex, descriptor);
}

}  // namespace

PyRef wrapped_function(PyObject* descriptor, PyTypeObject* kind) {
  if (!descriptor || !Py_IS_TYPE(descriptor, kind)) return {};
  return checked(PyObject_GetAttrString(descriptor, "__func__"));
}

ValuePtr bind_descriptor(Executor& ex, PyObject* descriptor, const ValuePtr& self, PyTypeObject* owner) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  guard_class(ex, kind);
  if (PyFunction_Check(descriptor)) {
    ValuePtr function = constant_value(ex, descriptor);
    return self ? make_bound_method(ex, function, self) : function;
  }
  if (!kind->tp_descr_get) {
    if (is_plain_constant(descriptor)) ex.asks_later("an attribute of a class");
    return data_of_class(ex, descriptor, owner);
  }
  if (kind == &PyStaticMethod_Type) return class_entry(ex, wrapped_function(descriptor, kind).get());
  if (kind == &PyClassMethod_Type) {
    PyRef wrapped = wrapped_function(descriptor, kind);
    ValuePtr cls = constant_value(ex, reinterpret_cast<PyObject*>(owner));
    // Properties and other descriptors of a class, which 3.13 has no more.
    constexpr bool kBindsWhatIsWrapped = PY_VERSION_HEX < 0x030D0000;
    if (kBindsWhatIsWrapped && Py_TYPE(wrapped.get())->tp_descr_get)
      return bind_descriptor(ex, wrapped.get(), cls, owner);
    return make_bound_method(ex, constant_value(ex, wrapped.get()), cls);
  }
  bool is_property = kind->tp_descr_get == PyProperty_Type.tp_descr_get;
  PyObject* cached_property = library_object("functools", "cached_property");
  if (!self) {
    // Accessed on the class: C descriptors and properties give themselves or a method of the class.
    if (is_property || kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type ||
        kind == &PyWrapperDescr_Type || kind == &PyMethodDescr_Type || is_tuple_getter(descriptor) ||
        reinterpret_cast<PyObject*>(kind) == cached_property)
      return constant_value(ex, descriptor);
    if (kind == &PyClassMethodDescr_Type)
      return constant_value(
          ex, checked(kind->tp_descr_get(descriptor, nullptr, reinterpret_cast<PyObject*>(owner))).get());
    return bind_user_descriptor(ex, descriptor, nullptr, owner);
  }
  if (is_property) return bind_property(ex, descriptor, self);
  if (kind == &PyMemberDescr_Type) return bind_slot(ex, descriptor, self, true);
  if (kind == &PyGetSetDescr_Type) return bind_slot(ex, descriptor, self, false);
  if (kind == &PyWrapperDescr_Type || kind == &PyMethodDescr_Type)
    return std::make_shared<BoundDescriptorValue>(PyRef::borrow(descriptor), self);
  if (kind == &PyClassMethodDescr_Type)
    return constant_value(
        ex, checked(kind->tp_descr_get(descriptor, nullptr, reinterpret_cast<PyObject*>(owner))).get());
  if (is_tuple_getter(descriptor)) return tuple_field(ex, descriptor, self);
  if (is_cached_function(descriptor)) return make_bound_method(ex, class_entry(ex, descriptor), self);
  if (reinterpret_cast<PyObject*>(kind) == cached_property) return bind_cached_property(ex, descriptor, self);
  if (ValuePtr method = bind_like_function(ex, descriptor, self, owner)) return method;
  return bind_user_descriptor(ex, descriptor, self, owner);
}

// ---- methods of C types

namespace {

// object_init (Objects/typeobject.c): arguments are for a __new__ that looks at them.
void refuse_arguments_of_init(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  if (args.positional.empty() && args.keywords.empty()) return;
  if (type->tp_init != PyBaseObject_Type.tp_init)
    raise_error(ex, PyExc_TypeError,
                "object.__init__() takes exactly one argument (the instance to initialize)");
  if (type->tp_new == PyBaseObject_Type.tp_new)
    raise_error(
        ex, PyExc_TypeError,
        std::string(type->tp_name) + ".__init__() takes exactly one argument (the instance to initialize)");
}

// What object itself implements, on an instance of a Python class.
ValuePtr call_object_method(Executor& ex, std::string_view name, const ValuePtr& self, const CallArgs& args) {
  auto* object = dynamic_cast<UserObjectValue*>(self.get());
  if (name == "__init__") {
    refuse_arguments_of_init(ex, self->type(), args);
    return ex.none();
  }
  if (name == "__init_subclass__" && args.positional.empty() && args.keywords.empty()) return ex.none();
  if (name == "__eq__" || name == "__ne__") {
    require_count(ex, "__eq__", args, 1, 1);
    bool same = same_object(ex, self, args.positional[0]);
    if (!same) return ex.constant(PyRef::borrow(Py_NotImplemented));
    return ex.constant_bool(name == "__eq__");
  }
  if (name == "__getattribute__") {
    require_count(ex, "__getattribute__", args, 1, 1);
    PyRef attribute = string_argument(ex, args.positional[0]);
    if (!object) return self->get_attribute(ex, attribute.get());
    if (ValuePtr value = object->generic_attribute(ex, attribute.get())) return value;
    raise_error(
        ex, PyExc_AttributeError,
        "'" + type_name(self) + "' object has no attribute '" + PyUnicode_AsUTF8(attribute.get()) + "'");
  }
  if (name == "__setattr__" || name == "__delattr__") {
    bool set = name == "__setattr__";
    require_count(ex, set ? "__setattr__" : "__delattr__", args, set ? 2 : 1, set ? 2 : 1);
    PyRef attribute = string_argument(ex, args.positional[0]);
    ValuePtr value = set ? args.positional[1] : nullptr;
    if (object)
      object->generic_set_attribute(ex, attribute.get(), value);
    else
      self->set_attribute(ex, attribute.get(), value);
    return ex.none();
  }
  if (name == "__format__" && args.positional.size() == 1) {
    if (PyUnicode_GET_LENGTH(string_argument(ex, args.positional[0]).get()) > 0)
      raise_error(ex, PyExc_TypeError,
                  "unsupported format string passed to " + type_name(self) + ".__format__");
    return format_value(ex, self, 's', nullptr);
  }
  if (name == "__str__") return to_string(ex, self, true);
  break_graph("CD0202", "object." + std::string(name) + " of " + self->describe());
}

// What type implements, on classes: the defaults that a metaclass's super() reaches.
ValuePtr call_type_method(Executor& ex, std::string_view name, const ValuePtr& self, const CallArgs& args) {
  PyObject* real = self->real_object();
  bool is_class = real && PyType_Check(real);
  auto* type = reinterpret_cast<PyTypeObject*>(real);
  auto* cls = dynamic_cast<ClassValue*>(self.get());
  bool one = args.positional.size() == 1;
  if (cls && name == "__call__") return cls->construct(ex, args);
  if (cls && name == "__init__") return ex.none();
  if (is_class && one && name == "__instancecheck__")
    return ex.constant_bool(PyType_IsSubtype(args.positional[0]->type(), type));
  if (is_class && one && name == "__subclasscheck__") {
    PyObject* other = args.positional[0]->real_object();
    if (other && PyType_Check(other))
      return ex.constant_bool(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(other), type));
  }
  if (is_class && one && name == "__getattribute__")
    return self->get_attribute(ex, string_argument(ex, args.positional[0]).get());
  break_graph("CD0202", "type." + std::string(name) + " of " + self->describe());
}

// What CPython says where `self` is of another type: slots (wrapperdescr_call) in other words than methods (method_check_args).
std::string refusal_of(const PyDescrObject* descriptor, const ValuePtr& self) {
  const std::string of = descriptor->d_type->tp_name, type = type_name(self);
  const std::string start = absl::StrCat("descriptor '", PyUnicode_AsUTF8(descriptor->d_name), "' ");
  if (Py_IS_TYPE(descriptor, &PyWrapperDescr_Type))
    return absl::StrCat(start, "requires a '", of, "' object but received a '", type, "'");
  return absl::StrCat(start, "for '", of, "' objects doesn't apply to a '", type, "' object");
}

// By the descriptor's name `self` has the same method: not where its class has another one, and not on a class, whose own
// attribute is for its instances.
bool finds_itself(PyObject* descriptor, const ValuePtr& self) {
  PyObject* name = reinterpret_cast<PyDescrObject*>(descriptor)->d_name;
  return !PyType_IsSubtype(self->type(), &PyType_Type) && _PyType_Lookup(self->type(), name) == descriptor;
}

}  // namespace

ValuePtr call_method_descriptor(Executor& ex, PyObject* descriptor, const ValuePtr& self,
                                const CallArgs& args) {
  auto* header = reinterpret_cast<PyDescrObject*>(descriptor);
  PyTypeObject* of = header->d_type;
  std::string_view name = PyUnicode_AsUTF8(header->d_name);
  auto* object = dynamic_cast<UserObjectValue*>(self.get());
  if (of == &PyType_Type) return call_type_method(ex, name, self, args);
  if (!PyType_IsSubtype(self->type(), of)) raise_error(ex, PyExc_TypeError, refusal_of(header, self));
  check_arguments(ex, descriptor, args);
  // dict's own method leaves the order that an OrderedDict keeps behind.
  if (of == &PyDict_Type && PyType_IsSubtype(self->type(), ordered_dict_type()) &&
      own_type_entry(ordered_dict_type(), header->d_name))
    break_graph("CD0212", "dict." + std::string(name) + " of an OrderedDict");
  if (of == &PyBaseObject_Type && (object || name.starts_with("__setattr")))
    return call_object_method(ex, name, self, args);
  if (!object) {
    if (of == &PyBaseObject_Type && (name == "__init__" || name == "__eq__"))
      return call_object_method(ex, name, self, args);
    // A constant of C's own answers itself, and a base in C of an enum as it does for its own instances.
    PyObject* constant = constant_object(self);
    const bool is_of_base = constant && is_enum_class(Py_TYPE(constant)) && of != &PyBaseObject_Type;
    if (constant && (is_plain_constant(constant) || is_of_base)) {
      PyRef method = checked_user(
          ex, Py_TYPE(descriptor)
                  ->tp_descr_get(descriptor, constant, reinterpret_cast<PyObject*>(Py_TYPE(constant))));
      return fold_call(ex, method.get(), args);
    }
    if (ValuePtr result = call_exception_method(ex, self, header->d_name, args)) return result;
    if (!finds_itself(descriptor, self))
      break_graph("CD0212", std::string(of->tp_name) + "." + std::string(name) + " of " + self->describe());
    return self->get_attribute(ex, header->d_name)->call(ex, args);
  }
  if (const ValuePtr& storage = object->storage(); storage && PyType_IsSubtype(storage->type(), of)) {
    // OrderedDict and defaultdict make one of the subclass.
    if (dict_in(storage) && of != &PyDict_Type && (name == "copy" || name == "__or__" || name == "__ror__"))
      break_graph("CD0212", std::string(of->tp_name) + "." + std::string(name) + " of a subclass");
    if (dict_in(storage) && of == &PyDict_Type && name == "__getitem__") {
      require_count(ex, "__getitem__", args, 1, 1);
      return object->stored_item(ex, args.positional[0]);
    }
    // These name the class.
    const bool is_other_dict = dict_in(storage) && storage->type() != &PyDict_Type;
    if (name == "__repr__" && (set_in(storage) || deque_in(storage) || is_other_dict))
      break_graph("CD0215", "text of " + self->describe());
    // Without a format int's, float's and str's give the text of the instance.
    if (name == "__format__" && PyUnicode_GET_LENGTH(string_argument(ex, args.positional[0]).get()) == 0)
      return to_string(ex, self, false);
    ValuePtr result = storage->get_attribute(ex, header->d_name)->call(ex, args);
    if (result != storage) return result;
    // frozenset's copy() of a subclass gives a frozenset.
    const bool is_frozen = storage->type() == &PyFrozenSet_Type;
    return is_frozen ? set_from(ex, storage, &PyFrozenSet_Type) : self;
  }
  if (PyObject* real = self->real_object(); real && is_pure_type(Py_TYPE(real))) {
    PyRef method = checked_user(
        ex, Py_TYPE(descriptor)->tp_descr_get(descriptor, real, reinterpret_cast<PyObject*>(of)));
    return fold_call(ex, method.get(), args);
  }
  if (ValuePtr result = call_stream_method(ex, name, self, args)) return result;
  break_graph("CD0212", std::string(of->tp_name) + "." + std::string(name));
}

std::string BoundDescriptorValue::describe() const {
  auto* header = reinterpret_cast<PyDescrObject*>(descriptor_.get());
  return std::string(header->d_type->tp_name) + "." + PyUnicode_AsUTF8(header->d_name);
}

ValuePtr BoundDescriptorValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__self__") return self_;
  if (text == "__name__" || text == "__doc__" || text == "__qualname__")
    return ex.constant(checked_user(ex, PyObject_GetAttr(descriptor_.get(), name)));
  return SymbolicValue::get_attribute(ex, name);
}

// meth_richcompare, wrapper_richcompare: the same method of the same object.
ValuePtr BoundDescriptorValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* method = dynamic_cast<BoundDescriptorValue*>(other.get());
  if (!method || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  const bool equal = descriptor_.get() == method->descriptor_.get() && same_object(ex, self_, method->self_);
  return ex.constant_bool(equal == (py_op == Py_EQ));
}

// Bound by the descriptor: by its name, self may have another method (that of a class before super()'s).
RecipePtr BoundDescriptorValue::recipe(Executor& ex) {
  if (!recipe_) {
    PyRef bind = checked(PyObject_GetAttrString(descriptor_.get(), "__get__"));
    // With the class: CPython 3.12's own default for it crashes where the method takes its defining class.
    PyObject* owner = reinterpret_cast<PyObject*>(self_->type());
    recipe_ = call_recipe(bind.get(), {self_->recipe(ex), make_recipe(RecipeKind::kConstant, owner)});
  }
  return recipe_;
}

// ---- super

namespace {
PyObject* object_class_entry() { return _PyType_Lookup(&PyBaseObject_Type, interned("__class__")); }

[[noreturn]] void refuse_super(Executor& ex, const ValuePtr& self) {
  // From 3.13 on the error names the object's type.
  if (PY_VERSION_HEX >= 0x030D0000)
    break_graph("CD0202", "super of " + self->describe() + ", which is none of its type");
  raise_error(ex, PyExc_TypeError, "super(type, obj): obj must be an instance or subtype of type");
}
}  // namespace

ValuePtr make_super(Executor& ex, const CallArgs& args) {
  require_count(ex, "super", args, 0, 2);
  std::pair<ValuePtr, ValuePtr> pair;
  if (args.positional.empty())
    pair = super_arguments(ex);
  else if (args.positional.size() == 2)
    pair = {args.positional[0], args.positional[1]};
  else
    break_graph("CD0202", "super with one argument");
  PyObject* start = pair.first->real_object();
  if (!start || !PyType_Check(start))
    raise_error(ex, PyExc_TypeError, "super() argument 1 must be a type, not " + type_name(pair.first));
  auto* start_type = reinterpret_cast<PyTypeObject*>(start);
  // supercheck (Objects/typeobject.c); an object may also say that it is one by its __class__.
  PyObject* real = pair.second->real_object();
  const bool fits =
      PyType_IsSubtype(pair.second->type(), start_type) ||
      (real && PyType_Check(real) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(real), start_type));
  const bool says_its_class =
      lookup_type(ex, pair.second->type(), interned("__class__")) != object_class_entry();
  if (!fits && says_its_class) break_graph("CD0202", "super of an object with a __class__ of its own");
  if (!fits && !is_none(pair.second)) refuse_super(ex, pair.second);
  return std::make_shared<SuperValue>(start_type, pair.second);
}

// super_getattro: the MRO of the object's class, or of the object where it is a class itself (classmethods,
// __new__).
ValuePtr SuperValue::get_attribute(Executor& ex, PyObject* name) {
  PyObject* real = self_->real_object();
  bool is_class =
      real && PyType_Check(real) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(real), start_);
  PyTypeObject* object_type = is_class ? reinterpret_cast<PyTypeObject*>(real) : self_->type();
  if (!PyType_IsSubtype(object_type, start_)) refuse_super(ex, self_);
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
    return constant_value(ex, reinterpret_cast<PyObject*>(&PySuper_Type));
  guard_class(ex, object_type);
  PyObject* mro = object_type->tp_mro;
  if (!mro) break_graph("CD0202", "super of a class that is still being made");
  Py_ssize_t i = 0, count = PyTuple_GET_SIZE(mro);
  while (i < count && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(start_)) ++i;
  for (++i; i < count; ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (ValuePtr written = written_in_class(ex, cls, name)) return written;
    if (PyObject* found = own_type_entry(cls, name))
      return bind_descriptor(ex, found, is_class ? nullptr : self_, object_type);
  }
  raise_error(ex, PyExc_AttributeError,
              std::string("'super' object has no attribute '") + PyUnicode_AsUTF8(name) + "'");
}

RecipePtr SuperValue::recipe(Executor& ex) {
  if (!recipe_)
    recipe_ = call_recipe(
        reinterpret_cast<PyObject*>(&PySuper_Type),
        {make_recipe(RecipeKind::kConstant, reinterpret_cast<PyObject*>(start_)), self_->recipe(ex)});
  return recipe_;
}

}  // namespace cdynamo::symbolic
