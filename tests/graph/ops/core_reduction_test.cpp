#include "tests/graph/slopes.h"

namespace cdynamo::graph {
namespace {

Node* maximum_over(Builder& b, Tensor x, const std::vector<Sym>& dims) {
  return b.call1("core.max", {x.value, dims})->node;
}

TEST(CoreReduction, DerivativeOfMaximum) {
  for (const std::vector<Sym>& dims : {std::vector<Sym>{1}, {0, 2}, {0, 1, 2}, {2}})
    Slopes({{2, 4, 3}}, [&](Builder& b, const std::vector<Tensor>& x) {
      return maximum_over(b, x[0], dims);
    }).check(1);
}

TEST(CoreReduction, TheFirstOfEqualMaximaGetsTheGradient) {
  Graph graph;
  Builder b(graph, Level::kCore);
  TensorType type;
  type.sizes = {2, 3};
  type.strides = {3, 1};
  Tensor x = wrap(b, graph.add_input(type, "x"));
  Node* node = maximum_over(b, x, {1});
  Derivative d(b, *node, {full(b, {2}, 5.0, DType::kF32)});
  node->op->derivative(d);
  graph.outputs = {d.gradients[0].value};
  EXPECT_EQ(interpret(graph, {DenseTensor::of({2, 3}, {1, 7, 7, 0, 0, 0})})[0].numbers(),
            (std::vector<double>{0, 5, 0, 5, 0, 0}));
}

}  // namespace
}  // namespace cdynamo::graph
