#include "symbolic/frames/unrolling.h"

#include <string>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {
namespace {

// Kernels are made for sizes: where each turn has sizes of its own, each is compiled for itself, some milliseconds a turn,
// to run once. So many turns are unrolled nevertheless.
constexpr int64_t kTurnsOfOtherSizes = 128;
// Instructions of a loop that compute no tensors: CPython runs them a hundred times as fast as capture does.
constexpr int64_t kPlainInstructions = 100'000;
constexpr int64_t kInstructionsPerNode = 1'000;

int64_t count_new_sizes(Executor::State& state) {
  const auto& nodes = state.result.graph->nodes;
  auto at = nodes.rbegin();
  for (; state.nodes_seen < nodes.size(); ++state.nodes_seen, ++at) {
    const graph::Node& node = **at;
    size_t hash = std::hash<const void*>()(node.op);
    for (const graph::Value* value : node.results)
      for (const graph::Sym& size : value->type.sizes)
        hash = hash * 31 + (size.is_constant() ? static_cast<size_t>(size.constant())
                                               : std::hash<const void*>()(size.node()));
    state.sizes_seen.insert(hash);
  }
  return static_cast<int64_t>(state.sizes_seen.size());
}

}  // namespace

void Unrolling::turn(Executor::State& state, int header) {
  if (!state.request.leaves_loops) return;
  // Loops that begin later are inside of this one, and over, or follow it.
  while (!loops_.empty() && loops_.back().header > header) loops_.pop_back();
  if (loops_.empty() || loops_.back().header != header) {
    loops_.push_back({header, 1, state.instructions, static_cast<int64_t>(state.result.graph->nodes.size()),
                      count_new_sizes(state)});
    return;
  }
  ++loops_.back().turns;
  weigh(state, loops_.back());
}

void Unrolling::weigh(Executor::State& state, const Entered& loop) const {
  const int64_t nodes = static_cast<int64_t>(state.result.graph->nodes.size()) - loop.nodes;
  if (nodes > CaptureRequest::kNodesOfShortLoop) {
    if (state.request.leaves_long_loops) break_graph("CD0013", "");
    state.result.unrolls_long_loop = true;
  }
  if (state.instructions - loop.instructions > kPlainInstructions + kInstructionsPerNode * nodes)
    break_graph("CD0014", std::to_string(loop.turns) + " turns");
  if (loop.turns >= kTurnsOfOtherSizes && count_new_sizes(state) - loop.new_sizes >= loop.turns)
    break_graph("CD0015", std::to_string(loop.turns) + " turns");
}

}  // namespace cdynamo::symbolic
