// Python's operators on values: which operand is asked, in which order. binary_op1, binary_iop1
// (Objects/abstract.c) and do_richcompare (Objects/object.c) of CPython 3.12.
#include <string>

#include "absl/strings/substitute.h"
#include "symbolic/capture/executor.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// The right operand is asked first where its class is a proper subclass of the left one's.
bool right_first(const ValuePtr& left, const ValuePtr& right) {
  return left->type() != right->type() && PyType_IsSubtype(right->type(), left->type());
}

// method_is_overloaded (Objects/typeobject.c): a subclass that inherits the reflected method is not asked before its base.
bool overloads_reflected(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  PyObject* name = interned(number_method(nb_op, true));
  return lookup_type(ex, left->type(), name) != lookup_type(ex, right->type(), name);
}

ValuePtr plain_binary(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  bool reflected_first = right_first(left, right) && overloads_reflected(ex, nb_op, left, right);
  if (reflected_first)
    if (ValuePtr result = right->binary(ex, nb_op, left, true)) return result;
  const bool has_method = _PyType_Lookup(left->type(), interned(number_method(nb_op, false)));
  const bool is_number = has_method && is_builtin_number(left->type());
  const ValuePtr seen = is_number ? seen_by(left->type(), right) : right;
  if (ValuePtr result = left->binary(ex, nb_op, seen, false)) return result;
  return reflected_first ? nullptr : right->binary(ex, nb_op, left, true);
}

// A sequence is repeated by what has __index__, where neither operand knows the other (PyNumber_Multiply). Null: no sequence.
ValuePtr repeated(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  const auto repeats = [](const ValuePtr& value) {
    const PySequenceMethods* methods = value->type()->tp_as_sequence;
    return methods && methods->sq_repeat;
  };
  const bool is_left = repeats(left), in_place = nb_op != plain_number_operation(nb_op);
  if (!is_left && !repeats(right)) return nullptr;
  if (!is_left && in_place && left->type()->tp_as_sequence) return nullptr;
  const ValuePtr &sequence = is_left ? left : right, &count = is_left ? right : left;
  if (constant_object(count) && is_integer_value(count)) return nullptr;
  const PyNumberMethods* methods = count->type()->tp_as_number;
  if (!methods || !methods->nb_index)
    raise_error(ex, PyExc_TypeError,
                absl::Substitute("can't multiply sequence by non-int of type '$0'", type_name(count)));
  return sequence->binary(ex, nb_op, ex.constant_int(index_argument(ex, count)), !is_left);
}

// list += array: of operands of which one alone has a + of numbers, CPython asks that one first. Null: NotImplemented.
ValuePtr added_by_right(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  const auto adds = [](const ValuePtr& value) {
    const PyNumberMethods* methods = value->type()->tp_as_number;
    return methods && (methods->nb_add || methods->nb_inplace_add);
  };
  if (nb_op != kNbInplaceAdd || adds(left) || !adds(right)) return nullptr;
  return right->binary(ex, kNbAdd, left, true);
}

// The builtin type whose own + the class has; null: its is another's.
PyTypeObject* adds_as(PyTypeObject* type) {
  PyObject* method = _PyType_Lookup(type, interned("__add__"));
  const bool of_c = method && Py_IS_TYPE(method, &PyWrapperDescr_Type);
  return of_c ? reinterpret_cast<PyDescrObject*>(method)->d_type : nullptr;
}

// A list, tuple, str, bytes or deque and what is none: PySequence_Concat's words.
[[noreturn]] void raise_unsupported(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  const std::string of = type_name(left), other = type_name(right);
  PyTypeObject* type = adds_as(left->type());
  if (plain_number_operation(nb_op) == kNbAdd) {
    if (type == &PyBytes_Type)
      raise_error(ex, PyExc_TypeError, absl::Substitute("can't concat $0 to bytes", other));
    if (type == &PyList_Type || type == &PyTuple_Type || type == &PyUnicode_Type || type == deque_type())
      raise_error(ex, PyExc_TypeError,
                  absl::Substitute("can only concatenate $0 (not \"$1\") to $0", _PyType_Name(type), other));
  }
  const char* symbol = nb_op == kNbPower ? "** or pow()" : number_symbol(nb_op);
  raise_error(ex, PyExc_TypeError,
              absl::Substitute("unsupported operand type(s) for $0: '$1' and '$2'", symbol, of, other));
}

}  // namespace

ValuePtr binary_operation(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  int plain = plain_number_operation(nb_op);
  if (plain != nb_op) {
    if (ValuePtr result = added_by_right(ex, nb_op, left, right)) return result;
    if (ValuePtr result = left->binary(ex, nb_op, right, false)) return result;
  }
  if (ValuePtr result = plain_binary(ex, plain, left, right)) return result;
  if (plain == kNbMultiply)
    if (ValuePtr result = repeated(ex, nb_op, left, right)) return result;
  raise_unsupported(ex, nb_op, left, right);
}

ValuePtr compare_operation(Executor& ex, int py_op, const ValuePtr& left, const ValuePtr& right) {
  check_stack();
  bool reflected_first = right_first(left, right);
  if (reflected_first)
    if (ValuePtr result = right->compare(ex, kComparisons[py_op].swapped, left)) return result;
  const ValuePtr seen = is_builtin_number(left->type()) ? seen_by(left->type(), right) : right;
  if (ValuePtr result = left->compare(ex, py_op, seen)) return result;
  if (!reflected_first)
    if (ValuePtr result = right->compare(ex, kComparisons[py_op].swapped, left)) return result;
  if (py_op == Py_EQ || py_op == Py_NE) {
    bool same = same_object(ex, left, right);
    return ex.constant_bool(same == (py_op == Py_EQ));
  }
  raise_error(ex, PyExc_TypeError,
              absl::Substitute("'$0' not supported between instances of '$1' and '$2'",
                               kComparisons[py_op].symbol, type_name(left), type_name(right)));
}

bool is_true(Executor& ex, const ValuePtr& value) {
  std::optional<bool> truth = value->truth(ex);
  if (!truth) truth = follow_branch(ex, value);
  if (!truth) break_graph("CD0001", value->describe());
  return *truth;
}

}  // namespace cdynamo::symbolic
