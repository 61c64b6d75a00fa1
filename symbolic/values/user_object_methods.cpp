// What an instance does through its class's special methods: calls, items, iteration, operators, comparison.
#include <string_view>

#include "absl/strings/substitute.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

// What CPython says of a method that is None: most are called.
static const char* words_of_missing(std::string_view name) {
  return name == "__iter__"       ? "'$0' object is not iterable"
         : name == "__hash__"     ? "unhashable type: '$0'"
         : name == "__contains__" ? "'$0' object is not a container"
         : name == "__reversed__" ? "'$0' object is not reversible"
                                  : "'NoneType' object is not callable";
}

ValuePtr UserObjectValue::special(Executor& ex, const char* name, bool from_python) {
  PyObject* found = lookup_type(ex, type(), interned(name));
  // `__add__ = None`: the class has no such operation, nor what stands in for it.
  if (found == Py_None && from_python)
    raise_error(ex, PyExc_TypeError, absl::Substitute(words_of_missing(name), type()->tp_name));
  if (!found || found == Py_None) return nullptr;
  bool c_method = Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type);
  // `__eq__ = str.__eq__` in a subclass of int refuses its instances.
  if (c_method && !PyType_IsSubtype(type(), reinterpret_cast<PyDescrObject*>(found)->d_type))
    break_graph("CD0218", absl::Substitute("$0 of $1", name, describe()));
  if (from_python && c_method) return nullptr;
  return bind_descriptor(ex, found, shared_from_this(), type());
}

// The Python function that torch.jit.script has compiled, as torch.compile goes by. Null: something else.
static ValuePtr scripted_function(Executor& ex, UserObjectValue& value) {
  if (!std::string_view(value.type()->tp_name).ends_with("ScriptFunction")) return nullptr;
  PyObject* object = value.real_object();
  PyObject** dict = object ? _PyObject_GetDictPtr(object) : nullptr;
  PyObject* name = interned("_torchdynamo_inline");
  PyObject* source = dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr;
  return source && PyFunction_Check(source) ? value.get_attribute(ex, name) : nullptr;
}

ValuePtr UserObjectValue::call(Executor& ex, const CallArgs& args) {
  check_stack();
  if (ValuePtr source = scripted_function(ex, *this)) return source->call(ex, args);
  PyObject* found = lookup_type(ex, type(), interned("__call__"));
  if (!found)
    raise_error(ex, PyExc_TypeError, "'" + type_name(shared_from_this()) + "' object is not callable");
  const auto call_on = [&](const ValuePtr& method) {
    ex.state().hand_call_on(*this, *method);
    return method->call(ex, args);
  };
  if (ValuePtr forward = module_forward(ex, *this, found)) return call_on(forward);
  if (Py_IS_TYPE(found, &PyWrapperDescr_Type)) {
    if (is_weak_reference(*this)) return call_weak_reference(ex, *this, args);
    if (made_reference_in(shared_from_this())) return storage_->call(ex, args);
    if (object_) return call_opaque(ex, shared_from_this(), args);
    return SymbolicValue::call(ex, args);
  }
  return call_on(bind_descriptor(ex, found, shared_from_this(), type()));
}

namespace {
bool is_of_typing(PyTypeObject* type) {
  PyObject* module = _PyType_Lookup(type, interned("__module__"));
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "typing") == 0;
}
}  // namespace

// Pure C functions see a tuple's or number's contents only where the class adds nothing. What typing makes (type variables, aliases)
// is as it is.
PyRef UserObjectValue::materialize(Executor& ex) {
  if (!object_ || !is_of_typing(type())) return {};
  if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object_.get());
  return object_;
}

// List[int]: what typing makes of known classes is known, whatever other modules put in place of its helpers.
ValuePtr UserObjectValue::annotation(Executor& ex, const ValuePtr& key) {
  const PyRef argument = object_ && is_of_typing(type()) ? key->materialize(ex) : PyRef();
  if (!argument) return nullptr;
  if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object_.get());
  const PyRef made = checked_user(ex, PyObject_GetItem(object_.get(), argument.get()));
  return ex.wrap(made.get(), constant_source(made.get()));
}

ValuePtr UserObjectValue::get_item(Executor& ex, const ValuePtr& key) {
  if (ValuePtr known = annotation(ex, key)) return known;
  if (ValuePtr method = special(ex, "__getitem__", true)) return method->call(ex, positional({key}));
  if (!storage_) {
    if (!special(ex, "__getitem__"))
      raise_error(ex, PyExc_TypeError, "'" + type_name(shared_from_this()) + "' object is not subscriptable");
    return SymbolicValue::get_item(ex, key);
  }
  return stored_item(ex, key);
}

// dict_subscript asks the class's __missing__.
ValuePtr UserObjectValue::stored_item(Executor& ex, const ValuePtr& key) {
  auto* dict = dynamic_cast<DictValue*>(storage_.get());
  ValuePtr missing = dict ? special(ex, "__missing__", true) : nullptr;
  if (!missing) return storage_->get_item(ex, key);
  ValuePtr value = dict->lookup(ex, key);
  return value ? value : missing->call(ex, positional({key}));
}

void UserObjectValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (ValuePtr method = special(ex, value ? "__setitem__" : "__delitem__", true)) {
    method->call(ex, value ? positional({key, value}) : positional({key}));
  } else if (storage_) {
    storage_->set_item(ex, key, value);
  } else {
    SymbolicValue::set_item(ex, key, value);
  }
}

bool UserObjectValue::contains(Executor& ex, const ValuePtr& item) {
  if (ValuePtr method = special(ex, "__contains__", true))
    return is_true(ex, method->call(ex, positional({item})));
  if (storage_) return storage_->contains(ex, item);
  // _PySequence_IterSearch
  if (!is_iterable(shared_from_this()))
    raise_error(ex, PyExc_TypeError,
                "argument of type '" + type_name(shared_from_this()) + "' is not iterable");
  const ValuePtr iterator = iterate_value(ex, shared_from_this());
  size_t count = 0;
  while (const ValuePtr other = next_value(ex, iterator)) {
    if (values_equal(ex, other, item)) return true;
    require_short(++count, *this);
  }
  return false;
}

ValuePtr UserObjectValue::length(Executor& ex) {
  require_live_entries(ex, shared_from_this());
  if (ValuePtr method = special(ex, "__len__", true)) return checked_length(ex, method->call(ex, {}));
  if (storage_) return storage_->length(ex);
  if (special(ex, "__len__")) return SymbolicValue::length(ex);
  raise_error(ex, PyExc_TypeError, "object of type '" + type_name(shared_from_this()) + "' has no len()");
}

ValuePtr UserObjectValue::iterate(Executor& ex) {
  if (ValuePtr method = special(ex, "__iter__", true)) return checked_iterator(ex, method->call(ex, {}));
  if (storage_) return storage_->iterate(ex);
  if (special(ex, "__iter__")) return SymbolicValue::iterate(ex);
  if (special(ex, "__getitem__", true)) return new_sequence_iterator(shared_from_this());
  raise_error(ex, PyExc_TypeError, "'" + type_name(shared_from_this()) + "' object is not iterable");
}

ValuePtr UserObjectValue::next(Executor& ex) {
  ValuePtr method = special(ex, "__next__", true);
  if (!method) return SymbolicValue::next(ex);
  return call_or_end(ex, method, {});
}

std::optional<bool> UserObjectValue::truth(Executor& ex) {
  require_live_entries(ex, shared_from_this());
  if (ValuePtr method = special(ex, "__bool__", true)) return checked_truth(ex, method->call(ex, {}));
  if (ValuePtr method = special(ex, "__len__", true))
    return is_true(ex, checked_length(ex, method->call(ex, {})));
  if (storage_) return storage_->truth(ex);
  if (special(ex, "__bool__") || special(ex, "__len__")) return SymbolicValue::truth(ex);
  return true;
}

ValuePtr UserObjectValue::unary(Executor& ex, Op op) {
  const char* name = op == Op::UNARY_NEGATIVE ? "__neg__" : op == Op::UNARY_INVERT ? "__invert__" : "__pos__";
  if (ValuePtr method = special(ex, name, true)) return method->call(ex, {});
  if (storage_) return storage_->unary(ex, op);
  return SymbolicValue::unary(ex, op);
}

ValuePtr implemented(const ValuePtr& result) {
  return result->real_object() == Py_NotImplemented ? nullptr : result;
}

namespace {

bool is_number(const ValuePtr& value) {
  return dynamic_cast<SymIntValue*>(value.get()) || dynamic_cast<DynamicFloatValue*>(value.get());
}
}  // namespace

ValuePtr UserObjectValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  // binary_op1 and SLOT1BINFULL: the reflected method is for an operand of another class.
  const bool is_asked = !reflected || other->type() != type();
  if (ValuePtr method = is_asked ? special(ex, number_method(nb_op, reflected), true) : nullptr)
    return implemented(method->call(ex, positional({other})));
  if (!storage_) {
    if (special(ex, number_method(nb_op, reflected))) break_graph("CD0209", "operator of " + describe());
    return nullptr;
  }
  // `i += 1` of an int: a type that does not change has + alone. A float has no &, which its operand may have.
  const bool in_place = plain_number_operation(nb_op) != nb_op;
  if ((in_place || is_builtin_number(storage_->type())) && !special(ex, number_method(nb_op, reflected)))
    return nullptr;
  // OrderedDict and defaultdict make one of the subclass.
  if (dict_in(storage_) && storage_->type() != &PyDict_Type && nb_op == kNbOr)
    break_graph("CD0209", "| of " + describe());
  // str % x asks x for its text.
  bool formats = plain_number_operation(nb_op) == kNbRemainder && storage_->type() == &PyUnicode_Type;
  if (formats && reflected) return nullptr;
  ValuePtr result =
      storage_->binary(ex, nb_op, formats ? other : seen_by(storage_->type(), other), reflected);
  // An int or float that is known only at run time takes its own way.
  if (!result && is_number(other)) result = other->binary(ex, nb_op, storage_, !reflected);
  if (!result) return nullptr;
  return result == storage_ ? shared_from_this() : result;
}

static bool is_namespace(const ValuePtr& value) {
  auto* type = reinterpret_cast<PyTypeObject*>(library_object("types", "SimpleNamespace"));
  return dynamic_cast<UserObjectValue*>(value.get()) && PyType_IsSubtype(value->type(), type);
}

ValuePtr UserObjectValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (ValuePtr method = special(ex, kComparisons[py_op].method, true))
    return implemented(method->call(ex, positional({other})));
  if (storage_) {
    ValuePtr result = storage_->compare(ex, py_op, seen_by(storage_->type(), other));
    return !result && is_number(other) ? other->compare(ex, kComparisons[py_op].swapped, storage_) : result;
  }
  // object_richcompare: != is the opposite of a class's own ==.
  if (py_op == Py_NE && special(ex, "__eq__", true)) {
    ValuePtr equal = implemented(special(ex, "__eq__", true)->call(ex, positional({other})));
    return equal ? ex.constant_bool(!is_true(ex, equal)) : nullptr;
  }
  PyObject* found = lookup_type(ex, type(), interned(kComparisons[py_op].method));
  const bool c_compare = found && Py_IS_TYPE(found, &PyWrapperDescr_Type) &&
                         reinterpret_cast<PyDescrObject*>(found)->d_type != &PyBaseObject_Type;
  if (!c_compare) return nullptr;
  if (is_weak_reference(*this)) return compare_weak_references(ex, shared_from_this(), py_op, other);
  if (is_namespace(shared_from_this()))  // namespace_richcompare
    return is_namespace(other) ? compare_operation(ex, py_op, get_attribute(ex, interned("__dict__")),
                                                   other->get_attribute(ex, interned("__dict__")))
                               : nullptr;
  // C types that compare by value (functools.partial does not): both have to be known.
  const bool is_same = same_object(ex, shared_from_this(), other);
  if (is_same && (py_op == Py_EQ || py_op == Py_NE)) return ex.constant_bool(py_op == Py_EQ);
  break_graph("CD0209", "comparison of " + describe());
}

std::optional<std::vector<ValuePtr>> UserObjectValue::unpack(Executor& ex) {
  if (storage_ && !special(ex, "__iter__", true)) return storage_->unpack(ex);
  return std::nullopt;
}

}  // namespace cdynamo::symbolic
