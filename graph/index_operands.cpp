#include "graph/index_operands.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace cdynamo::graph {

namespace {

bool is_index_parameter(const Param& param) {
  static constexpr std::array<std::string_view, 3> kNames = {"index", "indices", "ind"};
  return std::ranges::find(kNames, std::string_view(param.name)) != kNames.end();
}

// Losses look each sample's class up.
bool is_class_parameter(const OpDef& op, const Param& param) {
  static constexpr std::array<std::string_view, 3> kLosses = {"cross_entropy_loss", "nll_loss_nd",
                                                              "multi_margin_loss"};
  return param.name == "target" && std::ranges::find(kLosses, op.name) != kLosses.end();
}

// What these look at, probabilities and classes, are no indices of anything.
constexpr std::array<std::string_view, 2> kChecked = {"binary_cross_entropy", "one_hot"};

// Calls visit(parameter, value) for the tensors among the arguments.
template <typename F>
void for_each_tensor(const OpDef& op, size_t overload, const std::vector<Arg>& args, F&& visit) {
  const std::vector<Param>& params = op.parsed.at(overload).params;
  for (size_t i = 0; i < args.size() && i < params.size(); ++i) {
    if (auto* value = std::get_if<Value*>(&args[i])) {
      if (*value) visit(params[i], **value);
    } else if (auto* list = std::get_if<std::vector<Value*>>(&args[i])) {
      for (const Value* item : *list)
        if (item) visit(params[i], *item);
    }
  }
}

const Value* value_or_null(const Arg& arg) {
  auto* value = std::get_if<Value*>(&arg);
  return value ? *value : nullptr;
}

// Runs whether its results are read or not.
bool has_effects(const Node& node) {
  const std::vector<Param>& params = node.op->parsed.at(node.overload).params;
  return node.in_place || node.op->effects != Effects::kNone ||
         std::ranges::any_of(params, [](const Param& param) { return param.mutated; });
}

// Arithmetic of `name` with a number, which it is taken without.
std::optional<Sym> strip(const Value*& value, std::string_view name) {
  if (!value->node || value->node->op->name != name) return std::nullopt;
  const Args args(value->node->op->parsed[value->node->overload], value->node->args);
  const Sym* number = std::get_if<Sym>(&args["other"]);
  if (!number || !args.value("self")) return std::nullopt;
  value = args.value("self");
  return *number;
}

// How many elements a mask has of which these are the places, as capture makes them (symbolic/tensors/nonzero.cpp); nothing for
// other values.
std::optional<Sym> size_of_mask(const Value& places) {
  if (!places.node || places.node->op->name != "core.compress") return std::nullopt;
  const Value* numbers = value_or_null(places.node->args[0]);
  const bool are_places = numbers && numbers->node && numbers->node->op->name == "core.iota";
  return are_places ? std::optional(numbers->type.sizes[0]) : std::nullopt;
}

// x[mask] and the like: of dim d, places // step % size; of the first, places // step.
bool is_in_range(const Graph& captured, const Node& node) {
  if (node.op->name != "index") return false;
  const Args args(node.op->parsed[node.overload], node.args);
  const std::vector<Value*> indices = args.values("indices");
  const std::vector<Sym>& sizes = args.value("self")->type.sizes;
  bool first = true;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    const Value* at = indices[d];
    Sym most = sizes[d];
    if (first) {
      if (const std::optional<Sym> step = strip(at, "floor_divide")) most = most * *step;
    } else {
      const std::optional<Sym> size = strip(at, "remainder");
      if (!size || captured.sym->known(Relation::kEq, *size, sizes[d]) != true) return false;
      strip(at, "floor_divide");
    }
    const std::optional<Sym> elements = size_of_mask(*at);
    if (!elements || (first && captured.sym->known(Relation::kEq, *elements, most) != true)) return false;
    first = false;
  }
  return !first;
}

// Whether it may find what is out of range.
bool looks_up(const Graph& captured, const Node& node) {
  return checks_elements(*node.op, node.overload, node.args) && !is_in_range(captured, node);
}

}  // namespace

bool checks_elements(const OpDef& op, size_t overload, const std::vector<Arg>& args) {
  bool any = std::ranges::find(kChecked, op.name) != kChecked.end();
  for_each_tensor(op, overload, args, [&](const Param& param, const Value& value) {
    any |=
        (is_index_parameter(param) || is_class_parameter(op, param)) && runtime::is_integer(value.type.dtype);
  });
  return any;
}

bool indexes_nothing(const OpDef& op, size_t overload, const std::vector<Arg>& args) {
  const Value* indexed = nullptr;
  bool has_indices = false;
  for_each_tensor(op, overload, args, [&](const Param& param, const Value& value) {
    if (is_index_parameter(param))
      has_indices |= runtime::is_integer(value.type.dtype);
    else if (!indexed)
      indexed = &value;
  });
  if (!indexed || !has_indices) return false;
  const Sym count = indexed->type.numel();
  return count.is_constant() && count.constant() == 0;
}

void output_unread_lookups(Graph& captured) {
  std::vector<bool> live(captured.next_value_id());
  for (const Value* output : captured.outputs) live[output->id] = true;
  for (auto it = captured.nodes.rbegin(); it != captured.nodes.rend(); ++it) {
    Node& node = **it;
    bool needed = has_effects(node);
    for (const Value* result : node.results) needed |= live[result->id];
    if (!needed && looks_up(captured, node)) {
      Value* result = node.results.at(0);
      result->requires_grad = false;
      captured.outputs.push_back(result);
      needed = true;
    }
    if (needed) for_each_operand(node, [&](Value* operand) { live[operand->id] = true; });
  }
}

namespace {

// Of args[0] such a node reads some elements only.
bool reads_a_part(const Node& node) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "core.slice",         "core.gather",           "core.index",     "core.diagonal",
      "core.slice_scatter", "core.diagonal_scatter", "core.index_put", "core.scatter"};
  return std::ranges::find(kNames, node.op->name) != kNames.end();
}

// By value id: kernels compute all elements of it.
std::vector<bool> computed_whole(const Graph& core) {
  std::vector<bool> whole(core.next_value_id());
  for (const Value* output : core.outputs) whole[output->id] = true;
  for (const Graph::Mutation& mutation : core.mutations) whole[mutation.value->id] = true;
  for (auto it = core.nodes.rbegin(); it != core.nodes.rend(); ++it) {
    Node& node = **it;
    if (std::ranges::none_of(node.results, [&](const Value* result) { return whole[result->id]; })) continue;
    const bool is_gone =
        node.op->core.kind == CoreKind::kGone;  // what it has besides args[0] is not computed with
    const Value* first = node.args.empty() ? nullptr : value_or_null(node.args[0]);
    for_each_operand(node, [&](Value* operand) {
      if (operand == first ? !reads_a_part(node) : !is_gone) whole[operand->id] = true;
    });
  }
  return whole;
}

}  // namespace

bool output_dropped_lookups(Graph& captured, const Graph& core) {
  const auto may_fail = [&](const auto& node) { return looks_up(captured, *node); };
  if (std::ranges::none_of(captured.nodes, may_fail)) return false;
  const std::vector<bool> whole = computed_whole(core);
  absl::flat_hash_set<int> calls;  // of the user's, whose lookups all run
  for (const auto& node : core.nodes)
    if ((checks_elements(*node->op, node->overload, node->args) && whole[node->results[0]->id]) ||
        node->op->effects == Effects::kUnknown)
      calls.insert(node->user_call);
  const size_t known = captured.outputs.size();
  for (auto it = captured.nodes.begin(); it != captured.nodes.end(); ++it) {
    const Node& node = **it;
    if (node.op->effects != Effects::kNone || node.results.empty() || node.user_call < 0 ||
        calls.contains(node.user_call) || !looks_up(captured, node))
      continue;
    Value* result = node.results.at(0);
    Node* copy = captured.add_node(&op("clone"), 0, {result, std::monostate{}}, {result->type});
    copy->location = node.location;
    captured.outputs.push_back(copy->results.at(0));
    captured.nodes.splice(std::next(it), captured.nodes, std::prev(captured.nodes.end()));
  }
  return captured.outputs.size() > known;
}

}  // namespace cdynamo::graph
