#include "tests/ext/frame_debug.h"

#include "frame_eval/hook/frame.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::PyRef;

thread_local PyObject* target_code = nullptr;
thread_local PyObject* replacement_to_run = nullptr;
thread_local PyObject* seen_frames = nullptr;

// Appends what can be seen of the frame; false: an error is set.
bool record(CdynamoFrame* frame) {
  Py_ssize_t count = 0;
  PyObject** slots = cdynamo_frame_arguments(frame, &count);
  PyRef arguments = PyRef::steal(PyTuple_New(slots ? count : 0));
  if (!arguments) return false;
  for (Py_ssize_t i = 0; slots && i < count; ++i) PyTuple_SET_ITEM(arguments.get(), i, Py_NewRef(slots[i]));
  PyObject* function = cdynamo_frame_function(frame);
  const bool own_globals = cdynamo_frame_globals(frame) == PyFunction_GET_GLOBALS(function);
  PyRef row =
      PyRef::steal(Py_BuildValue("(OOOO)", function, own_globals ? Py_True : Py_False, arguments.get(),
                                 cdynamo_frame_is_generator(frame) ? Py_True : Py_False));
  return row && PyList_Append(seen_frames, row.get()) == 0;
}

PyObject* evaluate(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
  const bool is_target = !throw_flag && reinterpret_cast<PyObject*>(cdynamo_frame_code(frame)) == target_code;
  if (!is_target || cdynamo_is_tracing(tstate)) return cdynamo_run_default(tstate, frame, throw_flag);
  Py_ssize_t count = 0;
  if (!cdynamo_frame_arguments(frame, &count)) return cdynamo_run_default(tstate, frame, throw_flag);
  if (!record(frame)) return cdynamo_finish_frame(tstate, frame, nullptr);
  if (replacement_to_run == Py_None) return cdynamo_run_default(tstate, frame, throw_flag);
  return cdynamo_run_function_in_place_of_frame(tstate, frame, replacement_to_run);
}

}  // namespace

PyObject* debug_run_in_place(PyObject* function, PyObject* replacement, PyObject* arguments,
                             PyObject* keywords) {
  if (!PyFunction_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "a Python function is expected");
    return nullptr;
  }
  const PyRef seen = PyRef::steal(PyList_New(0));
  if (!seen || cdynamo_hook_install(evaluate) < 0) return nullptr;
  PyObject* const outer[] = {target_code, replacement_to_run, seen_frames};
  target_code = PyFunction_GET_CODE(function);
  replacement_to_run = replacement;
  seen_frames = seen.get();
  const PyRef result = PyRef::steal(PyObject_Call(function, arguments, keywords));
  target_code = outer[0];
  replacement_to_run = outer[1];
  seen_frames = outer[2];
  cdynamo_hook_uninstall();
  return result ? PyTuple_Pack(2, result.get(), seen.get()) : nullptr;
}

PyObject* debug_dict_version(PyObject* dict) {
  if (PyDict_Check(dict)) return PyLong_FromUnsignedLongLong(cdynamo_dict_version(dict));
  PyErr_SetString(PyExc_TypeError, "a dict is expected");
  return nullptr;
}

PyObject* debug_is_tracing() { return PyBool_FromLong(cdynamo_is_tracing(PyThreadState_Get())); }

}  // namespace cdynamo::frame_eval
