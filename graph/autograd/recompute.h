// Checkpoints (Node::region) where a gradient is part of the graph itself: what the reverse pass reads of a region's
// inside is computed again, in front of its first reader, from what came into the region.
#pragma once

#include "graph/graph.h"

namespace cdynamo::graph {

// `forward`: how many nodes there were before the reverse pass was appended.
void recompute_regions(Graph& core, size_t forward);

}  // namespace cdynamo::graph
