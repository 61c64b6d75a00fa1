#include "graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/core.h"
#include "graph/interpreter.h"

namespace cdynamo::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::Pointwise;

TensorType tensor_type(std::vector<Sym> sizes, DType dtype = DType::kF32) {
  TensorType type;
  type.dtype = dtype;
  type.strides = contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

// Calls an operator at core level and interprets the graph.
std::vector<DenseTensor> run(std::string_view op, const std::vector<DenseTensor>& inputs,
                             std::vector<Arg> more = {}) {
  Graph graph;
  Builder b(graph, Level::kCore);
  std::vector<Arg> args;
  for (const DenseTensor& input : inputs)
    args.emplace_back(
        graph.add_input(tensor_type({input.sizes.begin(), input.sizes.end()}, input.dtype), "x"));
  args.insert(args.end(), more.begin(), more.end());
  graph.outputs = b.call(op, args);
  for (const auto& node : graph.nodes) EXPECT_TRUE(is_core(*node->op)) << node->op->name;
  return interpret(graph, inputs);
}

TEST(Graph, AnInputIsCalledAsNothingElseIs) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(tensor_type({2}), "add_2");
  Value* y = graph.add_input(tensor_type({2}), "add_2");
  EXPECT_EQ(b.call1("add", {x, y})->name, "add_2");
  EXPECT_EQ(x->name, "add_2_2");
  EXPECT_EQ(y->name, "add_2_3");
  EXPECT_EQ(graph.add_input(tensor_type({2}), "x_2")->name, "x_2");
}

TEST(Builder, CapturedCallAppendsOneNodeWithEagersType) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(tensor_type({2, 3}), "x");
  TensorType column = tensor_type({2, 1}, DType::kF64);
  Value* y = graph.add_input(column, "y");
  Value* z = b.call1("add", {x, y});
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(z->type.dtype, DType::kF64);
  EXPECT_THAT(z->type.sizes, ElementsAre(Sym(2), Sym(3)));
  EXPECT_THAT(z->type.strides, ElementsAre(Sym(3), Sym(1)));
}

TEST(Builder, CoreCallMakesExpansionsAndCastsExplicit) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(tensor_type({2, 3}), "x");
  Value* y = graph.add_input(tensor_type({3}, DType::kI32), "y");
  Value* z = b.call1("add", {x, y});
  std::vector<std::string_view> names;
  for (const auto& node : graph.nodes) names.push_back(node->op->name);
  EXPECT_THAT(names, ElementsAre("core.cast", "core.reshape", "core.expand", "add"));
  EXPECT_EQ(z->type.dtype, DType::kF32);
}

TEST(Builder, NumbersBecomeFullInCore) {
  auto out = run("mul", {DenseTensor::of({3}, {1, 2, 3})}, {2.5});
  EXPECT_THAT(out[0].numbers(), ElementsAre(2.5, 5, 7.5));
}

TEST(Builder, CompositesExpandToCore) {
  auto out = run("mean", {DenseTensor::of({2, 2}, {1, 2, 3, 6})});
  EXPECT_THAT(out[0].numbers(), ElementsAre(3));
  EXPECT_TRUE(out[0].sizes.empty());
}

TEST(Builder, SumOfIntegersIsInt64) {
  auto out = run("sum", {DenseTensor::of({3}, {200, 100, 3}, DType::kU8)});
  EXPECT_EQ(out[0].dtype, DType::kI64);
  EXPECT_THAT(out[0].numbers(), ElementsAre(303));
}

TEST(Builder, ReportsShapeErrorsInEagersWords) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(tensor_type({2, 3}), "x");
  Value* y = graph.add_input(tensor_type({4}), "y");
  try {
    b.call1("add", {x, y});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.message,
              "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
  }
}

TEST(Builder, InPlaceKeepsTheOperandsType) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(tensor_type({2, 3}), "x");
  Value* y = graph.add_input(tensor_type({3}, DType::kF64), "y");
  const OpDef& add = op("add");
  Value* z = b.call(add, 0, {x, y, Sym(1)}, true).at(0);
  EXPECT_EQ(z->type.dtype, DType::kF32);
  EXPECT_TRUE(z->node->in_place);
  Value* i = graph.add_input(tensor_type({3}, DType::kI64), "i");
  EXPECT_THROW(b.call(add, 0, {i, y, Sym(1)}, true), UserError);
}

TEST(Builder, ViewsHaveEagersStrides) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(tensor_type({2, 3, 4}), "x");
  Value* t = b.call1("transpose", {x, Sym(0), Sym(2)});
  EXPECT_THAT(t->type.strides, ElementsAre(Sym(1), Sym(4), Sym(12)));
  Value* e = b.call1("exp", {t});  // preserved
  EXPECT_THAT(e->type.strides, ElementsAre(Sym(1), Sym(4), Sym(12)));
  EXPECT_THROW(b.call1("view", {t, std::vector<Sym>{-1}}), UserError);
  Value* r = b.call1("reshape", {t, std::vector<Sym>{-1}});
  EXPECT_THAT(r->type.sizes, ElementsAre(Sym(24)));
  EXPECT_EQ(result_alias(*r->node), Alias::kNone);
  EXPECT_EQ(result_alias(*t->node), Alias::kView);
}

TEST(Builder, SymbolicSizesStaySymbolic) {
  Graph graph;
  Builder b(graph);
  Sym s = graph.sym->new_symbol("s0", 8);
  Value* x = graph.add_input(tensor_type({s, 6}), "x");
  Value* y = b.call1("view", {x, std::vector<Sym>{s, 2, -1}});
  EXPECT_THAT(y->type.sizes, ElementsAre(s, Sym(2), Sym(3)));
  Value* z = b.call1("sum", {b.call1("add", {x, x})});
  EXPECT_EQ(z->type.rank(), 0);
  EXPECT_TRUE(graph.sym->guards().empty());
}

TEST(Builder, VarianceOfRows) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(tensor_type({2, 2}), "x");
  const OpDef& var = op("var");
  graph.outputs = b.call(var, 1, {x, std::vector<Sym>{1}, true, false});
  EXPECT_THAT(interpret(graph, {DenseTensor::of({2, 2}, {1, 3, 2, 8})})[0].numbers(), ElementsAre(2, 18));
}

}  // namespace
}  // namespace cdynamo::graph
