// The part of frame.h that is the same in all versions: the hook, and running a function in place of a frame.
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error \
    "cdynamo supports CPython 3.11 to 3.13: a new minor version needs a frame_3xx.c and an opcode_table_3xx.cpp"
#endif

#include "frame_eval/hook/frame.h"

// All of these are written with the GIL held.
static CdynamoFrameCallback hook_callback = NULL;
static int hook_installs = 0;
static _PyFrameEvalFunction hook_before = NULL;  // what evaluated frames before ours was installed
// The function whose next frame the hook of this thread runs without looking at it; not owned, compared only.
static _Thread_local PyObject* function_to_run = NULL;
// The frame that this thread has given to the hook that was before ours.
static _Thread_local CdynamoFrame* handed_on = NULL;

static PyObject* evaluate_frame(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
  // The other hook is before ours and after it (it was taken off and put on again): without this the two would hand the
  // frame to each other for ever.
  if (frame == handed_on) return _PyEval_EvalFrameDefault(tstate, frame, throw_flag);
  if (function_to_run && function_to_run == cdynamo_frame_function(frame)) {
    function_to_run = NULL;
    return cdynamo_run_default(tstate, frame, throw_flag);
  }
  // A hook that was installed over ours may still call it when ours is off.
  if (!hook_callback) return cdynamo_run_default(tstate, frame, throw_flag);
  return hook_callback(tstate, frame, throw_flag);
}

int cdynamo_hook_install(CdynamoFrameCallback callback) {
  if (hook_installs && hook_callback != callback) {
    PyErr_SetString(PyExc_SystemError, "cdynamo: a frame hook with another callback is installed");
    return -1;
  }
  if (hook_installs++) return 0;
  hook_callback = callback;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (current != evaluate_frame) {
    hook_before = current;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_frame);
  }
  return 0;
}

void cdynamo_hook_uninstall(void) {
  if (--hook_installs) return;
  hook_callback = NULL;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  // Where another hook has come over ours, taking it off is not ours to do.
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate_frame) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook_before);
  }
}

int cdynamo_hook_count(void) { return hook_installs; }

PyObject* cdynamo_run_default(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
  if (!hook_before || hook_before == evaluate_frame || hook_before == _PyEval_EvalFrameDefault)
    return _PyEval_EvalFrameDefault(tstate, frame, throw_flag);
  CdynamoFrame* outer = handed_on;
  handed_on = frame;
  PyObject* result = hook_before(tstate, frame, throw_flag);
  handed_on = outer;
  return result;
}

PyObject* cdynamo_run_without_hook(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const _PyFrameEvalFunction before = hook_before;
  const int taken_off = _PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate_frame;
  if (taken_off) _PyInterpreterState_SetEvalFrameFunc(interpreter, before);
  PyObject* result = cdynamo_run_default(tstate, frame, throw_flag);
  if (taken_off && hook_installs && _PyInterpreterState_GetEvalFrameFunc(interpreter) == before) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_frame);
  }
  return result;
}

Py_ssize_t cdynamo_count_arguments(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

PyObject** cdynamo_frame_arguments(CdynamoFrame* frame, Py_ssize_t* count) {
  *count = 0;
  if (!cdynamo_frame_is_fresh(frame)) return NULL;
  *count = cdynamo_count_arguments(cdynamo_frame_code(frame));
  return cdynamo_frame_slots(frame);
}

int cdynamo_frame_is_generator(CdynamoFrame* frame) {
  const int flags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return (cdynamo_frame_code(frame)->co_flags & flags) != 0;
}

// A function of `code` with the globals and closure of the frame's own. A new reference.
static PyObject* make_function(CdynamoFrame* frame, PyObject* code) {
  PyObject* closure = PyFunction_GetClosure(cdynamo_frame_function(frame));
  if (((PyCodeObject*)code)->co_nfreevars != (closure ? PyTuple_GET_SIZE(closure) : 0)) {
    PyErr_SetString(PyExc_SystemError,
                    "cdynamo: code to run has other free variables than the frame's function");
    return NULL;
  }
  PyObject* function = PyFunction_New(code, cdynamo_frame_globals(frame));
  if (function && closure && PyFunction_SetClosure(function, closure) < 0) Py_CLEAR(function);
  return function;
}

static PyObject* call_with_arguments(CdynamoFrame* frame, PyObject* function) {
  Py_ssize_t count;
  PyObject** arguments = cdynamo_frame_arguments(frame, &count);
  if (!arguments) {
    PyErr_SetString(PyExc_SystemError, "cdynamo: the frame has started already");
    return NULL;
  }
  PyObject* callee = PyCode_Check(function) ? make_function(frame, function) : Py_NewRef(function);
  if (!callee) return NULL;
  PyObject* before = function_to_run;
  function_to_run = hook_installs ? callee : NULL;
  PyObject* result = PyObject_Vectorcall(callee, arguments, (size_t)count, NULL);
  // Still set where the call failed before it had a frame.
  function_to_run = before;
  Py_DECREF(callee);
  return result;
}

PyObject* cdynamo_run_function_in_place_of_frame(PyThreadState* tstate, CdynamoFrame* frame,
                                                 PyObject* function) {
  return cdynamo_finish_frame(tstate, frame, call_with_arguments(frame, function));
}
