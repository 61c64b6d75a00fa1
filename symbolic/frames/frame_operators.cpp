// Opcodes of operators, comparisons and subscripts.
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

void unary(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr operand = frame.pop();
  frame.push(operand->unary(ex, in.op));
}

void unary_not(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr operand = frame.pop();
  // `not` of a bool that the graph reads is another one.
  const bool is_read = operand->type() == &PyBool_Type && !operand->real_object();
  frame.push(is_read ? operand->unary(ex, Op::UNARY_NOT) : ex.constant_bool(!is_true(ex, operand)));
}

void to_bool(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  if (frame.peek(1)->type() == &PyBool_Type) return;  // it need not be known yet
  ValuePtr operand = frame.pop();
  const std::optional<bool> asserted = asserted_truth(ex, frame, frame.pc + 1, operand);
  if (!asserted && take_both_ways(ex, frame, frame.pc + 1, operand)) return;
  frame.push(ex.constant_bool(asserted ? *asserted : is_true(ex, operand)));
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

bool is_singleton_value(const SymbolicValue& value) {
  return value.real_object() && is_singleton(value.real_object());
}

// Where it comes from in each call; null: it is made in it.
SourcePtr place_of(const SymbolicValue& value) {
  if (value.source && value.source->kind != SourceKind::kComputed) return value.source;
  return value.real_object() && !value.source ? constant_source(value.real_object()) : nullptr;
}

// Two values that came in are two objects, or one (numbers that are dynamic have a value for each source); it may be otherwise in
// another call.
bool guard_identity(Executor& ex, const SymbolicValue& left, const SymbolicValue& right) {
  const SourcePtr one = place_of(left), other = place_of(right);
  if (!one || !other || left.type() != right.type()) return false;
  if (one->kind == SourceKind::kConstant && other->kind == SourceKind::kConstant)
    return left.real_object() == right.real_object();
  const Roots& roots = ex.state().request.roots;
  const bool same = follow(*one, roots).get() == follow(*other, roots).get();
  Guard guard;
  guard.kind = same ? GuardKind::kSameObject : GuardKind::kDistinctObjects;
  guard.source = one;
  guard.other = other;
  ex.guard(std::move(guard));
  return same;
}

// Ints of which at least one is made in the call: small ones are one object, others are new.
bool are_one_small_int(Executor& ex, const ValuePtr& left, const ValuePtr& right) {
  const auto holds = [&](int py_op, const ValuePtr& bound) {
    return is_true(ex, compare_operation(ex, py_op, left, bound));
  };
  return holds(Py_EQ, right) && holds(Py_GE, ex.constant_int(kSmallInts.first)) &&
         holds(Py_LE, ex.constant_int(kSmallInts.second));
}

bool are_identical(Executor& ex, const ValuePtr& left, const ValuePtr& right) {
  if (left == right) return true;
  const bool are_singletons = is_singleton_value(*left) && is_singleton_value(*right);
  const auto constant = left->as_constant();
  const bool are_constants = constant && is_plain_constant(constant->get()) && right->as_constant();
  if (are_singletons || !are_constants)
    if (left->is_same_object(*right)) return true;
  if (are_singletons) return false;
  if (place_of(*left) && place_of(*right)) return guard_identity(ex, *left, *right);
  const auto is_symbol = [](const ValuePtr& value) { return dynamic_cast<SymIntValue*>(value.get()); };
  return (is_symbol(left) || is_symbol(right)) && left->type() == right->type() &&
         are_one_small_int(ex, left, right);
}

void is_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr right = frame.pop();
  ValuePtr left = frame.pop();
  const bool same = are_identical(ex, left, right);
  if (!same) refuse_unknown_identity(ex, left, right);
  frame.push(ex.constant_bool(same != (in.arg == 1)));
}

void contains_op(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr container = frame.pop();
  ValuePtr item = frame.pop();
  frame.push(ex.constant_bool(container->contains(ex, item) != (in.arg == 1)));
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

constexpr OpRow kOperatorRows[] = {
    {Op::UNARY_NEGATIVE, unary},      {Op::UNARY_POSITIVE, unary},
    {Op::UNARY_INVERT, unary},        {Op::UNARY_NOT, unary_not},
    {Op::TO_BOOL, to_bool},           {Op::BINARY_OP, binary_op},
    {Op::COMPARE_OP, compare_op},     {Op::IS_OP, is_op},
    {Op::CONTAINS_OP, contains_op},   {Op::BINARY_SUBSCR, binary_subscr},
    {Op::STORE_SUBSCR, store_subscr}, {Op::DELETE_SUBSCR, delete_subscr},
};

}  // namespace

std::span<const OpRow> operator_ops() { return kOperatorRows; }

}  // namespace cdynamo::symbolic
