// Products, distances and shapes as eager PyTorch has them: values and strides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "graph/interpreter.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;

struct TorchProgram {
  Graph graph;
  Builder b{graph};
  std::vector<DenseTensor> inputs;
  // 1, 2, 3 ... in row-major order.
  Value* counting(std::vector<int64_t> sizes) {
    std::vector<Sym> syms(sizes.begin(), sizes.end()), strides = contiguous_strides(syms);
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    std::vector<double> values(n);
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(i + 1);
    inputs.push_back(DenseTensor::of(sizes, values));
    return graph.add_input({.dtype = DType::kF32, .sizes = std::move(syms), .strides = std::move(strides)},
                           "x" + std::to_string(inputs.size()));
  }
  Value* einsum(const char* equation, std::vector<Value*> tensors) {
    return b.call1("core.einsum", {std::string(equation), std::move(tensors)});
  }
  DenseTensor run(Value* result) {
    graph.outputs = {b.call1("clone", {result})};
    EXPECT_THAT(verify(graph, false), IsEmpty()) << print_readable(graph);
    return interpret(*prepare(graph).core, inputs).at(0);
  }
};

void expect_near(const DenseTensor& found, const std::vector<int64_t>& sizes,
                 const std::vector<double>& values) {
  EXPECT_EQ(found.sizes, sizes);
  EXPECT_THAT(found.numbers(), Pointwise(DoubleNear(1e-4), values));
}

TEST(Einsum, Products) {
  TorchProgram p;
  Value* x = p.counting({2, 3});
  Value* y = p.counting({3, 2});
  expect_near(p.run(p.einsum("ij,jk->ik", {x, y})), {2, 2}, {22, 28, 49, 64});
  expect_near(p.run(p.einsum("ij,jk->ki", {x, y})), {2, 2}, {22, 49, 28, 64});
  expect_near(p.run(p.einsum("ij,jk", {x, y})), {2, 2}, {22, 28, 49, 64});
  expect_near(p.run(p.einsum("ij,ij->", {x, x})), {}, {91});
  expect_near(p.run(p.einsum("ij->j", {x})), {3}, {5, 7, 9});
}

TEST(Einsum, StridesAreEagers) {
  TorchProgram p;
  Value* x = p.counting({5, 2, 3});
  Value* y = p.counting({5, 3, 4});
  EXPECT_EQ(p.einsum("bij,bjk->bki", {x, y})->type.strides, (std::vector<Sym>{8, 2, 1}));
  EXPECT_EQ(p.einsum("bij,bjk->ikb", {x, y})->type.strides, (std::vector<Sym>{4, 1, 8}));
}

TEST(Einsum, OneOperandWithoutSumIsAView) {
  TorchProgram p;
  Value* x = p.counting({3, 3});
  p.graph.outputs = {p.einsum("ij->ji", {x}), p.einsum("ii->i", {x}), p.einsum("ij->i", {x})};
  const Prepared prepared = functionalize(p.graph);
  EXPECT_EQ(prepared.outputs[0].kind, OutputAlias::kViewOfInput);
  EXPECT_EQ(prepared.outputs[1].strides, std::vector<Sym>{4});
  EXPECT_EQ(prepared.outputs[2].kind, OutputAlias::kFresh);
}

TEST(Einsum, MistakesAreEagers) {
  TorchProgram p;
  Value* x = p.counting({2, 3});
  EXPECT_THROW(p.einsum("ij,ij->i", {x}), UserError);
  EXPECT_THROW(p.einsum("ijk->i", {x}), UserError);
  EXPECT_THROW(p.einsum("ij,jk->ik", {x, x}), UserError);
}

TEST(LinalgLike, Products) {
  TorchProgram p;
  Value* x = p.counting({2, 3});
  Value* y = p.counting({3, 2});
  const auto ints = [](int64_t at) { return std::vector<Sym>{at}; };
  expect_near(p.run(p.b.call1("core.tensordot", {x, y, ints(1), ints(0)})), {2, 2}, {22, 28, 49, 64});
  expect_near(p.run(p.b.call1("kron", {p.counting({2}), p.counting({2})})), {4}, {1, 2, 2, 4});
  expect_near(p.run(p.b.call1("linalg_cross", {x, x})), {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_near(p.run(p.b.call1("trace", {x})), {}, {6});
}

TEST(LinalgLike, DistancesAndNorms) {
  TorchProgram p;
  Value* x = p.counting({2, 2});
  expect_near(p.run(p.b.call1("cdist", {x, x, 2.0, std::monostate{}})), {2, 2},
              {0, std::sqrt(8.0), std::sqrt(8.0), 0});
  expect_near(p.run(p.b.call1("linalg_matrix_norm", {x})), {}, {std::sqrt(30.0)});
  expect_near(p.run(p.b.call1("linalg_norm", {x, INFINITY})), {}, {7});
  expect_near(p.run(p.b.call1("linalg_norm", {x, Sym(1)})), {}, {6});
}

TEST(ShapeLike, GridsAndBlocks) {
  TorchProgram p;
  Value* x = p.counting({2});
  Value* y = p.counting({3});
  const std::vector<Value*> both = {x, y};
  expect_near(p.run(p.b.call("core.meshgrid", {both, std::string("ij")})[1]), {2, 3}, {1, 2, 3, 1, 2, 3});
  expect_near(p.run(p.b.call("core.meshgrid", {both, std::string("xy")})[0]), {3, 2}, {1, 2, 1, 2, 1, 2});
  expect_near(p.run(p.b.call1("core.block_diag", {both})), {2, 5}, {1, 2, 0, 0, 0, 0, 0, 1, 2, 3});
  expect_near(p.run(p.b.call1("diagflat", {x, Sym(1)})), {3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
}

TEST(ShapeLike, Pixels) {
  TorchProgram p;
  Value* x = p.counting({1, 4, 1, 2});
  Value* shuffled = p.b.call1("pixel_shuffle", {x, Sym(2)});
  expect_near(p.run(shuffled), {1, 1, 2, 4}, {1, 3, 2, 4, 5, 7, 6, 8});
  expect_near(p.run(p.b.call1("pixel_unshuffle", {shuffled, Sym(2)})), {1, 4, 1, 2},
              {1, 2, 3, 4, 5, 6, 7, 8});
  Value* small = p.counting({1, 1, 1, 2});
  expect_near(p.run(p.b.call1("upsample_nearest2d", {small, std::vector<Sym>{2, 4}})), {1, 1, 2, 4},
              {1, 1, 2, 2, 1, 1, 2, 2});
}

TEST(ShapeLike, SplitsAreViews) {
  TorchProgram p;
  Value* x = p.counting({4});
  p.graph.outputs = p.b.call("hsplit", {x, Sym(2)});
  EXPECT_EQ(functionalize(p.graph).outputs[1].kind, OutputAlias::kViewOfInput);
}

}  // namespace
}  // namespace cdynamo::graph
