// OptimizedFunction: what cdynamo.optimize returns for a function. A callable with vectorcall that looks up a
// compiled entry for the arguments as they come: on a hit no Python frame is made.
#pragma once

#include "frame_eval/hook/config.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

// Readies the type and adds it to `module` as "OptimizedFunction". -1 with a Python error on failure.
int add_optimized_function_type(PyObject* module);

// A new OptimizedFunction for a Python function; null with a Python error.
symbolic::PyRef make_optimized_function(PyObject* function, ConfigPtr config);

}  // namespace cdynamo::frame_eval
