// NumPy's functions that the operator table lacks: core.library nodes, which call NumPy (python/cdynamo/_numpy_library.py).
//
// What a call gives is learnt at capture by making it with other numbers. Where results turn out to be of other sizes, Python
// makes the call, and leaves it out of graphs from then on.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

bool is_numpy_library_function(PyObject* callable);
// Breaks the graph where no node can stand for the call. For bodies of numpy_call.
ValuePtr call_numpy_library(Executor& ex, PyObject* function, const CallArgs& args);
// The same as a call of its own, of `target` as the program sees it; operands and results may be complex.
ValuePtr recorded_numpy_library(Executor& ex, const char* kind, PyRef target, PyObject* function,
                                const CallArgs& args);
// A function that writes to its first argument, an array, and gives nothing (numpy.put_along_axis, numpy.add.at): what it makes of a
// copy is computed there, and written.
ValuePtr write_by_numpy_library(Executor& ex, PyObject* function, const CallArgs& args);

}  // namespace cdynamo::symbolic
