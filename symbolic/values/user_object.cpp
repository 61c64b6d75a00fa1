#include "symbolic/values/user_object.h"

#include <structmember.h>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/class_writes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/list.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

PyObject* object_entry(const char* name) { return _PyType_Lookup(&PyBaseObject_Type, interned(name)); }

// ---- __dict__

AttributeDict::AttributeDict(const ValuePtr& owner, PyRef dict, SourcePtr from)
    : DictValue(std::move(dict), std::move(from)),
      owner_(owner),
      owner_type_(PyRef::borrow(reinterpret_cast<PyObject*>(owner->type()))) {}
AttributeDict::AttributeDict(const ValuePtr& owner)
    : owner_(owner), owner_type_(PyRef::borrow(reinterpret_cast<PyObject*>(owner->type()))) {}

void AttributeDict::guard_absent(Executor& ex, PyObject* key) {
  if (source->kind != SourceKind::kInstanceDict) return DictValue::guard_absent(ex, key);
  add_guard(ex, GuardKind::kAttributeAbsent, source->base, key);
}

// An attribute that a data descriptor of the class covers is reached through the dict alone.
Effect AttributeDict::change_effect(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (source && source->kind != SourceKind::kInstanceDict) return DictValue::change_effect(ex, key, value);
  PyObject* name = constant_object(key);
  bool is_name = name && PyUnicode_Check(name);
  PyObject* descriptor =
      is_name ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner_type_.get()), name) : nullptr;
  auto owner = owner_.lock();
  if (!is_name || !owner || (descriptor && is_data_descriptor(ex, descriptor)))
    return DictValue::change_effect(ex, key, value);
  Effect effect;
  effect.kind = value ? EffectKind::kSetAttribute : EffectKind::kDeleteAttribute;
  effect.target = owner->recipe(ex);
  effect.key = key->recipe(ex);
  if (value) effect.value = value->recipe(ex);
  return effect;
}

RecipePtr AttributeDict::recipe(Executor& ex) {
  auto owner = owner_.lock();
  if (source || !owner) return DictValue::recipe(ex);
  if (!own_recipe_) {
    own_recipe_ = call_recipe(library_object("builtins", "getattr"),
                              {owner->recipe(ex), make_recipe(RecipeKind::kConstant, interned("__dict__"))});
  }
  return own_recipe_;
}

// ---- making

namespace {

// threading.local: its __dict__ is the thread's own. What extends it runs its __init__, where it has one, when a thread first asks.
bool is_thread_local(const PyTypeObject* type) {
  static PyTypeObject* local = nullptr;
  if (!local) local = reinterpret_cast<PyTypeObject*>(library_object("_thread", "_local"));
  if (!local || type->tp_getattro != local->tp_getattro || type->tp_setattro != local->tp_setattro)
    return false;
  return type == local || type->tp_init == PyBaseObject_Type.tp_init;
}

bool has_instance_dict(PyTypeObject* type) {
  if (is_thread_local(type)) return true;
  return type->tp_dictoffset != 0 || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
}

const ValuePtr kNoStorage;

}  // namespace

UserObjectValue::UserObjectValue(PyRef object, SourcePtr from)
    : type_(PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object.get())))), object_(std::move(object)) {
  source = std::move(from);
  has_dict_ = has_instance_dict(type());
}

UserObjectValue::UserObjectValue(PyTypeObject* type, ValuePtr storage)
    : type_(PyRef::borrow(reinterpret_cast<PyObject*>(type))), storage_(std::move(storage)) {
  has_dict_ = has_instance_dict(type);
}

namespace {
void own_storage(const std::shared_ptr<UserObjectValue>& owner) {
  SymbolicValue* storage = owner->storage().get();
  if (auto* list = dynamic_cast<ListValue*>(storage)) list->set_owner(owner);
  if (auto* dict = dynamic_cast<DictValue*>(storage)) dict->set_owner(owner);
  if (auto* deque = dynamic_cast<DequeValue*>(storage)) deque->set_owner(owner);
  if (auto* set = dynamic_cast<SetValue*>(storage); set && !set->frozen()) set->set_owner(owner);
}
}  // namespace

ValuePtr UserObjectValue::wrap(Executor& ex, PyObject* object, const SourcePtr& source) {
  guard_exact_type(ex, object, source);
  auto value = std::make_shared<UserObjectValue>(PyRef::borrow(object), source);
  value->storage_ = storage_of_object(ex, object, source);
  own_storage(value);
  return value;
}

ValuePtr UserObjectValue::make(PyTypeObject* type, ValuePtr storage) {
  auto value = std::make_shared<UserObjectValue>(type, std::move(storage));
  own_storage(value);
  return value;
}

const ValuePtr& builtin_storage(const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  return object ? object->storage() : kNoStorage;
}

namespace {
// A class of C's own that is made at run time looks like one of Python's but for its constructor.
bool has_constructor_of_c(PyTypeObject* type) {
  PyObject* constructor = own_type_entry(type, interned("__new__"));
  return constructor && PyCFunction_Check(constructor) &&
         PyCFunction_GET_SELF(constructor) == reinterpret_cast<PyObject*>(type);
}
}  // namespace

PyTypeObject* builtin_base(PyTypeObject* type) {
  while (type && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
         !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && own_type_entry(type, interned("__module__")) &&
         !has_constructor_of_c(type))
    type = type->tp_base;
  return type;
}

ValuePtr storage_of_object(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (PyList_Check(object)) return std::make_shared<ListValue>(PyRef::borrow(object), source);
  if (PyTuple_Check(object)) return std::make_shared<TupleValue>(PyRef::borrow(object), source);
  if (PyDict_Check(object)) {
    PyTypeObject* base = builtin_base(Py_TYPE(object));
    auto dict = std::make_shared<DictValue>(PyRef::borrow(object), source, base);
    if (PyType_IsSubtype(base, default_dict_type())) {
      PyRef factory = checked(PyObject_GetAttrString(object, "default_factory"));
      dict->set_default_factory(
          ex.wrap(factory.get(), attribute_source(source, interned("default_factory"))));
    }
    return dict;
  }
  if (is_deque(object)) return std::make_shared<DequeValue>(object, source);
  if (PyAnySet_Check(object))
    return std::make_shared<SetValue>(ex, object, source,
                                      PySet_Check(object) ? &PySet_Type : &PyFrozenSet_Type);
  // Numbers and strings: the plain value is known through the object's identity.
  PyObject* plain = nullptr;
  if (PyLong_Check(object))
    plain = PyLong_Type.tp_as_number->nb_int(object);  // not its class's __int__
  else if (PyFloat_Check(object))
    plain = PyFloat_FromDouble(PyFloat_AS_DOUBLE(object));
  else if (PyUnicode_Check(object))
    plain = PyUnicode_FromObject(object);
  else
    return nullptr;
  PyRef number = checked(plain);
  add_guard(ex, GuardKind::kIdentity, source, object);
  return ex.constant(std::move(number));
}

std::string UserObjectValue::describe() const {
  std::string name = type()->tp_name;
  return name.find('.') == std::string::npos ? name + " object"
                                             : name.substr(name.rfind('.') + 1) + " object";
}

DictValue* UserObjectValue::instance_dict(Executor& ex) {
  if (!has_dict_) return nullptr;
  if (!dict_) {
    if (!object_) {
      dict_ = std::make_shared<AttributeDict>(shared_from_this());
    } else {
      const bool of_thread = is_thread_local(type());
      PyRef dict = checked(of_thread ? PyObject_GetAttr(object_.get(), interned("__dict__"))
                                     : PyObject_GenericGetDict(object_.get(), nullptr));
      // Looking up a name would run what other keys compare themselves with.
      if (!has_names_only(dict.get())) break_graph("CD0222", describe());
      dict_ = std::make_shared<AttributeDict>(
          shared_from_this(), dict,
          of_thread ? attribute_source(source, interned("__dict__")) : instance_dict_source(source));
      // Where the dict has come in by itself (`d = vars(o)` before a graph break), it is one with the attributes.
      if (!ex.state().by_object.try_emplace(dict.get(), dict_).second) {
        dict_ = nullptr;
        break_graph("CD0223", describe());
      }
    }
  }
  return dict_.get();
}

ValuePtr UserObjectValue::instance_dict_value(Executor& ex) {
  instance_dict(ex);
  if (!object_) {
    dict_->keep_owner(shared_from_this());
    ex.state().cyclic[this] = weak_from_this();
  }
  return dict_;
}

// ---- attributes

// _PyObject_GenericGetAttrWithDict (Objects/object.c)
ValuePtr UserObjectValue::generic_attribute(Executor& ex, PyObject* name) {
  // Looking up the dict may call a key's __eq__, which may change the class.
  PyRef descriptor = PyRef::borrow(lookup_type(ex, type(), name));
  if (descriptor && is_data_descriptor(ex, descriptor.get()) && Py_TYPE(descriptor.get())->tp_descr_get)
    return bind_descriptor(ex, descriptor.get(), shared_from_this(), type());
  if (DictValue* dict = instance_dict(ex))
    if (ValuePtr value = dict->lookup_string(ex, name)) return value;
  if (ValuePtr written = written_attribute(ex, type(), name)) return written;
  return descriptor ? bind_descriptor(ex, descriptor.get(), shared_from_this(), type()) : nullptr;
}

namespace {
[[noreturn]] void raise_missing(Executor& ex, const SymbolicValue& self, PyObject* name,
                                const char* and_what = "") {
  raise_error(ex, PyExc_AttributeError,
              absl::StrCat("'", self.type()->tp_name, "' object has no attribute '", PyUnicode_AsUTF8(name),
                           "'", and_what));
}

// PyMember_GetOne
[[noreturn]] void raise_empty_slot(Executor& ex, const SymbolicValue& self, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
  PyRef full_name = checked(PyType_GetFullyQualifiedName(self.type()));
  raise_error(ex, PyExc_AttributeError,
              absl::StrCat("'", PyUnicode_AsUTF8(full_name.get()), "' object has no attribute '",
                           PyUnicode_AsUTF8(name), "'"));
#else
  raise_missing(ex, self, name);
#endif
}

// An object that has no __dict__ to take the attribute; `found` is what its class has of that name.
[[noreturn]] void raise_not_settable(Executor& ex, const SymbolicValue& self, PyObject* name,
                                     PyObject* found) {
  if (found)
    raise_error(ex, PyExc_AttributeError,
                absl::StrCat("'", self.type()->tp_name, "' object attribute '", PyUnicode_AsUTF8(name),
                             "' is read-only"));
  constexpr bool kSaysWhy = PY_VERSION_HEX >= 0x030D0000;
  const bool is_generic = self.type()->tp_setattro == PyObject_GenericSetAttr;
  raise_missing(ex, self, name, kSaysWhy && is_generic ? " and no __dict__ for setting new attributes" : "");
}
// A class of C, or one that extends it, that looks attributes up in its own way: what extends threading.local, f2py's routines by the
// oldest slot, of which no method tells.
bool is_lookup_of_c(const PyTypeObject* type, PyObject* getattribute) {
  if (!type->tp_getattro) return true;
  if (is_thread_local(type)) return false;
  return getattribute && Py_IS_TYPE(getattribute, &PyWrapperDescr_Type) &&
         reinterpret_cast<PyWrapperDescrObject*>(getattribute)->d_wrapped !=
             reinterpret_cast<void*>(PyObject_GenericGetAttr);
}
}  // namespace

void UserObjectValue::note_read_by_key(Executor& ex) {
  read_by_key_ = true;
  const bool changed = (dict_ && dict_->changed()) || !slot_changes_.empty();
  ex.state().key_calls.reads_changed |= object_ && changed;
}

// slot_tp_getattr_hook (Objects/typeobject.c)
ValuePtr UserObjectValue::get_attribute(Executor& ex, PyObject* name) {
  ValuePtr self = shared_from_this();
  if (ex.state().key_calls.running) note_read_by_key(ex);
  PyObject* getattribute = lookup_type(ex, type(), interned("__getattribute__"));
  PyObject* getattr = lookup_type(ex, type(), interned("__getattr__"));
  bool own = getattribute && PyFunction_Check(getattribute);
  if (is_lookup_of_c(type(), getattribute)) return SymbolicValue::get_attribute(ex, name);
  ValuePtr value;
  try {
    value = own ? bind_descriptor(ex, getattribute, self, type())
                      ->call(ex, positional({ex.constant(PyRef::borrow(name))}))
                : generic_attribute(ex, name);
  } catch (const PythonRaise& raised) {
    if (!getattr || !matches_exception(raised, PyExc_AttributeError)) throw;
  }
  if (value) return value;
  if (!getattr) raise_missing(ex, *this, name);
  if (ValuePtr found = module_attribute(ex, *this, getattr, name)) return found;
  return bind_descriptor(ex, getattr, self, type())->call(ex, positional({ex.constant(PyRef::borrow(name))}));
}

void UserObjectValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  const char* method = value ? "__setattr__" : "__delattr__";
  PyObject* found = lookup_type(ex, type(), interned(method));
  // A class of C may name object's way of its own.
  if (found == object_entry(method) || type()->tp_setattro == PyObject_GenericSetAttr ||
      is_thread_local(type()))
    return generic_set_attribute(ex, name, value);
  CallArgs args = positional({ex.constant(PyRef::borrow(name))});
  if (value) args.positional.push_back(value);
  bind_descriptor(ex, found, shared_from_this(), type())->call(ex, args);
}

// _PyObject_GenericSetAttrWithDict
void UserObjectValue::generic_set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  ValuePtr self = shared_from_this();
  PyObject* descriptor = lookup_type(ex, type(), name);
  if (descriptor && is_data_descriptor(ex, descriptor)) {
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type) return set_slot(ex, descriptor, value);
    if (Py_TYPE(descriptor)->tp_descr_set == PyProperty_Type.tp_descr_set) {
      PyRef setter = checked(PyObject_GetAttrString(descriptor, value ? "fset" : "fdel"));
      if (setter.get() == Py_None)
        raise_error(ex, PyExc_AttributeError,
                    "property '" + std::string(PyUnicode_AsUTF8(name)) + "' of '" + type_name(self) +
                        "' object has no " + (value ? "setter" : "deleter"));
      CallArgs args = positional({self});
      if (value) args.positional.push_back(value);
      ex.wrap(setter.get(), constant_source(setter.get()))->call(ex, args);
      return;
    }
    ValuePtr user = ex.wrap(descriptor, constant_source(descriptor));
    auto* object = dynamic_cast<UserObjectValue*>(user.get());
    ValuePtr method = object ? object->special(ex, value ? "__set__" : "__delete__", true) : nullptr;
    if (!method) return SymbolicValue::set_attribute(ex, name, value);
    CallArgs args = positional({self});
    if (value) args.positional.push_back(value);
    method->call(ex, args);
    return;
  }
  DictValue* dict = instance_dict(ex);
  if (!dict) raise_not_settable(ex, *this, name, descriptor);
  ValuePtr key = ex.constant(PyRef::borrow(name));
  if (value)
    dict->store(ex, key, value);
  else if (!dict->erase(ex, key))
    raise_missing(ex, *this, name);
}

ValuePtr UserObjectValue::slots_find(PyObject* name, bool* known) {
  for (auto& [key, value] : slots_) {
    if (PyUnicode_Compare(key.get(), name) != 0) continue;
    *known = true;
    return value;
  }
  *known = false;
  return nullptr;
}

// member_get: the slot of a live object is read in place, by its own source.
ValuePtr UserObjectValue::slot(Executor& ex, PyObject* descriptor) {
  PyObject* name = reinterpret_cast<PyDescrObject*>(descriptor)->d_name;
  // types.SimpleNamespace's is one.
  if (has_dict_ && PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) return instance_dict_value(ex);
  bool known;
  ValuePtr value = slots_find(name, &known);
  if (!known && object_) {
    PyRef object = PyRef::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, object_.get(), type_.get()));
    if (object) {
      value = ex.wrap(object.get(), attribute_source(source, name));
    } else {
      PyErr_Clear();
      break_graph("CD0200", "the empty slot '" + std::string(PyUnicode_AsUTF8(name)) + "' of " + describe());
    }
    slots_.emplace_back(PyRef::borrow(name), value);
  }
  if (!value) raise_empty_slot(ex, *this, name);
  return value;
}

// member_set
void UserObjectValue::set_slot(Executor& ex, PyObject* descriptor, const ValuePtr& value) {
  const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  PyObject* name = reinterpret_cast<PyDescrObject*>(descriptor)->d_name;
  if (member.flags & READONLY) raise_error(ex, PyExc_AttributeError, "readonly attribute");
  // Others convert what they are given; a plain object is None once it is deleted.
  if (member.type != T_OBJECT_EX && !(member.type == T_OBJECT && value))
    return SymbolicValue::set_attribute(ex, name, value);
  if (object_) {
    const PyRef taken =
        PyRef::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, object_.get(), type_.get()));
    PyErr_Clear();  // it is empty
    ex.state().note_let_go(taken.get());
  }
  bool known = false;
  ValuePtr old = slots_find(name, &known);
  if (!value && !known && object_) old = slot(ex, descriptor);
  if (!value && !old) raise_error(ex, PyExc_AttributeError, PyUnicode_AsUTF8(name));
  std::erase_if(slots_, [&](const auto& entry) { return PyUnicode_Compare(entry.first.get(), name) == 0; });
  slots_.emplace_back(PyRef::borrow(name), value);
  slot_changes_.emplace_back(PyRef::borrow(name), value);
  ex.changing(shared_from_this(), static_cast<bool>(object_));
}

void UserObjectValue::forget() {
  slots_.clear();
  slot_changes_.clear();
  if (storage_) storage_->forget();
  if (dict_) dict_->forget();
}

ValuePtr UserObjectValue::c_attribute(Executor& ex, PyObject* descriptor) {
  PyObject* name = reinterpret_cast<PyDescrObject*>(descriptor)->d_name;
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__dict__" && has_dict_) return instance_dict_value(ex);
  if (text == "__class__") return ex.wrap(type_.get(), constant_source(type_.get()));
  if (storage_) return storage_->get_attribute(ex, name);
  if (!object_) return SymbolicValue::get_attribute(ex, name);
  PyRef value = checked_user(ex, Py_TYPE(descriptor)->tp_descr_get(descriptor, object_.get(), type_.get()));
  return ex.wrap(value.get(), attribute_source(source, name));
}

}  // namespace cdynamo::symbolic
