#include "tests/graph/slopes.h"

namespace cdynamo::graph {
namespace {

struct Windows {
  int64_t size, kernel, stride, padding, dilation, out;
};

Node* window(Builder& b, Tensor x, int64_t dim, const Windows& a, const Windows& c) {
  auto two = [](int64_t first, int64_t second) { return std::vector<Sym>{first, second}; };
  return b
      .call1("core.window", {x.value, two(dim, dim + 1), two(a.kernel, c.kernel), two(a.stride, c.stride),
                             two(a.padding, c.padding), two(a.dilation, c.dilation), two(a.out, c.out), -1.0})
      ->node;
}

TEST(CoreView, DerivativeOfWindows) {
  const Windows all[] = {
      {8, 2, 2, 0, 1, 4},    {7, 3, 2, 1, 1, 4}, {5, 3, 1, 1, 1, 5},
      {7, 2, 3, 0, 2, 2},    {6, 1, 1, 0, 1, 6}, {9, 2, 4, 0, 1, 2},  // places that no window covers
      {5, 2, 1, 3, 2, 9},                                             // windows of nothing but padding
      {4, 3, 2, 1, 1, 3},                                             // the last window sticks out
      {40, 38, 1, 2, 1, 7},                                           // by index
      {45, 12, 1, 0, 3, 12},
  };
  for (const Windows& a : all)
    for (const Windows& c : {all[0], all[1], all[3]}) {
      if (a.size > 9 && &c != &all[1] && c.size != 7) continue;
      Slopes({{2, a.size, c.size}}, [&](Builder& b, const std::vector<Tensor>& x) {
        return window(b, x[0], 1, a, c);
      }).check(1);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << a.size << " " << a.kernel << " " << a.stride << " " << c.kernel;
    }
}

TEST(CoreView, DerivativeOfWindowsOverAnUnknownSize) {
  Graph graph;
  Builder b(graph, Level::kCore);
  const Sym n = graph.sym->new_symbol("n", 7);
  TensorType type;
  type.dtype = DType::kF64;
  type.sizes = {n};
  type.strides = {1};
  Value* x = graph.add_input(type, "x");
  auto one = [](Sym size) { return std::vector<Sym>{size}; };
  Value* y =
      b.call1("core.window", {x, one(0), one(3), one(2), one(1), one(1), one(floordiv(n - 1, 2) + 1), 0.0});
  Derivative d(b, *y->node, {full_like(wrap(b, y), 1.0)});
  y->node->op->derivative(d);
  graph.outputs = {d.gradients[0].value};
  EXPECT_EQ(d.gradients[0].sizes(), x->type.sizes);
  for (int64_t size : {7, 6}) {
    const std::vector<double> found =
        interpret(graph, {DenseTensor(DType::kF64, {size})}, {size})[0].numbers();
    for (int64_t i = 0; i < size; ++i)
      EXPECT_EQ(found[i], i % 2 ? (i + 1 < size || size == 7 ? 2 : 1) : 1) << size << " " << i;
  }
}

}  // namespace
}  // namespace cdynamo::graph
