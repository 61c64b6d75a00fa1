// The root frame of a capture: what its arguments, defaults and closure are reached by.
#pragma once

#include "symbolic/frames/frame.h"

namespace cdynamo::symbolic {

// Fills the argument slots with sources, which are wrapped when an instruction looks at them, and the closure. False: the
// arguments do not fit the parameters, and Python says so.
bool bind_root_frame(Executor& ex, SymbolicFrame& frame, const CaptureRequest& request);

}  // namespace cdynamo::symbolic
