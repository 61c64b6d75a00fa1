// What the tests see of frame.h and watch.h: functions of the extension module. New references, null on
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
// A callable that says whether the dicts, classes and functions of a sequence are unchanged; None where one
// cannot be watched.
PyObject* debug_watch(PyObject* objects);
// cdynamo_dict_version
PyObject* debug_dict_version(PyObject* dict);
// cdynamo_is_tracing of this thread
PyObject* debug_is_tracing();

}  // namespace cdynamo::frame_eval
