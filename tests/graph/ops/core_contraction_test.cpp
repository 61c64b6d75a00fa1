// Derivatives of the core's contractions against differences of their values, as the interpreter computes both in float64.
#include <limits>

#include "tests/graph/slopes.h"

namespace cdynamo::graph {
namespace {

// As in eager: what a linear layer's weight gets is row-major, as the weight is.
TEST(CoreContraction, GradientOfATransposedOperandIsComputedTransposed) {
  Graph graph;
  Builder b(graph, Level::kCore);
  auto matrix = [&](Sym rows, Sym columns, const char* name) {
    TensorType type;
    type.sizes = {rows, columns};
    type.strides = {columns, 1};
    return wrap(b, graph.add_input(type, name));
  };
  Tensor x = matrix(5, 3, "x"), weight = matrix(4, 3, "weight"), grad = matrix(5, 4, "grad");
  Tensor turned = transpose(weight, 0, 1), y = mm(x, turned);
  Derivative product(b, *y.value->node, {grad});
  y.value->node->op->derivative(product);
  Derivative view(b, *turned.value->node, {product.gradients[1]});
  turned.value->node->op->derivative(view);
  EXPECT_EQ(view.gradients[0].value->node->op->name, "core.mm");
  EXPECT_EQ(view.gradients[0].sizes(), weight.sizes());
  EXPECT_EQ(std::get<Value*>(product.gradients[0].value->node->args[1]), weight.value);
}

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
