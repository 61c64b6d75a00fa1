#include "graph/autograd/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <ranges>
#include <set>

#include "graph/op.h"

namespace cdynamo::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Maximum flow by Dinic's method.
class FlowNetwork {
 public:
  explicit FlowNetwork(int nodes) : edges_of_(nodes) {}

  void connect(int from, int to, double capacity) {
    edges_of_[from].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({from, 0});
  }

  // The nodes on the source's side of a minimum cut; empty where no cut is finite.
  std::vector<bool> cut(int source, int sink) {
    while (find_levels(source, sink)) {
      next_.assign(edges_of_.size(), 0);
      while (const double flow = push(source, sink, kInfinity))
        if (flow == kInfinity) return {};
    }
    std::vector<bool> side(edges_of_.size());
    for (size_t i = 0; i < side.size(); ++i) side[i] = level_[i] >= 0;
    return side;
  }

 private:
  struct Edge {
    int to;
    double room;
  };
  // Sums of doubles leave crumbs behind.
  static bool has_room(const Edge& edge) { return edge.room > 1e-6; }

  bool find_levels(int source, int sink) {
    level_.assign(edges_of_.size(), -1);
    level_[source] = 0;
    std::queue<int> queue({source});
    while (!queue.empty()) {
      const int at = queue.front();
      queue.pop();
      for (int e : edges_of_[at]) {
        if (!has_room(edges_[e]) || level_[edges_[e].to] >= 0) continue;
        level_[edges_[e].to] = level_[at] + 1;
        queue.push(edges_[e].to);
      }
    }
    return level_[sink] >= 0;
  }

  // One augmenting path, walked with a stack of its own: graphs are deeper than call stacks.
  double push(int source, int sink, double limit) {
    std::vector<int> path;  // edges
    int at = source;
    while (at != sink) {
      size_t& next = next_[at];
      while (next < edges_of_[at].size()) {
        const Edge& edge = edges_[edges_of_[at][next]];
        if (has_room(edge) && level_[edge.to] == level_[at] + 1) break;
        ++next;
      }
      if (next < edges_of_[at].size()) {
        path.push_back(edges_of_[at][next]);
        at = edges_[path.back()].to;
      } else if (path.empty()) {
        return 0;
      } else {
        at = edges_[path.back() ^ 1].to;
        path.pop_back();
        ++next_[at];
      }
    }
    for (int e : path) limit = std::min(limit, edges_[e].room);
    if (limit == kInfinity) return limit;
    for (int e : path) {
      edges_[e].room -= limit;
      edges_[e ^ 1].room += limit;
    }
    return limit;
  }

  std::vector<Edge> edges_;  // e ^ 1 is the reverse of e
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

bool is_view(const Node& node) { return node.op->family == Family::kView; }

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

// Sets of the graph's outputs, one for each of so many things.
class OutputSets {
 public:
  OutputSets(const Graph& graph, size_t sets)
      : words_((graph.outputs.size() + 63) / 64), bits_(sets * words_) {}

  void add(size_t set, size_t output) { bits_.at(set * words_ + output / 64) |= uint64_t{1} << output % 64; }
  void add_all(size_t set, const OutputSets& from, size_t other) {
    for (size_t i = 0; i < words_; ++i) bits_.at(set * words_ + i) |= from.bits_.at(other * words_ + i);
  }
  bool includes(size_t set, const OutputSets& of, size_t other) const {
    for (size_t i = 0; i < words_; ++i)
      if (of.bits_.at(other * words_ + i) & ~bits_.at(set * words_ + i)) return false;
    return true;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

class Partitioner {
 public:
  Partitioner(const Graph& forward, const std::vector<Needed>& needed, const PartitionOptions& options)
      : graph_(forward),
        needed_(needed),
        in_memory_(forward.next_value_id()),
        leaves_region_(forward.next_value_id()),
        written_(forward.inputs.size()),
        is_given_back_(forward.next_value_id()),
        reach_(forward, forward.next_value_id()),
        reach_of_calls_(forward, count_calls(forward)),
        read_for_(forward, forward.next_value_id()),
        saved_for_(forward, forward.next_value_id()),
        is_copied_(forward.next_value_id()),
        is_of_exposed_(forward.next_value_id()) {
    for (const Graph::Mutation& mutation : forward.mutations) written_[mutation.input] = true;
    for (const Value* output : graph_.outputs) is_given_back_[base_of(output)->id] = true;
    find_reach();
    find_readers();
    find_saved();
    find_copied();
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
        const bool may_start = may_start_from(operand, *node);
        const int from = may_start ? 2 * operand->id + 1 : 2 * base_of(operand)->id;
        for (const Value* result : node->results) network.connect(from, 2 * result->id, kInfinity);
      });
    }
    for (const Needed& each : needed_) network.connect(2 * each.value->id + 1, sink, kInfinity);
    const std::vector<bool> side = network.cut(source, sink);
    if (side.empty()) throw InternalError("the backward reads what cannot be kept");
    std::vector<Kept> kept;
    for (int id = 0; id < count; ++id)
      if (side.at(2 * id) && !side[2 * id + 1]) kept.push_back({graph_.value(id), is_copied_[id]});
    return kept;
  }

  double bytes(const std::vector<Kept>& kept) const {
    double sum = 0;
    for (const Kept& each : kept)
      if (each.value->node) sum += bytes_of(*graph_.sym, each.value->type);
    return sum;
  }

 private:
  bool is_input(const Value* value) const {
    return !value->node && value->index < static_cast<int>(graph_.inputs.size()) &&
           graph_.inputs[value->index] == value;
  }

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
    if (is_input(value)) return written_[value->index] ? 2 * bytes : 1e-3 * bytes;
    if (is_inside_region(value)) return kInfinity;
    if (is_view(*value->node)) return 2.5 * bytes;
    const bool is_there = !is_copied_[value->id] && (in_memory_[value->id] || is_dear(*value->node));
    return is_there ? bytes : 2 * bytes;
  }

  // May the backward compute this node again from what is kept of the operand? What the program can write to after the forward is
  // read only for histories in which eager has saved it too, and would raise.
  bool may_start_from(const Value* operand, const Node& node) const {
    const Value* base = base_of(operand);
    const bool is_writable = is_input(base) ? !written_[base->index] : is_given_back_[base->id];
    if (!is_writable || is_view(node) || node.region) return true;
    return std::ranges::all_of(node.results, [&](const Value* result) {
      return saved_for_.includes(base->id, read_for_, result->id);
    });
  }

  bool is_inside_region(const Value* value) const {
    return value->node->region && leaves_region_[value->id] == kNot && !must_keep(*value->node);
  }

  static const Value* base_of(const Value* value) {
    while (value->node && is_view(*value->node)) value = std::get<Value*>(value->node->args[0]);
    return value;
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

  static size_t count_calls(const Graph& graph) {
    int count = 0;
    for (const auto& node : graph.nodes) count = std::max(count, node->user_call + 1);
    return count;
  }

  void find_reach() {
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
  void find_readers() {
    for (const Needed& each : needed_) add_histories(read_for_, each.value, each);
    for (const auto& node : std::views::reverse(graph_.nodes))
      for (const Value* result : node->results)
        for_each_operand(*node,
                         [&](Value*& operand) { read_for_.add_all(operand->id, read_for_, result->id); });
  }

  // Those of the calls whose derivatives read it; `which`: only of some of them.
  void add_histories(OutputSets& sets, const Value* value, const Needed& needed,
                     const std::function<bool(int)>& which = {}) const {
    for (const int call : needed.calls) {
      if (which && !which(call)) continue;
      if (call >= 0)
        sets.add_all(value->id, reach_of_calls_, call);
      else
        sets.add_all(value->id, reach_, needed.value->id);
    }
  }

  // Of a call's result that the program gets: does eager save it for that call? Not where the derivative reads it in place
  // of the operands, or it is read on the way to another result (the mean that comes with a variance).
  void find_saved_results() {
    saves_result_.assign(graph_.next_value_id(), true);
    for (const auto& node : graph_.nodes) {
      for (const Value* result : node->results) saves_result_[result->id] = node->op->saves_result;
      if (is_view(*node)) continue;
      for_each_operand(*node, [&](Value*& operand) {
        const Value* base = base_of(operand);
        if (base->node && base->node->user_call == node->user_call) saves_result_[base->id] = false;
      });
    }
  }

  void find_copied() {
    OutputSets direct(graph_, graph_.next_value_id());
    for (const Needed& each : needed_) add_histories(direct, base_of(graph_.value(each.value->id)), each);
    for (const auto& node : graph_.nodes)
      for (const Value* result : node->results)
        is_copied_[result->id] =
            is_given_back_[result->id] && !saved_for_.includes(result->id, direct, result->id);
  }

  // What the program may write to after the forward, since eager has saved something else, is not read again: of
  // `(x > 0) * y` eager keeps the mask, and so do we. Which inputs and results eager saves, and for which outputs, is told by calls of the program: those
  // that derivatives read, and operands of calls whose inside is read (where eager has one operator, it saves the
  // operand). Small ones (a bias) that lead to something that is read are read again all the same: in place of them something large
  // would be stored.
  void find_saved() {
    std::vector<bool> is_needed(graph_.next_value_id());
    std::vector<bool> visited(graph_.next_value_id());
    find_saved_results();
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
        const bool is_small = 8 * bytes < bytes_of(*graph_.sym, node->results.at(0)->type);
        if (node->region || node->user_call < 0 || (is_small && !is_view(*node)))
          for (const Value* result : node->results)
            saved_for_.add_all(base_of(operand)->id, read_for_, result->id);
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
        is_of_exposed_[result->id] = any && !is_view(*node) && !node->region;
      }
    }
  }

  // What comes into the call on the way to this node.
  void note_operands(Node& node, std::vector<bool>& visited) {
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
  std::vector<bool> saves_result_;   // by value id
  std::vector<bool> written_;        // by input: its content is another after the graph
  std::vector<bool> is_given_back_;  // by value id: the program gets it, or a view of it
  // By value id, and by call: outputs in whose histories it is.
  OutputSets reach_, reach_of_calls_;
  // By value id: outputs in whose histories derivatives read what is computed from it, and those in which eager has saved it.
  OutputSets read_for_, saved_for_;
  std::vector<bool> is_copied_;      // by value id (Kept)
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
