// OptimizedFunction: what cdynamo.optimize returns for a function. A callable with vectorcall that looks up a
// compiled entry for the arguments as they come: on a hit no Python frame is made.
#pragma once

#include "frame_eval/cache/config.h"
#include "frame_eval/cache/owned_arguments.h"

namespace cdynamo::frame_eval {

class CodeCache;

// Readies the type and adds it to `module` as "OptimizedFunction". -1 with a Python error on failure.
int add_optimized_function_type(PyObject* module);

// A new OptimizedFunction for a Python function; null with a Python error.
symbolic::PyRef make_optimized_function(PyObject* function, ConfigPtr config);

// A call of `function` through its code's cache, or in Python where it is to run there. `cache` is looked up
// where it is null or another code's. `owned`: the references of `args`, where they are handed over. A new
// reference, null with a Python error.
PyObject* call_function(PyObject* function, const ConfigPtr& config, std::shared_ptr<CodeCache>& cache,
                        PyObject* const* args, size_t nargsf, PyObject* kwnames, OwnedArguments owned = {});

}  // namespace cdynamo::frame_eval
