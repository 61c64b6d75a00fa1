// Opcodes of generators; those of coroutines break the graph.
#include "symbolic/frames/exceptions.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/generators.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// The frame stops here until the generator is first resumed, which pushes the None that follows.
void return_generator(Executor&, SymbolicFrame& frame, const Instruction&) {
  frame.exit = FrameExit::kGenerator;
}

void yield_value(Executor&, SymbolicFrame& frame, const Instruction&) {
  frame.result = frame.pop();
  frame.exit = FrameExit::kYield;
}

void get_yield_from_iter(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  if (frame.peek(1)->type() == &PyGen_Type) return;
  ValuePtr iterable = frame.pop();
  frame.push(iterable->iterate(ex));
}

void send(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr value = frame.pop();
  ValuePtr receiver = frame.peek(1);
  ValuePtr returned;
  if (ValuePtr yielded = send_to_iterator(ex, receiver, value, &returned)) {
    frame.push(std::move(yielded));
    return;
  }
  frame.peek(1) = std::move(returned);
  frame.jump(in.arg);
}

// (receiver, last value, exception -- value of StopIteration)
void cleanup_throw(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr exception = frame.peek(1);
  auto* stop = dynamic_cast<ExceptionValue*>(exception.get());
  if (!stop || !PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
    throw PythonRaise{exception};
  frame.pop_many(3);
  frame.push(stop->args().empty() ? ex.none() : stop->args()[0]);
}

void break_on_coroutine(Executor&, SymbolicFrame& frame, const Instruction& in) {
  break_graph("CD0102", std::string(op_name(in.op)) + " in " + frame.code->name());
}

constexpr OpRow kGeneratorRows[] = {
    {Op::RETURN_GENERATOR, return_generator},
    {Op::YIELD_VALUE, yield_value},
    {Op::GET_YIELD_FROM_ITER, get_yield_from_iter},
    {Op::SEND, send},
    {Op::END_SEND, no_operation},
    {Op::CLEANUP_THROW, cleanup_throw},
    {Op::GET_AWAITABLE, break_on_coroutine},
    {Op::GET_AITER, break_on_coroutine},
    {Op::GET_ANEXT, break_on_coroutine},
    {Op::END_ASYNC_FOR, break_on_coroutine},
    {Op::ASYNC_GEN_WRAP, break_on_coroutine},
    {Op::BEFORE_ASYNC_WITH, break_on_coroutine},
};

}  // namespace

std::span<const OpRow> generator_ops() { return kGeneratorRows; }

}  // namespace cdynamo::symbolic
