#include "frame_eval/cache/frame_yield.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace cdynamo::frame_eval {
namespace {

// Rough costs in microseconds: of a call from Python to NumPy and to PyTorch, of a view, of an element in a kernel of its own; of a piece
// (a guard, an object that is handed on, a frame of Python's that goes on after a break; benchmarks/call_overhead.py has 1.2 for a small
// one).
constexpr double kNumpyCall = 1, kNumpyOperator = 0.5, kNumpyView = 0.12, kNumpyScalar = 0.04;
constexpr double kTorchCall = 1.5, kView = 0.3, kElement = 0.0005;
constexpr double kPiece = 0.5, kGuard = 0.02, kResult = 0.05, kFrame = 0.7;
constexpr double kClearly = 1.5;  // the cost is so much more than the gain
constexpr int kFewBreaks = 2;

bool is_numpys(const graph::Node& node) { return node.framework == graph::Framework::kNumpy; }
bool is_view(const graph::Node& node) { return node.op->view || node.op->alias; }
bool is_number(const graph::Value* value) { return value->type.rank() == 0; }

// Of NumPy's scalars alone: reading, writing and computing one takes no call of NumPy's.
bool is_of_scalars(graph::Node& node) {
  bool numbers = std::ranges::all_of(node.results, is_number);
  graph::for_each_operand(node, [&](const graph::Value* value) { numbers = numbers && is_number(value); });
  return numbers;
}

// x + y, x @ y: no Python code of NumPy's stands before the loop in C.
bool is_numpy_operator(const graph::Node& node) {
  return node.op->family == graph::Family::kPointwise || node.op->name == "np.matmul";
}

// NumPy's views that others alone are made of: of x[i, j] the row.
absl::flat_hash_set<const graph::Value*> views_passed(const graph::Graph& graph) {
  absl::flat_hash_set<const graph::Value*> passed, used(graph.outputs.begin(), graph.outputs.end());
  for (const auto& node : graph.nodes)
    graph::for_each_operand(*node, [&](const graph::Value* value) {
      (is_numpys(*node) && is_view(*node) ? passed : used).insert(value);
    });
  absl::erase_if(passed, [&](const graph::Value* value) { return used.contains(value); });
  return passed;
}

double gain_of_node(const graph::Graph& graph, graph::Node& node) {
  if (node.op->name == std::string_view("core.library")) return 0;  // it is called as before
  if (is_numpys(node) && is_of_scalars(node)) return kNumpyScalar;
  if (is_view(node)) return !is_numpys(node) ? kView : is_number(node.results[0]) ? kNumpyScalar : kNumpyView;
  double gained = !is_numpys(node) ? kTorchCall : is_numpy_operator(node) ? kNumpyOperator : kNumpyCall;
  for (const graph::Value* result : node.results)
    gained += kElement * static_cast<double>(graph.sym->hint(result->type.numel()));
  return gained;
}

}  // namespace

double cost_of(const symbolic::CaptureResult& piece) {
  return kPiece + kGuard * static_cast<double>(piece.guards.size()) +
         kResult * static_cast<double>(piece.results.size()) +
         kFrame * static_cast<double>(piece.frames.size());
}

double gain_of(const symbolic::CaptureResult& piece) {
  if (!piece.graph) return 0;
  const auto passed = views_passed(*piece.graph);
  double gained = 0;
  for (const auto& node : piece.graph->nodes)
    if (!node->results.empty() && !passed.contains(node->results[0]))
      gained += gain_of_node(*piece.graph, *node);
  return gained;
}

void FrameYield::add(const symbolic::CaptureResult& piece) {
  gained_ += gain_of(piece);
  breaks_ += piece.end == symbolic::End::kBreak;
  cost_ += cost_of(piece);
}

void Searches::found(size_t misses, double gain) {
  constexpr double kMiss = 0.3;
  balance_ = std::min(balance_ + gain - kMiss * static_cast<double>(misses), 0.0);
}

void FrameYield::ran(double gain, double cost) {
  balance_ = std::min(balance_ + kClearly * gain - cost, 0.0);
}

bool FrameYield::is_loss() const {
  constexpr double kAtLeast = 6, kMuch = 1000;
  return (breaks_ >= kFewBreaks && cost_ > kClearly * gained_ + kAtLeast) || balance_ < -kMuch;
}

}  // namespace cdynamo::frame_eval
