// Partition: which values of a forward graph are kept for its backward. A minimum cut between what is there
// anyway (the graph's inputs) and what the backward reads: each value has its bytes for a capacity, values
// that are dear to compute are never computed twice, and what lies on the backward's side of the cut is
// computed again from what is kept.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace cdynamo::graph {

struct PartitionOptions {
  // 1: nothing that the forward has in memory anyway is computed again. 0: all is recomputed from the inputs
  // and the results of draws. Between: dear values are recomputed where that saves the most bytes, until what
  // is kept is this part of what would be kept at 1.
  double memory_budget = 1.0;
};

// `needed`: values of the core graph `forward` that its backward reads. The result are values to keep, graph
// inputs included, in order of their ids.
std::vector<Value*> partition(const Graph& forward, const std::vector<Value*>& needed,
                              const PartitionOptions& options = {});

// Bytes of a value, sizes taken at their hints.
double bytes_of(const SymContext& context, const TensorType& type);

}  // namespace cdynamo::graph
