// Derivatives of the core's contractions against differences of their values, as the interpreter computes both in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "graph/builder.h"
#include "graph/derivative.h"
#include "graph/interpreter.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

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

struct Case {
  Sizes input, weight, stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

const Case kConvolutions[] = {
    {{2, 3, 5}, {4, 3, 3}, {1}, {1}, {1}, {0}, false, 1},
    {{2, 2, 7}, {2, 1, 3}, {3}, {0}, {2}, {0}, false, 2},
    {{1, 4, 6, 5}, {6, 2, 3, 2}, {2, 1}, {1, 0}, {1, 2}, {0, 0}, false, 2},
    {{1, 1, 3, 4, 3}, {2, 1, 2, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, false, 1},
    {{2, 3, 4}, {3, 2, 3}, {2}, {1}, {1}, {1}, true, 1},
    // More output padding than the stride: there is room for a window more.
    {{1, 4, 4}, {4, 1, 2}, {2}, {0}, {3}, {2}, true, 2},
    {{1, 2, 3, 2}, {2, 3, 2, 3}, {1, 3}, {0, 2}, {2, 1}, {0, 1}, true, 1},
    {{1, 2, 2, 2, 2}, {2, 1, 2, 1, 2}, {2, 1, 1}, {1, 0, 0}, {1, 1, 1}, {0, 0, 0}, true, 1},
};

std::vector<Sym> syms(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

TEST(CoreContraction, DerivativeOfConvolutions) {
  for (const Case& c : kConvolutions) {
    const int64_t outputs = c.transposed ? c.weight[1] * c.groups : c.weight[0];
    Slopes({c.input, c.weight, {outputs}}, [&](Builder& b, const std::vector<Tensor>& x) {
      return b
          .call1("core.convolution", {x[0].value, x[1].value, x[2].value, syms(c.stride), syms(c.padding),
                                      syms(c.dilation), c.transposed, syms(c.output_padding), Sym(c.groups)})
          ->node;
    }).check(3);
    if (HasFailure()) return;
  }
}

TEST(CoreContraction, SecondDerivativeOfConvolutions) {
  for (const Case& c : kConvolutions) {
    if (c.transposed) continue;
    Sizes windows{c.input[0], c.weight[0]};
    for (size_t d = 0; d < c.stride.size(); ++d)
      windows.push_back(
          (c.input[d + 2] + 2 * c.padding[d] - c.dilation[d] * (c.weight[d + 2] - 1) - 1) / c.stride[d] + 1);
    Slopes({windows, c.input}, [&](Builder& b, const std::vector<Tensor>& x) {
      return b
          .call1("core.convolution_weight_grad", {x[0].value, x[1].value, syms(c.weight), syms(c.stride),
                                                  syms(c.padding), syms(c.dilation), Sym(c.groups)})
          ->node;
    }).check(2);
    if (HasFailure()) return;
  }
}

TEST(CoreContraction, GradientOfAConvolutionsInputHasItsSizeWhereThatIsUnknown) {
  Graph graph;
  Builder b(graph, Level::kCore);
  const Sym n = graph.sym->new_symbol("n", 9);
  TensorType type;
  type.sizes = {2, 3, n};
  type.strides = contiguous_strides(type.sizes);
  Value* x = graph.add_input(type, "x");
  type.sizes = {4, 3, 3};
  type.strides = contiguous_strides(type.sizes);
  Value* w = graph.add_input(type, "w");
  auto one = [](int64_t size) { return std::vector<Sym>{size}; };
  Value* y =
      b.call1("core.convolution", {x, w, std::monostate{}, one(2), one(1), one(1), false, one(0), Sym(1)});
  Derivative d(b, *y->node, {full_like(wrap(b, y), 1.0)});
  y->node->op->derivative(d);
  EXPECT_EQ(d.gradients[0].sizes(), x->type.sizes);
  EXPECT_EQ(d.gradients[1].sizes(), w->type.sizes);
}

MakeFn attention(bool masked, bool causal) {
  return [=](Builder& b, const std::vector<Tensor>& x) {
    const Arg mask = masked ? Arg(x[3].value) : Arg();
    return b.call1("core.sdpa", {x[0].value, x[1].value, x[2].value, mask, causal, 0.6})->node;
  };
}

// The gradients of a whole attention: of its result, and of the operands that it and its forward share.
MakeFn attention_backward(bool masked, bool causal) {
  return [=](Builder& b, const std::vector<Tensor>& x) {
    const Arg mask = masked ? Arg(x[4].value) : Arg();
    const std::vector<Value*> forward =
        b.call("core.sdpa", {x[1].value, x[2].value, x[3].value, mask, causal, 0.6});
    return b
        .call1("core.sdpa_backward",
               {x[0].value, x[1].value, x[2].value, x[3].value, mask, forward[0], forward[1], causal, 0.6})
        ->node;
  };
}

const Sizes kQuery{1, 2, 3, 2}, kKey{1, 2, 4, 2}, kValue{1, 2, 4, 3}, kResult{1, 2, 3, 3};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(CoreContraction, DerivativeOfAttention) {
  for (bool causal : {false, true}) Slopes({kQuery, kKey, kValue}, attention(false, causal)).check(3);
  for (const Sizes& mask : {Sizes{3, 4}, Sizes{1, 1, 3, 4}, Sizes{1, 2, 3, 4}, Sizes{2, 1, 4}}) {
    Slopes slopes({kQuery, kKey, kValue, mask}, attention(true, false));
    slopes.input(3).elements[1].real = -kInfinity;
    slopes.check(4);
  }
}

TEST(CoreContraction, DerivativeOfAttentionWhereARowSeesNothing) {
  Slopes slopes({kQuery, kKey, kValue, {3, 4}}, attention(true, false));
  for (size_t i = 0; i < 4; ++i) slopes.input(3).elements[4 + i].real = -kInfinity;
  slopes.check(4);
}

TEST(CoreContraction, SecondDerivativeOfAttention) {
  for (bool causal : {false, true})
    Slopes({kResult, kQuery, kKey, kValue}, attention_backward(false, causal)).check(4);
  Slopes slopes({kResult, kQuery, kKey, kValue, {3, 4}}, attention_backward(true, false));
  for (size_t i = 0; i < 4; ++i) slopes.input(4).elements[4 + i].real = -kInfinity;
  slopes.check(5);
}

}  // namespace
}  // namespace cdynamo::graph
