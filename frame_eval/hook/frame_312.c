// Frames of CPython 3.12: frame.h says what each function does.
#include <patchlevel.h>

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000

#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_dict_state.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interp.h>

#include "frame_eval/hook/frame.h"

PyCodeObject* cdynamo_frame_code(CdynamoFrame* frame) { return frame->f_code; }
PyObject* cdynamo_frame_function(CdynamoFrame* frame) { return frame->f_funcobj; }
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

int cdynamo_is_tracing(PyThreadState* tstate) {
  if (tstate->tracing > 0 || tstate->c_tracefunc) return 1;
  const uint8_t* tools = tstate->interp->monitors.tools;
  // What sys.settrace of another thread sets for the whole interpreter is not counted.
  const uint8_t others = (uint8_t)~(1 << PY_MONITORING_SYS_TRACE_ID);
  return ((tools[PY_MONITORING_EVENT_LINE] | tools[PY_MONITORING_EVENT_INSTRUCTION] |
           tools[PY_MONITORING_EVENT_JUMP] | tools[PY_MONITORING_EVENT_BRANCH]) &
          others) != 0;
}

int cdynamo_recursion_is_deep(PyThreadState* tstate) {
  return tstate->py_recursion_remaining <= 0 || tstate->c_recursion_remaining < C_RECURSION_LIMIT / 2;
}

// Gives the frame's room on the thread's data stack back: _PyThreadState_PopFrame of Python/pystate.c, which
// is not exported.
static void pop_frame(PyThreadState* tstate, CdynamoFrame* frame) {
  PyObject** base = (PyObject**)frame;
  _PyStackChunk* chunk = tstate->datastack_chunk;
  if (base != &chunk->data[0]) {
    tstate->datastack_top = base;
    return;
  }
  // The first frame of a chunk takes the chunk with it; the thread's first chunk keeps one slot free and is
  // never emptied.
  _PyStackChunk* previous = chunk->previous;
  tstate->datastack_top = &previous->data[previous->top];
  tstate->datastack_limit = (PyObject**)((char*)previous + previous->size);
  tstate->datastack_chunk = previous;
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}

// As clear_thread_frame of Python/ceval.c does at the end of a frame, for one without a frame object.
PyObject* cdynamo_finish_frame(PyThreadState* tstate, CdynamoFrame* frame, PyObject* result) {
  tstate->c_recursion_remaining--;  // clearing may run finalizers
  for (int i = 0; i < frame->stacktop; ++i) Py_CLEAR(frame->localsplus[i]);
  Py_CLEAR(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(frame->f_code);
  tstate->c_recursion_remaining++;
  pop_frame(tstate, frame);
  return result;
}

uint64_t cdynamo_dict_version(PyObject* dict) {
  return ((PyDictObject*)dict)->ma_version_tag >> DICT_MAX_WATCHERS;  // below: the watchers' bits
}

uint64_t cdynamo_instance_dict_version(PyObject* dict) { return cdynamo_dict_version(dict); }

unsigned cdynamo_type_version(PyTypeObject* type) {
  return PyUnstable_Type_AssignVersionTag(type) ? type->tp_version_tag : 0;
}

#endif
