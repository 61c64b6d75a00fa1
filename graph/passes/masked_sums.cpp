// Sums over what a mask selects, x[mask].sum(), ((x[mask] - y[mask]) ** 2).mean(): the selected elements need not be
// brought together.
//
// What capture makes of the mask (symbolic/tensors/nonzero.cpp), `places` of which there are as many as a data symbol says:
//   counts = cumsum(cast(flags));   u = read_int(counts[-1])
//   places = scatter(full(u + 1), where(flags, counts - 1, u), iota)[:u]
// A sum over element-by-element operations on index(x, places) becomes one over all elements,
//   sum(where(flags, f(where(flags, x, 1)), 0))
// The inner `where` keeps what f has for elements that are not selected out of the gradient: 0 * inf.
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <optional>

#include "graph/builder.h"
#include "graph/passes.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

Args args_of(const Node& node) { return Args(node.op->parsed[node.overload], node.args); }
bool is(const Value* value, std::string_view name) {
  return value && value->node && value->node->op->name == name;
}
Value* operand(const Value* value, int index) { return std::get<Value*>(value->node->args[index]); }

// Through views of a count.
const Value* behind_reshapes(const Value* value) {
  while (is(value, "core.reshape") || is(value, "core.copy")) value = operand(value, 0);
  return value;
}

// The last element of a scan of one dim; null for anything else.
Value* scan_of_last(const Value* value) {
  if (!is(value, "core.slice") || !is(operand(value, 0), "core.cumsum")) return nullptr;
  Value* scan = operand(value, 0);
  const Args args = args_of(*value->node);
  const bool last = scan->type.rank() == 1 && args.sizes("start")[0] == scan->type.sizes[0] - Sym(1) &&
                    args.sizes("size")[0] == Sym(1);
  return last ? scan : nullptr;
}

struct Selection {
  Value* flags = nullptr;  // (n)
  Sym count;               // of them that are true
};

class Selections {
 public:
  explicit Selections(const Graph& core) : sym_(*core.sym) {
    for (const auto& node : core.nodes) {
      if (node->op->name != "core.read_int") continue;
      const Args args = args_of(*node);
      if (const Value* scan = scan_of_last(behind_reshapes(args.value("self"))))
        counts_.push_back({args.integer("symbol"), scan});
    }
  }
  bool empty() const { return counts_.empty(); }

  // Of the places of a mask's true elements, in their order.
  std::optional<Selection> of_places(const Value* places) const {
    if (!is(places, "core.slice") || places->type.rank() != 1) return std::nullopt;
    const Args slice = args_of(*places->node);
    const Value* slots = operand(places, 0);
    if (!(slice.sizes("start")[0] == Sym(0)) || !(slice.sizes("step")[0] == Sym(1)) ||
        !is(slots, "core.scatter"))
      return std::nullopt;
    const Args scatter = args_of(*slots->node);
    const Value *to = scatter.value("index"), *from = scatter.value("src");
    if (!scatter.string("reduce").empty() || !is(from, "core.iota") || !is(to, "where")) return std::nullopt;
    Value *flags = operand(to, 0), *before = operand(to, 1), *behind = operand(to, 2);
    const Sym& count = places->type.sizes[0];
    if (is(behind, "core.expand")) behind = operand(behind, 0);
    if (!is(behind, "core.full") || !std::holds_alternative<Sym>(args_of(*behind->node)["value"]) ||
        !(args_of(*behind->node).integer("value") == count))
      return std::nullopt;
    if (!is(before, "sub") || constant_of(operand(before, 1)) != 1.0 ||
        !is(operand(before, 0), "core.cumsum"))
      return std::nullopt;
    const Value* scan = operand(before, 0);
    const Value* counted = operand(scan, 0);
    if (!is(counted, "core.cast") || operand(counted, 0) != flags || flags->type.dtype != DType::kBool)
      return std::nullopt;
    for (const auto& [symbol, of] : counts_)
      if (symbol == count && of == scan) return Selection{flags, count};
    return std::nullopt;
  }

  // Of core.index where it takes one element of `self` for each place: the indices of dim d are
  // places // step % size, without what changes nothing.
  std::optional<Selection> of_index(const Value* index) const {
    const Args args = args_of(*index->node);
    const std::vector<Value*> indices = args.values("indices");
    const std::vector<Sym>& sizes = args.value("self")->type.sizes;
    if (indices.size() != sizes.size() || index->type.rank() != 1) return std::nullopt;
    const Value* places = nullptr;
    Sym step = 1;
    for (size_t d = sizes.size(); d-- > 0; step = step * sizes[d]) {
      const Value* at = indices[d];
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
  static bool take(const Value*& at, std::string_view op, const Sym& by) {
    if (!is(at, op) || !is(operand(at, 1), "core.full")) return false;
    const Args full = args_of(*operand(at, 1)->node);
    if (!std::holds_alternative<Sym>(full["value"]) || !(full.integer("value") == by)) return false;
    at = operand(at, 0);
    return true;
  }
  const SymContext& sym_;
  std::vector<std::pair<Sym, const Value*>> counts_;
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

// The count alone needs no scan.
void count_by_sums(Graph& core) {
  eliminate_dead_code(core);
  const Users users = users_of(core);
  rewrite_nodes(core, [&](Builder& builder, Node& node) -> Value* {
    Value* scan = scan_of_last(node.results[0]);
    if (!scan || users.at(scan).size() != 1 || runtime::is_float(scan->type.dtype)) return nullptr;
    return reshape(graph::sum(wrap(builder, operand(scan, 0)), {0}), {1}).value;
  });
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

}  // namespace cdynamo::graph
