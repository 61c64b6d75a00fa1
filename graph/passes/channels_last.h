// Convolutions of a GPU in channels-last memory: what they give, what they take, and what is computed of these element by
// element lies there. The convolution library computes in that order: it turns anything else around before and after.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graph/graph.h"

namespace cdynamo::graph {

// Whether a core.convolution or core.convolution_weight_grad had better have its operands and its result in channels-last
// memory. `tensor_cores`: those are used for float32 too (TF32).
bool gains_by_channels_last(const Node& convolution, bool tensor_cores);

using Gains = std::function<bool(const Node& convolution)>;

// By value id: which values nodes had better store in channels-last memory. Empty where no convolution gains.
std::vector<char> channels_last_values(const Graph& core, const Gains& gains);

struct ChannelsLast {
  std::unique_ptr<Graph>
      core;  // with copies of what convolutions read from elsewhere, and a bias as an addition
  std::vector<char> values;  // by value id: stored in channels-last memory
  std::vector<char> turned;  // by value id: these, read from memory of another order
};
// Null graph where no convolution gains.
ChannelsLast lay_out_channels_last(const Graph& core, const Gains& gains);

}  // namespace cdynamo::graph
