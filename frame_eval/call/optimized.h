// OptimizedFunction: what cdynamo.optimize returns for a function. A callable with vectorcall that looks up a
// compiled entry for the arguments as they come: on a hit no Python frame is made.
#pragma once

#include "frame_eval/hook/config.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

// Readies the types and adds them to `module` as "OptimizedFunction" and "Owner". -1 with a Python error on
// failure.
int add_optimized_function_type(PyObject* module);

// An Owner as a Python object; null with a Python error.
symbolic::PyRef make_owner(ConfigPtr config, const char* name);

// A new OptimizedFunction for a Python function, whose entries are `owner`'s (from make_owner); null with a
// Python error.
symbolic::PyRef make_optimized_function(PyObject* function, PyObject* owner);

// From here on `optimized` is the `__call__` of a class of views: `slot`, a member descriptor of that class,
// holds the owner of each instance. False with a Python error.
bool set_owner_slot(PyObject* optimized, PyObject* slot);

}  // namespace cdynamo::frame_eval
