// Python's operators on torch.Tensor, as torch/_tensor.py and the methods of TensorBase define them.
#include "symbolic/tensors/frameworks.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

struct OperatorRow {
  int nb_op;
  const char* op;  // x ? y
  const char*
      reflected;  // y ? x: operator called as reflected(x, y); "!name": called as name(y, x); null: none
  const char* function;  // in Python's operator module, for records
};

constexpr OperatorRow kBinary[] = {
    {kNbAdd, "add", "add", "add"},
    {kNbSubtract, "sub", "rsub", "sub"},
    {kNbMultiply, "mul", "mul", "mul"},
    {kNbTrueDivide, "div", "reciprocal*", "truediv"},  // Tensor.__rdiv__: self.reciprocal() * other
    {kNbFloorDivide, "floor_divide", "!floor_divide", "floordiv"},
    {kNbRemainder, "remainder", "!remainder", "mod"},
    {kNbPower, "pow", "!pow", "pow"},
    {kNbMatrixMultiply, "matmul", "!matmul", "matmul"},
    {kNbAnd, "bitwise_and", "bitwise_and", "and_"},
    {kNbOr, "bitwise_or", "bitwise_or", "or_"},
    {kNbXor, "bitwise_xor", "bitwise_xor", "xor"},
    {kNbLshift, "bitwise_left_shift", "!bitwise_left_shift", "lshift"},
    {kNbRshift, "bitwise_right_shift", "!bitwise_right_shift", "rshift"},
};

constexpr OperatorRow kInPlace[] = {
    {kNbInplaceAdd, "add", nullptr, "iadd"},
    {kNbInplaceSubtract, "sub", nullptr, "isub"},
    {kNbInplaceMultiply, "mul", nullptr, "imul"},
    {kNbInplaceTrueDivide, "div", nullptr, "itruediv"},
    {kNbInplaceFloorDivide, "floor_divide", nullptr, "ifloordiv"},
    {kNbInplaceRemainder, "remainder", nullptr, "imod"},
    {kNbInplacePower, "pow", nullptr, "ipow"},
    {kNbInplaceAnd, "bitwise_and", nullptr, "iand"},
    {kNbInplaceOr, "bitwise_or", nullptr, "ior"},
    {kNbInplaceXor, "bitwise_xor", nullptr, "ixor"},
    {kNbInplaceLshift, "bitwise_left_shift", nullptr, "ilshift"},
    {kNbInplaceRshift, "bitwise_right_shift", nullptr, "irshift"},
};

const OperatorRow* find_row(int nb_op, bool* in_place) {
  *in_place = false;
  for (const OperatorRow& row : kBinary)
    if (row.nb_op == nb_op) return &row;
  *in_place = true;
  for (const OperatorRow& row : kInPlace)
    if (row.nb_op == nb_op) return &row;
  // x @= y has no in-place form: a new tensor.
  *in_place = false;
  return nb_op == kNbInplaceMatrixMultiply ? find_row(kNbMatrixMultiply, in_place) : nullptr;
}

// What a tensor's operators take as the other operand; others give NotImplemented.
bool is_operand(const ValuePtr& value) {
  if (is_numpy_array(value)) return false;
  return number_argument(value) || graph_value(value) || is_numpy_number(value);
}

bool is_complex_number(const ValuePtr& value) { return PyType_IsSubtype(value->type(), &PyComplex_Type); }

// NotImplemented, unless it is a complex tensor that is written to what is real.
ValuePtr not_implemented(const ValuePtr& other, bool in_place) {
  if (in_place && dynamic_cast<ComplexTensor*>(other.get()))
    break_graph("CD0401", "a tensor's operator with " + other->describe());
  return nullptr;
}

PyRef operator_function(const char* name) { return PyRef::borrow(library_object("operator", name)); }

CallArgs operands(std::vector<ValuePtr> values) {
  return CallArgs{.positional = std::move(values), .keywords = {}};
}

}  // namespace

ValuePtr TensorValue::binary(Executor& ex, int nb_op, const ValuePtr& given, bool reflected) {
  bool in_place = false;
  const OperatorRow* row = find_row(nb_op, &in_place);
  if (!row || (in_place && reflected)) return nullptr;
  ValuePtr self = shared_from_this();
  const ValuePtr other = plain_number(given);
  std::vector<ValuePtr> as_written = reflected ? std::vector{given, self} : std::vector{self, given};
  if (is_operand(other) || is_complex_number(other))
    if (ValuePtr through = operate_through_mode(ex, row->function, as_written)) return through;
  (reflected ? as_written[0] : as_written[1]) = other;
  if (is_complex_number(other)) return complex_operator(ex, nb_op, as_written[0], as_written[1]);
  if (!is_operand(other)) return not_implemented(other, in_place);
  const auto apply = [&]() -> ValuePtr {
    if (!reflected) return call_named(ex, row->op, {self, other}, in_place);
    std::string_view rule = row->reflected;
    if (rule == "reciprocal*") return call_named(ex, "mul", {call_named(ex, "reciprocal", {self}), other});
    if (rule[0] == '!') return call_named(ex, row->reflected + 1, {other, self});
    return call_named(ex, row->reflected, {self, other});
  };
  return recorded_call(ex, "call_function", operator_function(row->function), operands(as_written), [&] {
    try {
      return apply();
    } catch (const GraphBreak& broken) {
      if (in_place) throw;
      return call_library_after(ex, broken, operands(as_written));
    }
  });
}

ValuePtr TensorValue::compare(Executor& ex, int py_op, const ValuePtr& given) {
  static constexpr const char* kOps[] = {"lt", "le", "eq", "ne", "gt", "ge"};  // Py_LT ... Py_GE
  if (ValuePtr through = operate_through_mode(ex, kOps[py_op], {shared_from_this(), given})) return through;
  const ValuePtr other = plain_number(given);
  if (is_numpy_array(other)) break_graph("CD0409", "a comparison of a tensor and an array");
  if (is_complex_number(other)) break_graph("CD0401", "a comparison with " + other->describe());
  ValuePtr self = shared_from_this();
  // In the order that the program wrote: the first operand says how the result lies.
  if ((py_op == Py_EQ || py_op == Py_NE) && dynamic_cast<ComplexTensor*>(other.get()))
    return complex_rule(ex, kOps[py_op], positional({self, other}));
  if (!is_operand(other)) return not_implemented(other, false);
  return recorded_call(ex, "call_function", operator_function(kOps[py_op]), operands({self, other}),
                       [&] { return call_named(ex, kOps[py_op], {self, other}); });
}

ValuePtr TensorValue::unary(Executor& ex, Op op) {
  struct Row {
    Op op;
    const char *name, *function;
  };
  static constexpr Row kRows[] = {{Op::UNARY_NEGATIVE, "neg", "neg"},
                                  {Op::UNARY_INVERT, "bitwise_not", "inv"}};
  ValuePtr self = shared_from_this();
  for (const Row& row : kRows)
    if (row.op == op) {
      if (ValuePtr through = operate_through_mode(ex, row.function, {self})) return through;
      return recorded_call(ex, "call_function", operator_function(row.function), operands({self}),
                           [&] { return call_named(ex, row.name, {self}); });
    }
  if (op == Op::UNARY_POSITIVE) {
    if (ValuePtr through = operate_through_mode(ex, "pos", {self})) return through;
    return self;  // Tensor.__pos__ returns its operand
  }
  return SymbolicValue::unary(ex, op);
}

}  // namespace cdynamo::symbolic
