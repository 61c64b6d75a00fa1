#include "symbolic/frames/abandoned_generators.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/generators.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Index of the PUSH_EXC_INFO of the innermost handler around `at`; -1: none. Handlers without one are Python's own
// (CLEANUP_THROW of `yield from`): what they are in comes next.
int handler_around(const Program& program, int at) {
  while (program.code[at].handler >= 0) {
    at = program.handlers[program.code[at].handler].target;
    if (program.code[at].op == Op::PUSH_EXC_INFO) return at;
  }
  return -1;
}

// `object` is an exception class, or a tuple of them, and none of them is GeneratorExit's.
bool lets_generator_exit_through(PyObject* object) {
  if (object && PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!lets_generator_exit_through(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  if (!object || !PyExceptionClass_Check(object)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  return !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), type);
}

// The handler at `at` compares the exception with classes by name, `except IndexError` and `except (KeyError, OSError)`,
// none of which is GeneratorExit's: then the index of the RERAISE that it ends in.
std::optional<int> passed_through(Executor& ex, SymbolicFrame& frame, int at) {
  const std::vector<Instruction>& code = frame.code->program.code;
  while (code[++at].op != Op::RERAISE) {
    for (; code[at].op == Op::LOAD_GLOBAL; ++at) {
      ValuePtr value = find_global(ex, frame, code[at]);
      if (!value || !lets_generator_exit_through(value->real_object())) return std::nullopt;
    }
    if (code[at].op == Op::BUILD_TUPLE) ++at;
    if (code[at].op != Op::CHECK_EXC_MATCH || code[at + 1].op != Op::POP_JUMP_IF_FALSE) return std::nullopt;
    at = code[at + 1].arg - 1;
  }
  return at;
}

bool closes_without_effect(Executor& ex, SymbolicFrame& frame) {
  int at = frame.pc - 1;
  while ((at = handler_around(frame.code->program, at)) >= 0) {
    std::optional<int> end = passed_through(ex, frame, at);
    if (!end) return false;
    at = *end;
  }
  return true;
}

}  // namespace

bool is_in_handler(const SymbolicFrame& suspended) {
  return handler_around(suspended.code->program, suspended.pc - 1) >= 0;
}

ValuePtr delegated_to(const SymbolicFrame& suspended) {
  const int yield = suspended.pc - 1;  // pc is after YIELD_VALUE
  const bool waits = yield >= 1 && suspended.code->program.code[yield - 1].op == Op::SEND;
  return waits && !suspended.stack.empty() ? suspended.stack.back() : nullptr;
}

bool waits_for_closable(const SymbolicFrame& suspended) {
  const ValuePtr iterator = delegated_to(suspended);
  return dynamic_cast<UserObjectValue*>(iterator.get()) &&
         _PyType_Lookup(iterator->type(), interned("close"));
}

void refuse_abandoned_generators(Executor& ex) {
  Executor::State& state = ex.state();
  if (!state.abandoned_generators) return;
  std::vector<AbandonedGenerator> left = *state.abandoned_generators;
  // One that holds itself, which a garbage collection would close, is there still.
  for (const auto& [address, value] : state.cyclic) {
    auto generator = std::dynamic_pointer_cast<GeneratorValue>(value.lock());
    if (generator && generator->has_to_be_closed()) left.push_back(generator->abandoned());
  }
  const AbandonedGenerator* first = nullptr;
  for (const AbandonedGenerator& generator : left)
    if ((!first || generator.started_at < first->started_at) &&
        (generator.closes_another || !closes_without_effect(ex, *generator.frame)))
      first = &generator;
  if (!first) return;
  state.break_step = first->started_at;
  const UserFrame at = first->frame->describe();
  break_graph("CD0103",
              absl::StrCat("that is not run to its end: ", at.function, " (", at.file, ":", at.line, ")"));
}

}  // namespace cdynamo::symbolic
