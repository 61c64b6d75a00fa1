// Results that share storage with another value, or are it, in eager, and are copies in the graph: x[i] where i is a 0-dim integer
// tensor (eager reads i, and gives the view x.select(0, i)), and what is selected where the ways of a branch meet. A copy is the same as
// long as neither of the two is written to, and they do not both outlive the graph; else it breaks before the place. A view that is made
// to require grad is such a copy too (symbolic/torch/made_leaves.h), which leaves as what it is.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// `result`, which is made in the root's `step`, may be `from` or a view of it; `broken`: the break where it has to be, of `what`.
void note_possible_alias(Executor& ex, const graph::Value* from, const graph::Value* result,
                         const char* broken, int64_t step, const char* what = "");
int64_t current_root_step(Executor& ex);
// `value` is written to.
void refuse_write_to_possible_alias(Executor& ex, const graph::Value* value);
// A hook on `value` would see the gradient of one of two that may be one object.
void refuse_hook_on_possible_alias(Executor& ex, const graph::Value* value);
// It is asked whether the two are one object.
void refuse_identity_of_possible_alias(Executor& ex, const graph::Value* left, const graph::Value* right);
// The graph's outputs are known.
void refuse_outputs_of_possible_aliases(Executor& ex);

}  // namespace cdynamo::symbolic
