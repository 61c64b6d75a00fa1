#include "graph/derivative.h"

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

struct Sample {
  std::vector<DenseTensor> inputs;
  std::vector<Arg> more;  // arguments after the tensors
};

std::vector<Arg> arguments(const OpDef& def, const std::vector<Value*>& inputs) {
  std::vector<Arg> args;
  size_t next = 0;
  for (const Param& param : def.parsed[0].params) {
    if (param.kind == ParamKind::kTensor)
      args.emplace_back(inputs.at(next++));
    else
      args.push_back(param.default_value);
  }
  return args;
}

// The sum of the operator's result.
double total(const OpDef& def, const std::vector<DenseTensor>& inputs) {
  Graph graph;
  Builder b(graph, Level::kCore);
  std::vector<Value*> values;
  for (const DenseTensor& input : inputs) values.push_back(graph.add_input(vector_type(input.numel()), "x"));
  graph.outputs = b.call(def, 0, arguments(def, values));
  double sum = 0;
  for (double x : interpret(graph, inputs)[0].numbers()) sum += x;
  return sum;
}

std::vector<DenseTensor> gradients(const OpDef& def, const std::vector<DenseTensor>& inputs) {
  Graph graph;
  Builder b(graph, Level::kCore);
  std::vector<Value*> values;
  for (const DenseTensor& input : inputs) values.push_back(graph.add_input(vector_type(input.numel()), "x"));
  Value* result = b.call(def, 0, arguments(def, values)).at(0);
  Tensor ones = full_like(wrap(b, result), 1.0);
  Derivative d(b, *result->node, {ones});
  result->node->op->derivative(d);
  for (const Tensor& gradient : d.gradients)
    graph.outputs.push_back(gradient.value ? gradient.value : full_like(wrap(b, values[0]), 0.0).value);
  return interpret(graph, inputs);
}

bool only_tensors_and_defaults(const OpDef& def) {
  for (const Param& param : def.parsed[0].params)
    if ((param.kind == ParamKind::kTensor) == param.optional && !param.has_default) return false;
  return true;
}

// Each pointwise operator of the table that has a derivative, against differences of its values.
TEST(Derivative, OfPointwiseOperatorsIsTheSlope) {
  constexpr double kStep = 1e-6;
  int checked = 0;
  for (const OpDef* def : all_ops()) {
    if (def->family != Family::kPointwise || !def->derivative || def->infer ||
        !only_tensors_and_defaults(*def))
      continue;
    size_t tensors = 0;
    for (const Param& param : def->parsed[0].params) tensors += param.kind == ParamKind::kTensor;
    if (def->name == "where" || def->name == "core.masked_fill" || def->name == "core.clamp") continue;
    if (def->name == "floor_divide" || def->name == "core.div_trunc")
      continue;  // without slope, and with steps
    const bool above_one = def->name == "acosh";
    std::vector<DenseTensor> inputs;
    for (size_t i = 0; i < tensors; ++i)
      inputs.push_back(DenseTensor::of(
          {2},
          above_one ? std::vector<double>{1.5, 2.3} : std::vector<double>{0.31 + 0.13 * i, 0.72 - 0.21 * i},
          DType::kF64));
    std::vector<DenseTensor> found = gradients(*def, inputs);
    ASSERT_EQ(found.size(), tensors) << def->name;
    for (size_t i = 0; i < tensors; ++i)
      for (size_t k = 0; k < 2; ++k) {
        std::vector<DenseTensor> up = inputs, down = inputs;
        up[i].elements[k].real += kStep;
        down[i].elements[k].real -= kStep;
        double slope = (total(*def, up) - total(*def, down)) / (2 * kStep);
        EXPECT_NEAR(found[i].number(k), slope, 1e-5 * std::max(1.0, std::fabs(slope)))
            << def->name << " operand " << i;
      }
    ++checked;
  }
  EXPECT_GT(checked, 60);
}

TEST(Derivative, EveryDifferentiablePointwiseOperatorHasOne) {
  for (const OpDef* def : all_ops())
    if (def->family == Family::kPointwise && def->differentiable && def->name != "digamma") {
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
