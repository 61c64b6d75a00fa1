// What emit_cpu does around emission: one code for equal kernels, the disk cache, threads, texts.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "emit_testing.h"
#include "lowering/codegen/kernel_store.h"
#include "lowering/loops/kernel_hash.h"
#include "runtime/host/kernel_cache.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

// y = x + value, with lengths and numbers that no other test uses, so that no code is there yet.
ScheduledKernel add_constant(double value, Sym n = 96) {
  KernelWriter w({n}, true);
  w.begin();
  int x = w.load(w.buffer(DType::kF32, n), w.index({{0, 1}}));
  w.store(w.buffer(DType::kF32, n, true), w.index({{0, 1}}),
          w.prim(Prim::k_add, DType::kF32, {x, w.constant(DType::kF32, value)}));
  return w.kernel;
}

float run_one(const CompiledModule& module, size_t kernel) {
  std::vector<float> x(96, 1.0f), y(96);
  void* buffers[] = {x.data(), y.data()};
  int64_t error[3] = {};
  int64_t items = 1;
  for (const Sym& extent : module.kernels[kernel].grid) items *= extent.constant();
  runtime::host_kernel(module.kernels[kernel].code)(buffers, nullptr, 0, items, nullptr, error);
  return y[95];
}

const EmitOptions kMemoryOnly{.use_disk_cache = false};

// The function of a kernel that one device has loaded is no function of another device.
TEST(EmitModule, EachDeviceLoadsItsOwn) {
  std::vector<int> loaded;
  const auto source = [&](int device) {
    return emit::KernelSource{.key = "a kernel of this test alone",
                              .device = device,
                              .compile = [](std::string*, std::string*) { return std::string("code"); },
                              .load = [&, device](const std::string&) -> std::shared_ptr<void> {
                                loaded.push_back(device);
                                return std::make_shared<int>(device);
                              }};
  };
  CompiledModule counts;
  const auto code = emit::obtain_kernels({source(0), source(1), source(0)}, kMemoryOnly, counts);
  EXPECT_EQ(loaded, (std::vector<int>{0, 1}));
  EXPECT_EQ(code[0], code[2]);
  EXPECT_NE(code[0], code[1]);
}

TEST(EmitModule, EqualKernelsAreCompiledOnce) {
  graph::SymContext context;
  std::vector<ScheduledKernel> kernels = {add_constant(1001), add_constant(1002), add_constant(1001),
                                          add_constant(1001)};
  kernels[2].name = "another name";
  kernels[3].buffers[0].plan_buffer = 17;
  auto module = emit_cpu(kernels, context, kMemoryOnly);
  EXPECT_EQ(module->kernels_compiled, 2);
  EXPECT_EQ(module->kernels[0].code, module->kernels[2].code);
  EXPECT_EQ(module->kernels[0].code, module->kernels[3].code);
  EXPECT_NE(module->kernels[0].code, module->kernels[1].code);
  EXPECT_EQ(run_one(*module, 0), 1002);
  EXPECT_EQ(run_one(*module, 1), 1003);
}

TEST(EmitModule, CodeIsSharedWhileItIsHeld) {
  graph::SymContext context;
  std::vector<ScheduledKernel> kernels = {add_constant(2001)};
  auto first = emit_cpu(kernels, context, kMemoryOnly);
  auto second = emit_cpu(kernels, context, kMemoryOnly);
  EXPECT_EQ(second->kernels_compiled, 0);
  EXPECT_EQ(first->kernels[0].code, second->kernels[0].code);
  first.reset();
  EXPECT_EQ(run_one(*second, 0), 2002);
  second.reset();
  EXPECT_EQ(emit_cpu(kernels, context, kMemoryOnly)->kernels_compiled, 1);
}

TEST(EmitModule, DifferencesThatMatterAreSeen) {
  graph::SymContext context;
  Sym s = context.new_symbol("s0", 96);
  std::vector<ScheduledKernel> kernels = {add_constant(3001), add_constant(3001, 97), add_constant(3001, s),
                                          add_constant(3001, s * Sym(2))};
  ScheduledKernel narrow = kernels[0];
  narrow.lanes_outer = false;
  kernels.push_back(narrow);
  ScheduledKernel sequential = kernels[0];
  sequential.phases[0].sequential = true;
  kernels.push_back(sequential);
  for (size_t i = 0; i < kernels.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(serialize(kernels[i]), serialize(kernels[j])) << i << " " << j;
}

TEST(EmitModule, SecondLoadComesFromDisk) {
  graph::SymContext context;
  std::vector<ScheduledKernel> kernels = {add_constant(4001), add_constant(4002)};
  // The process's cache, in the directory that the environment names (see main of these tests) or the user's.
  auto first = emit_cpu(kernels, context, {});
  const int compiled = first->kernels_compiled + first->kernels_from_disk;
  EXPECT_EQ(compiled, 2);
  first.reset();
  auto second = emit_cpu(kernels, context, {});
  if (runtime::KernelCache::process().directory().empty()) GTEST_SKIP() << "no cache directory";
  EXPECT_EQ(second->kernels_from_disk, 2);
  EXPECT_EQ(second->kernels_compiled, 0);
  EXPECT_EQ(run_one(*second, 1), 4003);
}

TEST(EmitModule, TextsAreGiven) {
  graph::SymContext context;
  std::string ir, assembly;
  std::vector<ScheduledKernel> kernels = {add_constant(5001), add_constant(5001)};
  auto module = emit_cpu(kernels, context,
                         {.use_disk_cache = false, .keep_text = true, .llvm_ir = &ir, .assembly = &assembly});
  EXPECT_NE(ir.find("define void @kernel"), std::string::npos);
  EXPECT_NE(assembly.find("kernel:"), std::string::npos);
  EXPECT_EQ(run_one(*module, 0), 5002);
}

TEST(EmitModule, SeveralThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      graph::SymContext context;
      std::vector<ScheduledKernel> kernels;
      for (int i = 0; i < 6; ++i) kernels.push_back(add_constant(6000 + 3 * t + i));
      auto module = emit_cpu(kernels, context, kMemoryOnly);
      for (int i = 0; i < 6; ++i) right += run_one(*module, i) == 6001 + 3 * t + i;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 24);
}

TEST(EmitModule, PlansSayWhatTheWorkIs) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 1000);
  std::vector<ScheduledKernel> kernels = {add_constant(7001, n)};
  auto module = emit_cpu(kernels, context, kMemoryOnly);
  int64_t small = 1, large = 100000;
  EXPECT_EQ(context.evaluate(module->kernels[0].grid.at(0), &small), 1);
  EXPECT_GT(context.evaluate(module->kernels[0].grid.at(0), &large), 100);
  EXPECT_GT(module->kernels[0].cost_per_item, 0);
}

}  // namespace
}  // namespace cdynamo::lowering
