#include "frame_eval/call/function_call.h"

#include <new>

#include "frame_eval/hook/hook.h"
#include "frame_eval/hook/stance.h"
#include "frame_eval/resume/resume_point.h"
#include "symbolic/interop/stack_limit.h"

namespace cdynamo::frame_eval {
namespace {

PyObject* call_python(PyObject* function, const OwnerPtr& owner, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames, OwnedArguments owned) {
  HookScope scope(owner, reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)), owned);
  return PyObject_Vectorcall(function, args, nargsf, kwnames);
}

symbolic::Roots roots_of(PyObject* function, PyObject* const* args, Py_ssize_t num_arguments) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  return {.arguments = args,
          .num_arguments = num_arguments,
          .function = function,
          .globals = f->func_globals,
          .builtins = f->func_builtins,
          .closure = f->func_closure};
}

// Up to the function's end, or to a Resumption. `owned`: the references of `args`, where they are handed over. `is_root`: it is
// what was optimized.
PyObject* call_once(PyObject* function, const OwnerPtr& owner, PyObject* const* args, size_t nargsf,
                    PyObject* kwnames, OwnedArguments owned, bool is_root) {
  if (!owner || current_stance() == Stance::kForceEager || cdynamo_is_tracing(PyThreadState_Get()) ||
      symbolic::stack_is_low())
    return PyObject_Vectorcall(function, args, nargsf, kwnames);
  const Py_ssize_t num_positional = PyVectorcall_NARGS(nargsf);
  const Py_ssize_t num_arguments = num_positional + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  PyRef result;
  Outcome outcome = Outcome::kSkipFrame;
  try {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    CodeCache& cache = owner->cache(code, args, num_positional, is_root);
    const CodeCache::Running running(cache);
    const symbolic::Roots roots = roots_of(function, args, num_arguments);
    outcome = cache.call(roots, num_positional, kwnames, false, owned, result);
  } catch (const symbolic::PythonError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_SystemError, "cdynamo: %s", error.what());
    return nullptr;
  }
  switch (outcome) {
    case Outcome::kDone: return result.release();
    case Outcome::kSkipFrameAndCallees: return PyObject_Vectorcall(function, args, nargsf, kwnames);
    case Outcome::kSkipFrame: break;
  }
  return call_python(function, owner, args, nargsf, kwnames, owned);
}

}  // namespace

PyRef finish_resumptions(PyRef result, const OwnerPtr& owner) {
  PyRef locals;  // to the function's end, or until a frame takes them for its own or has newer ones
  while (result && is_resumption(result.get())) {
    WaitingFrame frame = take_frame(std::move(result));
    if (frame.locals) locals = std::move(frame.locals);
    const OwnedArguments arguments{frame.arguments.data(), static_cast<Py_ssize_t>(frame.arguments.size()),
                                   frame.owns_locals ? &locals : nullptr, first_stack_argument(frame)};
    result = PyRef::steal(call_once(frame.function.get(), owner, arguments.slots,
                                    static_cast<size_t>(arguments.count), nullptr, arguments, false));
    arguments.drop();
  }
  return result;
}

PyObject* call_function(PyObject* function, const OwnerPtr& owner, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames) {
  PyObject* result = call_once(function, owner, args, nargsf, kwnames, {}, true);
  return result && is_resumption(result) ? finish_resumptions(PyRef::steal(result), owner).release() : result;
}

}  // namespace cdynamo::frame_eval
