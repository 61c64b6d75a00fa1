// Random numbers that capture has drawn for a call which is left to Python after all: Python draws them as well, so an entry that draws
// them too would draw twice.
#pragma once

#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

// Only where an entry is to be told from another one by its numbers are they drawn before it is known which it is.
void drop_unused_draws(symbolic::CaptureResult& capture);

}  // namespace cdynamo::frame_eval
