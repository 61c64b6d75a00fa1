// Frames of CPython 3.13: frame.h says what each function does.
#include <patchlevel.h>

#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000

#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_dict_state.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interp.h>

#include "frame_eval/hook/frame.h"

PyCodeObject* cdynamo_frame_code(CdynamoFrame* frame) { return _PyFrame_GetCode(frame); }
PyObject* cdynamo_frame_function(CdynamoFrame* frame) { return frame->f_funcobj; }
PyObject* cdynamo_frame_globals(CdynamoFrame* frame) { return frame->f_globals; }
PyObject* cdynamo_frame_builtins(CdynamoFrame* frame) { return frame->f_builtins; }
PyObject** cdynamo_frame_slots(CdynamoFrame* frame) { return frame->localsplus; }

int cdynamo_frame_is_fresh(CdynamoFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && !frame->frame_obj &&
         frame->instr_ptr == _PyCode_CODE(_PyFrame_GetCode(frame));
}

int cdynamo_recursion_is_deep(PyThreadState* tstate) {
  return tstate->py_recursion_remaining <= 0 || tstate->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2;
}

int cdynamo_is_tracing(PyThreadState* tstate) {
  if (tstate->tracing > 0 || tstate->c_tracefunc) return 1;
  const uint8_t* tools = tstate->interp->monitors.tools;
  // What sys.settrace of another thread sets for the whole interpreter is not counted.
  const uint8_t others = (uint8_t)~(1 << PY_MONITORING_SYS_TRACE_ID);
  return ((tools[PY_MONITORING_EVENT_LINE] | tools[PY_MONITORING_EVENT_INSTRUCTION] |
           tools[PY_MONITORING_EVENT_JUMP] | tools[PY_MONITORING_EVENT_BRANCH]) &
          others) != 0;
}

PyObject* cdynamo_finish_frame(PyThreadState* tstate, CdynamoFrame* frame, PyObject* result) {
  _PyEval_FrameClearAndPop(tstate, frame);
  return result;
}

// The dict of an object whose attributes are stored in the object itself: writing an attribute leaves the tag
// as it is.
static int has_inline_values(PyObject* dict) {
  const PyDictValues* values = ((PyDictObject*)dict)->ma_values;
  return values && values->embedded;
}

PyObject* cdynamo_running_locals(PyThreadState* tstate) {
  (void)tstate;
  return NULL;  // frame.f_locals is a view of the frame
}

void cdynamo_give_locals(CdynamoFrame* frame, PyObject* locals) {
  (void)frame;
  Py_DECREF(locals);
}

unsigned cdynamo_type_version(PyTypeObject* type) {
  return PyUnstable_Type_AssignVersionTag(type) ? type->tp_version_tag : 0;
}

uint64_t cdynamo_dict_version(PyObject* dict) {
  if (has_inline_values(dict)) return 0;
  // Below: the watchers' bits and a count of modifications.
  return ((PyDictObject*)dict)->ma_version_tag >> (DICT_MAX_WATCHERS + DICT_WATCHED_MUTATION_BITS);
}

uint64_t cdynamo_instance_dict_version(PyObject* dict) {
  if (has_inline_values(dict) && PyDict_GET_SIZE(dict) > 0) {
    // dict.popitem() gives the dict a table of its own; the last item goes back to where it was.
    static PyObject* popitem = NULL;
    if (!popitem) popitem = PyObject_GetAttrString((PyObject*)&PyDict_Type, "popitem");
    PyObject* item = popitem ? PyObject_CallOneArg(popitem, dict) : NULL;
    if (!item || PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) < 0) {
      PyErr_Clear();  // no memory, even for one item
    }
    Py_XDECREF(item);
  }
  return cdynamo_dict_version(dict);
}

#endif
