// What a GPU's blocks and lanes are of kernels that have more than one choice.
#include "tests/lowering/emit_testing.h"
#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

// A sum over rows that stores what it sums: all of its memory lies along the columns, though more loads are of a number a row.
TEST(Gpu, WhatHasAnElementForEachPointChoosesTheLanes) {
  graph::SymContext context;
  KernelWriter writer({Sym(2442)}, false);
  const int whole = writer.buffer(DType::kF32, 256 * 2442),
            stored = writer.buffer(DType::kF32, 256 * 2442, true);
  const int sums = writer.buffer(DType::kF32, 2442, true);
  writer.begin({Sym(256)});
  int sum = writer.load(whole, writer.index({{0, Sym(1)}, {1, Sym(2442)}}));
  for (int i = 0; i < 4; ++i) {
    const int of_row = writer.buffer(DType::kF32, 256);
    sum =
        writer.prim(graph::Prim::k_add, DType::kF32, {sum, writer.load(of_row, writer.index({{1, Sym(1)}}))});
  }
  writer.store(stored, writer.index({{0, Sym(1)}, {1, Sym(2442)}}), sum);
  const int total = writer.reduce(kSum, DType::kF32, sum);
  writer.begin();
  writer.store(sums, writer.index({{0, Sym(1)}}), total);
  EXPECT_TRUE(schedule(writer.kernel, context, gpu::kThreads).lanes_outer);
}

// Columns summed over batches and rows: blocks share out the rows too, of which a batch has many more than there are batches.
TEST(Gpu, BlocksOfSeveralAxes) {
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::mt19937 rng{3};
  const std::vector<DenseTensor> inputs = {random_tensor(DType::kF32, {2, 512, 64}, rng)};
  const graph::Tensor x = graph::wrap(builder, graph.add_input(tensor_type({2, 512, 64}, DType::kF32), "x"));
  graph.outputs = {graph::sum(x, {0, 1}).value};
  const RunResult run = compile_and_compare(graph, inputs, {}, emulated_gpu_target());
  EXPECT_NE(run.report.loop_ir.find("kernel sum_partial outer [16, 64]"), std::string::npos)
      << run.report.loop_ir;
}

}  // namespace
}  // namespace cdynamo::lowering::testing
