// What the tests see of frame.h: functions of the extension module. New references, null on
// error.
#pragma once

#include <Python.h>

namespace cdynamo::frame_eval {

// function(*arguments, **keywords) with the hook on: frames of function's code run as `replacement` (a
// function or a code object whose parameters are the frame's argument slots; None: they run by default).
// Returns (result, [what was seen of each frame: (function, globals is function's, argument slots, is a
// generator)]).
PyObject* debug_run_in_place(PyObject* function, PyObject* replacement, PyObject* arguments,
                             PyObject* keywords);
// cdynamo_dict_version
PyObject* debug_dict_version(PyObject* dict);
// cdynamo_is_tracing of this thread
PyObject* debug_is_tracing();

}  // namespace cdynamo::frame_eval
