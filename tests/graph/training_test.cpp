#include "graph/autograd/training.h"
#include "graph/strides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/autograd/autograd.h"
#include "graph/interpreter.h"

namespace cdynamo::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TensorType type_of(std::vector<Sym> sizes) {
  TensorType type;
  type.dtype = DType::kF64;
  type.strides = contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

Tensor input(Builder& b, std::vector<Sym> sizes, const char* name) {
  return wrap(b, b.graph().add_input(type_of(std::move(sizes)), name));
}

TEST(Differentiate, FollowsTheChainRule) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Tensor x = input(b, {2}, "x");
  Tensor y = sin(x) * x;
  graph.outputs = differentiate(b, {y.value}, {full_like(y, 1.0).value}, {x.value});
  const auto result = interpret(graph, {DenseTensor::of({2}, {0.5, -1.0}, DType::kF64)});
  EXPECT_THAT(result[0].numbers(), Pointwise(DoubleNear(1e-12), {std::cos(0.5) * 0.5 + std::sin(0.5),
                                                                 -std::cos(1.0) - std::sin(1.0)}));
}

TEST(Differentiate, StopsAtDetach) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Tensor x = input(b, {1}, "x"), w = input(b, {1}, "w");
  Tensor y = detach(x * w) * x;
  const auto found = differentiate(b, {y.value}, {full_like(y, 1.0).value}, {x.value, w.value});
  EXPECT_EQ(found[1], nullptr);
  graph.outputs = {found[0]};
  EXPECT_THAT(
      interpret(graph, {DenseTensor::of({1}, {3}, DType::kF64), DenseTensor::of({1}, {5}, DType::kF64)})[0]
          .numbers(),
      ElementsAre(15));
}

TEST(Differentiate, SizesThatAreEqualUnderAnotherNameAreNotStretched) {
  Graph graph;
  Builder b(graph, Level::kCore);
  const Sym n = graph.sym->new_symbol("n", 3), m = graph.sym->new_symbol("m", 3);
  Tensor x = input(b, {n}, "x"), y = input(b, {m}, "y");
  Tensor z = x * y;  // guards that n is m
  graph.outputs = differentiate(b, {z.value}, {full_like(z, 1.0).value}, {x.value, y.value});
  EXPECT_EQ(graph.outputs[0]->type.rank(), 1);
  const std::vector<DenseTensor> inputs = {DenseTensor::of({3}, {1, 2, 3}, DType::kF64),
                                           DenseTensor::of({3}, {4, 5, 6}, DType::kF64)};
  EXPECT_THAT(interpret(graph, inputs)[0].numbers(), ElementsAre(4, 5, 6));
}

TEST(Differentiate, TwiceIsTheSecondDerivative) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Tensor x = input(b, {1}, "x");
  Tensor y = x * x * x;
  Value* first = differentiate(b, {y.value}, {full_like(y, 1.0).value}, {x.value})[0];
  graph.outputs = differentiate(b, {first}, {full_like(y, 1.0).value}, {x.value});
  EXPECT_THAT(interpret(graph, {DenseTensor::of({1}, {2}, DType::kF64)})[0].numbers(), ElementsAre(12));
}

// Runs forward and backward through the interpreter, as the caller would.
struct Step {
  std::vector<DenseTensor> outputs;
  std::vector<std::vector<double>> gradients;  // empty: null
};
Step run(const Training& training, const std::vector<DenseTensor>& inputs,
         const std::vector<DenseTensor>& cotangents) {
  Step step;
  step.outputs = interpret(*training.forward, inputs);
  const std::vector<bool> all_out(cotangents.size(), true), all_in(inputs.size(), true);
  Backward backward = make_backward(training, all_out, all_in);
  std::vector<DenseTensor> arguments;
  for (const SavedValue& saved : training.saved)
    arguments.push_back(saved.kind == SavedValue::kInput ? inputs[saved.index] : step.outputs[saved.index]);
  for (const DenseTensor& cotangent : cotangents) arguments.push_back(cotangent);
  const auto results = interpret(*backward.graph, arguments);
  for (const Gradient& gradient : backward.gradients) {
    step.gradients.emplace_back();
    if (gradient.kind == Gradient::kFresh && !gradient.is_view)
      step.gradients.back() = results[gradient.index].numbers();
  }
  return step;
}

// Two layers: relu(x @ w) @ v.
Training two_layers(const PartitionOptions& options = {}) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph, Level::kCore);
  Tensor x = input(b, {2, 3}, "x"), w = input(b, {3, 4}, "w"), v = input(b, {4, 1}, "v");
  Tensor hidden = tanh(mm(x, w));
  graph->outputs = {mm(exp(hidden), v).value};
  return make_training(std::move(graph), {false, true, true}, {true}, options);
}

// What a norm of half values reads again is these, not their float32 copies; and what is between convolutions of a GPU lies as they
// have it.
TEST(Training, WhatANormKeeps) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph, Level::kCore);
  const auto half = [&](std::vector<Sym> sizes, const char* name) {
    TensorType type;
    type.dtype = DType::kBF16;
    type.strides = contiguous_strides(sizes);
    type.sizes = std::move(sizes);
    return wrap(b, graph->add_input(type, name));
  };
  const std::vector<Sym> one{1, 1}, none{0, 0};
  Tensor x = half({2, 8, 4, 4}, "x"), w = half({16, 8, 1, 1}, "w");
  Tensor h = wrap(b, b.call1("core.convolution",
                             {x.value, w.value, std::monostate{}, one, none, one, false, none, Sym(1)}));
  Tensor wide = to_compute(h), centred = wide - mean(wide, {0, 2, 3}, true);
  Tensor scale = rsqrt(mean(centred * centred, {0, 2, 3}, true) + 1e-5);
  graph->outputs = {cast(centred * scale, DType::kBF16).value};
  const PartitionOptions options{
      .gains_by_channels_last = [](const Node& node) { return gains_by_channels_last(node, true); }};
  const Training training = make_training(std::move(graph), {true, true}, {true}, options);
  int large = 0;
  for (const SavedValue& saved : training.saved) {
    if (saved.kind != SavedValue::kExtra || !(saved.value->type.numel() == Sym(512))) continue;
    ++large;
    EXPECT_EQ(saved.value->type.dtype, DType::kBF16);
    EXPECT_EQ(saved.value->type.strides, channels_last_strides(saved.value->type.sizes));
  }
  EXPECT_EQ(large, 1);
}

DenseTensor ramp(std::vector<int64_t> sizes) {
  DenseTensor result(DType::kF64, std::move(sizes));
  for (size_t i = 0; i < result.elements.size(); ++i) result.set(i, 0.1 * static_cast<double>(i) - 0.3);
  return result;
}

TEST(Training, BackwardGivesTheSlopes) {
  const Training training = two_layers();
  const std::vector<DenseTensor> inputs = {ramp({2, 3}), ramp({3, 4}), ramp({4, 1})};
  const Step step = run(training, inputs, {DenseTensor::of({2, 1}, {1, 1}, DType::kF64)});
  EXPECT_TRUE(step.gradients[0].empty());
  const auto total = [&](const std::vector<DenseTensor>& at) {
    const auto out = interpret(*training.function, at)[0].numbers();
    return out[0] + out[1];
  };
  for (int which : {1, 2}) {
    ASSERT_EQ(step.gradients[which].size(), inputs[which].elements.size());
    for (size_t i = 0; i < inputs[which].elements.size(); ++i) {
      auto above = inputs, below = inputs;
      above[which].set(i, inputs[which].number(i) + 1e-6);
      below[which].set(i, inputs[which].number(i) - 1e-6);
      EXPECT_NEAR(step.gradients[which][i], (total(above) - total(below)) / 2e-6, 1e-7);
    }
  }
}

TEST(Training, KeepsNoPointwiseValueThatIsCheapAgain) {
  // exp(tanh(h)) is an operand of a matmul and kept; tanh(h) is one pointwise step from h or from that.
  const Training training = two_layers();
  int extras = 0;
  for (const SavedValue& saved : training.saved) extras += saved.kind == SavedValue::kExtra;
  EXPECT_LE(extras, 2);
}

Training six_layers(const PartitionOptions& options = {}) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph, Level::kCore);
  Tensor x = input(b, {16, 4}, "x"), w = input(b, {4, 4}, "w");
  for (int layer = 0; layer < 6; ++layer) {
    Tensor h = mm(x, w);
    x = x + mm(sin(tanh(h) * h), w);
  }
  graph->outputs = {x.value};
  return make_training(std::move(graph), {true, true}, {true}, options);
}

double kept_bytes(const Training& training) {
  double sum = 0;
  for (const SavedValue& saved : training.saved)
    if (saved.kind == SavedValue::kExtra) sum += bytes_of(*training.function->sym, saved.value->type);
  return sum;
}

TEST(Training, WithoutBudgetLessIsKeptAndTheGradientsAreTheSame) {
  const Training all = six_layers(), half = six_layers({.memory_budget = 0.5}),
                 none = six_layers({.memory_budget = 0});
  EXPECT_LE(kept_bytes(half), kept_bytes(all) / 2);
  EXPECT_LE(kept_bytes(none), kept_bytes(half));
  EXPECT_LT(kept_bytes(two_layers({.memory_budget = 0})), kept_bytes(two_layers()));
  const std::vector<DenseTensor> inputs = {ramp({16, 4}), ramp({4, 4})};
  DenseTensor ones(DType::kF64, {16, 4});
  for (size_t i = 0; i < ones.elements.size(); ++i) ones.set(i, 1);
  const auto expected = run(all, inputs, {ones}).gradients;
  EXPECT_EQ(run(half, inputs, {ones}).gradients, expected);
  EXPECT_EQ(run(none, inputs, {ones}).gradients, expected);
}

TEST(Training, GradientOfASumIsAViewOfItsCotangent) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph, Level::kCore);
  Tensor x = input(b, {2, 3}, "x");
  graph->outputs = {sum(x, {0, 1}).value};
  const Training training = make_training(std::move(graph), {true}, {true});
  const Backward backward = make_backward(training, {true}, {true});
  ASSERT_EQ(backward.gradients[0].kind, Gradient::kCotangent);
  EXPECT_TRUE(backward.gradients[0].is_view);
  EXPECT_EQ(backward.gradients[0].strides, (std::vector<Sym>{0, 0}));
  EXPECT_TRUE(backward.graph->outputs.empty());
}

TEST(Training, AnInputThatIsWrittenIsKeptAsItWas) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph, Level::kCore);
  Tensor x = input(b, {2}, "x"), state = input(b, {2}, "state");
  graph->outputs = {(x * state).value};
  graph->mutations.push_back({1, (state * 2.0).value});
  const Training training = make_training(std::move(graph), {true, false}, {true});
  ASSERT_EQ(training.saved.size(), 1u);
  EXPECT_EQ(training.saved[0].kind, SavedValue::kExtra);
}

}  // namespace
}  // namespace cdynamo::graph
