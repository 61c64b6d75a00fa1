// Frames of CPython 3.11: frame.h says what each function does.
#include <patchlevel.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_frame.h>

#include "frame_eval/hook/frame.h"

PyCodeObject* cdynamo_frame_code(CdynamoFrame* frame) { return frame->f_code; }
PyObject* cdynamo_frame_function(CdynamoFrame* frame) { return (PyObject*)frame->f_func; }
PyObject* cdynamo_frame_globals(CdynamoFrame* frame) { return frame->f_globals; }
PyObject* cdynamo_frame_builtins(CdynamoFrame* frame) { return frame->f_builtins; }
PyObject** cdynamo_frame_slots(CdynamoFrame* frame) { return frame->localsplus; }

PyObject* cdynamo_running_locals(PyThreadState* tstate) {
  CdynamoFrame* frame = tstate->cframe->current_frame;
  return frame ? frame->f_locals : NULL;
}

void cdynamo_give_locals(CdynamoFrame* frame, PyObject* locals) { Py_XSETREF(frame->f_locals, locals); }

int cdynamo_frame_is_fresh(CdynamoFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && !frame->frame_obj &&
         frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

int cdynamo_recursion_is_deep(PyThreadState* tstate) { return tstate->recursion_remaining <= 0; }

int cdynamo_is_tracing(PyThreadState* tstate) { return tstate->tracing > 0 || tstate->c_tracefunc != NULL; }

// The caller, _PyEval_Vector, clears and pops the frame whatever the result.
PyObject* cdynamo_finish_frame(PyThreadState* tstate, CdynamoFrame* frame, PyObject* result) {
  (void)tstate;
  (void)frame;
  return result;
}

uint64_t cdynamo_dict_version(PyObject* dict) { return ((PyDictObject*)dict)->ma_version_tag; }

uint64_t cdynamo_instance_dict_version(PyObject* dict) { return cdynamo_dict_version(dict); }

unsigned cdynamo_type_version(PyTypeObject* type) {
  // A lookup of an attribute through the type cache gives the type a tag.
  static PyObject* name = NULL;
  if (!name) name = PyUnicode_InternFromString("__class__");
  if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) _PyType_Lookup(type, name);
  return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
}

#endif
