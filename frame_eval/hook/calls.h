// What the hook does with a frame that it stopped at: implemented by frame_eval/call. The only seam of frame_eval that calls
// upwards (tools/layers.py).
#pragma once

#include <memory>

#include "frame_eval/hook/frame.h"

namespace cdynamo::frame_eval {

class Owner;
using OwnerPtr = std::shared_ptr<Owner>;

// Runs a frame of `code` that has not started through the owner's cache; ends it and sets `result` (null with a Python
// error). False: the frame is still to be evaluated.
bool run_compiled(PyThreadState* tstate, CdynamoFrame* frame, PyCodeObject* code, const OwnerPtr& owner,
                  PyObject** result);

}  // namespace cdynamo::frame_eval
