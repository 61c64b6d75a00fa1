#include "lowering/fusion/repeated_nodes.h"

#include <limits>

namespace cdynamo::lowering {
namespace {

constexpr int kCheap = 4;  // operations that are rather repeated than stored
// A row's mean, a column's weight: reads that do not count beside the element's.
constexpr int kSmallPart = 8;

// Work below a value counts once for each way to it: over a chain of values with two readers each it doubles at every step.
template <typename T>
T saturating_add(T a, T b) {
  return a > std::numeric_limits<T>::max() - b ? std::numeric_limits<T>::max() : a + b;
}

// Who reads the values of a graph, through views or not.
class Readers {
 public:
  explicit Readers(const LoweringContext& context)
      : counts_(context.users.size(), 0), stored_(context.users.size(), 0) {
    for (size_t i = context.order.size(); i-- > 0;)
      for (const Value* value : context.order[i]->results) add(context, *value);
  }
  int count(const Value& value) const { return counts_[value.id]; }
  // The value has to be in memory: a library call or the caller reads it.
  bool must_be_stored(const Value& value) const { return stored_[value.id]; }

 private:
  // Users come later in the graph: theirs are known.
  void add(const LoweringContext& context, const Value& value) {
    stored_[value.id] = context.is_output[value.id];
    for (const Node* user : context.users[value.id]) {
      const bool view = is_view(context.kind(*user));
      counts_[value.id] = saturating_add(counts_[value.id], view ? counts_[user->results[0]->id] : 1);
      stored_[value.id] |= is_library_call(context.kind(*user)) || (view && stored_[user->results[0]->id]);
    }
  }

  std::vector<int> counts_;   // by value id
  std::vector<char> stored_;  // by value id
};

class RepeatedNodes {
 public:
  explicit RepeatedNodes(LoweringContext& context)
      : context_(context),
        readers_(context),
        cones_(context.kinds.size()),
        whole_cones_(context.kinds.size()) {}

  void choose() {
    for (const Node* node : context_.order) {
      cones_[node->id] = cone_of(*node, cones_, [&](const Node& at) { return context_.is_inline(at); });
      whole_cones_[node->id] = cone_of(
          *node, whole_cones_, [&](const Node& at) { return context_.is_inline(at) || is_private(at); });
      if (!is_pointwise(*node)) continue;
      const Value& value = *node->results[0];
      if (mark_for_sequential_reader(*node)) continue;
      if (cones_[node->id].bytes > 0 && readers_.count(value) < 2) continue;
      if (readers_.must_be_stored(value) || context_.is_turned(value)) continue;
      if (is_cheap(whole_cones_[node->id], value))
        mark_with_operands(*node);
      else if (is_cheap(cones_[node->id], value))
        context_.repeated[node->id] = 1;
    }
  }

 private:
  // What is computed and read for one element.
  struct Cone {
    int cost = 0;
    int64_t bytes = 0;
  };

  template <typename F>
  Cone cone_of(const Node& node, const std::vector<Cone>& cones, F&& is_inside) const {
    Cone cone{context_.costs[node.id], 0};
    graph::for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
      const bool inside = operand->node && is_inside(*operand->node);
      if (inside) cone.cost = saturating_add(cone.cost, cones[operand->node->id].cost);
      cone.bytes =
          saturating_add(cone.bytes, inside ? cones[operand->node->id].bytes : context_.bytes_hint(*operand));
    });
    return cone;
  }

  bool is_pointwise(const Node& node) const {
    return context_.kind(node) == CoreKind::kPointwise || context_.kind(node) == CoreKind::kCast;
  }
  // Scans and scatters join nothing, but each reads its operands element by element, once: what only one of
  // them reads need not be stored first.
  bool mark_for_sequential_reader(const Node& node) {
    const Value& value = *node.results[0];
    if (readers_.count(value) != 1 || readers_.must_be_stored(value)) return false;
    const Node* reader = &node;
    while (reader == &node || is_view(context_.kind(*reader))) {
      const std::vector<const Node*>& users = context_.users[reader->results[0]->id];
      if (users.size() != 1) return false;
      reader = users[0];
    }
    if (!graph::is_sequential(context_.kind(*reader))) return false;
    if (whole_cones_[node.id].cost <= 2 * kCheap)
      mark_with_operands(node);
    else if (cones_[node.id].cost <= 2 * kCheap)
      context_.repeated[node.id] = 1;
    else
      return false;
    return true;
  }
  // One reader, which may compute it for itself.
  bool is_private(const Node& node) const {
    return is_pointwise(node) && readers_.count(*node.results[0]) == 1 &&
           !readers_.must_be_stored(*node.results[0]) && !context_.is_turned(*node.results[0]);
  }
  bool is_cheap(const Cone& cone, const Value& value) const {
    const int64_t bytes = context_.bytes_hint(value);
    return cone.cost <= (cone.bytes == 0 ? 2 * kCheap : kCheap) && cone.bytes <= bytes + bytes / kSmallPart;
  }

  void mark_with_operands(const Node& node) {
    if (is_pointwise(node)) context_.repeated[node.id] = 1;
    graph::for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
      if (operand->node && (is_view(context_.kind(*operand->node)) || is_private(*operand->node)))
        mark_with_operands(*operand->node);
    });
  }

  LoweringContext& context_;
  const Readers readers_;
  std::vector<Cone> cones_, whole_cones_;  // by node id; the second with private operands inside
};

}  // namespace

void mark_repeated_nodes(LoweringContext& context) { RepeatedNodes(context).choose(); }

}  // namespace cdynamo::lowering
