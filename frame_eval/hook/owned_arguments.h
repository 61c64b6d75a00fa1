// OwnedArguments: references that a caller hands over with a call. The callee lets them go as soon as it needs
// its arguments no longer, so that what the program drops after a graph break is freed while the rest runs. With them goes
// the dict of locals of the frame that the call goes on with (cdynamo_running_locals).
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

struct OwnedArguments {
  PyObject** slots = nullptr;  // null: nothing is handed over
  Py_ssize_t count = 0;
  symbolic::PyRef* locals = nullptr;  // taken where the frame runs in Python
  Py_ssize_t first_stack = 0;         // from there on items of a stack: a frame's locals end after these

  void drop() const {
    for (Py_ssize_t i = first_stack; i < count; ++i) Py_CLEAR(slots[i]);
    for (Py_ssize_t i = 0; i < first_stack; ++i) Py_CLEAR(slots[i]);
  }
};

}  // namespace cdynamo::frame_eval
