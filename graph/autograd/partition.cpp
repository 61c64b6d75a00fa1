#include "graph/autograd/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "graph/autograd/flow_network.h"
#include "graph/autograd/saved_by_eager.h"
#include "graph/op.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
namespace {

// A random op or a call of the framework would give something else when it runs again.
bool must_keep(const Node& node) {
  return node.op->family == Family::kRandom || node.op->family == Family::kLibrary;
}

bool is_dear(const Node& node) {
  switch (node.op->family) {
    case Family::kContraction:
    case Family::kReduction:
    case Family::kScan:
    case Family::kRandom:
    case Family::kLibrary: return true;
    default: return false;
  }
}

// Operands of these are read from memory, not computed where they are used.
bool reads_memory(const Node& node) {
  const Family family = node.op->family;
  return family == Family::kContraction || family == Family::kScan || family == Family::kLibrary;
}

class Partitioner {
 public:
  Partitioner(const Graph& forward, const std::vector<Needed>& needed, const PartitionOptions& options)
      : graph_(forward),
        needed_(needed),
        in_memory_(forward.next_value_id()),
        leaves_region_(forward.next_value_id()),
        written_(written_inputs(forward)),
        eager_(forward, needed),
        is_of_exposed_(forward.next_value_id()) {
    find_in_memory();
    find_region_results();
    find_exposed(options);
  }

  // Kept values where none of `recomputed` (by id) is spared for being dear.
  std::vector<Kept> cut(const std::vector<bool>& recomputed) const {
    const int count = graph_.next_value_id(), source = 2 * count, sink = 2 * count + 1;
    FlowNetwork network(2 * count + 2);
    const auto add = [&](const Value* value) {
      network.connect(2 * value->id, 2 * value->id + 1, cost(value));
      if (!may_recompute(value, recomputed)) network.connect(source, 2 * value->id, kInfinity);
    };
    for (const Value* input : graph_.inputs) add(input);
    for (const auto& node : graph_.nodes) {
      for (const Value* result : node->results) add(result);
      for_each_operand(*node, [&](Value*& operand) {
        const bool may_start = eager_.may_start_from(operand, *node);
        const int from = may_start ? 2 * operand->id + 1 : 2 * base_of(operand)->id;
        for (const Value* result : node->results) network.connect(from, 2 * result->id, kInfinity);
      });
    }
    for (const Needed& each : needed_) network.connect(2 * each.value->id + 1, sink, kInfinity);
    const std::vector<bool> side = network.cut(source, sink);
    if (side.empty()) throw InternalError("the backward reads what cannot be kept");
    std::vector<Kept> kept;
    for (int id = 0; id < count; ++id)
      if (side.at(2 * id) && !side[2 * id + 1])
        kept.push_back({graph_.value(id), eager_.is_copied(graph_.value(id))});
    return kept;
  }

  double bytes(const std::vector<Kept>& kept) const {
    double sum = 0;
    for (const Kept& each : kept)
      if (each.value->node) sum += bytes_of(*graph_.sym, each.value->type);
    return sum;
  }

 private:
  bool may_recompute(const Value* value, const std::vector<bool>& recomputed) const {
    if (!value->node) return false;
    if (must_keep(*value->node) || is_of_exposed_[value->id]) return false;
    if (recomputed[value->id]) return true;
    if (value->node->region) return leaves_region_[value->id] != kForOthers;
    return !is_dear(*value->node) && !in_memory_[value->id];
  }

  // Inputs are there anyway; what the forward does not store has to be written too; of a view its base is
  // kept, which needs no copy.
  double cost(const Value* value) const {
    const double bytes = bytes_of(*graph_.sym, value->type) + 1;
    if (!value->node) return written_[value->index] ? 2 * bytes : 1e-3 * bytes;
    if (is_inside_region(value)) return kInfinity;
    if (viewed(value)) return 2.5 * bytes;
    const bool is_there = !eager_.is_copied(value) && (in_memory_[value->id] || is_dear(*value->node));
    return is_there ? bytes : 2 * bytes;
  }

  bool is_inside_region(const Value* value) const {
    return value->node->region && leaves_region_[value->id] == kNot && !must_keep(*value->node);
  }

  // Statistics of half types are of their float32 values, which are no memory of their own.
  static const Value* before_cast(const Value* value) {
    const bool is_cast = value->node && value->node->op->core.kind == CoreKind::kCast;
    return is_cast ? std::get<Value*>(value->node->args[0]) : value;
  }

  void mark(const Value* value) { in_memory_[base_of(value)->id] = true; }

  void find_region_results() {
    // Of a view its base is kept.
    const auto leave = [&](const Value* value, Leaves how) {
      const Value* base = base_of(value);
      leaves_region_[value->id] = std::max(leaves_region_[value->id], kAsResult);
      if (base->node && base->node->region == value->node->region)
        leaves_region_[base->id] = std::max(leaves_region_[base->id], how);
    };
    for (const Value* output : graph_.outputs)
      if (output->node && output->node->region) leave(output, kAsResult);
    for (const auto& node : graph_.nodes)
      for_each_operand(*node, [&](Value*& operand) {
        if (operand->node && operand->node->region && operand->node->region != node->region)
          leave(operand, kForOthers);
      });
  }

  void find_exposed(const PartitionOptions& options) {
    std::vector<bool> derived(graph_.next_value_id());
    for (const int input : options.exposed_inputs) derived[graph_.inputs.at(input)->id] = true;
    for (const int output : options.exposed_outputs) derived[base_of(graph_.outputs.at(output))->id] = true;
    for (const auto& node : graph_.nodes) {
      bool any = false;
      for_each_operand(*node, [&](const Value* operand) { any |= derived[operand->id]; });
      for (const Value* result : node->results) {
        derived[result->id] = derived[result->id] || any;
        is_of_exposed_[result->id] = any && node->op->family != Family::kView && !node->region;
      }
    }
  }

  void find_in_memory() {
    std::vector<int> users(graph_.next_value_id());
    for (const auto& node : graph_.nodes)
      for_each_operand(*node, [&](Value*& operand) { ++users[operand->id]; });
    for (const Value* output : graph_.outputs) mark(output);
    for (const auto& node : graph_.nodes)
      for_each_operand(*node, [&](Value*& operand) {
        if (reads_memory(*node)) mark(operand);
        if (node->op->family == Family::kReduction && users[operand->id] > 1) mark(before_cast(operand));
      });
  }

  const Graph& graph_;
  const std::vector<Needed>& needed_;
  std::vector<bool> in_memory_;  // by value id: stored by the forward whether it is kept or not
  // By value id: does what a checkpoint computes leave it, as a result of the graph or to be read outside?
  enum Leaves : uint8_t { kNot, kAsResult, kForOthers };
  std::vector<Leaves> leaves_region_;
  std::vector<bool> written_;  // by input: its content is another after the graph
  SavedByEager eager_;
  std::vector<bool> is_of_exposed_;  // by value id: is computed from what is exposed (PartitionOptions)
};

// What the values of equal layers have in common.
using Kind = std::pair<std::string_view, std::pair<runtime::DType, std::vector<int64_t>>>;

Kind kind_of(const SymContext& context, const Value& value) {
  std::vector<int64_t> sizes;
  for (const Sym& size : value.type.sizes) sizes.push_back(context.hint(size));
  return {value.node->op->name, {value.type.dtype, std::move(sizes)}};
}

}  // namespace

double bytes_of(const SymContext& context, const TensorType& type) {
  double bytes = runtime::info(type.dtype).bytes;
  for (const Sym& size : type.sizes) bytes *= static_cast<double>(context.hint(size));
  return bytes;
}

std::vector<Kept> partition(const Graph& forward, const std::vector<Needed>& needed,
                            const PartitionOptions& options) {
  const Partitioner partitioner(forward, needed, options);
  std::vector<bool> recomputed(forward.next_value_id());
  std::vector<Kept> kept = partitioner.cut(recomputed);
  if (options.memory_budget >= 1) return kept;
  const double allowed = options.memory_budget * partitioner.bytes(kept);
  double peak = options.peak ? options.peak(kept) : 0;
  std::set<Kind> refused;
  while (partitioner.bytes(kept) > allowed) {
    // The values of one kind that take the most: those of equal layers are computed again, or not, together.
    std::map<Kind, std::vector<Kept>> kinds;
    for (const auto& [value, is_copied] : kept)
      if (value->node && !must_keep(*value->node) && !recomputed[value->id] &&
          !refused.count(kind_of(*forward.sym, *value)))
        kinds[kind_of(*forward.sym, *value)].push_back({value});
    const auto largest =
        std::ranges::max_element(kinds, {}, [&](const auto& kind) { return partitioner.bytes(kind.second); });
    if (largest == kinds.end()) break;
    std::vector<bool> more = recomputed;
    std::vector<Kept> fewer;
    for (const auto& [value, is_copied] : largest->second) {  // the first ones are needed last
      more[value->id] = true;
      fewer = partitioner.cut(more);
      if (partitioner.bytes(fewer) <= allowed) break;
    }
    const double next_peak = options.peak ? options.peak(fewer) : 0;
    if (next_peak > peak || partitioner.bytes(fewer) >= partitioner.bytes(kept)) {
      refused.insert(largest->first);
      continue;
    }
    peak = next_peak;
    recomputed = std::move(more);
    kept = std::move(fewer);
  }
  return kept;
}

}  // namespace cdynamo::graph
