#include "graph/passes/known_number.h"

#include <map>
#include <memory>
#include <set>

#include "graph/builder.h"
#include "graph/op.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

constexpr size_t kMostNodes = 64;
constexpr int64_t kMostElements = 4096;  // of one value

bool is_few_integers(const TensorType& type) {
  const auto count = type.numel().maybe_constant();
  return count && *count <= kMostElements && !runtime::is_float(type.dtype);
}

bool has_known_arguments(const Node& node) {
  for (const Arg& arg : node.args) {
    if (auto* number = std::get_if<Sym>(&arg); number && !number->maybe_constant()) return false;
    if (auto* numbers = std::get_if<std::vector<Sym>>(&arg))
      for (const Sym& number : *numbers)
        if (!number.maybe_constant()) return false;
    if (std::holds_alternative<std::shared_ptr<const Graph>>(arg)) return false;
  }
  return true;
}

// Whether a node's results are the same whenever the graph runs, as far as the node itself goes.
bool is_constant(const Node& node) {
  if (node.in_place || node.op->effects != Effects::kNone || !has_known_arguments(node)) return false;
  for (const Value* result : node.results)
    if (!is_few_integers(result->type)) return false;
  return true;
}

// What an element is computed from.
struct Slice {
  std::set<const Node*> nodes;
  std::map<const Value*, DenseTensor> inputs;
};

// Adds what a value is computed from; false where that is too much, or not constant.
bool add_to(Slice& slice, const Value* value, const KnownContents& contents) {
  const Node* node = value->node;
  if (!node) {
    if (slice.inputs.contains(value)) return true;
    std::optional<DenseTensor> content = is_few_integers(value->type) ? contents(value) : std::nullopt;
    if (content) slice.inputs.emplace(value, *std::move(content));
    return content.has_value();
  }
  if (slice.nodes.contains(node)) return true;
  if (slice.nodes.size() == kMostNodes || !is_constant(*node)) return false;
  slice.nodes.insert(node);
  bool known = true;
  for_each_operand(const_cast<Node&>(*node),
                   [&](Value*& operand) { known = known && add_to(slice, operand, contents); });
  return known;
}

bool writes(const Node& node) {
  if (node.in_place) return true;
  if (node.op->effects == Effects::kUnknown && node.op->core.kind != CoreKind::kReadInt) return true;
  for (const Param& param : node.op->parsed[node.overload].params)
    if (param.mutated) return true;
  return false;
}

// Whether a write may reach the storage of what is in the slice: what is written to is computed from it.
bool is_written(const Graph& captured, const Slice& slice) {
  std::set<const Value*> from_slice;  // in the order of the nodes: one pass
  for (const auto& [input, content] : slice.inputs) from_slice.insert(input);
  for (const auto& node : captured.nodes) {
    bool depends = slice.nodes.contains(node.get());
    for_each_operand(*node, [&](Value*& operand) { depends = depends || from_slice.contains(operand); });
    if (!depends) continue;
    if (writes(*node)) return true;
    from_slice.insert(node->results.begin(), node->results.end());
  }
  return false;
}

std::unique_ptr<Graph> copy_of(const Graph& captured, const Slice& slice, const Value* output) {
  auto copy = std::make_unique<Graph>(captured.sym);
  copy->torch_float = captured.torch_float;
  std::map<const Value*, Value*> values;
  for (const auto& [input, content] : slice.inputs) values[input] = copy->add_input(input->type, input->name);
  for (const auto& node : captured.nodes) {
    if (!slice.nodes.contains(node.get())) continue;
    std::vector<TensorType> types;
    for (const Value* result : node->results) types.push_back(result->type);
    copy->framework = node->framework;
    Node* added = copy->add_node(node->op, node->overload, node->args, std::move(types));
    for_each_operand(*added, [&](Value*& operand) { operand = values.at(operand); });
    for (size_t i = 0; i < node->results.size(); ++i) values[node->results[i]] = added->results[i];
  }
  // Of a view the pass would give what it is a view of.
  copy->outputs = {Builder(*copy).call1("clone", {values.at(output)})};
  return copy;
}

}  // namespace

std::optional<int64_t> known_integer(const Graph& captured, const Value* element,
                                     const KnownContents& contents) {
  Slice slice;
  if (!add_to(slice, element, contents) || is_written(captured, slice)) return std::nullopt;
  try {
    const Prepared prepared = functionalize(*copy_of(captured, slice, element));
    if (prepared.core->outputs.size() != 1) return std::nullopt;
    std::vector<DenseTensor> inputs;
    for (auto& [input, content] : slice.inputs) inputs.push_back(std::move(content));
    const std::vector<DenseTensor> results = interpret(*prepared.core, inputs);
    return results.at(0).numel() == 1 ? std::optional(results[0].elements[0].integer) : std::nullopt;
  } catch (const Unsupported&) {
  } catch (const UserError&) {  // the graph raises it where it runs
  }
  return std::nullopt;
}

}  // namespace cdynamo::graph
