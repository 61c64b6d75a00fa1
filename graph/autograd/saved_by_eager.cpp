#include "graph/autograd/saved_by_eager.h"

#include <algorithm>
#include <ranges>

#include "graph/op.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
namespace {

bool is_view(const Node& node) { return node.op->family == Family::kView; }

size_t count_calls(const Graph& graph) {
  int count = 0;
  for (const auto& node : graph.nodes) count = std::max(count, node->user_call + 1);
  return count;
}

}  // namespace

std::vector<bool> written_inputs(const Graph& forward) {
  std::vector<bool> written(forward.inputs.size());
  for (const Graph::Mutation& mutation : forward.mutations) written[mutation.input] = true;
  return written;
}

void OutputSets::add_all(size_t set, const OutputSets& from, size_t other) {
  for (size_t i = 0; i < words_; ++i) bits_.at(set * words_ + i) |= from.bits_.at(other * words_ + i);
}

bool OutputSets::includes(size_t set, const OutputSets& of, size_t other) const {
  for (size_t i = 0; i < words_; ++i)
    if (of.bits_.at(other * words_ + i) & ~bits_.at(set * words_ + i)) return false;
  return true;
}

SavedByEager::SavedByEager(const Graph& forward, const std::vector<Needed>& needed)
    : graph_(forward),
      needed_(needed),
      written_(written_inputs(forward)),
      is_given_back_(forward.next_value_id()),
      saves_result_(forward.next_value_id(), true),
      is_copied_(forward.next_value_id()),
      num_calls_(count_calls(forward)),
      reach_(forward, forward.next_value_id()),
      reach_of_calls_(forward, num_calls_),
      read_for_(forward, forward.next_value_id()),
      saved_for_(forward, forward.next_value_id()) {
  for (const Value* output : graph_.outputs) is_given_back_[base_of(output)->id] = true;
  find_reach();
  find_readers();
  find_saved_results();
  find_saved();
  find_copied();
}

bool SavedByEager::may_start_from(const Value* operand, const Node& node) const {
  const Value* base = base_of(operand);
  const bool is_writable = !base->node ? !written_[base->index] : is_given_back_[base->id];
  if (!is_writable || is_view(node) || node.region) return true;
  return std::ranges::all_of(node.results, [&](const Value* result) {
    return saved_for_.includes(base->id, read_for_, result->id);
  });
}

void SavedByEager::find_reach() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    if (runtime::is_float(graph_.outputs[i]->type.dtype)) reach_.add(graph_.outputs[i]->id, i);
  for (const auto& node : std::views::reverse(graph_.nodes)) {
    if (!node->op->differentiable) continue;
    for (const Value* result : node->results) {
      if (node->user_call >= 0) reach_of_calls_.add_all(node->user_call, reach_, result->id);
      for_each_operand(*node, [&](Value*& operand) { reach_.add_all(operand->id, reach_, result->id); });
    }
  }
}

// In which outputs' histories a value is read, or what is computed from it.
void SavedByEager::find_readers() {
  for (const Needed& each : needed_) add_histories(read_for_, each.value, each);
  for (const auto& node : std::views::reverse(graph_.nodes))
    for (const Value* result : node->results)
      for_each_operand(*node,
                       [&](Value*& operand) { read_for_.add_all(operand->id, read_for_, result->id); });
}

// Those of the calls whose derivatives read it; `which`: only of some of them.
void SavedByEager::add_histories(OutputSets& sets, const Value* value, const Needed& needed,
                                 const std::function<bool(int)>& which) const {
  for (const int call : needed.calls) {
    if (which && !which(call)) continue;
    if (call >= 0 && static_cast<size_t>(call) < num_calls_)  // of others no node is left
      sets.add_all(value->id, reach_of_calls_, call);
    else
      sets.add_all(value->id, reach_, needed.value->id);
  }
}

// Of a call's result that the program gets: does eager save it for that call? Not where the derivative reads it in place
// of the operands, or it is read on the way to another result (the mean that comes with a variance).
void SavedByEager::find_saved_results() {
  for (const auto& node : graph_.nodes) {
    for (const Value* result : node->results) saves_result_[result->id] = node->op->saves_result;
    if (is_view(*node)) continue;
    for_each_operand(*node, [&](Value*& operand) {
      const Value* base = base_of(operand);
      if (base->node && base->node->user_call == node->user_call) saves_result_[base->id] = false;
    });
  }
}

void SavedByEager::find_copied() {
  OutputSets direct(graph_, graph_.next_value_id());
  for (const Needed& each : needed_) add_histories(direct, base_of(graph_.value(each.value->id)), each);
  for (const auto& node : graph_.nodes)
    for (const Value* result : node->results)
      is_copied_[result->id] =
          is_given_back_[result->id] && !saved_for_.includes(result->id, direct, result->id);
}

// Which inputs and results eager saves, and for which outputs, is told by calls of the program: those
// that derivatives read, and operands of calls whose inside is read (where eager has one operator, it saves the
// operand). Small ones (a bias) that lead to something that is read are read again all the same: in place of them something large
// would be stored. Those without elements are not.
void SavedByEager::find_saved() {
  std::vector<bool> is_needed(graph_.next_value_id());
  std::vector<bool> visited(graph_.next_value_id());
  for (const Needed& each : needed_) {
    is_needed[each.value->id] = true;
    const Value* base = base_of(graph_.value(each.value->id));
    const bool saves_result = !is_given_back_[base->id] || saves_result_[base->id];
    const auto is_saved = [&](int call) { return saves_result || call != base->node->user_call; };
    add_histories(saved_for_, base, each, is_saved);
    if (!std::ranges::all_of(each.calls, is_saved)) note_operands(*base->node, visited);
  }
  static const OpDef* const softmax = &op("core.softmax");  // eager saves its result
  for (const auto& node : graph_.nodes)
    for_each_operand(*node, [&](Value*& operand) {
      const bool is_inside = operand->node && operand->node->user_call == node->user_call;
      const bool is_its_result = is_inside && operand->node->op == softmax && is_view(*node);
      if (is_inside && is_needed[operand->id] && !is_its_result) note_operands(*operand->node, visited);
      const double bytes = bytes_of(*graph_.sym, base_of(operand)->type);
      const bool is_small = bytes > 0 && 8 * bytes < bytes_of(*graph_.sym, node->results.at(0)->type);
      if (node->region || node->user_call < 0 || (is_small && !is_view(*node)))
        for (const Value* result : node->results)
          saved_for_.add_all(base_of(operand)->id, read_for_, result->id);
    });
}

// What comes into the call on the way to this node.
void SavedByEager::note_operands(Node& node, std::vector<bool>& visited) {
  std::vector<Node*> open = {&node};
  while (!open.empty()) {
    Node& at = *open.back();
    open.pop_back();
    if (visited[at.results.at(0)->id]) continue;
    visited[at.results.at(0)->id] = true;
    for_each_operand(at, [&](Value*& operand) {
      if (operand->node && operand->node->user_call == node.user_call)
        open.push_back(operand->node);
      else if (node.user_call >= 0)
        saved_for_.add_all(base_of(operand)->id, reach_of_calls_, node.user_call);
    });
  }
}

}  // namespace cdynamo::graph
