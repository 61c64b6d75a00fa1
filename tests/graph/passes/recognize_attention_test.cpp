#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "graph/passes.h"
#include "tests/graph/passes/eager_oracle.h"

namespace cdynamo::graph {
namespace {

struct AttentionProgram {
  Graph graph;
  Builder b{graph};
  Value* input(std::vector<Sym> sizes, DType dtype = DType::kF32) {
    std::vector<Sym> strides = contiguous_strides(sizes);
    return graph.add_input({.dtype = dtype, .sizes = std::move(sizes), .strides = std::move(strides)},
                           "x" + std::to_string(graph.inputs.size()));
  }
  Tensor call(std::string_view name, std::vector<Arg> args) {
    return wrap(b, b.call1(name, std::move(args)));
  }
  Tensor softmax(Tensor x) {
    if (find_op("softmax")) return call("softmax", {x.value, Sym(-1)});
    Tensor shifted = exp(x - amax(x, {x.rank() - 1}, true));
    return shifted / sum(shifted, {x.rank() - 1}, true);
  }
  // Key j is kept for query i where j < i: the first query has none.
  Tensor before(int64_t queries, int64_t keys) {
    const std::vector<Sym> sizes = {queries, keys};
    return lt(iota(b, sizes, 1, DType::kI64), iota(b, sizes, 0, DType::kI64));
  }
  Tensor transposed(Tensor x) { return call("transpose", {x.value, Sym(-2), Sym(-1)}); }
};

int count(const Graph& graph, std::string_view name) {
  int n = 0;
  for (const auto& node : graph.nodes) n += node->op->name == name;
  return n;
}

// The number of core.sdpa nodes; the results with and without must agree.
int fused(AttentionProgram& p, Tensor result) {
  p.graph.outputs = {result.value};
  const Prepared plain = functionalize(p.graph);
  const Prepared prepared = prepare(p.graph);
  const auto expected = testing::run_core(*plain.core), found = testing::run_core(*prepared.core);
  for (size_t i = 0; i < expected[0].size(); ++i) {
    if (std::isnan(expected[0][i]))
      EXPECT_TRUE(std::isnan(found[0][i])) << i;
    else
      EXPECT_NEAR(found[0][i], expected[0][i], 1e-5) << i;
  }
  return count(*prepared.core, "core.sdpa");
}

TEST(RecognizeAttention, FourDims) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 3, 4, 8})), k = wrap(p.b, p.input({2, 3, 5, 8})),
         v = wrap(p.b, p.input({2, 3, 5, 6}));
  Tensor scores = matmul(q, p.transposed(k)) / std::sqrt(8.0);
  EXPECT_EQ(fused(p, matmul(p.softmax(scores), v)), 1);
}

TEST(RecognizeAttention, ThreeDimsAndScaleOnQuery) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 4, 8})), k = wrap(p.b, p.input({2, 5, 8})),
         v = wrap(p.b, p.input({2, 5, 8}));
  EXPECT_EQ(fused(p, matmul(p.softmax(matmul(q * 0.25, p.transposed(k))), v)), 1);
}

TEST(RecognizeAttention, HeadsOutOfOneProjection) {
  AttentionProgram p;
  Tensor x = wrap(p.b, p.input({2, 4, 12}));
  const auto heads = [&](Tensor t) {
    return p.call("transpose",
                  {p.call("view", {t.value, std::vector<Sym>{2, 4, 3, 4}}).value, Sym(1), Sym(2)});
  };
  Tensor q = heads(x), k = heads(x * 2.0), v = heads(x + 1.0);
  EXPECT_EQ(fused(p, matmul(p.softmax(matmul(q, p.transposed(k)) * 0.5), v)), 1);
}

TEST(RecognizeAttention, AdditiveMaskWithMaskedRows) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 3, 4, 8})), k = wrap(p.b, p.input({2, 3, 5, 8})),
         v = wrap(p.b, p.input({2, 3, 5, 8}));
  Tensor mask = where(p.before(4, 5), Operand(0.0), Operand(-INFINITY));
  EXPECT_EQ(fused(p, matmul(p.softmax(matmul(q, p.transposed(k)) * 0.5 + mask), v)), 1);
}

TEST(RecognizeAttention, FilledMasks) {
  for (double fill : {double{-INFINITY}, -1e9}) {
    AttentionProgram p;
    Tensor q = wrap(p.b, p.input({2, 3, 4, 8})), k = wrap(p.b, p.input({2, 3, 5, 8})),
           v = wrap(p.b, p.input({2, 3, 5, 8}));
    Tensor scores = where(p.before(4, 5), matmul(q, p.transposed(k)) * 0.5, Operand(fill));
    EXPECT_EQ(fused(p, matmul(p.softmax(scores), v)), 1) << fill;
  }
}

TEST(RecognizeAttention, FilledMaskOfTheCaller) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 3, 4, 8})), k = wrap(p.b, p.input({2, 3, 5, 8})),
         v = wrap(p.b, p.input({2, 3, 5, 8}));
  Tensor masked = wrap(p.b, p.input({2, 1, 4, 5}, DType::kBool));
  Tensor scores = p.call("masked_fill", {(matmul(q, p.transposed(k)) * 0.5).value, masked.value, -INFINITY});
  EXPECT_EQ(fused(p, matmul(p.softmax(scores), v)), 1) << print_readable(*prepare(p.graph).core);
}

TEST(RecognizeAttention, MildFillIsLeftAlone) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 4, 8})), k = wrap(p.b, p.input({2, 5, 8})),
         v = wrap(p.b, p.input({2, 5, 8}));
  Tensor masked = wrap(p.b, p.input({4, 5}, DType::kBool));
  Tensor scores = where(masked, Operand(-10.0), matmul(q, p.transposed(k)));
  EXPECT_EQ(fused(p, matmul(p.softmax(scores), v)), 0);
}

TEST(RecognizeAttention, WeightsThatAreReturnedAreLeftAlone) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 4, 8})), k = wrap(p.b, p.input({2, 5, 8})),
         v = wrap(p.b, p.input({2, 5, 8}));
  Tensor weights = p.softmax(matmul(q, p.transposed(k)));
  p.graph.outputs = {matmul(weights, v).value, weights.value};
  EXPECT_EQ(count(*prepare(p.graph).core, "core.sdpa"), 0);
}

TEST(RecognizeAttention, SoftmaxOverAnotherDimIsLeftAlone) {
  AttentionProgram p;
  Tensor q = wrap(p.b, p.input({2, 5, 8})), k = wrap(p.b, p.input({2, 5, 8})),
         v = wrap(p.b, p.input({2, 5, 8}));
  Tensor weights = p.call("softmax", {matmul(q, p.transposed(k)).value, Sym(1)});
  EXPECT_EQ(fused(p, matmul(weights, v)), 0);
}

// A GPU's target says where one call is faster; its kernel takes no mask that is found here.
TEST(RecognizeAttention, OfAGpuWhereItGains) {
  for (const bool gains : {true, false})
    for (const bool masked : {true, false}) {
      AttentionProgram p;
      const auto heads = [&] {
        Value* x = p.input({2, 64, 3, 8});
        x->type.device = {runtime::DeviceType::kCUDA, 0};
        return p.call("transpose", {x, Sym(1), Sym(2)});
      };
      Tensor q = heads(), k = heads(), v = heads();
      Tensor scores = matmul(q, p.transposed(k)) / std::sqrt(8.0);
      if (masked) {
        Value* mask = p.input({64, 64});
        mask->type.device = {runtime::DeviceType::kCUDA, 0};
        scores = scores + wrap(p.b, mask);
      }
      p.graph.outputs = {matmul(p.softmax(scores), v).value};
      std::vector<AttentionShape> asked;
      const auto ask = [&](const AttentionShape& shape) {
        asked.push_back(shape);
        return gains;
      };
      EXPECT_EQ(count(*prepare(p.graph, {}, false, ask).core, "core.sdpa"), gains && !masked);
      EXPECT_EQ(count(*prepare(p.graph).core, "core.sdpa"), 0);
      EXPECT_EQ(asked.empty(), masked);
      if (masked) continue;
      EXPECT_EQ(asked[0].query.sizes, (std::vector<Sym>{2, 3, 64, 8}));
      EXPECT_EQ(asked[0].key.sizes, (std::vector<Sym>{2, 3, 64, 8}));
    }
}

}  // namespace
}  // namespace cdynamo::graph
