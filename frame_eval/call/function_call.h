// A call through a code's cache, from its first entry to its end, however often it is resumed on the way.
#pragma once

#include "frame_eval/cache/owner.h"

namespace cdynamo::frame_eval {

// A call of `function`, which was optimized, through the owner's cache; in Python where it is to run there (a null owner:
// always). A new reference, null with a Python error.
PyObject* call_function(PyObject* function, const OwnerPtr& owner, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames);

// What a frame comes to that gave `result`: as long as this is a frame that waits after a graph break, it is resumed.
PyRef finish_resumptions(PyRef result, const OwnerPtr& owner);

}  // namespace cdynamo::frame_eval
