#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

using ::testing::HasSubstr;

TEST(PrintReadable, NamesTypesAndLines) {
  Graph graph;
  const Sym n = graph.sym->new_symbol("s0", 8);
  Value* x = graph.add_input({.dtype = DType::kF32, .sizes = {n, 3}, .strides = {3, 1}}, "x");
  graph.locations = {
      {.file = "/home/me/model.py", .function = "forward", .text = "return (x + x).t()", .line = 12}};
  Builder b(graph);
  b.set_location(0, 0, 0);
  Value* sum = b.call1("add", {x, x});
  graph.outputs = {sum};
  const std::string text = print_readable(graph);
  EXPECT_THAT(text, HasSubstr("graph(%x: f32[s0, 3]):\n"));
  EXPECT_THAT(text, HasSubstr("%" + sum->name + ": f32[s0, 3] = aten::add(%x, %x, alpha=1)"));
  EXPECT_THAT(text, HasSubstr("# model.py:12 in forward: return (x + x).t()"));
  EXPECT_THAT(text, HasSubstr("return %" + sum->name + ": f32[s0, 3]\n"));
}

TEST(PrintReadable, MutationsAndLists) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input({.dtype = DType::kBF16, .sizes = {4}, .strides = {2}}, "x");
  Value* half = b.call1("core.slice", {x, std::vector<Sym>{0}, std::vector<Sym>{4}, std::vector<Sym>{1}});
  graph.mutations = {{0, half}};
  const std::string text = print_readable(graph);
  EXPECT_THAT(text, HasSubstr("%x: bf16[4] strides [2]"));
  EXPECT_THAT(text, HasSubstr("core.slice(%x, start=[0], size=[4], step=[1])"));
  EXPECT_THAT(text, HasSubstr("write %" + half->name + " to %x"));
}

TEST(ToDot, HasNodesAndEdges) {
  Graph graph;
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input({.dtype = DType::kF32, .sizes = {4}, .strides = {1}}, "x");
  graph.outputs = {b.call1("neg", {x})};
  const std::string text = to_dot(graph);
  EXPECT_THAT(text, HasSubstr("digraph graph {"));
  EXPECT_THAT(text, HasSubstr("[label=\"aten::neg\"]"));
  EXPECT_THAT(text, HasSubstr("i0 -> n0"));
  EXPECT_THAT(text, HasSubstr("n0 -> o0"));
}

}  // namespace
}  // namespace cdynamo::graph
