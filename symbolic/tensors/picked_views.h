// x[i] by a tensor i without dims: eager reads i, and gives a view. The graph gives a copy, which is the same as
// long as neither of the two is written to, and they do not both outlive the graph; else it breaks before x[i].
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// `result` was read from `from`.
void note_picked_view(Executor& ex, const graph::Value* from, const graph::Value* result);
// `value` is written to.
void refuse_write_to_picked(Executor& ex, const graph::Value* value);
// The graph's outputs are known.
void refuse_picked_outputs(Executor& ex);

}  // namespace cdynamo::symbolic
