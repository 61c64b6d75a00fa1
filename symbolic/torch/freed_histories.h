// What a backward within the captured graph has freed: eager raises where another one needs it.
#pragma once

#include <vector>

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// A backward goes from the outputs to the inputs, and frees what it read unless told to retain it. Where another one has freed
// something before, eager raises, or the engine knows better: breaks the graph before that one.
void free_histories(Executor& ex, const std::vector<graph::Value*>& outputs,
                    const std::vector<graph::Value*>& inputs, bool retain_graph);
// The calls (Node::user_call) all of whose saved tensors were freed so.
std::vector<int> freed_calls(Executor& ex);

}  // namespace cdynamo::symbolic
