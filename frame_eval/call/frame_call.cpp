// A frame that the hook has stopped at, run through its code's cache.
#include <new>
#include <optional>

#include "frame_eval/call/function_call.h"
#include "frame_eval/hook/calls.h"
#include "frame_eval/hook/hook.h"

namespace cdynamo::frame_eval {

bool run_compiled(PyThreadState* tstate, CdynamoFrame* frame, PyCodeObject* code, const OwnerPtr& owner,
                  PyObject** result) {
  Py_ssize_t count = 0;
  PyObject** slots = cdynamo_frame_arguments(frame, &count);
  PyObject* function = cdynamo_frame_function(frame);
  if (!slots || !function || !PyFunction_Check(function)) return false;
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  const symbolic::Roots roots{.arguments = slots,
                              .num_arguments = count,
                              .function = function,
                              .globals = f->func_globals,
                              .builtins = f->func_builtins,
                              .closure = f->func_closure};
  PyRef value;
  Outcome outcome = Outcome::kSkipFrame;
  CodeCache* cache = nullptr;
  std::optional<CodeCache::Running> running;
  try {
    cache = &owner->cache(code, slots, count, false);
    running.emplace(*cache);
    outcome = cache->call(roots, count, nullptr, true, {slots, count}, value);
    value = finish_resumptions(std::move(value), owner);
  } catch (const symbolic::PythonError&) {
    outcome = Outcome::kDone;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    outcome = Outcome::kDone;
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_SystemError, "cdynamo: %s", error.what());
    outcome = Outcome::kDone;
  }
  if (outcome == Outcome::kSkipFrameAndCallees) {
    *result = run_with_callees_uncompiled(tstate, frame);
    return true;
  }
  if (outcome == Outcome::kSkipFrame) {
    const int64_t activity = owner->activity();
    *result = cdynamo_run_default(tstate, frame, 0);
    cache->note_call_in_python(count, activity);
    return true;
  }
  *result = cdynamo_finish_frame(tstate, frame, value.release());
  return true;
}

}  // namespace cdynamo::frame_eval
