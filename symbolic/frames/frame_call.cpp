// Opcodes that make and call functions.
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/interop/moving_call.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Takes the two slots of a call off the stack; a receiver goes before the other arguments.
ValuePtr pop_callable(SymbolicFrame& frame, CallArgs& args) {
  ValuePtr upper = frame.pop();
  ValuePtr lower = frame.pop();
  if (!lower) return upper;
  if (upper) args.positional.insert(args.positional.begin(), std::move(upper));
  return lower;
}

// Its result is what the callable gives: a function's frame is linked to this one.
void call_for_result(Executor& ex, SymbolicFrame& frame, CallArgs args) {
  ValuePtr callable = pop_callable(frame, args);
  if (constant_object(callable) == moving_call()) {
    callable = std::move(args.positional.at(0));
    args.positional.erase(args.positional.begin());
  }
  const SymbolicValue*& callee = ex.state().callee;
  const absl::Cleanup forget = [&] { callee = nullptr; };
  callee = frame.is_linked ? callable.get() : nullptr;
  frame.push(callable->call(ex, args));
}

void call(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  call_for_result(ex, frame, {frame.pop_many(in.arg), {}});
}

void call_kw(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject* names = in.value ? in.value.get() : PyTuple_GET_ITEM(frame.code->object()->co_consts, in.arg2);
  size_t num_keywords = static_cast<size_t>(PyTuple_GET_SIZE(names));
  CallArgs args{frame.pop_many(in.arg), {}};
  size_t num_positional = args.positional.size() - num_keywords;
  for (size_t i = 0; i < num_keywords; ++i)
    args.keywords.push_back({PyRef::borrow(PyTuple_GET_ITEM(names, i)), args.positional[num_positional + i]});
  args.positional.resize(num_positional);
  call_for_result(ex, frame, std::move(args));
}

void call_function_ex(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr mapping = in.arg & 1 ? frame.pop() : nullptr;
  const ValuePtr iterable = frame.pop();
  require_iterable_argument(ex, frame.callable(1), iterable);
  CallArgs args{items_of(ex, iterable), {}};
  if (mapping)
    for (const ValuePtr& key : items_of(ex, call_method(ex, mapping, "keys"))) {
      PyObject* name = constant_object(key);
      if (!name || !PyUnicode_Check(name))
        break_graph("CD0100", "a function with a keyword that is no string");
      args.keywords.push_back({PyRef::borrow(name), mapping->get_item(ex, key)});
    }
  call_for_result(ex, frame, std::move(args));
}

void make_function(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  PyRef code = frame.pop()->as_constant().value_or(PyRef());
  if (!code || !PyCode_Check(code.get())) throw graph::InternalError("MAKE_FUNCTION without a code object");
  PyObject* name = reinterpret_cast<PyCodeObject*>(code.get())->co_qualname;
  ValuePtr qualified_name = ex.constant(PyRef::borrow(name));
  frame.push(std::make_shared<FunctionValue>(std::move(code), frame.globals, std::move(qualified_name)));
}

void set_function_attribute(Executor&, SymbolicFrame& frame, const Instruction& in) {
  auto function = std::dynamic_pointer_cast<FunctionValue>(frame.pop());
  if (!function) throw graph::InternalError("SET_FUNCTION_ATTRIBUTE of what is no function");
  ValuePtr value = frame.pop();
  switch (in.arg) {
    case 1: function->defaults = std::move(value); break;
    case 2: function->keyword_defaults = std::move(value); break;
    case 4: function->annotations = std::move(value); break;
    case 8: function->cells = std::move(value); break;
    default: throw graph::InternalError("SET_FUNCTION_ATTRIBUTE " + std::to_string(in.arg));
  }
  frame.push(function);
}

constexpr OpRow kCallRows[] = {
    {Op::CALL, call},
    {Op::CALL_KW, call_kw},
    {Op::CALL_FUNCTION_EX, call_function_ex},
    {Op::MAKE_FUNCTION, make_function},
    {Op::SET_FUNCTION_ATTRIBUTE, set_function_attribute},
};

}  // namespace

std::span<const OpRow> call_ops() { return kCallRows; }

}  // namespace cdynamo::symbolic
