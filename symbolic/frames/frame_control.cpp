// Opcodes of jumps, loops and returns.
#include "symbolic/bytecode/control_flow.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

void jump(Executor&, SymbolicFrame& frame, const Instruction& in) { frame.jump(in.arg); }

void jump_on_truth(Executor& ex, SymbolicFrame& frame, const Instruction& in, bool wanted) {
  const ValuePtr condition = frame.pop();
  const std::optional<bool> asserted = asserted_truth(ex, frame, frame.pc, condition);
  if (!asserted && take_both_ways(ex, frame, frame.pc, condition)) return;
  if ((asserted ? *asserted : is_true(ex, condition)) == wanted) frame.jump(in.arg);
}

void pop_jump_if_true(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  jump_on_truth(ex, frame, in, true);
}
void pop_jump_if_false(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  jump_on_truth(ex, frame, in, false);
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
  ex.advancing();
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

constexpr OpRow kControlRows[] = {
    {Op::JUMP, jump},
    {Op::POP_JUMP_IF_TRUE, pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, pop_jump_if_not_none},
    {Op::RETURN_VALUE, return_value},
    {Op::GET_ITER, get_iter},
    {Op::FOR_ITER, for_iter},
    {Op::END_FOR, no_operation},
    {Op::GET_LEN, get_len},
    {Op::RESUME, no_operation},
};

}  // namespace

std::optional<bool> asserted_truth(Executor& ex, const SymbolicFrame& frame, int jump_at,
                                   const ValuePtr& condition) {
  if (constant_object(condition)) return std::nullopt;
  const Program& program = frame.code->program;
  const Instruction& jump = program.code[jump_at];
  const bool jumps_if = jump.op == Op::POP_JUMP_IF_TRUE;
  if (!jumps_if && jump.op != Op::POP_JUMP_IF_FALSE) return std::nullopt;
  const bool jump_raises = only_raises(program, jump.arg), next_raises = only_raises(program, jump_at + 1);
  if (jump_raises == next_raises) return std::nullopt;
  const bool truth = next_raises ? jumps_if : !jumps_if;
  if (!require_truth(ex, condition, truth, "what else is an error")) return std::nullopt;
  return truth;
}

std::span<const OpRow> control_ops() { return kControlRows; }

}  // namespace cdynamo::symbolic
