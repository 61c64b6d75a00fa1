// OwnedArguments: references that a caller hands over with a call. The callee lets them go as soon as it needs
// its arguments no longer, so that what the program drops after a graph break is freed while the rest runs.
#pragma once

#include <Python.h>

namespace cdynamo::frame_eval {

struct OwnedArguments {
  PyObject** slots = nullptr;  // null: nothing is handed over
  Py_ssize_t count = 0;

  void drop() const {
    for (Py_ssize_t i = 0; i < count; ++i) Py_CLEAR(slots[i]);
  }
};

}  // namespace cdynamo::frame_eval
