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

// Rows of `length` points, one after the other or side by side, and what they come to so far.
KernelWriter running(const graph::ReductionDef& def, DType dtype, int64_t rows, Sym length, bool side_by_side,
                     bool in_place) {
  KernelWriter writer({Sym(rows)}, side_by_side);
  writer.begin({length}, true);
  const Index at =
      side_by_side ? KernelWriter::index({{0, 1}, {1, rows}}) : KernelWriter::index({{0, length}, {1, 1}});
  const int x = writer.buffer(dtype, Sym(rows) * length, in_place),
            y = in_place ? x : writer.buffer(dtype, Sym(rows) * length, true);
  writer.store(y, at, writer.scan(def, runtime::compute_type(dtype), writer.load(x, at)));
  return writer;
}

// Tiles of several threads, their rests, and rows of several tiles.
TEST(Gpu, Scans) {
  struct Case {
    const graph::ReductionDef& def;
    DType dtype;
    int64_t rows, length;
    bool known;
  };
  for (const Case& c : {Case{kSum, DType::kF32, 37, 40, true}, Case{kSum, DType::kF32, 3, 129, true},
                        Case{kSum, DType::kF32, 37, 500, false}, Case{kSum, DType::kF32, 1, 9000, true},
                        Case{kSum, DType::kF64, 3, 2104, false}, Case{kSum, DType::kI64, 37, 1024, true},
                        Case{kSum, DType::kI32, 3, 1, false}, Case{kMax, DType::kF32, 37, 129, false},
                        Case{kMax, DType::kBF16, 3, 2104, true}, Case{kMax, DType::kI64, 1, 5, true}})
    for (const bool side_by_side : {false, true}) {
      graph::SymContext context;
      const Sym n = c.known ? Sym(c.length) : context.new_symbol("s0", 256);
      CheckOptions options{.tolerance = 1e-6};
      options.whole_values = c.dtype == DType::kF64;  // of which every order gives the same sums
      options.gpu = true;
      if (!c.known) options.symbols = {c.length};
      const ScheduledKernel kernel =
          running(c.def, c.dtype, c.rows, n, side_by_side, c.length % 2 == 0).kernel;
      EXPECT_TRUE(gpu::plan_threads(kernel, context, kSmallGpu).scans || c.length == 1);
      check(kernel, context, options);
    }
}

// The running value is rounded at each step, by one thread.
TEST(Gpu, ScansOfHalves) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    graph::SymContext context;
    ScheduledKernel kernel = running(kSum, dtype, 70, Sym(12), true, false).kernel;
    for (Stmt& stmt : kernel.phases[0].body)
      if (stmt.kind == StmtKind::kScan) stmt.dtype = dtype;
    CheckOptions options;
    options.small_values = true;
    options.gpu = true;
    check(kernel, context, options);
  }
}

// What begins with -0 stays so.
TEST(Gpu, ScansKeepTheSignOfZero) {
  graph::SymContext context;
  CheckOptions options;
  options.gpu = true;
  options.contents = {{0, std::vector<int64_t>(2 * 300, std::numeric_limits<int64_t>::min())}};
  for (const bool side_by_side : {false, true})
    check(running(kSum, DType::kF64, 2, Sym(300), side_by_side, false).kernel, context, options);
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
  EXPECT_NE(ptx.find(".visible .entry cdynamo_"), std::string::npos);
  if (std::getenv("CDYNAMO_SHOW_PTX")) std::printf("%s\n", ptx.c_str());
}

// Points of a thread that have arguments beyond the common ones are computed one after the other, by code that stands there once.
TEST(Gpu, CodeForRareArgumentsStandsOnce) {
  graph::SymContext context;
  KernelWriter writer({Sym(1 << 20)}, true);
  writer.begin();
  const int x = writer.buffer(DType::kF32, 1 << 20), y = writer.buffer(DType::kF32, 1 << 20, true);
  const Index at = KernelWriter::index({{0, 1}});
  writer.store(y, at, writer.prim(Prim::k_sin, DType::kF32, {writer.load(x, at)}));
  const std::string ptx = ptx_of(writer.kernel, context, {.compute_capability = 90, .processors = 132});
  ASSERT_NE(ptx.find("ld.global.nc.v4"), std::string::npos) << "a thread has four points";
  const std::string reduction = "cvt.rn.f64.s64";  // of a huge argument: made in integers
  size_t copies = 0;
  for (size_t i = ptx.find(reduction); i != std::string::npos; i = ptx.find(reduction, i + 1)) ++copies;
  EXPECT_EQ(copies, 1) << ptx;
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
