#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorType matrix() { return {.dtype = DType::kF32, .sizes = {2, 3}, .strides = {3, 1}}; }

TEST(Verify, SoundGraphs) {
  Graph captured;
  Builder b(captured);
  Value* x = captured.add_input(matrix(), "x");
  captured.outputs = {b.call1("add", {x, x})};
  EXPECT_THAT(verify(captured, false), IsEmpty());
}

TEST(Verify, UseBeforeDefinition) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(matrix(), "x");
  graph.outputs = {b.call1("neg", {b.call1("abs", {x})})};
  std::swap(graph.nodes.front(), graph.nodes.back());
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("not defined before it is used")));
}

TEST(Verify, OperandsOfOtherSizes) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(matrix(), "x");
  Value* y = graph.add_input({.dtype = DType::kF32, .sizes = {3}, .strides = {1}}, "y");
  Value* sum = b.call1("add", {x, x});
  sum->node->args[1] = y;
  graph.outputs = {sum};
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("operand y is not of the result's sizes")));
}

TEST(Verify, TypesThatAreNotInferred) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input(matrix(), "x");
  Value* sum = b.call1("add", {x, x});
  sum->type.dtype = DType::kI64;
  graph.outputs = {sum};
  EXPECT_THAT(verify(graph, false), Contains(HasSubstr("is int64, inferred is float32")));
}

TEST(Verify, OutputsOfCoreGraphs) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(matrix(), "x");
  Value* y = b.call1("neg", {x});
  graph.outputs = {x, y, y};
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("the output x is an input")));
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("comes twice")));
}

TEST(Verify, MutationsOfAnotherType) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input(matrix(), "x");
  graph.mutations = {{0, b.call1("core.cast", {x, DType::kF64})}};
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("what is written to x is of another type")));
}

TEST(Verify, CompositesInCoreGraphs) {
  Graph graph;
  Value* x = graph.add_input(matrix(), "x");
  graph.outputs = {Builder(graph).call1("softmax", {x, Sym(1)})};
  EXPECT_THAT(verify(graph, true), Contains(HasSubstr("not a core operator")));
}

}  // namespace
}  // namespace cdynamo::graph
