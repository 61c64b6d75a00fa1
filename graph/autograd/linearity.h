// Is a graph linear in some of its inputs? So that it may be applied to the parts of a sum.
#pragma once

#include "graph/graph.h"

namespace cdynamo::graph {

// `captured`, a graph without writes to its inputs, in its first `count` inputs taken together. False where it
// is not known.
bool is_linear(const Graph& captured, size_t count);

}  // namespace cdynamo::graph
