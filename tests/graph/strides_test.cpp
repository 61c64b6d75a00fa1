#include "graph/strides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cdynamo::graph {
namespace {

using ::testing::ElementsAre;

TensorType strided(std::vector<Sym> sizes, std::vector<Sym> strides) {
  TensorType type;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return type;
}

class Strides : public ::testing::Test {
 protected:
  SymContext sym;
};

TEST_F(Strides, PointwiseKeepsTheOrderOfItsOperand) {
  TensorType transposed = strided({4, 3}, {1, 4});
  EXPECT_THAT(elementwise_strides(sym, transposed.sizes, {&transposed}), ElementsAre(Sym(1), Sym(4)));
  TensorType rows = strided({4, 3}, {3, 1});
  // The first operand decides, the last where strides are equal in all.
  EXPECT_THAT(elementwise_strides(sym, rows.sizes, {&transposed, &rows}), ElementsAre(Sym(1), Sym(4)));
  EXPECT_THAT(elementwise_strides(sym, rows.sizes, {&rows, &transposed}), ElementsAre(Sym(3), Sym(1)));
}

TEST_F(Strides, BroadcastDimsDoNotDecide) {
  TensorType column = strided({4, 1}, {1, 1}), row = strided({3}, {1});
  EXPECT_THAT(elementwise_strides(sym, {4, 3}, {&column, &row}), ElementsAre(Sym(3), Sym(1)));
  TensorType expanded = strided({4, 3}, {0, 1});
  EXPECT_THAT(elementwise_strides(sym, {4, 3}, {&expanded}), ElementsAre(Sym(3), Sym(1)));
}

TEST_F(Strides, ChannelsLastIsKept) {
  TensorType image = strided({2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_TRUE(is_channels_last(sym, image));
  EXPECT_TRUE(suggests_channels_last(sym, image));
  EXPECT_TRUE(is_non_overlapping_and_dense(sym, image));
  EXPECT_THAT(elementwise_strides(sym, image.sizes, {&image}), ElementsAre(Sym(60), Sym(1), Sym(15), Sym(3)));
  TensorType one_by_one = strided({8, 3, 1, 1}, {3, 1, 1, 1});
  EXPECT_FALSE(suggests_channels_last(sym, one_by_one));
}

TEST_F(Strides, GapsAreNotPreserved) {
  TensorType slice = strided({4, 3}, {6, 1});
  EXPECT_FALSE(is_non_overlapping_and_dense(sym, slice));
  EXPECT_THAT(preserved_strides(Graph(), slice), ElementsAre(Sym(3), Sym(1)));
}

TEST_F(Strides, NumpyCopiesSortAllDims) {
  Graph graph;
  graph.framework = Framework::kNumpy;
  EXPECT_THAT(preserved_strides(graph, strided({4, 3}, {0, 1})), ElementsAre(Sym(1), Sym(4)));
  EXPECT_THAT(preserved_strides(graph, strided({3, 1}, {1, 3})), ElementsAre(Sym(1), Sym(1)));
  EXPECT_THAT(preserved_strides(graph, strided({3, 2, 1}, {-2, 6, 100})),
              ElementsAre(Sym(1), Sym(3), Sym(6)));
}

TEST_F(Strides, UfuncsOfColumnsTakeOneLoop) {
  TensorType columns = strided({3, 2, 1}, {1, 3, 6}), rows = strided({3, 2, 1}, {2, 1, 1}), number;
  const auto strides = [&](std::vector<const TensorType*> operands, bool casts) {
    return numpy_ufunc_strides(sym, {3, 2, 1}, operands, casts);
  };
  EXPECT_THAT(strides({&columns, &number}, false), ElementsAre(Sym(1), Sym(3), Sym(6)));
  EXPECT_THAT(strides({&columns, &number}, true), ElementsAre(Sym(1), Sym(3), Sym(1)));
  EXPECT_THAT(strides({&columns, &rows}, false), ElementsAre(Sym(2), Sym(1), Sym(1)));
}

TEST_F(Strides, ViewsWherePossible) {
  TensorType x = strided({2, 3, 4}, {12, 4, 1});
  EXPECT_THAT(*view_strides(sym, x, {6, 4}), ElementsAre(Sym(4), Sym(1)));
  TensorType transposed = strided({3, 2, 4}, {4, 12, 1});
  EXPECT_FALSE(view_strides(sym, transposed, {6, 4}).has_value());
  EXPECT_THAT(*view_strides(sym, transposed, {3, 2, 2, 2}), ElementsAre(Sym(4), Sym(12), Sym(2), Sym(1)));
}

TEST_F(Strides, SymbolicSizesStaySymbolic) {
  Sym s = sym.new_symbol("s0", 8);
  TensorType x = strided({s, 3, 4}, {12, 4, 1});
  EXPECT_THAT(*view_strides(sym, x, {s, 12}), ElementsAre(Sym(12), Sym(1)));
  TensorType transposed = strided({4, s}, {1, 4});
  EXPECT_THAT(elementwise_strides(sym, transposed.sizes, {&transposed}), ElementsAre(Sym(1), Sym(4)));
}

}  // namespace
}  // namespace cdynamo::graph
