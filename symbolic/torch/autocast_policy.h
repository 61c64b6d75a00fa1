// What torch.autocast does to the operands of a call of an operator.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// Casts the tensors of a call that the user's program makes, where autocast is on and has a policy for it.
void cast_for_autocast(Executor& ex, const graph::OpDef& op, BoundCall& call);
// Breaks the graph where autocast is on and the polyfill's body would not get what the operator's gets.
void check_autocast_of_polyfill(Executor& ex, std::string_view function);

}  // namespace cdynamo::symbolic
