#include "graph/autograd/recompute.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/op.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
namespace {

class Recomputation {
 public:
  Recomputation(Graph& graph, size_t forward) : graph_(graph) {
    auto node = graph.nodes.begin();
    for (size_t i = 0; i < forward; ++i, ++node) note(**node);
    reverse_ = node;
  }

  void run() {
    if (inside_.empty()) return;
    for (auto node = reverse_; node != graph_.nodes.end(); ++node) {
      at_ = node;
      for_each_operand(**node, [&](Value*& operand) { operand = again(operand); });
    }
  }

 private:
  // A node of a region; what it reads of other regions leaves those.
  void note(Node& node) {
    next_region_ = std::max(next_region_, std::abs(node.region) + 1);
    for_each_operand(node, [&](Value*& operand) {
      if (!operand->node || operand->node->region == node.region) return;
      for (const Value* at = operand; at; at = viewed(at)) inside_.erase(at);
    });
    const Family family = node.op->family;
    if (node.region == 0 || family == Family::kRandom || family == Family::kLibrary) return;
    inside_.insert(node.results.begin(), node.results.end());
  }

  Value* again(Value* value) {
    std::vector<Value*> open = {value};  // graphs are deeper than call stacks
    while (!open.empty()) {
      Value* top = open.back();
      const size_t depth = open.size();
      if (inside_.count(top) && !again_.count(top))
        for_each_operand(*top->node, [&](Value*& operand) {
          if (inside_.count(operand) && !again_.count(operand)) open.push_back(operand);
        });
      if (open.size() > depth) continue;
      open.pop_back();
      if (inside_.count(top) && !again_.count(top)) copy(*top->node);
    }
    const auto found = again_.find(value);
    return found == again_.end() ? value : found->second;
  }

  // The copy is of a region of its own: nothing merges it with the original.
  void copy(const Node& node) {
    Node image = node;
    for_each_operand(image, [&](Value*& operand) {
      if (const auto found = again_.find(operand); found != again_.end()) operand = found->second;
    });
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = graph_.add_node(node.op, node.overload, std::move(image.args), std::move(types));
    made->location = node.location;
    made->user_call = node.user_call;
    const auto [region, is_new] = regions_.emplace(node.region, next_region_);
    if (is_new) ++next_region_;
    made->region = region->second;
    for (size_t i = 0; i < node.results.size(); ++i) again_[node.results[i]] = made->results[i];
    graph_.nodes.splice(at_, graph_.nodes, std::prev(graph_.nodes.end()));
  }

  Graph& graph_;
  std::list<std::unique_ptr<Node>>::iterator reverse_, at_;
  absl::flat_hash_set<const Value*> inside_;         // read by nodes of their own region only
  absl::flat_hash_map<const Value*, Value*> again_;  // the copy of what is computed again
  absl::flat_hash_map<int, int> regions_;            // of the copies
  int next_region_ = 1;
};

}  // namespace

void recompute_regions(Graph& core, size_t forward) { Recomputation(core, forward).run(); }

}  // namespace cdynamo::graph
