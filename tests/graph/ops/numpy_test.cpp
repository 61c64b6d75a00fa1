// NumPy's functions: shapes, dtypes and values as NumPy itself gives them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "graph/interpreter.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointwise;

struct NumpyProgram {
  Graph graph;
  Builder b{graph};
  std::vector<DenseTensor> inputs;
  NumpyProgram() {
    graph.framework = Framework::kNumpy;
    graph.torch_float = DType::kF64;
  }
  Value* array(std::vector<int64_t> sizes, std::vector<double> values, DType dtype = DType::kF64) {
    inputs.push_back(DenseTensor::of(sizes, std::move(values), dtype));
    std::vector<Sym> syms(sizes.begin(), sizes.end()), strides = contiguous_strides(syms);
    return graph.add_input({.dtype = dtype, .sizes = std::move(syms), .strides = std::move(strides)},
                           "a" + std::to_string(inputs.size()));
  }
  Value* call(std::string_view name, std::vector<Arg> args) { return b.call1(name, std::move(args)); }
  DenseTensor run(Value* result) {
    graph.outputs = {b.call1("clone", {result})};
    EXPECT_THAT(verify(graph, false), IsEmpty()) << print_readable(graph);
    return interpret(*prepare(graph).core, inputs).at(0);
  }
};

void expect(const DenseTensor& found, const std::vector<int64_t>& sizes, const std::vector<double>& values,
            DType dtype = DType::kF64) {
  EXPECT_EQ(found.sizes, sizes);
  EXPECT_EQ(found.dtype, dtype);
  EXPECT_THAT(found.numbers(), Pointwise(DoubleNear(1e-12), values));
}

std::vector<Sym> ints(std::initializer_list<int64_t> values) { return {values.begin(), values.end()}; }
const Arg kNone;

TEST(Numpy, SumAlongAxes) {
  NumpyProgram p;
  Value* a = p.array({2, 3}, {1, 2, 3, 4, 5, 6});
  expect(p.run(p.call("np.sum", {a})), {}, {21});
  expect(p.run(p.call("np.sum", {a, ints({0})})), {3}, {5, 7, 9});
  expect(p.run(p.call("np.sum", {a, ints({-1}), kNone, kNone, true})), {2, 1}, {6, 15});
}

TEST(Numpy, SumOfIntegersIsInt64) {
  NumpyProgram p;
  expect(p.run(p.call("np.sum", {p.array({3}, {1, 2, 3}, DType::kI32)})), {}, {6}, DType::kI64);
  expect(p.run(p.call("np.sum", {p.array({3}, {1, 0, 1}, DType::kBool)})), {}, {2}, DType::kI64);
}

TEST(Numpy, MomentsOfIntegersAreFloat64) {
  NumpyProgram p;
  Value* a = p.array({4}, {1, 2, 3, 6}, DType::kI64);
  expect(p.run(p.call("np.mean", {a})), {}, {3});
  expect(p.run(p.call("np.var", {a})), {}, {3.5});
  expect(p.run(p.call("np.std", {a, ints({0}), kNone, kNone, 1.0})), {}, {std::sqrt(14.0 / 3)});
}

TEST(Numpy, ExtremesAndTheirPlaces) {
  NumpyProgram p;
  Value* a = p.array({2, 3}, {3, 1, 2, 0, 5, 5});
  expect(p.run(p.call("np.max", {a, ints({1})})), {2}, {3, 5});
  expect(p.run(p.call("np.argmax", {a})), {}, {4}, DType::kI64);
  expect(p.run(p.call("np.argmin", {a, Sym(1)})), {2}, {1, 0}, DType::kI64);
  expect(p.run(p.call("np.ptp", {a, ints({0})})), {3}, {3, 4, 3});
}

TEST(Numpy, WeightedAverage) {
  NumpyProgram p;
  Value* a = p.array({2, 2}, {1, 2, 3, 4});
  Value* w = p.array({2}, {1, 3});
  expect(p.run(p.call("np.average", {a, ints({0}), w})), {2}, {2.5, 3.5});
}

TEST(Numpy, Norms) {
  NumpyProgram p;
  Value* a = p.array({2, 2}, {3, 4, 0, -5});
  expect(p.run(p.call("np.linalg_norm", {a})), {}, {std::sqrt(50.0)});
  expect(p.run(p.call("np.linalg_norm", {a, kNone, ints({1})})), {2}, {5, 5});
  expect(p.run(p.call("np.linalg_norm", {a, Sym(1)})), {}, {9});
  expect(p.run(p.call("np.linalg_norm", {a, INFINITY})), {}, {7});
}

TEST(Numpy, RunningSumsAndDifferences) {
  NumpyProgram p;
  Value* a = p.array({2, 2}, {1, 2, 3, 4});
  expect(p.run(p.call("np.cumsum", {a})), {4}, {1, 3, 6, 10});
  expect(p.run(p.call("np.cumsum", {a, Sym(0)})), {2, 2}, {1, 2, 4, 6});
  Value* wide = p.array({3}, {1e30, 1e30, 1e-30}, DType::kF32);
  expect(p.run(p.call("np.cumprod", {wide})), {3}, {float{1e30}, INFINITY, INFINITY}, DType::kF32);
  expect(p.run(p.call("np.diff", {a, Sym(1), Sym(0)})), {1, 2}, {2, 2});
  expect(p.run(p.call("np.trapezoid", {a})), {2}, {1.5, 3.5});
}

TEST(Numpy, AxesMoved) {
  NumpyProgram p;
  Value* a = p.array({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  expect(p.run(p.call("np.squeeze", {a})), {2, 3}, {1, 2, 3, 4, 5, 6});
  expect(p.run(p.call("np.moveaxis", {a, ints({0}), ints({-1})})), {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  expect(p.run(p.call("np.swapaxes", {a, Sym(1), Sym(2)})), {1, 3, 2}, {1, 4, 2, 5, 3, 6});
  expect(p.run(p.call("np.expand_dims", {a, ints({0, -1})})), {1, 1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  expect(p.run(p.call("np.flip", {a, ints({2})})), {1, 2, 3}, {3, 2, 1, 6, 5, 4});
}

TEST(Numpy, Joined) {
  NumpyProgram p;
  Value* a = p.array({2}, {1, 2});
  Value* b = p.array({2}, {3, 4}, DType::kI64);
  const std::vector<Value*> both = {a, b};
  expect(p.run(p.call("np.concatenate", {both})), {4}, {1, 2, 3, 4});
  expect(p.run(p.call("np.stack", {both, Sym(1)})), {2, 2}, {1, 3, 2, 4});
  expect(p.run(p.call("np.vstack", {both})), {2, 2}, {1, 2, 3, 4});
  expect(p.run(p.call("np.hstack", {both})), {4}, {1, 2, 3, 4});
  expect(p.run(p.call("np.column_stack", {both})), {2, 2}, {1, 3, 2, 4});
}

TEST(Numpy, SplitsAreViews) {
  NumpyProgram p;
  Value* a = p.array({5}, {1, 2, 3, 4, 5});
  const std::vector<Value*> parts = p.b.call("np.array_split", {a, Sym(2)});
  ASSERT_EQ(parts.size(), 2u);
  expect(p.run(parts[0]), {3}, {1, 2, 3});
  expect(p.run(parts[1]), {2}, {4, 5});
  p.graph.outputs = {parts[1]};
  EXPECT_EQ(functionalize(p.graph).outputs[0].kind, OutputAlias::kViewOfInput);
}

TEST(Numpy, RepeatedAndRolled) {
  NumpyProgram p;
  Value* a = p.array({2, 2}, {1, 2, 3, 4});
  expect(p.run(p.call("np.repeat", {a, Sym(2)})), {8}, {1, 1, 2, 2, 3, 3, 4, 4});
  expect(p.run(p.call("np.repeat", {a, Sym(2), Sym(0)})), {4, 2}, {1, 2, 1, 2, 3, 4, 3, 4});
  expect(p.run(p.call("np.tile", {a, ints({2})})), {2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  expect(p.run(p.call("np.roll", {a, ints({1})})), {2, 2}, {4, 1, 2, 3});
  expect(p.run(p.call("np.roll", {a, ints({-1}), ints({1})})), {2, 2}, {2, 1, 4, 3});
}

TEST(Numpy, TakenAndDiagonal) {
  NumpyProgram p;
  Value* a = p.array({2, 3}, {1, 2, 3, 4, 5, 6});
  Value* i = p.array({2}, {2, 0}, DType::kI64);
  expect(p.run(p.call("np.take", {a, i, Sym(1)})), {2, 2}, {3, 1, 6, 4});
  expect(p.run(p.call("np.take", {a, i})), {2}, {3, 1});
  expect(p.run(p.call("np.diag", {i})), {2, 2}, {2, 0, 0, 0}, DType::kI64);
  expect(p.run(p.call("np.tril", {a})), {2, 3}, {1, 0, 0, 4, 5, 0});
  expect(p.run(p.call("np.pad", {i, Sym(1)})), {4}, {0, 2, 0, 0}, DType::kI64);
}

TEST(Numpy, Products) {
  NumpyProgram p;
  Value* a = p.array({2, 2}, {1, 2, 3, 4});
  Value* v = p.array({2}, {5, 6}, DType::kI64);
  expect(p.run(p.call("np.matmul", {a, v})), {2}, {17, 39});
  expect(p.run(p.call("np.matmul", {v, v})), {}, {61}, DType::kI64);
  expect(p.run(p.call("np.dot", {a, a})), {2, 2}, {7, 10, 15, 22});
  expect(p.run(p.call("np.inner", {a, a})), {2, 2}, {5, 11, 11, 25});
  expect(p.run(p.call("np.outer", {v, v})), {2, 2}, {25, 30, 30, 36}, DType::kI64);
  expect(p.run(p.call("np.tensordot", {a, a})), {}, {30});
  expect(p.run(p.call("np.trace", {a})), {}, {5});
  expect(p.run(p.call("np.kron", {v, a})), {2, 4}, {5, 10, 6, 12, 15, 20, 18, 24});
}

TEST(Numpy, CrossProduct) {
  NumpyProgram p;
  Value* x = p.array({3}, {1, 0, 0});
  Value* y = p.array({3}, {0, 1, 0});
  expect(p.run(p.call("np.cross", {x, y})), {3}, {0, 0, 1});
}

TEST(Numpy, FunctionsOfEachElement) {
  NumpyProgram p;
  Value* a = p.array({4}, {-1.5, 0.5, 2.5, NAN});
  Value* f = p.array({2}, {-2, 3}, DType::kF32);
  expect(p.run(p.call("np.clip", {f, Sym(0), Sym(1)})), {2}, {0, 1}, DType::kF32);
  expect(p.run(p.call("np.nan_to_num", {a})), {4}, {-1.5, 0.5, 2.5, 0});
  expect(p.run(p.call("np.round", {f})), {2}, {-2, 3}, DType::kF32);
  expect(p.run(p.call("np.square", {f})), {2}, {4, 9}, DType::kF32);
  EXPECT_TRUE(std::isnan(p.run(p.call("np.sign", {a})).number(3)));
}

TEST(Numpy, MistakesAreNumpys) {
  NumpyProgram p;
  Value* a = p.array({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THROW(p.call("np.sum", {a, ints({2})}), UserError);
  EXPECT_THROW(p.call("np.matmul", {a, a}), UserError);
  EXPECT_THROW(p.b.call("np.split", {a, Sym(4), Sym(1)}), UserError);
  EXPECT_THROW(p.call("np.max", {p.array({0}, {})}), UserError);
}

}  // namespace
}  // namespace cdynamo::graph
