#include "frame_eval/cache/unused_draws.h"

#include <algorithm>
#include <ranges>

#include "symbolic/values/random_generator.h"

namespace cdynamo::frame_eval {

using symbolic::CaptureResult;

namespace {

// Whether the program goes another way where other random numbers are drawn.
bool decides_by_draws(const CaptureResult& capture) {
  std::vector<bool> drawn(capture.symbols.size());
  for (size_t i = 0; i < drawn.size(); ++i)
    drawn[i] = capture.symbols[i].source && symbolic::is_random(capture.symbols[i].source);
  const auto is_drawn = [&](const graph::SymGuard& guard) {
    std::vector<bool> used(drawn.size());
    graph::mark_symbols(guard.left, used);
    graph::mark_symbols(guard.right, used);
    return std::ranges::any_of(std::views::iota(size_t{0}, used.size()),
                               [&](size_t i) { return used[i] && drawn[i]; });
  };
  if (capture.graph && std::ranges::any_of(capture.graph->sym->guards(), is_drawn)) return true;
  return std::ranges::any_of(capture.guards, [](const symbolic::Guard& guard) {
    using enum symbolic::GuardKind;
    const bool is_of_kind = guard.kind == kType || guard.kind == kTensor || guard.kind == kDynamicInt ||
                            guard.kind == kDynamicFloat || guard.kind == kLength;
    return !is_of_kind && symbolic::is_random(guard.source);
  });
}

}  // namespace

void drop_unused_draws(CaptureResult& capture) {
  const auto is_drawn = [](const auto& of) { return of.source && symbolic::is_random(of.source); };
  const bool only_drawn = std::ranges::all_of(capture.symbols, is_drawn);
  if (capture.draws.empty() || !only_drawn || decides_by_draws(capture)) return;
  std::erase_if(capture.guards, is_drawn);
  std::erase_if(capture.inputs, is_drawn);
  capture.symbols.clear();
  capture.draws.clear();
}

}  // namespace cdynamo::frame_eval
