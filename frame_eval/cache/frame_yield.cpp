#include "frame_eval/cache/frame_yield.h"

#include <string_view>

#include "graph/graph.h"
#include "graph/op.h"

namespace cdynamo::frame_eval {
namespace {

// Rough costs in microseconds: of a call from Python to NumPy and to PyTorch, of an element in a kernel of its own, of a graph break
// (benchmarks/call_overhead.py has 1.2; guards, recipes and frames around it come to more in programs).
constexpr double kNumpyCall = 0.5, kTorchCall = 1.5, kElement = 0.0005, kBreak = 3;
constexpr int kFewBreaks = 2;

double gain_of(const graph::Graph& graph, double call) {
  double gained = 0;
  for (const auto& node : graph.nodes) {
    if (node->op->name == std::string_view("core.library")) continue;  // it is called as before
    gained += call;
    for (const graph::Value* result : node->results)
      gained += kElement * static_cast<double>(graph.sym->hint(result->type.numel()));
  }
  return gained;
}

}  // namespace

void FrameYield::add(const symbolic::CaptureResult& piece) {
  const double gained = piece.graph ? gain_of(*piece.graph, piece.uses_torch ? kTorchCall : kNumpyCall) : 0;
  gained_ += gained;
  empty_pieces_ += gained == 0 && piece.end == symbolic::End::kBreak;
}

bool FrameYield::is_loss() const { return empty_pieces_ >= kFewBreaks && kBreak * empty_pieces_ > gained_; }

}  // namespace cdynamo::frame_eval
