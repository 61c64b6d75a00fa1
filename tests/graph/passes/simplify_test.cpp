#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "graph/passes.h"
#include "tests/graph/passes/eager_oracle.h"

namespace cdynamo::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A core graph made by `body` of one matrix and one vector input.
struct CoreProgram {
  Graph graph;
  Builder b{graph, Level::kCore};
  Tensor x, y;
  explicit CoreProgram(DType dtype = DType::kF32) {
    x = input({4, 6}, dtype, "x");
    y = input({6}, dtype, "y");
  }
  Tensor input(std::vector<Sym> sizes, DType dtype, std::string name) {
    std::vector<Sym> strides = contiguous_strides(sizes);
    return wrap(b, graph.add_input({.dtype = dtype, .sizes = std::move(sizes), .strides = std::move(strides)}, std::move(name)));
  }
  Tensor call(std::string_view name, std::vector<Arg> args) { return wrap(b, b.call1(name, std::move(args))); }
  // The operators that are left, in order.
  std::vector<std::string> simplified(Tensor result) {
    graph.outputs = {result.value};
    EXPECT_THAT(verify(graph, true), IsEmpty()) << print_readable(graph);
    const auto before = testing::run_core(graph);
    simplify(graph);
    eliminate_common_subexpressions(graph);
    eliminate_dead_code(graph);
    EXPECT_THAT(verify(graph, true), IsEmpty()) << print_readable(graph);
    EXPECT_EQ(testing::run_core(graph), before) << print_readable(graph);
    EXPECT_FALSE(simplify(graph)) << "not idempotent\n" << print_readable(graph);
    std::vector<std::string> names;
    for (const auto& node : graph.nodes) names.emplace_back(node->op->name);
    return names;
  }
};

TEST(Simplify, UnitFactorsGo) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(p.x * 1 * 1.0)), ElementsAre("neg"));
}

TEST(Simplify, AdditionOfZeroStaysForFloats) {
  CoreProgram p;  // -0 + 0 is 0
  EXPECT_THAT(p.simplified(p.x + 0.0), ElementsAre("core.full", "add"));
}

TEST(Simplify, SubtractionOfZeroGoes) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(p.x - 0.0)), ElementsAre("neg"));
}

TEST(Simplify, IntegerZeros) {
  CoreProgram p(DType::kI64);
  EXPECT_THAT(p.simplified(neg(p.x + Operand(0))), ElementsAre("neg"));
  CoreProgram q(DType::kI64);
  EXPECT_THAT(q.simplified(q.x * Operand(0)), ElementsAre("core.full"));
}

TEST(Simplify, OutputThatIsAnInputKeepsItsCopy) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(p.x * 1), ElementsAre("core.full", "mul"));
}

TEST(Simplify, DivisionByPowerOfTwoIsMultiplication) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(p.x / 8.0), ElementsAre("core.full", "mul"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(q.x / 3.0), ElementsAre("core.full", "core.true_divide"));
}

TEST(Simplify, ViewsAreMerged) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(reshape(reshape(p.x, {24}), {2, 12}))), ElementsAre("core.reshape", "neg"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(neg(permute(permute(q.x, {1, 0}), {1, 0}))), ElementsAre("neg"));
  CoreProgram r;
  EXPECT_THAT(r.simplified(neg(slice(slice(r.x, 1, 1, 5), 1, 2, 3))), ElementsAre("core.slice", "neg"));
  CoreProgram s;
  EXPECT_THAT(s.simplified(neg(expand(expand(reshape(s.y, {1, 6}), {4, 6}), {2, 4, 6}))),
              ElementsAre("core.reshape", "core.expand", "neg"));
}

TEST(Simplify, ConversionsAreMergedWhereNothingIsLost) {
  CoreProgram p(DType::kI32);
  EXPECT_THAT(p.simplified(neg(cast(cast(p.x, DType::kI64), DType::kI32))), ElementsAre("neg"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(neg(cast(cast(q.x, DType::kI32), DType::kF32))),
              ElementsAre("core.cast", "core.cast", "neg"));
}

TEST(Simplify, WritesThatAreReadBack) {
  CoreProgram p;
  const std::vector<Sym> start = {1, 0}, step = {1, 1}, size = {2, 6};
  Tensor part = neg(p.call("core.slice", {p.x.value, start, size, step}));
  Tensor written = p.call("core.slice_scatter", {p.x.value, part.value, start, step});
  EXPECT_THAT(p.simplified(abs(p.call("core.slice", {written.value, start, size, step}))),
              ElementsAre("core.slice", "neg", "abs"));
}

TEST(Simplify, ConstantsAreFolded) {
  CoreProgram p;
  Tensor half = exp(full(p.b, {6}, 0.0, DType::kF32)) / 2.0;
  EXPECT_THAT(p.simplified(p.x * half), ElementsAre("core.full", "mul"));
}

TEST(Simplify, CommonSubexpressions) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(exp(p.x) * exp(p.x)), ElementsAre("exp", "mul"));
}

TEST(Simplify, SymbolicViews) {
  CoreProgram p;
  const Sym n = p.graph.sym->new_symbol("s0", 8);
  Tensor z = p.input({n, 4}, DType::kF32, "z");
  EXPECT_THAT(p.simplified(neg(reshape(reshape(z, {n * 4}), {n, 4}))), ElementsAre("neg"));
}

}  // namespace
}  // namespace cdynamo::graph
