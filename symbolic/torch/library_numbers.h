// Numbers among the arguments of core.library nodes. Those that change from call to call are pinned to what they are; those that
// the graph reads from tensors are operands, 0-dim tensors of which the call makes numbers again (python/cdynamo/_library/call.py).
#pragma once

#include <optional>

#include "graph/graph.h"
#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

// Whether the graph reads it from a tensor.
bool is_read_number(Executor& ex, const ValuePtr& value);

struct SettledNumbers {
  CallArgs args;
  PyRef types;  // dict: the type of each number that is an operand, by the graph value's id
  bool changed = false;
};
SettledNumbers settle_numbers(Executor& ex, const CallArgs& args);

// The call again where its node wants to know a float that changes from call to call; each gives nothing where there is none.
// First: floats that are known to fit float32, as their range is guarded. Then: floats that are pinned.
std::optional<CallArgs> with_floats_that_fit(Executor& ex, const CallArgs& args);
std::optional<CallArgs> with_pinned_floats(Executor& ex, const CallArgs& args);

}  // namespace cdynamo::symbolic
