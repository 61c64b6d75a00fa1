// Tensors whose elements lie side by side, but in another order than their dims have.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

// A view of the tensor that is row-major, where its elements lie without gaps and the order of its dims is all that differs; else
// the tensor. What an operator sees of the elements in memory it sees of this view alike (as_strided).
graph::Value* in_memory_order(Executor& ex, graph::Value* tensor);

}  // namespace cdynamo::symbolic
