// Products whose rows are padded for tensor cores, on the emulated GPU: against the interpreter of graphs.
#include "graph/passes/pad_products.h"
#include "graph/passes.h"
#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Tensor;

class PadProductsTest : public ::testing::Test {
 protected:
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  std::mt19937 rng{5};

  Tensor input(std::vector<int64_t> sizes, DType dtype = DType::kBF16) {
    return input_strided(sizes, graph::contiguous_strides({sizes.begin(), sizes.end()}), dtype);
  }
  Tensor input_strided(const std::vector<int64_t>& sizes, std::vector<Sym> strides,
                       DType dtype = DType::kBF16) {
    inputs.push_back(random_tensor(dtype, sizes, rng));
    graph::TensorType type = tensor_type({sizes.begin(), sizes.end()}, dtype);
    type.strides = std::move(strides);
    return graph::wrap(builder, graph.add_input(type, "x" + std::to_string(inputs.size())));
  }
  void output(Tensor x) {
    x.value->type.strides = graph::contiguous_strides(x.sizes());
    graph.outputs.push_back(x.value);
  }
  Tensor addmm(Tensor a, Tensor b, Tensor addend) {
    return graph::wrap(builder, builder.call1("core.addmm", {a.value, b.value, addend.value, 1.0, 1.0}));
  }
  Tensor turn(Tensor x) { return graph::transpose(x, -2, -1); }

  // The sizes of the products' results, and how many copies are made for them; the compiled graph is right.
  struct Padded {
    std::vector<std::vector<Sym>> products;
    int copies = 0;
    bool operator==(const Padded&) const = default;
  };
  Padded check() {
    const std::unique_ptr<Graph> padded =
        graph::pad_products(graph, [](const graph::PaddedProduct&) { return true; });
    Padded seen;
    if (padded) {
      EXPECT_EQ(graph::verify(*padded, /*core=*/true), std::vector<std::string>());
      for (const auto& node : padded->nodes) {
        if (node->op->family == graph::Family::kContraction)
          seen.products.push_back(node->results[0]->type.sizes);
        seen.copies += node->op->name == "core.pad";
      }
    }
    compile_and_compare(graph, inputs, {}, emulated_gpu_target());
    return seen;
  }
};

TEST_F(PadProductsTest, EachDimThatRunsAlongMemory) {
  const Tensor a = input({16, 24}), b = input({24, 13});
  output(graph::mm(a, b));  // columns of b and of the result
  EXPECT_EQ(check(), (Padded{{{16, 16}}, 1}));
}

TEST_F(PadProductsTest, TheWeightOfALinearLayer) {
  output(graph::mm(input({16, 24}), turn(input({13, 24}))));
  EXPECT_EQ(check(), (Padded{{{16, 16}}, 1}));
}

TEST_F(PadProductsTest, TheInnerDim) {
  output(graph::mm(input({5, 13}), input({13, 8})));
  EXPECT_EQ(check(), (Padded{{{5, 8}}, 2}));
}

TEST_F(PadProductsTest, RowsOfATransposedOperand) {
  output(graph::mm(turn(input({5, 13})), input({5, 8})));
  EXPECT_EQ(check(), (Padded{{{16, 8}}, 1}));
}

TEST_F(PadProductsTest, AnInputThatLiesTransposed) {
  output(graph::mm(input_strided({13, 16}, {1, 13}), input_strided({16, 10}, {1, 16})));
  EXPECT_EQ(check(), (Padded{{{16, 16}}, 2}));
}

TEST_F(PadProductsTest, WhatIsAlignedOrOfNoUseStays) {
  output(graph::mm(turn(input({13, 16})), input({13, 8})));  // 13 lies along no row
  output(graph::mm(input({5, 16}), input({16, 3})));         // too small for tensor cores
  output(graph::mm(input({13, 13}, DType::kF64), input({13, 15}, DType::kF64)));
  const Padded seen = check();
  EXPECT_EQ(seen.products[0], (std::vector<Sym>{16, 8}));
  EXPECT_EQ(seen.products[1], (std::vector<Sym>{5, 3}));
}

TEST_F(PadProductsTest, BatchesAndBothOrders) {
  const Tensor a = input({3, 9, 13}), b = input({3, 13, 10}), c = input({3, 10, 13});
  output(graph::bmm(a, b));
  output(graph::bmm(a, turn(c)));
  output(graph::bmm(turn(b), turn(a)));
  const Padded seen = check();
  EXPECT_EQ(seen.products, (std::vector<std::vector<Sym>>{{3, 9, 16}, {3, 9, 16}, {3, 16, 16}}));
}

TEST_F(PadProductsTest, WhatIsAdded) {
  const Tensor a = input({16, 24}), b = input({24, 13});
  output(addmm(a, b, graph::expand(input({13}), {16, 13})));
  output(addmm(a, b, graph::expand(input({16, 1}), {16, 13})));
  output(addmm(a, b, graph::expand(input({1}), {16, 13})));
  output(addmm(a, b, input({16, 13})));
  EXPECT_EQ(check().copies, 1 + 1 + 1);  // b, a row, a matrix
}

// As a model's last layer with its loss, whose logits are an output too, and what its backward computes.
TEST_F(PadProductsTest, LogitsAndTheirGradients) {
  const Tensor x = input({2, 6, 16}), weight = input({29, 16});
  const Tensor flat = graph::reshape(x, {12, 16});
  const Tensor logits = graph::reshape(graph::mm(flat, turn(weight)), {2, 6, 29});
  output(logits);
  const Tensor wide = graph::cast(graph::reshape(logits, {12, 29}), DType::kF32);
  const Tensor shifted = wide - graph::amax(wide, {1}, true);
  output(graph::mean(graph::log(graph::sum(graph::exp(shifted), {1})), {0}));
  const Tensor probabilities = graph::exp(shifted) / graph::sum(graph::exp(shifted), {1}, true);
  const Tensor grad = graph::cast(probabilities * 0.25, DType::kBF16);
  output(graph::mm(grad, weight));
  output(graph::mm(turn(grad), flat));
  const Padded seen = check();
  EXPECT_EQ(seen.products, (std::vector<std::vector<Sym>>{{12, 32}, {12, 16}, {32, 16}}));
  EXPECT_EQ(seen.copies, 2);  // the weight and the gradient, each for two
}

TEST_F(PadProductsTest, AProductThatIsWrittenToAnInput) {
  const Tensor a = input({16, 24}), b = input({24, 13}), to = input({16, 13});
  const Tensor product = graph::mm(a, b);
  graph.mutations.push_back({2, product.value});
  output(product + to);
  EXPECT_EQ(check(), (Padded{{{16, 16}}, 1}));
}

// An infinite number beside the padding is multiplied by no zero.
TEST_F(PadProductsTest, InfiniteNumbers) {
  const Tensor a = input({16, 13}), b = input({13, 9});
  const double infinity = std::numeric_limits<double>::infinity();
  inputs[0].set(3, infinity);
  inputs[1].set(5, -infinity);
  output(graph::mm(a, b));
  check();
}

}  // namespace
}  // namespace cdynamo::lowering::testing
