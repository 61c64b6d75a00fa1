// Where a tensor's elements are not zero: a mask as an index, nonzero. Their number is a size that the graph reads when it runs.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// One index tensor for each dimension, of one size, in row-major order of the elements. The same tensors for the same value as
// long as nothing is written to. For bodies of recorded_call; breaks the graph where `what` cannot be captured.
std::vector<graph::Value*> nonzero_indices(Executor& ex, graph::Value* value, const char* what);

}  // namespace cdynamo::symbolic
