// Derivatives against differences of values, both as the interpreter computes them in float64.
//
//   Slopes({{2, 3}, {3, 4}}, [](Builder& b, const std::vector<Tensor>& x) { return mm(x[0], x[1]).value->node; }).check(2);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "graph/autograd/derivative.h"
#include "graph/builder.h"
#include "graph/interpreter.h"
#include "graph/passes.h"

namespace cdynamo::graph {

using Sizes = std::vector<int64_t>;
// From the inputs to the node that is tested. What it computes from them first is part of the function.
using MakeFn = std::function<Node*(Builder&, const std::vector<Tensor>&)>;

class Slopes {
 public:
  Slopes(std::vector<Sizes> inputs, MakeFn make) : make_(std::move(make)) {
    std::mt19937 rng(3);
    std::uniform_real_distribution<double> number(-1, 1);
    for (Sizes& sizes : inputs) {
      inputs_.emplace_back(DType::kF64, sizes);
      for (Element& element : inputs_.back().elements) element.real = number(rng);
    }
  }
  DenseTensor& input(size_t i) { return inputs_[i]; }

  // The derivative of the node's results, each element with a weight of its own, for `count` of the operands, which are the inputs.
  void check(size_t count, double tolerance = 1e-7) {
    constexpr double kStep = 1e-5;
    const std::vector<DenseTensor> found = gradients(count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i].sizes, inputs_[i].sizes) << "operand " << i;
      for (size_t at = 0; at < inputs_[i].elements.size(); ++at) {
        double& element = inputs_[i].elements[at].real;
        const double before = element;
        if (std::isinf(before)) continue;
        element = before + kStep;
        const double up = total();
        element = before - kStep;
        const double down = total();
        element = before;
        const double slope = (up - down) / (2 * kStep);
        EXPECT_NEAR(found[i].number(at), slope, tolerance * std::max(1.0, std::fabs(slope)))
            << "operand " << i << " element " << at;
      }
    }
  }

 private:
  Node* build(Graph& graph, Builder& b) {
    std::vector<Tensor> tensors;
    for (const DenseTensor& input : inputs_) {
      TensorType type;
      type.dtype = DType::kF64;
      type.sizes.assign(input.sizes.begin(), input.sizes.end());
      type.strides = contiguous_strides(type.sizes);
      tensors.push_back(wrap(b, graph.add_input(type, "x" + std::to_string(tensors.size()))));
    }
    return make_(b, tensors);
  }

  static DenseTensor weights_of(const Value& result, int index) {
    Sizes sizes;
    for (const Sym& size : result.type.sizes) sizes.push_back(size.constant());
    DenseTensor weights(DType::kF64, sizes);
    for (size_t i = 0; i < weights.elements.size(); ++i)
      weights.elements[i].real = std::sin(1.0 + 0.7 * i + index);
    return weights;
  }

  static size_t results_that_count(const Node& node) {
    return node.op->name == "core.sdpa" ? 1 : node.results.size();
  }

  double total() {
    Graph graph;
    Builder b(graph, Level::kCore);
    Node* node = build(graph, b);
    for (size_t i = 0; i < results_that_count(*node); ++i) graph.outputs.push_back(node->results[i]);
    const std::vector<DenseTensor> results = interpret(graph, inputs_);
    double sum = 0;
    for (size_t r = 0; r < results.size(); ++r) {
      const DenseTensor weights = weights_of(*node->results[r], static_cast<int>(r));
      for (size_t i = 0; i < weights.elements.size(); ++i) sum += weights.number(i) * results[r].number(i);
    }
    return sum;
  }

  std::vector<DenseTensor> gradients(size_t count) {
    Graph graph;
    Builder b(graph, Level::kCore);
    Node* node = build(graph, b);
    std::vector<DenseTensor> values = inputs_;
    std::vector<Tensor> grads(node->results.size());
    for (size_t r = 0; r < results_that_count(*node); ++r) {
      values.push_back(weights_of(*node->results[r], static_cast<int>(r)));
      grads[r] = wrap(b, graph.add_input(node->results[r]->type, "g" + std::to_string(r)));
    }
    Derivative d(b, *node, grads);
    node->op->derivative(d);
    for (size_t i = 0; i < count; ++i) graph.outputs.push_back(d.gradients.at(i).value);
    const std::vector<std::string> broken = verify(graph, true);
    EXPECT_TRUE(broken.empty()) << broken[0];
    return interpret(graph, values);
  }

  MakeFn make_;
  std::vector<DenseTensor> inputs_;
};

}  // namespace cdynamo::graph
