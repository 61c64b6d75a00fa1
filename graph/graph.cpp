#include "graph/graph.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/op.h"

namespace cdynamo::graph {
namespace {

// Without its prefix: of core.add "add".
std::string_view base_name(const OpDef& op) {
  const size_t dot = op.name.rfind('.');
  return dot == op.name.npos ? op.name : op.name.substr(dot + 1);
}

// "add_3": so results of nodes are called, and nothing else.
bool is_name_of_result(std::string_view name) {
  static const auto* const bases = [] {
    auto* made = new absl::flat_hash_set<std::string_view>();
    for (const OpDef* op : all_ops()) made->insert(base_name(*op));
    return made;
  }();
  const size_t underscore = name.rfind('_');
  return underscore != name.npos && underscore + 1 < name.size() &&
         name.find_first_not_of("0123456789", underscore + 1) == name.npos &&
         bases->contains(name.substr(0, underscore));
}

}  // namespace

Sym TensorType::numel() const {
  Sym count = 1;
  for (const Sym& size : sizes) count = count * size;
  return count;
}

std::vector<Sym> contiguous_strides(const std::vector<Sym>& sizes) {
  std::vector<Sym> strides(sizes.size());
  Sym next = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    if (!(sizes[i] == Sym(0))) next = next * max(sizes[i], 1);
  }
  return strides;
}

Graph::Graph(std::shared_ptr<SymContext> context) : sym(std::move(context)) {}
Graph::~Graph() = default;

Value* Graph::new_value(Node* node, int index, TensorType type) {
  auto value = std::make_unique<Value>();
  value->node = node;
  value->index = index;
  value->type = std::move(type);
  value->id = next_value_id();
  if (node) {
    value->name = std::string(base_name(*node->op)) + "_" + std::to_string(value->id);
  }
  values_.push_back(std::move(value));
  return values_.back().get();
}

Value* Graph::add_input(TensorType type, std::string name) {
  Value* value = new_value(nullptr, static_cast<int>(inputs.size()), std::move(type));
  const auto is_taken = [&] { return std::ranges::find(inputs, name, &Value::name) != inputs.end(); };
  const std::string given = name;
  for (int i = 2; is_name_of_result(name) || is_taken(); ++i) name = given + "_" + std::to_string(i);
  value->name = std::move(name);
  inputs.push_back(value);
  return value;
}

bool Graph::has_nodes_of(Framework rules) const {
  return nodes.empty()
             ? framework == rules
             : std::ranges::any_of(nodes, [&](const auto& node) { return node->framework == rules; });
}

Node* Graph::add_node(const OpDef* op, int overload, std::vector<Arg> args, std::vector<TensorType> types) {
  auto owned = std::make_unique<Node>();
  Node* node = owned.get();
  node->op = op;
  node->overload = overload;
  node->framework = framework;
  node->args = std::move(args);
  node->id = next_node_id_++;
  nodes.push_back(std::move(owned));
  for (size_t i = 0; i < types.size(); ++i)
    node->results.push_back(new_value(node, static_cast<int>(i), std::move(types[i])));
  return node;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(sym);
  copy->framework = framework;
  copy->torch_float = torch_float;
  copy->locations = locations;
  copy->next_node_id_ = next_node_id_;
  absl::flat_hash_map<const Node*, Node*> node_map;
  for (const auto& node : nodes) {
    copy->nodes.push_back(std::make_unique<Node>(*node));
    node_map[node.get()] = copy->nodes.back().get();
  }
  for (const auto& value : values_) {
    copy->values_.push_back(std::make_unique<Value>(*value));
    Value* made = copy->values_.back().get();
    // A value of a node that was removed keeps its place, without the node.
    auto it = node_map.find(value->node);
    made->node = it == node_map.end() ? nullptr : it->second;
  }
  auto image = [&](Value*& value) {
    if (value) value = copy->values_[value->id].get();
  };
  for (auto& node : copy->nodes) {
    for_each_operand(*node, image);
    for (Value*& result : node->results) image(result);
  }
  copy->inputs = inputs;
  for (Value*& input : copy->inputs) image(input);
  copy->outputs = outputs;
  for (Value*& output : copy->outputs) image(output);
  copy->mutations = mutations;
  for (Mutation& mutation : copy->mutations) image(mutation.value);
  return copy;
}

}  // namespace cdynamo::graph
