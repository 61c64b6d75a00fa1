// Code for GPUs: kernels by hand in the emulator, and the PTX of random ones through NVIDIA's assembler where it is there
// (CDYNAMO_PTXAS names it).
#include <cstdio>
#include <cstdlib>

#include "tests/lowering/emit_testing.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

// y[i] = x[index[i]]
KernelWriter gather(Sym n, Sym size) {
  KernelWriter writer({n}, true);
  writer.begin();
  const int x = writer.buffer(DType::kF32, size), index = writer.buffer(DType::kI64, n),
            y = writer.buffer(DType::kF32, n, true);
  const int at = writer.check(writer.load(index, KernelWriter::index({{0, 1}})), size);
  Index where;
  where.terms.push_back({-1, at, Sym(1)});
  writer.store(y, KernelWriter::index({{0, 1}}), writer.load(x, where));
  return writer;
}

TEST(Gpu, AnIndexOutOfRangeIsNoted) {
  graph::SymContext context;
  CheckOptions options;
  options.gpu = true;
  options.contents = {{1, {3, 9, -10, 0, 10}}};
  int64_t error[3] = {};
  check(gather(5, 10).kernel, context, options, error);
  EXPECT_EQ(error[0], runtime::RunError::kIndexError);
  EXPECT_EQ(error[1], 10);
  EXPECT_EQ(error[2], 10);
  options.contents = {{1, {3, 9, -10, 0, 9}}};
  check(gather(5, 10).kernel, context, options);
}

// y[i] = sum over an empty axis: nothing is read.
TEST(Gpu, EmptyRows) {
  for (bool lanes_outer : {false, true}) {
    graph::SymContext context;
    KernelWriter writer({Sym(70)}, lanes_outer);
    const int x = writer.buffer(DType::kF32, 1), y = writer.buffer(DType::kF32, 70, true);
    writer.begin({Sym(0)});
    const int sum = writer.reduce(kSum, DType::kF32, writer.load(x, KernelWriter::index({{1, 1}})));
    writer.begin();
    writer.store(y, KernelWriter::index({{0, 1}}), sum);
    CheckOptions options;
    options.gpu = true;
    options.guard_front = true;
    check(writer.kernel, context, options);
  }
}

std::string ptx_of(const ScheduledKernel& kernel, const graph::SymContext& context,
                   const gpu::Architecture& architecture) {
  gpu::KernelCode code;
  return gpu::emit_ptx(kernel, gpu::plan_threads(kernel, context, architecture), architecture, &code);
}

TEST(Gpu, Ptx) {
  graph::SymContext context;
  const std::string ptx =
      ptx_of(gather(1000, 10).kernel, context, {.compute_capability = 90, .processors = 132});
  EXPECT_NE(ptx.find(".target sm_90"), std::string::npos);
  EXPECT_NE(ptx.find(".visible .entry kernel("), std::string::npos);
  if (std::getenv("CDYNAMO_SHOW_PTX")) std::printf("%s\n", ptx.c_str());
}

// Every kernel that the emulator runs goes to the assembler too.
TEST(Gpu, PtxIsAssembled) {
  if (!ptxas()) GTEST_SKIP() << "CDYNAMO_PTXAS names no assembler: the PTX of these tests is not checked";
  graph::SymContext context;
  const ScheduledKernel kernel = gather(1000, 10).kernel;
  for (int capability : {80, 90})
    EXPECT_EQ(refused_by_ptxas(ptx_of(kernel, context, {.compute_capability = capability}), capability), "");
  EXPECT_NE(
      refused_by_ptxas(".version 7.8\n.target sm_80\n.address_size 64\n.entry kernel() { nonsense; }", 80),
      "");
}

}  // namespace
}  // namespace cdynamo::lowering
