// What a mask selects, without its places.
//
// What capture makes of a mask (symbolic/tensors/nonzero.cpp): `places`, of which there are as many as a data symbol says,
//   counts = running_counts(flags, block);   u = read_int(counts[-1])
//   places = compress(iota, flags, counts, block, u)
// A sum over element-by-element operations on index(x, places), as x[mask].sum() or ((x[mask] - y[mask]) ** 2).mean(), becomes one over
// all elements,
//   sum(where(flags, f(where(flags, x, 1)), 0))
// The inner `where` keeps what f has for elements that are not selected out of the gradient: 0 * inf.
//
// Where nothing else reads the places, index(x, places) becomes compress(x, flags, counts, block, u).
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "graph/builder.h"
#include "graph/passes.h"
#include "graph/passes/graph_edit.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

// Of the last element of running counts, which may be the only one; null for anything else.
Value* counts_of_last(Value* value) {
  if (is(value, "core.running_counts")) return value->type.sizes[0] == Sym(1) ? value : nullptr;
  if (!is(value, "core.slice") || !is(operand(value, 0), "core.running_counts")) return nullptr;
  Value* counts = operand(value, 0);
  const Args args = args_of(*value->node);
  const bool last =
      args.sizes("start")[0] == counts->type.sizes[0] - Sym(1) && args.sizes("size")[0] == Sym(1);
  return last ? counts : nullptr;
}

struct Selection {
  Value* flags = nullptr;  // (n)
  Value* places = nullptr;
};

class Selections {
 public:
  explicit Selections(const Graph& core)
      : sym_(*core.sym), empty_(std::ranges::none_of(core.nodes, [](const auto& node) {
          return node->op->core.kind == CoreKind::kCompress;
        })) {}
  bool empty() const { return empty_; }

  // Of the places of a mask's true elements, in their order.
  static std::optional<Selection> of_places(Value* places) {
    if (!is(places, "core.compress") || !is(operand(places, 0), "core.iota")) return std::nullopt;
    return Selection{args_of(*places->node).value("mask"), places};
  }

  // Of core.index where it takes one element of `self` for each place: the indices of dim d are
  // places // step % size, without what changes nothing.
  std::optional<Selection> of_index(const Value* index) const {
    const Args args = args_of(*index->node);
    const std::vector<Value*> indices = args.values("indices");
    const std::vector<Sym>& sizes = args.value("self")->type.sizes;
    if (indices.size() != sizes.size() || index->type.rank() != 1) return std::nullopt;
    Value* places = nullptr;
    Sym step = 1;
    for (size_t d = sizes.size(); d-- > 0; step = step * sizes[d]) {
      Value* at = indices[d];
      if (d > 0 && !take(at, "remainder", sizes[d])) return std::nullopt;
      if (!(step == Sym(1)) && !take(at, "floor_divide", step)) return std::nullopt;
      if (places && at != places) return std::nullopt;
      places = at;
    }
    const std::optional<Selection> found = places ? of_places(places) : std::nullopt;
    return found && sym_.known(Relation::kEq, found->flags->type.sizes[0], step) == true ? found
                                                                                         : std::nullopt;
  }

 private:
  static bool take(Value*& at, std::string_view op, const Sym& by) {
    if (!is(at, op) || !is(operand(at, 1), "core.full")) return false;
    const Args full = args_of(*operand(at, 1)->node);
    if (!std::holds_alternative<Sym>(full["value"]) || !(full.integer("value") == by)) return false;
    at = operand(at, 0);
    return true;
  }
  const SymContext& sym_;
  const bool empty_;
};

// The operations between selected elements and a sum of them. None that may raise an error.
class Cone {
 public:
  Cone(const Selections& selections, const Node& root) : selections_(selections) {
    good = is_sum(root) && collect(operand(root.results[0], 0)) && selection;
  }
  std::optional<Selection> selection;
  absl::flat_hash_set<const Node*> nodes;
  bool good = false;

 private:
  static constexpr size_t kMost = 24;  // operations that are then done for all elements
  static bool is_sum(const Node& node) {
    if (node.op->name != "core.sum") return false;
    const Args args = args_of(node);
    return args.value("self")->type.rank() == 1 && args.constants("dims") == std::vector<int64_t>{0};
  }
  bool collect(const Value* value) {
    if (!value->node || value->type.rank() != 1 || nodes.size() > kMost) return false;
    const Node& node = *value->node;
    if (nodes.contains(&node)) return true;
    if (is(value, "core.full")) return true;
    nodes.insert(&node);
    if (is(value, "core.expand")) return operand(value, 0)->type.sizes[0] == Sym(1);
    if (is(value, "core.index")) {
      const std::optional<Selection> found = selections_.of_index(value);
      if (!found || (selection && selection->flags != found->flags)) return false;
      selection = found;
      return true;
    }
    const bool computes = node.op->family == Family::kPointwise &&
                          (runtime::is_float(value->type.dtype) || value->type.dtype == DType::kBool);
    if (!computes && !is(value, "core.cast") && !is(value, "core.own")) return false;
    bool all = true;
    for_each_operand(const_cast<Node&>(node), [&](Value*& from) { all = all && collect(from); });
    return all;
  }
  const Selections& selections_;
};

// The cone for all elements.
class Spread {
 public:
  Spread(Builder& builder, const Selection& selection)
      : b_(builder), flags_(wrap(builder, selection.flags)), size_(selection.flags->type.sizes) {}

  Value* sum(const Value* selected) {
    Tensor all = is(selected, "core.index") ? elements(selected) : wrap(b_, spread(selected));
    return graph::sum(where(flags_, all, full(b_, size_, Sym(0), all.dtype())), {0}).value;
  }

 private:
  Tensor elements(const Value* index) {
    Tensor x = wrap(b_, operand(index, 0));
    return x.rank() == 1 ? x : reshape(x, size_);
  }
  Tensor only_selected(Tensor x) { return where(flags_, x, full(b_, size_, Sym(1), x.dtype())); }
  Value* spread(const Value* value) {
    Value*& known = made_[value];
    if (known) return known;
    const Node& node = *value->node;
    Value* made = nullptr;
    if (is(value, "core.full")) {
      const Args args = args_of(node);
      made = full(b_, size_, args["value"], value->type.dtype).value;
    } else if (is(value, "core.expand")) {
      made = only_selected(expand(wrap(b_, operand(value, 0)), size_)).value;
    } else if (is(value, "core.index")) {
      made = only_selected(elements(value)).value;
    } else {
      std::vector<Arg> args = node.args;
      for (Arg& arg : args) {
        if (auto* one = std::get_if<Value*>(&arg)) *one = spread(*one);
        if (auto* many = std::get_if<std::vector<Value*>>(&arg))
          for (Value*& each : *many) each = spread(each);
      }
      made = b_.call(*node.op, node.overload, std::move(args)).at(0);
    }
    return made_[value] = made;
  }
  Builder& b_;
  Tensor flags_;
  const std::vector<Sym> size_;
  absl::flat_hash_map<const Value*, Value*> made_;
};

// Users of each value; the end of the graph is one without a node.
using Users = absl::flat_hash_map<const Value*, std::vector<const Node*>>;
Users users_of(Graph& core) {
  Users users;
  for (const auto& node : core.nodes)
    for_each_operand(*node, [&](Value* value) { users[value].push_back(node.get()); });
  for (const Value* output : core.outputs) users[output].push_back(nullptr);
  for (const Graph::Mutation& mutation : core.mutations) users[mutation.value].push_back(nullptr);
  return users;
}

// Sums of which nothing else reads what they are made of: elements that are brought together all the same are summed there.
absl::flat_hash_map<const Node*, Selection> sums_of(Graph& core, const Selections& selections) {
  absl::flat_hash_map<const Node*, Cone> cones;
  for (const auto& node : core.nodes)
    if (Cone cone(selections, *node); cone.good) cones.emplace(node.get(), std::move(cone));
  if (cones.empty()) return {};
  const Users users = users_of(core);
  for (bool changed = true; changed;) {
    absl::flat_hash_set<const Node*> inside;
    for (const auto& [root, cone] : cones) {
      inside.insert(root);
      inside.insert(cone.nodes.begin(), cone.nodes.end());
    }
    changed = absl::erase_if(cones, [&](const auto& entry) {
                return std::ranges::any_of(entry.second.nodes, [&](const Node* node) {
                  const auto found = users.find(node->results[0]);
                  return found != users.end() && !std::ranges::all_of(found->second, [&](const Node* user) {
                           return user && inside.contains(user);
                         });
                });
              }) > 0;
  }
  absl::flat_hash_map<const Node*, Selection> sums;
  for (const auto& [root, cone] : cones) sums.emplace(root, *cone.selection);
  return sums;
}

// The count alone needs no blocks.
void count_by_sums(Graph& core) {
  eliminate_dead_code(core);
  const Users users = users_of(core);
  rewrite_nodes(core, [&](Builder& builder, Node& node) -> Value* {
    Value* counts = counts_of_last(node.results[0]);
    if (!counts || std::ranges::any_of(users.at(counts), [&](const Node* user) {
          return !user || user->op->core.kind == CoreKind::kCompress;
        }))
      return nullptr;
    const Tensor flags = wrap(builder, operand(counts, 0));
    return reshape(graph::sum(cast(flags, DType::kI64), {0}), {1}).value;
  });
}

// Of each place of which nothing but elements are read: those reads.
absl::flat_hash_map<const Node*, Selection> reads_of_places(Graph& core, const Selections& selections) {
  absl::flat_hash_map<const Node*, Selection> reads;
  absl::flat_hash_set<const Value*> places;
  for (const auto& node : core.nodes)
    if (node->op->core.kind == CoreKind::kIndex)
      if (const std::optional<Selection> found = selections.of_index(node->results[0])) {
        reads.emplace(node.get(), *found);
        places.insert(found->places);
      }
  if (reads.empty()) return reads;
  const Users users = users_of(core);
  const std::function<bool(const Value*)> only_reads = [&](const Value* value) {
    const auto found = users.find(value);
    return found == users.end() || std::ranges::all_of(found->second, [&](const Node* user) {
             if (!user) return false;
             if (reads.contains(user)) return operand(user->results[0], 0) != value;
             return user->op->family == Family::kPointwise && only_reads(user->results[0]);
           });
  };
  absl::flat_hash_set<const Value*> elsewhere;
  for (const Value* value : places)
    if (!only_reads(value)) elsewhere.insert(value);
  absl::erase_if(reads, [&](const auto& read) { return elsewhere.contains(read.second.places); });
  return reads;
}

}  // namespace

bool sum_where_selected(Graph& core) {
  const Selections selections(core);
  if (selections.empty()) return false;
  const absl::flat_hash_map<const Node*, Selection> sums = sums_of(core, selections);
  if (sums.empty()) return false;
  rewrite_nodes(core, [&](Builder& builder, Node& node) -> Value* {
    const auto found = sums.find(&node);
    return found == sums.end() ? nullptr : Spread(builder, found->second).sum(operand(node.results[0], 0));
  });
  count_by_sums(core);
  return true;
}

bool compress_selected(Graph& core) {
  const Selections selections(core);
  if (selections.empty()) return false;
  const absl::flat_hash_map<const Node*, Selection> reads = reads_of_places(core, selections);
  if (reads.empty()) return false;
  rewrite_nodes(core, [&](Builder& builder, Node& node) -> Value* {
    const auto found = reads.find(&node);
    if (found == reads.end()) return nullptr;
    std::vector<Arg> args = found->second.places->node->args;
    const Tensor x = wrap(builder, operand(node.results[0], 0));
    args[0] = reshape(x, found->second.flags->type.sizes).value;
    return builder.call1("core.compress", std::move(args));
  });
  return true;
}

}  // namespace cdynamo::graph
