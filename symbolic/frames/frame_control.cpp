// Opcodes of jumps, loops and returns.
#include "symbolic/bytecode/control_flow.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

void jump(Executor&, SymbolicFrame& frame, const Instruction& in) { frame.jump(in.arg); }

// What the program raises an error about, otherwise: where that depends on data it is so, or Python raises the error.
bool is_asserted(Executor& ex, const SymbolicFrame& frame, int otherwise, const ValuePtr& condition,
                 bool expected) {
  return !constant_object(condition) && only_raises(frame.code->program, otherwise) &&
         require_truth(ex, condition, expected, "what else is an error");
}

void pop_jump_if_true(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  const ValuePtr condition = frame.pop();
  if (is_asserted(ex, frame, frame.pc + 1, condition, true)) return frame.jump(in.arg);
  if (is_asserted(ex, frame, in.arg, condition, false)) return;
  if (is_true(ex, condition)) frame.jump(in.arg);
}
void pop_jump_if_false(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  const ValuePtr condition = frame.pop();
  if (is_asserted(ex, frame, in.arg, condition, true)) return;
  if (is_asserted(ex, frame, frame.pc + 1, condition, false)) return frame.jump(in.arg);
  if (!is_true(ex, condition)) frame.jump(in.arg);
}
void pop_jump_if_none(Executor&, SymbolicFrame& frame, const Instruction& in) {
  if (is_none(frame.pop())) frame.jump(in.arg);
}
void pop_jump_if_not_none(Executor&, SymbolicFrame& frame, const Instruction& in) {
  if (!is_none(frame.pop())) frame.jump(in.arg);
}

void return_value(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  let_go_of_locals(ex, frame);
  frame.result = frame.pop();
  frame.exit = FrameExit::kReturn;
}

void get_iter(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr iterable = frame.pop();
  frame.push(iterable->iterate(ex));
}

void for_iter(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr iterator = frame.peek(1);
  ValuePtr item = iterator->next(ex);
  if (item) {
    frame.push(std::move(item));
  } else {
    frame.pop();
    frame.jump(in.arg);
  }
}

void get_len(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr container = frame.peek(1);
  frame.push(container->length(ex));
}

void nothing(Executor&, SymbolicFrame&, const Instruction&) {}

constexpr OpRow kRows[] = {
    {Op::JUMP, jump},
    {Op::POP_JUMP_IF_TRUE, pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, pop_jump_if_not_none},
    {Op::RETURN_VALUE, return_value},
    {Op::GET_ITER, get_iter},
    {Op::FOR_ITER, for_iter},
    {Op::END_FOR, nothing},
    {Op::GET_LEN, get_len},
    {Op::RESUME, nothing},
};

}  // namespace

std::span<const OpRow> control_ops() { return kRows; }

}  // namespace cdynamo::symbolic
