// Operators whose kernels in some versions of PyTorch give other values than the operator's definition says. A compiled program has to give
// what eager gives, so there they are called in PyTorch's library. Which ones is found by calling them once, not by version numbers.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// Whether PyTorch's own kernel has to compute this call.
bool needs_eager_kernel(const graph::OpDef& op, const BoundCall& call);

}  // namespace cdynamo::symbolic
