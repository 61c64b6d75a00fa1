#include "frame_eval/cache/frame_yield.h"

#include <algorithm>
#include <string_view>

#include "graph/graph.h"
#include "graph/op.h"

namespace cdynamo::frame_eval {
namespace {

// Rough costs in microseconds: of a call from Python to NumPy and to PyTorch, of a view, of an element in a kernel of its own; of a piece
// (a guard, an object that is handed on, a frame of Python's that goes on after a break; benchmarks/call_overhead.py has 1.2 for a small
// one).
constexpr double kNumpyCall = 1, kTorchCall = 1.5, kView = 0.3, kElement = 0.0005;
constexpr double kPiece = 0.5, kGuard = 0.02, kResult = 0.05, kFrame = 0.7;
constexpr int kFewBreaks = 2;

}  // namespace

double gain_of(const symbolic::CaptureResult& piece) {
  if (!piece.graph) return 0;
  const graph::Graph& graph = *piece.graph;
  const double call = piece.uses_torch ? kTorchCall : kNumpyCall;
  double gained = 0;
  for (const auto& node : graph.nodes) {
    if (node->op->name == std::string_view("core.library")) continue;  // it is called as before
    if (node->op->view || node->op->alias) {
      gained += kView;
      continue;
    }
    gained += call;
    for (const graph::Value* result : node->results)
      gained += kElement * static_cast<double>(graph.sym->hint(result->type.numel()));
  }
  return gained;
}

void FrameYield::add(const symbolic::CaptureResult& piece) {
  gained_ += gain_of(piece);
  breaks_ += piece.end == symbolic::End::kBreak;
  cost_ += kPiece + kGuard * static_cast<double>(piece.guards.size()) +
           kResult * static_cast<double>(piece.results.size()) +
           kFrame * static_cast<double>(piece.frames.size());
}

void Searches::found(size_t misses, double gain) {
  constexpr double kMiss = 0.3;
  balance_ = std::min(balance_ + gain - kMiss * static_cast<double>(misses), 0.0);
}

bool FrameYield::is_loss() const {
  constexpr double kClearly = 1.5, kAtLeast = 4;
  return breaks_ >= kFewBreaks && cost_ > kClearly * gained_ + kAtLeast;
}

}  // namespace cdynamo::frame_eval
