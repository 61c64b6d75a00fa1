// Opcodes of operators, comparisons and subscripts.
#include "symbolic/frames/frame.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

ValuePtr boolean(Executor& ex, bool value) { return ex.constant(PyRef::borrow(value ? Py_True : Py_False)); }

void unary(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr operand = frame.pop();
  frame.push(operand->unary(ex, in.op));
}

void unary_not(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr operand = frame.pop();
  frame.push(boolean(ex, !is_true(ex, operand)));
}

void to_bool(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr operand = frame.pop();
  frame.push(boolean(ex, is_true(ex, operand)));
}

void binary_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr right = frame.pop();
  ValuePtr left = frame.pop();
  frame.push(binary_operation(ex, in.arg, left, right));
}

void compare_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr right = frame.pop();
  ValuePtr left = frame.pop();
  frame.push(compare_operation(ex, in.arg, left, right));
}

// Two objects that came in are two; another call might pass one object twice.
void guard_distinct(Executor& ex, const SymbolicValue& left, const SymbolicValue& right) {
  if (left.type() != right.type() || !left.source || !right.source) return;
  if (left.as_constant() || right.as_constant()) return;
  if (left.source->kind == SourceKind::kConstant && right.source->kind == SourceKind::kConstant) return;
  Guard guard;
  guard.kind = GuardKind::kDistinctObjects;
  guard.source = left.source;
  guard.other = right.source;
  ex.guard(std::move(guard));
}

void is_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr right = frame.pop();
  ValuePtr left = frame.pop();
  bool same = left->is_same_object(*right);
  if (!same) guard_distinct(ex, *left, *right);
  frame.push(boolean(ex, same != (in.arg == 1)));
}

void contains_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr container = frame.pop();
  ValuePtr item = frame.pop();
  frame.push(boolean(ex, container->contains(ex, item) != (in.arg == 1)));
}

void binary_subscr(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr key = frame.pop();
  ValuePtr container = frame.pop();
  frame.push(container->get_item(ex, key));
}

void store_subscr(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr key = frame.pop();
  ValuePtr container = frame.pop();
  ValuePtr value = frame.pop();
  container->set_item(ex, key, value);
}

void delete_subscr(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr key = frame.pop();
  ValuePtr container = frame.pop();
  container->set_item(ex, key, nullptr);
}

constexpr OpRow kRows[] = {
    {Op::UNARY_NEGATIVE, unary},      {Op::UNARY_POSITIVE, unary},
    {Op::UNARY_INVERT, unary},        {Op::UNARY_NOT, unary_not},
    {Op::TO_BOOL, to_bool},           {Op::BINARY_OP, binary_op},
    {Op::COMPARE_OP, compare_op},     {Op::IS_OP, is_op},
    {Op::CONTAINS_OP, contains_op},   {Op::BINARY_SUBSCR, binary_subscr},
    {Op::STORE_SUBSCR, store_subscr}, {Op::DELETE_SUBSCR, delete_subscr},
};

}  // namespace

std::span<const OpRow> operator_ops() { return kRows; }

}  // namespace cdynamo::symbolic
