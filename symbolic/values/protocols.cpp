// Special methods of builtin types called by name (`x.__len__()`, `dict.__getitem__(d, k)`), special methods
// looked up on classes, and errors of the user's program.
#include <cstring>

#include "absl/strings/substitute.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

// ---- errors

PyTypeObject* exception_type(PyObject* exception_class) {
  return reinterpret_cast<PyTypeObject*>(exception_class);
}

void raise_error(Executor& ex, PyObject* type, const std::string& message) {
  ValuePtr text = ex.constant(
      checked(PyUnicode_FromStringAndSize(message.data(), static_cast<Py_ssize_t>(message.size()))));
  raise_new(ex, make_exception(ex, exception_type(type), {text}));
}

void raise_current_error(Executor& ex) {
  rethrow_error_of_comparison();
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
    throw PythonError{};
  PyObject *type_part, *value_part, *traceback_part;
  PyErr_Fetch(&type_part, &value_part, &traceback_part);
  PyErr_NormalizeException(&type_part, &value_part, &traceback_part);
  PyRef type = PyRef::steal(type_part), value = PyRef::steal(value_part),
        traceback = PyRef::steal(traceback_part);
  PyRef args = checked(PyObject_GetAttrString(value.get(), "args"));
  std::vector<ValuePtr> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i)
    values.push_back(wrap_fresh(ex, PyRef::borrow(PyTuple_GET_ITEM(args.get(), i))));
  raise_new(ex, make_exception(ex, Py_TYPE(value.get()), std::move(values)));
}

PyRef checked_user(Executor& ex, PyObject* new_reference) {
  if (!new_reference) raise_current_error(ex);
  return PyRef::steal(new_reference);
}

bool matches_exception(const PythonRaise& raised, PyObject* type) {
  return PyType_IsSubtype(raised.exception->type(), exception_type(type));
}

// ---- special methods of builtin types

namespace {

template <int nb_op, bool reflected>
ValuePtr number(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "number method", args, 1, 1);
  ValuePtr result = self->binary(ex, nb_op, args.positional[0], reflected);
  // sq_repeat's wrappers take what has __index__.
  constexpr bool repeats = nb_op == kNbMultiply || nb_op == kNbInplaceMultiply;
  const PySequenceMethods* sequence = self->type()->tp_as_sequence;
  if (repeats && !result && sequence && sequence->sq_repeat)
    result = self->binary(ex, nb_op, ex.constant_int(index_argument(ex, args.positional[0])), reflected);
  // So do sq_concat's, which have no other operand to leave it to.
  if (nb_op == kNbAdd && !reflected && !result && sequence && sequence->sq_concat)
    raise_error(ex, PyExc_TypeError,
                absl::Substitute("can only concatenate $0 (not \"$1\") to $0", _PyType_Name(self->type()),
                                 type_name(args.positional[0])));
  return result ? result : ex.constant(PyRef::borrow(Py_NotImplemented));
}
template <int py_op>
ValuePtr compare(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "comparison", args, 1, 1);
  ValuePtr result = self->compare(ex, py_op, args.positional[0]);
  return result ? result : ex.constant(PyRef::borrow(Py_NotImplemented));
}
template <Op op>
ValuePtr unary(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return self->unary(ex, op);
}

ValuePtr length(Executor& ex, const ValuePtr& self, const CallArgs&) { return self->length(ex); }
ValuePtr iterate(Executor& ex, const ValuePtr& self, const CallArgs&) { return self->iterate(ex); }
ValuePtr truth(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return ex.constant_bool(is_true(ex, self));
}
ValuePtr get_item(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__getitem__", args, 1, 1);
  return self->get_item(ex, args.positional[0]);
}
ValuePtr set_item(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__setitem__", args, 2, 2);
  self->set_item(ex, args.positional[0], args.positional[1]);
  return ex.none();
}
ValuePtr delete_item(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__delitem__", args, 1, 1);
  self->set_item(ex, args.positional[0], nullptr);
  return ex.none();
}
ValuePtr contains(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__contains__", args, 1, 1);
  return ex.constant_bool(self->contains(ex, args.positional[0]));
}
ValuePtr next_item(Executor& ex, const ValuePtr& self, const CallArgs&) {
  ex.advancing();
  if (ValuePtr item = self->next(ex)) return item;
  raise_new(ex, make_exception(ex, exception_type(PyExc_StopIteration), {}));
}
ValuePtr reversed_items(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return new_reversed_iterator(ex, self);
}
ValuePtr repr(Executor& ex, const ValuePtr& self, const CallArgs&) { return to_string(ex, self, true); }
ValuePtr str(Executor& ex, const ValuePtr& self, const CallArgs&) { return to_string(ex, self, false); }
ValuePtr nothing(Executor& ex, const ValuePtr&, const CallArgs&) { return ex.none(); }

constexpr BuiltinMethodRow kProtocol[] = {
    {"__len__", length},
    {"__iter__", iterate},
    {"__bool__", truth},
    {"__getitem__", get_item},
    {"__setitem__", set_item},
    {"__delitem__", delete_item},
    {"__contains__", contains},
    {"__next__", next_item},
    {"__reversed__", reversed_items},
    {"__repr__", repr},
    {"__str__", str},
    {"__init__", nothing},
    {"__eq__", compare<Py_EQ>},
    {"__ne__", compare<Py_NE>},
    {"__lt__", compare<Py_LT>},
    {"__le__", compare<Py_LE>},
    {"__gt__", compare<Py_GT>},
    {"__ge__", compare<Py_GE>},
    {"__add__", number<kNbAdd, false>},
    {"__radd__", number<kNbAdd, true>},
    {"__iadd__", number<kNbInplaceAdd, false>},
    {"__sub__", number<kNbSubtract, false>},
    {"__rsub__", number<kNbSubtract, true>},
    {"__mul__", number<kNbMultiply, false>},
    {"__rmul__", number<kNbMultiply, true>},
    {"__imul__", number<kNbInplaceMultiply, false>},
    {"__truediv__", number<kNbTrueDivide, false>},
    {"__rtruediv__", number<kNbTrueDivide, true>},
    {"__floordiv__", number<kNbFloorDivide, false>},
    {"__rfloordiv__", number<kNbFloorDivide, true>},
    {"__mod__", number<kNbRemainder, false>},
    {"__pow__", number<kNbPower, false>},
    {"__or__", number<kNbOr, false>},
    {"__ror__", number<kNbOr, true>},
    {"__ior__", number<kNbInplaceOr, false>},
    {"__and__", number<kNbAnd, false>},
    {"__xor__", number<kNbXor, false>},
    {"__neg__", unary<Op::UNARY_NEGATIVE>},
    {"__pos__", unary<Op::UNARY_POSITIVE>},
    {"__invert__", unary<Op::UNARY_INVERT>},
};

}  // namespace

ValuePtr builtin_attribute(Executor& ex, const ValuePtr& self, PyObject* name) {
  PyObject* found = _PyType_Lookup(self->type(), name);
  const char* text = PyUnicode_AsUTF8(name);
  if (!found)
    raise_error(ex, PyExc_AttributeError, "'" + type_name(self) + "' object has no attribute '" + text + "'");
  if (std::strcmp(text, "__class__") == 0) return type_of(ex, self);
  if (std::strcmp(text, "__doc__") == 0) return ex.constant(PyRef::borrow(found));
  if (found == Py_None) return ex.none();  // __hash__ of what cannot be hashed
  if (auto method = find_builtin_method(self, name, kProtocol)) return method;
  return self->SymbolicValue::get_attribute(ex, name);
}

ValuePtr lookup_special(Executor& ex, const ValuePtr& self, const char* name) {
  PyObject* found = lookup_type(ex, self->type(), interned(name));
  if (!found || found == Py_None) return nullptr;
  if (dynamic_cast<UserObjectValue*>(self.get()) || PyFunction_Check(found))
    return bind_descriptor(ex, found, self, self->type());
  return self->get_attribute(ex, interned(name));
}

// slot_sq_length (Objects/typeobject.c)
ValuePtr checked_length(Executor& ex, const ValuePtr& returned) {
  ValuePtr length =
      returned->type() == &PyLong_Type ? returned : ex.constant_int(index_argument(ex, returned));
  if (is_true(ex, compare_operation(ex, Py_LT, length, ex.constant_int(0))))
    raise_error(ex, PyExc_ValueError, "__len__() should return >= 0");
  if (PyObject* known = constant_object(length);
      known && PyLong_Check(known) && PyLong_AsSsize_t(known) == -1 && PyErr_Occurred())
    raise_current_error(ex);  // it is no index of C's
  return length;
}

// slot_nb_bool
bool checked_truth(Executor& ex, const ValuePtr& returned) {
  if (returned->type() != &PyBool_Type)
    raise_error(ex, PyExc_TypeError, "__bool__ should return bool, returned " + type_name(returned));
  return is_true(ex, returned);
}

}  // namespace cdynamo::symbolic
