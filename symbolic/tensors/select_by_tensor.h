// x[i] where i is a 0-dim integer tensor: eager reads i, and gives the view x.select(0, i). The graph gives a copy, which is the same as
// long as neither of the two is written to, and they do not both outlive the graph; else it breaks before x[i].
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// `result` was read from `from`.
void note_select_by_tensor(Executor& ex, const graph::Value* from, const graph::Value* result);
// `value` is written to.
void refuse_write_to_select_by_tensor(Executor& ex, const graph::Value* value);
// The graph's outputs are known.
void refuse_outputs_of_select_by_tensor(Executor& ex);

}  // namespace cdynamo::symbolic
