// Opcodes of raise, try and with.
#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/exception_groups.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

void raise_varargs(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  if (in.arg == 0) {
    ValuePtr handled = handled_exception(ex);
    if (!handled) raise_error(ex, PyExc_RuntimeError, "No active exception to reraise");
    throw PythonRaise{handled};
  }
  ValuePtr cause = in.arg == 2 ? frame.pop() : nullptr;
  raise_value(ex, frame.pop(), cause);
}

void reraise(Executor&, SymbolicFrame& frame, const Instruction&) { throw PythonRaise{frame.pop()}; }

void push_exc_info(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  Executor::State& state = ex.state();
  ValuePtr exception = frame.pop();
  frame.push(state.handled ? state.handled : ex.none());
  frame.push(exception);
  state.handled = exception;
  if (frame.is_root) state.root_handler_steps.push_back(state.root_raise_step);
}

void pop_except(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  Executor::State& state = ex.state();
  ValuePtr previous = frame.pop();
  state.handled = is_none(previous) ? nullptr : previous;
  if (frame.is_root && !state.root_handler_steps.empty()) state.root_handler_steps.pop_back();
}

void check_exc_match(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr target = frame.pop();
  check_exception_classes(ex, target);
  bool matches = exception_matches(ex, frame.peek(1), target);
  frame.push(ex.constant_bool(matches));
}

// (exception, classes -- the rest, what matches)
void check_group_match(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  const ValuePtr classes = frame.pop();
  const auto [matching, rest] = match_exception_group(ex, frame.peek(1), classes);
  frame.peek(1) = rest;
  frame.push(matching);
  if (!is_none(matching)) ex.state().handled = matching;
}

// (the exception, a list of what the clauses have raised or left -- what is raised, or None)
void prepare_reraise(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  const ValuePtr raised = frame.pop();
  frame.peek(1) = left_of_exception_group(ex, frame.peek(1), items_of(ex, raised));
}

void stop_iteration_error(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr exception = frame.peek(1);
  if (frame.is_iterator ||
      !PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
    return;
  frame.peek(1) = generator_raised_stop(ex, exception);
}

// Of the manager's class, whatever the manager itself has of that name (BEFORE_WITH, Python/ceval.c).
ValuePtr method_of_manager(Executor& ex, const ValuePtr& manager, const char* name, const char* missed) {
  if (auto* object = dynamic_cast<UserObjectValue*>(manager.get())) {
    if (ValuePtr method = object->special(ex, name)) return method;
  } else if (PyObject* known = manager->real_object();
             !known || _PyType_Lookup(Py_TYPE(known), interned(name))) {
    try {
      return manager->get_attribute(ex, interned(name));
    } catch (const PythonRaise& raised) {
      if (!PyType_IsSubtype(raised.exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_AttributeError)))
        throw;
    }
  }
  raise_error(ex, PyExc_TypeError,
              absl::StrCat("'", type_name(manager), "' object does not support the context manager protocol",
                           missed));
}

// Both methods are looked up before either is called.
void before_with(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr manager = frame.pop();
  ValuePtr enter = method_of_manager(ex, manager, "__enter__", "");
  ValuePtr exit = method_of_manager(ex, manager, "__exit__", " (missed __exit__ method)");
  frame.push(exit);
  frame.push(enter->call(ex, {}));
}

// (__exit__, offset, previous exception, exception -- ..., what __exit__ returned)
void with_except_start(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr exception = frame.peek(1);
  ValuePtr exit = frame.peek(4);
  PyObject* type = reinterpret_cast<PyObject*>(exception->type());
  frame.push(exit->call(ex, {{ex.wrap(type, constant_source(type)), exception, make_traceback()}, {}}));
}

constexpr OpRow kExceptionRows[] = {
    {Op::RAISE_VARARGS, raise_varargs},       {Op::RERAISE, reraise},
    {Op::PUSH_EXC_INFO, push_exc_info},       {Op::POP_EXCEPT, pop_except},
    {Op::CHECK_EXC_MATCH, check_exc_match},   {Op::CHECK_EG_MATCH, check_group_match},
    {Op::PREP_RERAISE_STAR, prepare_reraise}, {Op::STOPITERATION_ERROR, stop_iteration_error},
    {Op::BEFORE_WITH, before_with},           {Op::WITH_EXCEPT_START, with_except_start},
};

}  // namespace

std::span<const OpRow> exception_ops() { return kExceptionRows; }

}  // namespace cdynamo::symbolic
