// Partition: which values of a forward graph are kept for its backward. A minimum cut between what is there
// anyway (the graph's inputs) and what the backward reads: each value has its bytes for a capacity, values
// that are dear to compute are never computed twice, and what lies on the backward's side of the cut is
// computed again from what is kept.
//
// Checkpoints (Node::region): what a region computes is not kept, dear or not, but what leaves it for other
// regions or for no region is, so that each region is computed again from what came into it.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/channels_last.h"

namespace cdynamo::graph {

// A value to keep. `is_copied`: the program gets it, and may write to it where eager has saved something else.
struct Kept {
  Value* value;
  bool is_copied = false;
};

struct PartitionOptions {
  // 1: nothing that the forward has in memory anyway is computed again. Below 1: dear values are computed again,
  // those that take the most bytes first, until what is kept is this part of what would be kept at 1, but none
  // by which the backward would come to need more memory than it spares (random ops are never repeated).
  double memory_budget = 1.0;
  // The most bytes that a backward has in memory at a time where these values are kept; null: unknown.
  std::function<double(const std::vector<Kept>&)> peak = {};
  // What is kept lies as the device's convolutions have it (passes/channels_last.h); null: none has wishes.
  Gains gains_by_channels_last = {};
  // Inputs and results that the program may write to after the graph has run, past PyTorch's count of writes: nothing is
  // computed again from them, for eager would not ...
  std::vector<int> exposed_inputs = {}, exposed_outputs = {};
  // ... and those that eager would refuse to read then: copies of them are kept.
  std::vector<int> copied_inputs = {}, copied_outputs = {};
  // Those that eager's operators look at past that count: it does not refuse what was written to.
  std::vector<int> uncounted_inputs = {}, uncounted_outputs = {};
};

// A value of the forward that the backward reads, and the user's calls (Node::user_call) whose derivatives read it.
struct Needed {
  Value* value;
  std::vector<int> calls;
};

// `needed`: of the core graph `forward`. The result are values to keep, graph inputs included, in order of their ids.
std::vector<Kept> partition(const Graph& forward, const std::vector<Needed>& needed,
                            const PartitionOptions& options = {});

// Bytes of a value, sizes taken at their hints.
double bytes_of(const SymContext& context, const TensorType& type);

}  // namespace cdynamo::graph
