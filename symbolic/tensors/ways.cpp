#include "symbolic/tensors/ways.h"

#include "absl/cleanup/cleanup.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"

namespace cdynamo::symbolic {
namespace {

// Inputs are met where they are first read.
bool is_from_before(const graph::Value* value, int first_value) {
  return value->id < first_value || !value->node;
}

// The gate itself is read through the gates of the ways around its own.
graph::Value* make_gate(Executor& ex, size_t depth, graph::Value* value) {
  if (!ex.state().request.is_native)
    break_graph("CD0404", "what a backend in Python computes both ways, and needs gradients");
  TensorCapture& capture = tensor_capture(ex);
  absl::Cleanup enter_again = [&capture, entered = capture.entered_ways] { capture.entered_ways = entered; };
  capture.entered_ways = depth;
  graph::Value* detached = append_call1(ex, "detach", {value});
  const TensorCapture::Way& way = capture.ways[depth];
  return way.if_true ? append_call1(ex, "where", {way.condition, value, detached})
                     : append_call1(ex, "where", {way.condition, detached, value});
}

graph::Value* through_gates(Executor& ex, graph::Value* value) {
  TensorCapture& capture = tensor_capture(ex);
  graph::Value* read = value;
  for (size_t depth = 0; depth < capture.entered_ways; ++depth) {
    if (!is_from_before(value, capture.ways[depth].first_value)) continue;
    auto& gates = capture.ways[depth].gates;
    const auto known = gates.find(value);
    read = known != gates.end() ? known->second
                                : gates.try_emplace(value, make_gate(ex, depth, read)).first->second;
  }
  return read;
}

}  // namespace

void enter_way(Executor& ex, graph::Value* condition, bool if_true) {
  TensorCapture& capture = tensor_capture(ex);
  capture.ways.push_back(
      {.condition = condition, .if_true = if_true, .first_value = ex.graph().next_value_id(), .gates = {}});
  capture.entered_ways = capture.ways.size();
}

void leave_way(Executor& ex) {
  TensorCapture& capture = tensor_capture(ex);
  capture.ways.pop_back();
  capture.entered_ways = capture.ways.size();
}

void read_through_gates(Executor& ex, std::vector<graph::Arg>& args, bool in_place) {
  const TensorCapture& capture = tensor_capture(ex);
  if (capture.entered_ways == 0 || !capture.grad_mode) return;
  const auto read = [&](graph::Value*& value) {
    if (value && value->requires_grad) value = through_gates(ex, value);
  };
  for (size_t i = in_place ? 1 : 0; i < args.size(); ++i) {
    if (auto* value = std::get_if<graph::Value*>(&args[i])) read(*value);
    if (auto* values = std::get_if<std::vector<graph::Value*>>(&args[i]))
      for (graph::Value*& value : *values) read(value);
  }
}

std::optional<std::vector<graph::Value*>> indices_of_ways(Executor& ex, std::vector<graph::Value*> indices,
                                                          std::span<const graph::Sym> sizes) {
  const TensorCapture& capture = tensor_capture(ex);
  if (capture.entered_ways == 0 || !ex.state().request.is_native) return std::nullopt;
  for (size_t d = 0; d < indices.size(); ++d)
    if (indices[d] && ex.graph().sym->guard_eq(sizes[d], 0, "index")) return std::nullopt;
  for (graph::Value*& index : indices) {
    if (!index) continue;
    graph::Value* first =
        append_call1(ex, "core.full", {std::vector<graph::Sym>{}, graph::Sym(0), index->type.dtype});
    for (size_t depth = 0; depth < capture.entered_ways; ++depth) {
      const TensorCapture::Way& way = capture.ways[depth];
      index = way.if_true ? append_call1(ex, "where", {way.condition, index, first})
                          : append_call1(ex, "where", {way.condition, first, index});
    }
  }
  return indices;
}

namespace {

// All values that a gradient of `value` flows to; `up_to`: not beyond those from before.
absl::flat_hash_set<const graph::Value*> differentiated(const graph::Value* value, std::optional<int> up_to) {
  absl::flat_hash_set<const graph::Value*> found;
  std::vector<const graph::Value*> open = {value};
  while (!open.empty()) {
    const graph::Value* next = open.back();
    open.pop_back();
    if (!next->requires_grad || !found.insert(next).second) continue;
    if (!next->node || (up_to && is_from_before(next, *up_to))) continue;
    graph::for_each_operand(*next->node, [&](const graph::Value* operand) { open.push_back(operand); });
  }
  return found;
}

}  // namespace

std::vector<const graph::Value*> differentiated_in_one_way(const graph::Value* taken,
                                                           const graph::Value* other, int first_value) {
  const auto difference = [&](std::optional<int> up_to) {
    const auto left = differentiated(taken, up_to), right = differentiated(other, up_to);
    std::vector<const graph::Value*> only;
    for (const auto& [some, others] : {std::pair(&left, &right), std::pair(&right, &left)})
      for (const graph::Value* value : *some)
        if (is_from_before(value, first_value) && !others->contains(value)) only.push_back(value);
    return only;
  };
  std::vector<const graph::Value*> only = difference(first_value);
  return only.empty() ? only : difference(std::nullopt);
}

}  // namespace cdynamo::symbolic
