// Whether a call's arguments hold tensors or arrays: what of a function that has computed nothing yet may compute something.
#pragma once

#include "symbolic/capture/source.h"

namespace cdynamo::frame_eval {

// The arguments and what the closure holds: arrays, first items of lists and tuples that are, iterators over such.
// Iterators of unknown classes may give arrays.
bool passes_arrays(const symbolic::Roots& roots);

}  // namespace cdynamo::frame_eval
