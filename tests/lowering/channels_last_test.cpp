// Convolutions in channels-last memory, and what is around them, on the emulated GPU: against the interpreter of graphs.
#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Arg;
using graph::Tensor;

class ChannelsLastTest : public ::testing::Test {
 protected:
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  std::mt19937 rng{3};

  Tensor input(std::vector<int64_t> sizes, DType dtype = DType::kF32) {
    inputs.push_back(random_tensor(dtype, sizes, rng));
    return graph::wrap(builder, graph.add_input(tensor_type({sizes.begin(), sizes.end()}, dtype),
                                                "x" + std::to_string(inputs.size())));
  }
  Tensor convolve(Tensor x, Tensor weight, Arg bias = {}, int64_t stride = 1, int64_t padding = 1,
                  int64_t groups = 1) {
    return graph::wrap(builder,
                       builder.call1("core.convolution", {x.value, weight.value, std::move(bias), two(stride),
                                                          two(padding), two(1), false, two(0), Sym(groups)}));
  }
  static std::vector<Sym> two(int64_t n) { return {n, n}; }
  Tensor relu(Tensor x) { return graph::maximum(x, 0.0); }
  // As batch_norm in training.
  Tensor normalize(Tensor x) {
    const graph::Dims dims{0, 2, 3};
    Tensor centred = x - graph::mean(x, dims, true);
    return centred * graph::rsqrt(graph::mean(centred * centred, dims, true) + 1e-5);
  }
  void output(Tensor x) {
    x.value->type.strides = graph::contiguous_strides(x.sizes());
    graph.outputs.push_back(x.value);
  }
  RunResult check() { return compile_and_compare(graph, inputs, {}, emulated_gpu_target()); }
  static int count(const std::string& text, const std::string& what) {
    int found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
    return found;
  }
};

TEST_F(ChannelsLastTest, AResidualBlock) {
  Tensor x = input({2, 16, 6, 8});
  Tensor h = relu(normalize(convolve(x, input({16, 16, 3, 3}))));
  output(relu(normalize(convolve(h, input({16, 16, 3, 3}))) + x));
  check();
}

TEST_F(ChannelsLastTest, ABiasIsAnAddition) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor x = input({2, 8, 5, 7}, dtype);
    Tensor h = relu(convolve(x, input({24, 8, 3, 3}, dtype), input({24}, dtype).value));
    output(h);
    if (dtype == DType::kF32) output(convolve(h, input({8, 24, 1, 1}), input({8}).value, 1, 0));
  }
  check();
}

// Each is promised in rows, and read by a convolution too.
TEST_F(ChannelsLastTest, ResultsOnTheWay) {
  Tensor x = input({2, 8, 8, 8});
  Tensor h = convolve(x, input({16, 8, 3, 3}), {}, 2);
  output(h);
  Tensor activated = relu(h) * 0.0625;
  output(activated);
  output(convolve(activated, input({8, 16, 3, 3})));
  check();
}

TEST_F(ChannelsLastTest, OperandsThatAreViews) {
  Tensor x = input({3, 40, 9, 8});
  Tensor w = input({16, 8, 3, 3});
  output(convolve(graph::slice(x, 1, 8, 8), w));
  output(convolve(graph::pad(graph::slice(relu(x), 1, 0, 8), {0, 0, 1, 0}, {0, 0, 0, 2}, 0.0), w));
  output(convolve(graph::permute(input({2, 6, 5, 8}), {0, 3, 1, 2}), w));
  output(convolve(graph::permute(relu(input({2, 6, 5, 8})), {0, 3, 1, 2}), w));
  output(convolve(graph::reshape(input({2, 8, 30}), {2, 8, 5, 6}), w));
  Tensor shared = convolve(graph::slice(x, 1, 0, 8), input({16, 8, 1, 1}), {}, 1, 0) * 0.125;
  output(graph::concat({shared, relu(shared), convolve(relu(shared), input({8, 16, 3, 3}))}, 1));
  output(graph::permute(graph::reshape(shared, {3, 16, 72}), {0, 2, 1}));
  check();
}

// Inputs and outputs of fewer dims, behind views: only those of four have that order.
TEST_F(ChannelsLastTest, ValuesOfOtherRanks) {
  Tensor x = input({2, 8, 3, 3});
  Tensor h = convolve(x, input({16, 8, 3, 3}), {}, 1, 0) * 0.0625;  // 2 x 16 x 1 x 1
  Tensor row = relu(input({2, 16}));
  output(row);
  output(relu(h + graph::reshape(row, {2, 16, 1, 1})));
  output(relu(h * graph::reshape(input({32}), {2, 16, 1, 1})));
  output(convolve(graph::reshape(row, {2, 2, 4, 2}), input({3, 2, 1, 1}), {}, 1, 0));  // does not gain
  check();
}

TEST_F(ChannelsLastTest, Pooling) {
  Tensor h = relu(convolve(input({2, 8, 8, 8}), input({16, 8, 3, 3})));
  Tensor windows = graph::wrap(
      builder, builder.call1("core.window", {h.value, std::vector<Sym>{2, 3}, two(3), two(2), two(1), two(1),
                                             two(4), -std::numeric_limits<double>::infinity()}));
  Tensor pooled = graph::amax(windows, {4, 5});
  output(graph::mean(convolve(pooled, input({24, 16, 3, 3})), {2, 3}));
  check();
}

// A gradient comes in rows: it is turned around once, before it is summed and multiplied.
TEST_F(ChannelsLastTest, Gradients) {
  Tensor x = input({2, 16, 8, 8}), weight = input({32, 16, 3, 3});
  Tensor h = convolve(x, weight) * 0.0625, gradient = input({2, 32, 8, 8});
  Tensor masked = graph::where(graph::gt(h, 0.0), gradient, 0.0);
  output(graph::sum(masked, {0, 2, 3}));
  Tensor back = masked * h - graph::mean(masked * h, {0, 2, 3}, true);
  output(graph::wrap(builder,
                     builder.call1("core.convolution", {back.value, weight.value, std::monostate{}, two(1),
                                                        two(1), two(1), true, two(0), Sym(1)})) +
         x);
  output(graph::wrap(builder,
                     builder.call1("core.convolution_weight_grad",
                                   {back.value, x.value, weight.sizes(), two(1), two(1), two(1), Sym(1)})));
  check();
}

// A channel's sum runs across memory: it is done in blocks, with channels side by side.
TEST_F(ChannelsLastTest, StatisticsOfChannels) {
  Tensor h = convolve(input({2, 8, 16, 16}), input({16, 8, 3, 3})) * 0.0625;
  output(graph::sum(h, {0, 2, 3}));
  EXPECT_EQ(count(check().report.plan, "partial"), 1);
}

// What is turned around for several readers is stored, and they are one kernel.
TEST_F(ChannelsLastTest, ReadersOfWhatIsTurned) {
  Tensor h = convolve(input({2, 16, 8, 8}), input({32, 16, 3, 3})) * 0.0625, x = input({2, 32, 8, 8});
  Tensor turned = graph::where(graph::gt(x, 0.0), x, 0.0);
  output(graph::sum(turned, {0, 2, 3}));
  output(graph::sum(turned * h, {0, 2, 3}));
  const std::string plan = check().report.plan;
  EXPECT_EQ(count(plan, "kernel fused_gt_where\n"), 1) << plan;
  EXPECT_EQ(count(plan, "kernel fused_mul_sum_mul_sum\n"), 1) << plan;
}

TEST_F(ChannelsLastTest, HalfValuesAreTurnedAsTheyAre) {
  const DType half = DType::kBF16;
  Tensor h = convolve(input({2, 16, 8, 8}, half), input({32, 16, 3, 3}, half)),
         x = input({2, 32, 8, 8}, half);
  Tensor turned = graph::to_compute(graph::where(graph::gt(x, 0.0), x, 0.0));
  output(graph::sum(turned, {0, 2, 3}));
  output(graph::cast(turned * graph::to_compute(h), half));
  EXPECT_EQ(count(check().report.plan, "kernel fused_gt_where\n"), 1);
}

TEST_F(ChannelsLastTest, OthersAreLeftAlone) {
  Tensor x = input({2, 16, 6, 6});
  output(relu(convolve(x, input({8, 16, 3, 3}), input({8}).value)));
  output(relu(convolve(graph::cast(x, DType::kF64), graph::cast(input({16, 16, 3, 3}), DType::kF64))));
  const std::vector<char> marked = graph::channels_last_values(
      graph, [](const graph::Node& node) { return graph::gains_by_channels_last(node, true); });
  EXPECT_TRUE(marked.empty());
  EXPECT_EQ(graph::lay_out_channels_last(graph, [](const graph::Node&) { return false; }).core, nullptr);
  check();
}

// The gradient of a large depthwise weight is computed in rows, what is around it is not.
TEST_F(ChannelsLastTest, OneThatDoesNotGain) {
  Tensor x = input({2, 16, 8, 8}), h = relu(convolve(x, input({16, 16, 1, 1}), {}, 1, 0));
  h = convolve(h, input({16, 1, 5, 5}), input({16}).value, 1, 2, 16);
  output(convolve(h, input({16, 16, 1, 1}), {}, 1, 0));
  Tensor gradient = relu(convolve(h, input({16, 16, 1, 1}), {}, 1, 0)) * 0.0625;
  output(graph::wrap(builder, builder.call1("core.convolution_weight_grad",
                                            {gradient.value, x.value, std::vector<Sym>{16, 1, 5, 5}, two(1),
                                             two(2), two(1), Sym(16)})));
  check();
}

// In between there is no copy: what goes in is turned around once, and so is what comes out.
TEST_F(ChannelsLastTest, NothingIsTurnedAroundInBetween) {
  Tensor x = input({2, 16, 8, 8});
  Tensor h = relu(convolve(x, input({16, 16, 1, 1}), {}, 1, 0));
  h = relu(convolve(h, input({16, 16, 1, 1}), {}, 1, 0) + h);
  output(relu(convolve(h, input({16, 16, 1, 1}), {}, 1, 0)));
  const RunResult result = check();
  EXPECT_EQ(count(result.report.plan, "call core.convolution"), 3) << result.report.plan;
  EXPECT_EQ(result.report.kernels, 4) << result.report.plan;
}

}  // namespace
}  // namespace cdynamo::lowering::testing
