// Gradients of what is computed both ways (torch.cond, a branch on data). Eager takes one way, and nothing flows back through the
// other, where infinity times 0 would be none. What a way reads of before it and requires grad goes through a gate,
// where(condition, x, x.detach()), which gives x zeros where the way is not the one taken.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// What is captured until leave_way is what is computed where `condition`, a 0-dim bool, is `if_true`.
void enter_way(Executor& ex, graph::Value* condition, bool if_true);
void leave_way(Executor& ex);
// The operands of a call as the ways around it read them; what it writes to is left as it is.
void read_through_gates(Executor& ex, std::vector<graph::Arg>& args, bool in_place);
// Indices into dims of these sizes, for a read within ways: 0 where the ways are not taken, so that it raises an error only where
// eager does. Nullopt: not within ways, or of nothing.
std::optional<std::vector<graph::Value*>> indices_of_ways(Executor& ex, std::vector<graph::Value*> indices,
                                                          std::span<const graph::Sym> sizes);
// Of what two ways give: the values from before `first_value` that a gradient flows to from one of the two alone. Eager gives them none where the
// other way is taken, and the graph zeros. Nothing was written in place.
std::vector<const graph::Value*> differentiated_in_one_way(const graph::Value* taken,
                                                           const graph::Value* other, int first_value);

}  // namespace cdynamo::symbolic
