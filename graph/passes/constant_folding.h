// Constant folding: a pointwise operator or conversion of values that are one number everywhere is such a
// value itself. The operator's own scalar code computes it, on the reference ScalarBuilder
// (graph/reference.h).
#pragma once

#include "graph/builder.h"

namespace cdynamo::graph {

// A core.full in the node's place; null where the node does not fold.
Value* fold_constants(Builder& builder, Node& node);

}  // namespace cdynamo::graph
