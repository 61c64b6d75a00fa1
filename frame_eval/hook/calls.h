// Calls through a code's cache, for the rooms below frame_eval/cache: implemented by frame_eval/call. The only seam of
// frame_eval that calls upwards (tools/layers.py).
#pragma once

#include <memory>

#include "frame_eval/hook/frame.h"
#include "frame_eval/hook/owned_arguments.h"

namespace cdynamo::frame_eval {

class Owner;
using OwnerPtr = std::shared_ptr<Owner>;

// A call of `function` through the owner's cache, or in Python where it is to run there (a null owner: always).
// `owned`: the references of `args`, where they are handed over. `is_root`: it is what was optimized. A new
// reference, null with a Python error.
PyObject* call_function(PyObject* function, const OwnerPtr& owner, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames, OwnedArguments owned = {}, bool is_root = false);

// Runs a frame of `code` that has not started through the owner's cache; ends it and sets `result` (null with a Python
// error). False: the frame is still to be evaluated.
bool run_compiled(PyThreadState* tstate, CdynamoFrame* frame, PyCodeObject* code, const OwnerPtr& owner,
                  PyObject** result);

}  // namespace cdynamo::frame_eval
