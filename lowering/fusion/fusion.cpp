#include "lowering/fusion/fusion.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "graph/passes/view_step.h"
#include "graph/time_budget.h"
#include "lowering/fusion/repeated_nodes.h"
#include "lowering/fusion/sequential_kernels.h"

namespace cdynamo::lowering {
namespace {

constexpr size_t kMostMembers = 96;
constexpr size_t kMostSiblings = 64;  // readers of one value that are tried with each other
constexpr size_t kRun = 32;           // elementwise nodes that are tried at once

// A group of nodes on its way to one kernel. Empty after it joined another.
struct Group {
  std::vector<const Node*> members;  // in the graph's order
  bool alone = false;                // library call, scan, scatter: joins nothing
};

class Fusion {
 public:
  Fusion(LoweringContext& context, std::string* report) : context_(context), report_(report) {}

  Steps run() {
    make_groups();
    fuse_runs();
    fuse_with_producers();
    fuse_siblings();
    return build_steps();
  }

 private:
  // --- the groups to begin with ---

  void make_groups() {
    group_of_.assign(context_.kinds.size(), -1);
    ends_.assign(context_.order.size() + 1, 0);
    for (const Node* node : context_.order) {
      const CoreKind kind = context_.kind(*node);
      const bool copied = node->results.size() == 1 && context_.is_inline(*node) &&
                          context_.layouts[node->results[0]->id].buffer >= 0;
      if (context_.is_inline(*node) && !copied) continue;
      if (!is_library_call(kind) && context_.is_empty(*node->results[0])) continue;
      if (!is_library_call(kind) && !is_needed(*node)) continue;
      group_of_[node->id] = static_cast<int>(groups_.size());
      groups_.push_back({{node}, !(is_elementwise(kind) || kind == CoreKind::kReduction)});
    }
  }

  bool is_needed(const Node& node) const {
    return std::any_of(node.results.begin(), node.results.end(), [&](const Value* value) {
      return context_.is_output[value->id] || !context_.users[value->id].empty() ||
             context_.layouts[value->id].buffer != value->id;
    });
  }

  int group_of(const Node& node) const { return group_of_[node.id]; }

  // Calls fn(value) for each value in memory, or of another group, that the node reads through views and
  // repeated nodes.
  template <typename F>
  void for_each_read(const Node& node, F&& fn) const {
    graph::for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
      if (operand->node && context_.is_inline(*operand->node))
        for_each_read(*operand->node, fn);
      else
        fn(*operand);
    });
  }

  // --- one group of two ---

  std::vector<const Value*> stores_of(const std::vector<const Node*>& members) const {
    const std::unordered_set<const Node*> inside(members.begin(), members.end());
    std::vector<const Value*> stores;
    for (const Node* node : members)
      for (const Value* value : node->results)
        if (needed_outside(*value, inside)) stores.push_back(value);
    return stores;
  }

  bool needed_outside(const Value& value, const std::unordered_set<const Node*>& inside) const {
    if (context_.is_output[value.id]) return true;
    // The memory of an output that is a view of this.
    if (output_owners_.count(value.id)) return true;
    for (const Node* user : context_.users[value.id]) {
      if (inside.count(user)) continue;
      if (!context_.is_inline(*user)) return true;
      for (const Value* result : user->results)
        if (group_of(*user) >= 0 || needed_outside(*result, inside)) return true;
    }
    return context_.users[value.id].empty();
  }

  KernelSpec spec_of(std::vector<const Node*> members) const {
    std::vector<const Value*> stores = stores_of(members);
    return {std::move(members), std::move(stores)};
  }

  std::vector<const Node*> merged(int a, int b) const {
    std::vector<const Node*> members = groups_[a].members;
    members.insert(members.end(), groups_[b].members.begin(), groups_[b].members.end());
    std::sort(members.begin(), members.end(), [&](const Node* x, const Node* y) {
      return context_.position[x->id] < context_.position[y->id];
    });
    return members;
  }

  // True where something outside the members lies on a path between two of them: it would have to run in the
  // middle of the kernel. What is grouped with it counts as one with it; views that stay inline are part of
  // their readers.
  bool step_between(const std::vector<const Node*>& members) {
    const int inside = ++stamp_, furthest = furthest_end(context_.position[members.back()->id]);
    marks_.resize(context_.kinds.size(), 0);
    for (const Node* member : members) marks_[member->id] = inside;
    const int seen = ++stamp_, seen_near = ++stamp_;
    std::vector<const Node*> work;  // steps outside, and inline nodes that read the members or such steps
    std::vector<char> after_step;   // by entry: a step lies between the members and it
    bool found = false;
    auto push = [&](const Node& node, bool after) {
      if (marks_[node.id] == inside) {
        found |= after;
        return;
      }
      const int group = group_of(node);
      if (group < 0) {
        if (marks_[node.id] == seen) return;
        // Reached again behind a step, an inline node must be looked at again.
        if (!after && marks_[node.id] == seen_near) return;
        marks_[node.id] = after ? seen : seen_near;
        work.push_back(&node);
        after_step.push_back(after);
        return;
      }
      if (context_.position[groups_[group].members[0]->id] > furthest) return;
      for (const Node* mate : groups_[group].members) {
        if (marks_[mate->id] == seen) continue;
        marks_[mate->id] = seen;
        work.push_back(mate);
        after_step.push_back(1);
      }
    };
    auto push_users = [&](const Node& node, bool after) {
      for (const Value* value : node.results)
        for (const Node* user : context_.users[value->id]) push(*user, after);
    };
    for (const Node* member : members) push_users(*member, false);
    while (!work.empty() && !found) {
      const Node* node = work.back();
      const bool after = after_step.back();
      work.pop_back();
      after_step.pop_back();
      push_users(*node, after);
    }
    return found;
  }

  // The last position that a group reaches which begins at `position` or before it: from behind it no path leads back.
  int furthest_end(int position) const {
    int furthest = position;
    for (int i = position + 1; i > 0; i -= i & -i) furthest = std::max(furthest, ends_[i]);
    return furthest;
  }

  void note_end(const std::vector<const Node*>& members) {
    const int end = context_.position[members.back()->id];
    for (size_t i = context_.position[members[0]->id] + 1; i < ends_.size(); i += i & -i)
      ends_[i] = std::max(ends_[i], end);
  }

  // Joins b into a where the two make one kernel.
  bool try_merge(int a, int b) {
    if (a == b || groups_[a].alone || groups_[b].alone) return false;
    if (groups_[a].members.size() + groups_[b].members.size() > kMostMembers)
      return refuse(a, b, "the kernel would be too large");
    std::vector<const Node*> members = merged(a, b);
    if (const char* reason = why_not_one_kernel(members)) return refuse(a, b, reason);
    join(std::move(members), a);
    return true;
  }

  const char* why_not_one_kernel(const std::vector<const Node*>& members) {
    if (step_between(members)) return "another step runs in between";
    try {
      build_kernels(context_, spec_of(members));
    } catch (const CannotFuse& reason) {
      return reason.reason;
    }
    return nullptr;
  }

  // Makes `members`, which are all of the groups that they are in, group a.
  void join(std::vector<const Node*> members, int a) {
    for (const Node* node : members)
      if (int& group = group_of_[node->id]; group != a) groups_[std::exchange(group, a)].members.clear();
    groups_[a].members = std::move(members);
    note_end(groups_[a].members);
  }

  bool refuse(int a, int b, const char* reason) {
    if (report_) refusals_[{groups_[a].members.back(), groups_[b].members.back()}] = reason;
    return false;
  }

  // --- runs ---

  // A kernel is built anew with each node that joins it, which is quadratic in a long chain. Elementwise nodes in a row that read each
  // other, and of what is computed nothing else, are tried together first; what else the first of them reads joins them later.
  void fuse_runs() {
    std::vector<const Node*> run;
    for (const Node* node : context_.order) {
      if (group_of(*node) < 0) continue;
      if (run.size() == kRun || !continues(run, *node)) fuse_run(std::exchange(run, {}));
      if (is_elementwise(context_.kind(*node))) run.push_back(node);
    }
    fuse_run(std::move(run));
  }

  bool continues(const std::vector<const Node*>& run, const Node& node) const {
    if (run.empty()) return true;
    if (!is_elementwise(context_.kind(node))) return false;
    if (node.results[0]->type.sizes != run[0]->results[0]->type.sizes) return false;
    bool reads_run = false, reads_others = false;
    for_each_read(node, [&](const Value& value) {
      if (!value.node || group_of(*value.node) < 0) return;
      const bool inside = std::ranges::find(run, value.node) != run.end();
      (inside && !is_turned_for_several(value, node) ? reads_run : reads_others) = true;
    });
    return reads_run && !reads_others;
  }

  void fuse_run(std::vector<const Node*> run) {
    if (run.size() < 3 || why_not_one_kernel(run)) return;
    const int group = group_of(*run[0]);
    join(std::move(run), group);
    graph::TimeBudget::check();
  }

  // --- vertical ---

  void fuse_with_producers() {
    for (const Node* node : context_.order) {
      if (group_of(*node) < 0 || groups_[group_of(*node)].alone) continue;
      std::vector<std::pair<int64_t, const Node*>> producers;
      for_each_read(*node, [&](const Value& value) {
        if (value.node && group_of(*value.node) >= 0 && !is_turned_for_several(value, *node))
          producers.push_back({context_.bytes_hint(value), value.node});
      });
      std::stable_sort(producers.begin(), producers.end(),
                       [](const auto& x, const auto& y) { return x.first > y.first; });
      for (auto [bytes, producer] : producers) try_merge(group_of(*producer), group_of(*node));
      graph::TimeBudget::check();
    }
  }

  // What is turned around once for several readers has a kernel of its own: the readers are one in another, in the new order.
  bool is_turned_for_several(const Value& value, const Node& reader) const {
    return context_.is_turned(value) && has_several_readers(value) && !context_.is_turned(*reader.results[0]);
  }

  // Through what is computed again wherever it is read: a cast of half values.
  bool has_several_readers(const Value& value) const {
    const Value* at = &value;
    while (context_.users[at->id].size() == 1 && context_.is_inline(*context_.users[at->id][0]))
      at = context_.users[at->id][0]->results[0];
    return context_.users[at->id].size() > 1;
  }

  // --- side by side ---

  void fuse_siblings() {
    std::map<int, std::set<int>> readers;  // by id of the value read
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].alone)
        for (const Node* node : groups_[g].members)
          for_each_read(*node, [&](const Value& value) {
            if (context_.numel_hint(value) > 1) readers[value.id].insert(static_cast<int>(g));
          });
    for (auto& [value, group_ids] : readers) {
      // Of very many, neighbours are tried: each with each would be quadratic.
      const std::vector<int> ids(group_ids.begin(), group_ids.end());
      for (size_t first = 0; first < ids.size(); first += kMostSiblings)
        fuse_siblings(std::span(ids).subspan(first, std::min(kMostSiblings, ids.size() - first)));
      graph::TimeBudget::check();
    }
  }

  void fuse_siblings(std::span<const int> ids) {
    for (size_t i = 0; i < ids.size(); ++i)
      for (size_t j = i + 1; j < ids.size(); ++j) {
        if (groups_[ids[i]].members.empty()) break;
        if (groups_[ids[j]].members.empty() || depends(ids[i], ids[j]) || depends(ids[j], ids[i])) continue;
        if (other_region(ids[i], ids[j])) continue;
        try_merge(ids[i], ids[j]);
      }
  }

  // b reads something of a directly: vertical fusion has tried that.
  bool depends(int a, int b) const {
    bool found = false;
    for (const Node* node : groups_[b].members)
      for_each_read(*node, [&](const Value& value) { found |= value.node && group_of(*value.node) == a; });
    return found;
  }

  // What several checkpoints compute again is computed when its turn comes, not side by side.
  bool other_region(int a, int b) const {
    const auto region_of = [&](int group) {
      for (const Node* node : groups_[group].members)
        if (node->region) return node->region;
      return 0;
    };
    const int first = region_of(a), second = region_of(b);
    return first != second && first != 0 && second != 0;
  }

  // --- the steps ---

  Steps build_steps() {
    Steps result;
    std::vector<Step> steps;
    for (const Group& group : groups_) {
      if (group.members.empty()) continue;
      Step step{.nodes = group.members};
      const Node& first = *group.members[0];
      const CoreKind kind = context_.kind(first);
      if (is_library_call(kind)) {
        step.kind = Step::kLibrary;
      } else {
        BuiltKernels built = graph::is_sequential(kind) ? build_sequential(context_, first)
                                                        : build_kernels(context_, spec_of(group.members));
        adopt(built, result.temporaries);
        step.kernels = std::move(built.kernels);
      }
      steps.push_back(std::move(step));
    }
    sort_steps(steps);
    result.steps = std::move(steps);
    if (report_) write_report(result.steps);
    return result;
  }

  // Numbers the temporaries of one build after those there are.
  static void adopt(BuiltKernels& built, std::vector<Temporary>& temporaries) {
    const int first = static_cast<int>(temporaries.size());
    for (Kernel& kernel : built.kernels)
      for (KernelBuffer& buffer : kernel.buffers)
        if (buffer.kind == BufferKind::kGlobal && buffer.plan_buffer <= kTemporary)
          buffer.plan_buffer -= first;
    temporaries.insert(temporaries.end(), built.temporaries.begin(), built.temporaries.end());
  }

  // A step follows those whose results it reads; otherwise the graph's order is kept, but among the last kernels, which
  // nothing waits for: there those go first whose operands take the most memory. Calls may draw random numbers.
  void sort_steps(std::vector<Step>& steps) const {
    std::map<const Node*, size_t> step_of;
    for (size_t i = 0; i < steps.size(); ++i)
      for (const Node* node : steps[i].nodes) step_of[node] = i;
    std::vector<std::set<size_t>> successors(steps.size());
    std::vector<int> waits(steps.size(), 0);
    for (size_t i = 0; i < steps.size(); ++i)
      for (const Node* node : steps[i].nodes) add_dependencies(*node, i, step_of, successors, waits);
    std::set<std::pair<int, size_t>> ready;  // by the position of the first node
    auto key = [&](size_t i) { return std::pair(context_.position[steps[i].nodes[0]->id], i); };
    for (size_t i = 0; i < steps.size(); ++i)
      if (waits[i] == 0) ready.insert(key(i));
    std::vector<Step> sorted;
    size_t inner_left = static_cast<size_t>(
        std::ranges::count_if(successors, [](const std::set<size_t>& after) { return !after.empty(); }));
    while (!ready.empty() && inner_left > 0) {
      const size_t i = ready.begin()->second;
      ready.erase(ready.begin());
      for (size_t next : successors[i])
        if (--waits[next] == 0) ready.insert(key(next));
      inner_left -= !successors[i].empty();
      sorted.push_back(std::move(steps[i]));
    }
    std::vector<std::pair<int64_t, size_t>> last;
    for (auto [position, i] : ready) last.push_back({bytes_read(steps[i]), i});
    std::ranges::stable_sort(last, std::greater(), [](const auto& step) { return step.first; });
    for (auto [bytes, i] : last) sorted.push_back(std::move(steps[i]));
    if (sorted.size() != steps.size()) throw graph::InternalError("fusion made a cycle of kernels");
    steps = std::move(sorted);
  }

  // Of what other steps computed; outputs stay anyway.
  int64_t bytes_read(const Step& step) const {
    if (step.kind == Step::kLibrary) return std::numeric_limits<int64_t>::max();
    std::set<const Value*> read;
    for (const Node* node : step.nodes)
      for_each_read(*node, [&](const Value& value) {
        if (value.node && !context_.is_output[value.id]) read.insert(&value);
      });
    int64_t bytes = 0;
    for (const Value* value : read) bytes += context_.bytes_hint(*value);
    return bytes;
  }

  void add_dependencies(const Node& node, size_t step, const std::map<const Node*, size_t>& step_of,
                        std::vector<std::set<size_t>>& successors, std::vector<int>& waits) const {
    graph::for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
      if (!operand->node) return;
      auto found = step_of.find(operand->node);
      if (found != step_of.end() && found->second != step) {
        if (successors[found->second].insert(step).second) ++waits[step];
      }
      // Through views: also what they look at.
      if (context_.is_inline(*operand->node))
        add_dependencies(*operand->node, step, step_of, successors, waits);
    });
  }

  void write_report(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.kind == Step::kLibrary) {
        *report_ += "library call " + std::string(step.nodes[0]->op->name) + " -> %" +
                    step.nodes[0]->results.at(0)->name + "\n";
        continue;
      }
      for (const Kernel& kernel : step.kernels) *report_ += "kernel " + kernel.name + "\n";
      *report_ += "  computes";
      for (const Node* node : step.nodes) *report_ += " %" + node->results[0]->name;
      *report_ += "\n";
      for (auto& [pair, reason] : refusals_) {
        if (group_of(*pair.second) != group_of(*step.nodes[0]) ||
            group_of(*pair.first) == group_of(*pair.second))
          continue;
        *report_ += "  not with %" + pair.first->results[0]->name + ": " + reason + "\n";
      }
    }
  }

  LoweringContext& context_;
  std::string* report_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;  // by node id; -1: no step of its own
  std::set<int> output_owners_;
  // Where groups end, by where they begin: a Fenwick tree of maxima. A group of one needs no entry.
  std::vector<int> ends_;
  std::vector<int> marks_;  // by node id: the last stamp of step_between
  int stamp_ = 0;
  std::map<std::pair<const Node*, const Node*>, const char*> refusals_;

 public:
  void set_output_owners(const std::vector<const Value*>& owners) {
    for (const Value* owner : owners)
      if (owner) output_owners_.insert(owner->id);
  }
};

// A view that runs backwards, as the framework's tensors cannot.
bool is_reversed(const LoweringContext& context, const Value& value) {
  const Node* node = value.node;
  while (node && graph::is_aliasing_view(*node->op)) {
    if (context.kind(*node) == CoreKind::kSlice)
      for (const Sym& step : args_of(*node).sizes("step"))
        if (step.is_constant() && step.constant() < 0) return true;
    node = std::get<Value*>(node->args[0])->node;
  }
  return false;
}

// Operands of library calls that are no strided view of something in memory are copied: they get memory of
// their own.
void store_library_operands(LoweringContext& context) {
  for (const Node* node : context.order) {
    if (!is_library_call(context.kind(*node))) continue;
    graph::for_each_operand(const_cast<Node&>(*node), [&](Value*& operand) {
      BufferLayout layout;
      if (context.layouts[operand->id].buffer < 0 &&
          (is_reversed(context, *operand) || !resolve_view(context, *operand, &layout)))
        context.layouts[operand->id] = {operand->id, graph::contiguous_strides(operand->type.sizes), Sym()};
    });
  }
}

}  // namespace

Steps fuse(LoweringContext& context, std::string* report) {
  mark_repeated_nodes(context);
  const std::vector<const Value*> owners = assign_layouts(context);
  store_library_operands(context);
  Fusion fusion(context, report);
  fusion.set_output_owners(owners);
  Steps steps = fusion.run();
  steps.output_owners = owners;
  return steps;
}

}  // namespace cdynamo::lowering
