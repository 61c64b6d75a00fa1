#include "symbolic/torch/backward_graph.h"

#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/core.h"
#include "graph/op.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

class Taker {
 public:
  Taker(Graph& outer, size_t begin, size_t end) : outer_(outer) {
    const auto first = std::next(outer.nodes.begin(), static_cast<ptrdiff_t>(begin));
    nodes_.splice(nodes_.begin(), outer.nodes, first, std::next(first, static_cast<ptrdiff_t>(end - begin)));
  }

  std::shared_ptr<const Graph> make(const std::vector<Value*>& grad_outputs,
                                    const std::vector<Value*>& results, const std::vector<Value*>& gradients,
                                    int user_call) {
    auto made = std::make_shared<Graph>(outer_.sym);
    made->framework = outer_.framework;
    made->torch_float = outer_.torch_float;
    find_saved(grad_outputs, results, gradients);
    for (const std::vector<Value*>* inputs : {&grad_outputs, &std::as_const(saved), &results})
      for (const Value* input : *inputs) {
        Value* image = made->add_input(input->type, input->name + (inputs == &results ? "_result" : ""));
        image->requires_grad = input->requires_grad;
        images_[input] = image;
      }
    for (const auto& node : nodes_) copy(*node, *made, user_call);
    for (const Value* gradient : gradients) made->outputs.push_back(images_.at(gradient));
    return made;
  }

  std::vector<Value*> saved;

 private:
  void find_saved(const std::vector<Value*>& grad_outputs, const std::vector<Value*>& results,
                  const std::vector<Value*>& gradients) {
    absl::flat_hash_set<const Value*> known(grad_outputs.begin(), grad_outputs.end());
    known.insert(results.begin(), results.end());
    const auto read = [&](Value* value) {
      if (known.insert(value).second) saved.push_back(value);
    };
    for (const auto& node : nodes_) {
      graph::for_each_operand(*node, [&](Value*& operand) { read(operand); });
      known.insert(node->results.begin(), node->results.end());
    }
    for (Value* gradient : gradients) read(gradient);
  }

  void copy(const Node& node, Graph& to, int user_call) {
    Node image = node;
    graph::for_each_operand(image, [&](Value*& operand) { operand = images_.at(operand); });
    std::vector<graph::TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = to.add_node(node.op, node.overload, std::move(image.args), std::move(types));
    made->in_place = node.in_place;
    made->framework = node.framework;
    made->no_grad = node.no_grad;
    made->location = node.location;
    made->user_call = user_call;
    for (size_t i = 0; i < node.results.size(); ++i) {
      made->results[i]->requires_grad = node.results[i]->requires_grad;
      images_[node.results[i]] = made->results[i];
    }
  }

  Graph& outer_;
  std::list<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<const Value*, Value*> images_;
};

// A call that a backward may make, since nobody differentiates it.
bool is_never_differentiated(const Node& node) {
  static const graph::OpDef* const library = &graph::op("core.library");
  return node.op == library &&
         graph::Args(library->parsed[0], node.args).constant("differentiable") == graph::kNeverDifferentiable;
}

}  // namespace

bool is_function_of_user(const graph::Node& node) {
  if (node.op->name != "core.function") return false;
  const graph::Args args(node.op->parsed[0], node.args);
  return args.values("outputs") != args.values("inputs");
}

Value* new_grad_output(Graph& graph, const Value* of) {
  graph::TensorType type = of->type;
  type.strides = graph::contiguous_strides(type.sizes);
  Value* grad_output = graph.new_value(nullptr, -1, std::move(type));
  grad_output->name = "grad_output_" + std::to_string(grad_output->id);
  grad_output->requires_grad = true;
  return grad_output;
}

BackwardGraph take_backward(Graph& outer, size_t begin, const BackwardValues& values, int user_call) {
  for (auto node = std::next(outer.nodes.begin(), static_cast<ptrdiff_t>(begin)); node != outer.nodes.end();
       ++node)
    if ((*node)->op->family == graph::Family::kLibrary && !is_never_differentiated(**node))
      break_graph("CD0404", "a function that is differentiated and calls what is not in the operator table");
  return take_nodes(outer, begin, outer.nodes.size(), values, user_call);
}

BackwardGraph take_nodes(Graph& outer, size_t begin, size_t end, const BackwardValues& values,
                         int user_call) {
  Taker taker(outer, begin, end);
  BackwardGraph taken;
  taken.graph = taker.make(values.grad_outputs, values.results, values.gradients, user_call);
  taken.saved = std::move(taker.saved);
  return taken;
}

}  // namespace cdynamo::symbolic
