// What a capture found, as Python objects, for tests: _C._capture(function, arguments).
#pragma once

#include <Python.h>

namespace cdynamo::symbolic {

// Captures the call function(*arguments). A new dict of what CaptureResult says, in words:
//   end "return", "break" or "skip"; skip_reason; graph (printed); inputs, guards, effects, results, locals
//   (lists of str); break_at (an opcode's name and its line, or None); breaks (dicts of id, what, why,
//   instead, stack); captured_in_ns
// Null with a Python error set.
PyObject* debug_capture(PyObject* function, PyObject* arguments);

}  // namespace cdynamo::symbolic
