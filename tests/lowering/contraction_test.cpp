// Convolutions, attention and their gradients through the executor, against the interpreter of graphs.
#include <cmath>

#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Arg;
using graph::Tensor;

class ContractionTest : public ::testing::Test {
 protected:
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  std::mt19937 rng{11};

  Tensor input(std::vector<Sym> sizes, DType dtype = DType::kF32) {
    return input_strided(sizes, graph::contiguous_strides(sizes), dtype);
  }
  Tensor input_strided(std::vector<Sym> sizes, std::vector<Sym> strides, DType dtype = DType::kF32) {
    graph::TensorType type = tensor_type(sizes, dtype);
    type.strides = std::move(strides);
    std::vector<int64_t> counts;
    for (const Sym& size : sizes) counts.push_back(size.constant());
    inputs.push_back(random_tensor(dtype, counts, rng));
    return graph::wrap(builder, graph.add_input(type, "x" + std::to_string(inputs.size())));
  }
  // (N, C, H, W) with channels last in memory.
  Tensor channels_last(const std::vector<Sym>& sizes) {
    return input_strided(sizes, {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]});
  }
  void output(Value* value) { graph.outputs.push_back(value); }
  void check() { compile_and_compare(graph, inputs, {}, interpreted_target()); }
};

struct Case {
  std::vector<int64_t> windows, image, kernel, stride, padding, dilation;
  int64_t batch, window_channels, image_channels, groups;
};

std::vector<Sym> syms(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }
std::vector<Sym> sizes_of(int64_t batch, int64_t channels, const std::vector<int64_t>& spatial) {
  std::vector<Sym> sizes{batch, channels};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return sizes;
}

Case square(int64_t image, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t batch,
            int64_t window_channels, int64_t image_channels, int64_t groups = 1) {
  const int64_t windows = (image + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  return {{windows, windows},   {image, image}, {kernel, kernel}, {stride, stride}, {padding, padding},
          {dilation, dilation}, batch,          window_channels,  image_channels,   groups};
}

std::vector<Case> cases() {
  return {
      square(9, 3, 1, 1, 1, 2, 16, 5),
      square(8, 1, 1, 0, 1, 3, 7, 9),
      square(8, 1, 2, 0, 1, 2, 70, 3),
      square(15, 7, 2, 3, 1, 1, 20, 3),
      square(10, 3, 2, 1, 2, 2, 130, 4),
      square(12, 3, 3, 0, 1, 2, 33, 8, 1),
      square(11, 3, 1, 1, 1, 2, 24, 16, 2),
      square(9, 3, 1, 1, 1, 2, 6, 6, 6),
      square(9, 3, 2, 1, 1, 2, 12, 4, 4),
      square(6, 5, 1, 4, 1, 1, 10, 8),
      square(7, 2, 4, 1, 3, 2, 9, 8),
      square(13, 3, 1, 5, 1, 1, 9, 8),  // padded beyond the kernel: windows of nothing but padding
      {{40}, {130}, {5}, {3}, {0}, {2}, 2, 17, 3, 1},
      {{300}, {300}, {3}, {1}, {1}, {1}, 1, 8, 8, 1},
      {{3, 4, 5}, {5, 4, 9}, {3, 1, 2}, {2, 1, 2}, {1, 0, 1}, {1, 1, 1}, 2, 9, 8, 1},
      {{4, 4, 4}, {4, 4, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 8, 16, 2},
  };
}

TEST_F(ContractionTest, GradientsOfConvolutionWeights) {
  for (DType dtype : {DType::kF32, DType::kF64})
    for (const Case& c : cases()) {
      Tensor windows = input(sizes_of(c.batch, c.window_channels, c.windows), dtype),
             image = input(sizes_of(c.batch, c.image_channels, c.image), dtype);
      output(builder.call1(
          "core.convolution_weight_grad",
          {windows.value, image.value, sizes_of(c.window_channels, c.image_channels / c.groups, c.kernel),
           syms(c.stride), syms(c.padding), syms(c.dilation), Sym(c.groups)}));
    }
  check();
}

TEST_F(ContractionTest, TransposedConvolutions) {
  for (DType dtype : {DType::kF32, DType::kF64})
    for (const Case& c : cases()) {
      Tensor windows = input(sizes_of(c.batch, c.window_channels, c.windows), dtype),
             weight = input(sizes_of(c.window_channels, c.image_channels / c.groups, c.kernel), dtype);
      std::vector<Sym> beyond;  // so that the result is of the image's size
      for (size_t d = 0; d < c.windows.size(); ++d)
        beyond.push_back(c.image[d] - ((c.windows[d] - 1) * c.stride[d] - 2 * c.padding[d] +
                                       c.dilation[d] * (c.kernel[d] - 1) + 1));
      const Arg bias = c.batch > 1 ? Arg(input({c.image_channels}, dtype).value) : Arg();
      output(builder.call1("core.convolution",
                           {windows.value, weight.value, bias, syms(c.stride), syms(c.padding),
                            syms(c.dilation), true, beyond, Sym(c.groups)}));
    }
  check();
}

TEST_F(ContractionTest, GradientsOfConvolutionsOfOtherStridesAndDtypes) {
  const std::vector<Sym> one{1, 1}, none{0, 0}, kernel{20, 6, 3, 3};
  Tensor weight = input_strided(kernel, {1, 180, 60, 20});
  for (auto [windows, image] :
       {std::pair(channels_last({2, 20, 7, 8}), channels_last({2, 6, 9, 10})),
        std::pair(input({2, 20, 7, 8}, DType::kBF16), input({2, 6, 9, 10}, DType::kBF16)),
        std::pair(input({2, 20, 7, 8}, DType::kF16), input({2, 6, 9, 10}, DType::kF16))}) {
    output(builder.call1("core.convolution_weight_grad",
                         {windows.value, image.value, kernel, one, none, one, Sym(1)}));
    if (windows.dtype() != DType::kF32) continue;
    Value* found = builder.call1("core.convolution", {windows.value, weight.value, std::monostate{}, one,
                                                      none, one, true, none, Sym(1)});
    found->type.strides = {6 * 90, 1, 60, 6};
    output(found);
  }
  output(builder.call1(
      "core.convolution_weight_grad",
      {input({0, 20, 7, 8}).value, input({0, 6, 9, 10}).value, kernel, one, none, one, Sym(1)}));
  check();
}

TEST_F(ContractionTest, AttentionAndItsGradients) {
  struct Sizes {
    int64_t batch, heads, queries, keys, width, value_width;
    bool causal;
    std::vector<Sym> mask;
  };
  const Sizes all[] = {
      {2, 3, 70, 70, 8, 8, true, {}},          {1, 2, 150, 300, 16, 24, false, {}},
      {1, 1, 300, 140, 4, 4, true, {}},        {1, 1, 260, 300, 4, 4, false, {}},
      {2, 2, 5, 9, 3, 7, false, {2, 1, 5, 9}}, {1, 2, 140, 33, 8, 8, false, {140, 33}},
      {2, 1, 20, 280, 8, 8, false, {1, 280}},
  };
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16})
    for (const Sizes& s : all) {
      Tensor query = input({s.batch, s.heads, s.queries, s.width}, dtype),
             key = input({s.batch, s.heads, s.keys, s.width}, dtype),
             value = input({s.batch, s.heads, s.keys, s.value_width}, dtype),
             grad = input({s.batch, s.heads, s.queries, s.value_width}, dtype);
      Arg mask;
      if (!s.mask.empty()) {
        mask = input(s.mask, dtype).value;
        if (s.mask[0] == Sym(140))  // the first row sees nothing
          for (size_t i = 0; i < 33; ++i) inputs.back().set(i, -INFINITY);
      }
      const std::vector<Value*> forward =
          builder.call("core.sdpa", {query.value, key.value, value.value, mask, s.causal, 0.4});
      const std::vector<Value*> backward = builder.call(
          "core.sdpa_backward",
          {grad.value, query.value, key.value, value.value, mask, forward[0], forward[1], s.causal, 0.4});
      for (Value* result : {forward[0], forward[1], backward[0], backward[1], backward[2]}) output(result);
    }
  check();
}

// Products read transposed operands where they lie: what a linear layer's gradients are made of.
TEST_F(ContractionTest, TransposedOperandsOfProductsAreNotCopied) {
  Tensor x = input({20, 30}), grad = input({20, 40}), weight = input({40, 30});
  output(mm(grad, weight).value);
  output(mm(transpose(grad, 0, 1), x).value);
  output(mm(x, transpose(weight, 0, 1)).value);
  Tensor heads = permute(reshape(input({2, 12, 3 * 8}), {2, 12, 3, 8}), {0, 2, 1, 3});  // (B, H, L, E)
  Tensor batch = reshape(slice(heads, 0, 0, 1), {3, 12, 8}), scores = input({3, 12, 5});
  output(bmm(transpose(scores, 1, 2), batch).value);
  output(bmm(transpose(batch, 1, 2), scores).value);
  const RunResult result = compile_and_compare(graph, inputs, {}, interpreted_target());
  EXPECT_EQ(result.report.kernels, 0) << result.report.plan;
}

// Heads that are slices of one projection, and results that nobody asks for.
TEST_F(ContractionTest, GradientsOfSomeOperandsOfAttentionOverViews) {
  Tensor projection = input({2, 30, 3 * 4 * 8});
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(permute(reshape(slice(projection, 2, i * 32, 32), {2, 30, 4, 8}), {0, 2, 1, 3}));
  const std::vector<Value*> forward = builder.call(
      "core.sdpa", {parts[0].value, parts[1].value, parts[2].value, std::monostate{}, true, 0.3});
  Tensor grad = permute(input({2, 30, 4, 8}), {0, 2, 1, 3});
  const std::vector<Value*> backward =
      builder.call("core.sdpa_backward", {grad.value, parts[0].value, parts[1].value, parts[2].value,
                                          std::monostate{}, forward[0], forward[1], true, 0.3});
  output(backward[1]);
  check();
}

}  // namespace
}  // namespace cdynamo::lowering::testing
