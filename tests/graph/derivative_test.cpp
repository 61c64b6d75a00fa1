#include "graph/autograd/derivative.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/core.h"
#include "graph/interpreter.h"

namespace cdynamo::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

TensorType vector_type(int64_t size) {
  TensorType type;
  type.dtype = DType::kF64;
  type.sizes = {size};
  type.strides = {1};
  return type;
}

TEST(Derivative, EveryDifferentiablePointwiseOperatorHasOne) {
  for (const OpDef* def : all_ops())
    if (def->family == Family::kPointwise && def->differentiable) {
      EXPECT_NE(def->derivative, nullptr) << def->name;
    }
}

TEST(Derivative, OfMatrixProducts) {
  Graph graph;
  Builder b(graph, Level::kCore);
  auto matrix = [&](int64_t rows, int64_t columns) {
    TensorType type;
    type.sizes = {rows, columns};
    type.strides = {columns, 1};
    return graph.add_input(type, "m");
  };
  Value *x = matrix(2, 3), *y = matrix(3, 2);
  Value* z = b.call1("core.mm", {x, y});
  Derivative d(b, *z->node, {full_like(wrap(b, z), 1.0)});
  z->node->op->derivative(d);
  graph.outputs = {d.gradients[0].value, d.gradients[1].value};
  auto found = interpret(
      graph, {DenseTensor::of({2, 3}, {1, 2, 3, 4, 5, 6}), DenseTensor::of({3, 2}, {1, 0, 2, 1, 0, 3})});
  EXPECT_THAT(found[0].numbers(), Pointwise(DoubleNear(1e-6), {1, 3, 3, 1, 3, 3}));
  EXPECT_THAT(found[1].numbers(), Pointwise(DoubleNear(1e-6), {5, 5, 7, 7, 9, 9}));
}

TEST(Derivative, OfViewsGoesBackToTheOperand) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(vector_type(5), "x");
  Tensor part = slice(wrap(b, x), 0, 1, 2, 2);
  Derivative d(b, *part.value->node, {full_like(part, 1.0)});
  part.value->node->op->derivative(d);
  graph.outputs = {d.gradients[0].value};
  auto found = interpret(graph, {DenseTensor::of({5}, {1, 2, 3, 4, 5}, DType::kF64)});
  EXPECT_THAT(found[0].numbers(), Pointwise(DoubleNear(0), {0, 1, 0, 1, 0}));
}

}  // namespace
}  // namespace cdynamo::graph
