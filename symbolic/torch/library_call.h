// Operators that the table lacks: core.library nodes, which call PyTorch (python/cdynamo/_library/call.py).
//
// What a call gives is learnt at capture from tensors without content; calls that a node cannot stand for (they write, draw, give
// views, or sizes that depend on data) break the graph.
#pragma once

#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/library_calls.h"

namespace cdynamo::symbolic {

// The user call that is being recorded, as a node; breaks the graph where that cannot be. For bodies of recorded_call.
ValuePtr call_library(Executor& ex, const CallArgs& args);
// The same, or null where no node can stand for the call (sizes that change, say).
ValuePtr try_library(Executor& ex, const CallArgs& args);
// The same where a rule for the call exists and has broken the graph, for want of a constant too: throws `broken` again where a node cannot be.
ValuePtr call_library_after(Executor& ex, const GraphBreak& broken, const CallArgs& args);

// A function of PyTorch's that may be an operator, by the kind of object.
bool may_be_library_operator(PyObject* callable);

}  // namespace cdynamo::symbolic
