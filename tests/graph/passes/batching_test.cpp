// Each rule of graph/passes/batching: what it computes of a batch is what the example computes of each of it.
#include "graph/passes/batching.h"

#include <gtest/gtest.h>

#include <random>

#include "graph/interpreter.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

constexpr int64_t kBatch = 3;

class BatchingTest : public ::testing::Test {
 protected:
  Graph example;
  Builder b{example, Level::kCore};
  std::mt19937 rng{7};
  std::vector<std::vector<DenseTensor>> examples;  // by input
  std::vector<DenseTensor> shared;

  Tensor add(std::vector<int64_t> sizes, DType dtype) {
    TensorType type;
    type.dtype = dtype;
    type.sizes = {sizes.begin(), sizes.end()};
    type.strides = contiguous_strides(type.sizes);
    return wrap(b, example.add_input(type, "x" + std::to_string(example.inputs.size())));
  }
  DenseTensor random(const std::vector<int64_t>& sizes, DType dtype) {
    DenseTensor tensor(dtype, sizes);
    for (size_t i = 0; i < tensor.elements.size(); ++i)
      tensor.set(i, runtime::is_float(dtype) ? std::uniform_real_distribution<>(-2, 2)(rng)
                                             : std::uniform_int_distribution<>(0, 1)(rng));
    return tensor;
  }
  // Varying inputs come first.
  Tensor each(std::vector<int64_t> sizes, DType dtype = DType::kF64) {
    EXPECT_TRUE(shared.empty());
    std::vector<DenseTensor>& values = examples.emplace_back();
    for (int64_t i = 0; i < kBatch; ++i) values.push_back(random(sizes, dtype));
    return add(std::move(sizes), dtype);
  }
  Tensor one_for_all(std::vector<int64_t> sizes, DType dtype = DType::kF64) {
    shared.push_back(random(sizes, dtype));
    return add(std::move(sizes), dtype);
  }
  Tensor call(const char* op, std::vector<Arg> args) { return wrap(b, b.call1(op, std::move(args))); }

  void check(const std::vector<Tensor>& outputs) {
    for (const Tensor& output : outputs) example.outputs.push_back(output.value);
    Graph batch(example.sym);
    Builder of_batch(batch, Level::kCore);
    std::vector<DenseTensor> given;
    for (size_t i = 0; i < example.inputs.size(); ++i) {
      TensorType type = example.inputs[i]->type;
      if (i < examples.size()) {
        type.sizes.insert(type.sizes.begin(), kBatch);
        type.strides = contiguous_strides(type.sizes);
        std::vector<int64_t> sizes = examples[i][0].sizes;
        sizes.insert(sizes.begin(), kBatch);
        DenseTensor all(type.dtype, sizes);
        const size_t count = examples[i][0].elements.size();
        for (size_t k = 0; k < all.elements.size(); ++k)
          all.elements[k] = examples[i][k / count].elements[k % count];
        given.push_back(std::move(all));
      } else {
        given.push_back(shared[i - examples.size()]);
      }
      batch.add_input(type, example.inputs[i]->name);
    }
    batch.outputs = expand_batched(of_batch, example, batch.inputs, examples.size(), kBatch);
    // Outputs of core graphs are results of nodes, each once.
    for (Value*& output : batch.outputs) output = of_batch.call1("core.cast", {output, output->type.dtype});
    ASSERT_EQ(verify(batch, /*core=*/true), std::vector<std::string>());
    const std::vector<DenseTensor> got = interpret_all(batch, given, {}).outputs;
    for (int64_t i = 0; i < kBatch; ++i) {
      std::vector<DenseTensor> of_one;
      for (const auto& values : examples) of_one.push_back(values[i]);
      of_one.insert(of_one.end(), shared.begin(), shared.end());
      const std::vector<DenseTensor> want = interpret_all(example, of_one, {}).outputs;
      for (size_t o = 0; o < want.size(); ++o) {
        const size_t count = want[o].elements.size();
        ASSERT_EQ(got[o].elements.size(), count * kBatch);
        for (size_t k = 0; k < count; ++k)
          EXPECT_NEAR(got[o].number(i * count + k), want[o].number(k), 1e-9)
              << "output " << o << " of example " << i << ", element " << k;
      }
    }
  }
};

TEST_F(BatchingTest, ElementsAndViews) {
  const Tensor x = each({4, 3}), y = one_for_all({3});
  check({x * y + 1.5, permute(x, {1, 0}), reshape(x, {2, 6}), flip(slice(x, 0, 1, 2), {1}),
         pad(x, {1, 0}, {0, 2}, 0.5), concat({x, expand(y, {1, 3})}, 0), where(gt(x, 0.0), x, y),
         call("core.diagonal", {x.value, Sym(0), Sym(0), Sym(1)}), y * 2.0});
}

TEST_F(BatchingTest, Reductions) {
  const Tensor x = each({4, 3});
  check({sum(x, {0}), amax(x, {1}, true), mean(x, {0, 1}),
         call("core.argmax", {x.value, std::vector<Sym>{1}}),
         call("core.argmin", {x.value, std::vector<Sym>{0, 1}}),
         call("core.shared_max", {x.value, std::vector<Sym>{0, 1}}), call("core.cumsum", {x.value, Sym(1)})});
}

TEST_F(BatchingTest, Indices) {
  const Tensor x = each({2, 3}), i = each({4}, DType::kI64), y = one_for_all({2, 3}),
               j = one_for_all({4}, DType::kI64);
  const auto index = [&](Tensor of, std::vector<Value*> at) {
    return call("core.index", {of.value, std::move(at), std::string("IndexError")});
  };
  check({index(x, {i.value}), index(y, {i.value}), index(x, {j.value}), index(x, {i.value, j.value}),
         gather(x, expand(reshape(i, {1, 4}), {2, 4}), 1),
         call("core.index_put", {x.value, std::vector<Value*>{i.value}, one_for_all({4, 3}).value, true,
                                 std::string("IndexError")})});
}

TEST_F(BatchingTest, Products) {
  const Tensor a = each({2, 4}), b3 = each({4, 3}), c = each({5, 2, 4}), y = one_for_all({4, 3}),
               z = one_for_all({2, 4}), w = one_for_all({5, 4, 3}), s = one_for_all({5, 2, 3});
  check({mm(a, b3), mm(a, y), mm(z, b3), bmm(c, w), call("core.addmm", {c.value, w.value, s.value, 0.5, 2.0}),
         call("core.addmm", {a.value, y.value, expand(one_for_all({3}), {2, 3}).value, 1.0, 1.0})});
}

TEST_F(BatchingTest, Convolutions) {
  const Tensor x = each({2, 4, 5, 5}), weight = each({6, 2, 3, 3}), bias = each({6}),
               grad = each({2, 6, 5, 5}), kernel = one_for_all({6, 2, 3, 3});
  const std::vector<Sym> one{1, 1}, none{0, 0};
  const auto convolution = [&](Tensor w, Arg bias) {
    return call("core.convolution", {x.value, w.value, std::move(bias), one, one, one, false, none, Sym(2)});
  };
  check({convolution(kernel, {}), convolution(weight, {}), convolution(weight, bias.value),
         convolution(kernel, bias.value),
         call("core.convolution_weight_grad",
              {grad.value, x.value, std::vector<Sym>{6, 2, 3, 3}, one, one, one, Sym(2)})});
}

TEST_F(BatchingTest, WhatHasNoRuleIsRefused) {
  const Tensor x = each({4}), counts = call("core.running_counts", {gt(x, 0.0).value, Sym(4)});
  Graph batch(example.sym);
  Builder of_batch(batch, Level::kCore);
  TensorType type = x.value->type;
  type.sizes.insert(type.sizes.begin(), kBatch);
  type.strides = contiguous_strides(type.sizes);
  example.outputs = {counts.value};
  EXPECT_THROW(expand_batched(of_batch, example, {batch.add_input(type, "x")}, 1, kBatch), Unsupported);
}

}  // namespace
}  // namespace cdynamo::graph
