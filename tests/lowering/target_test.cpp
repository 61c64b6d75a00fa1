// What a target owes the operator table.
#include "lowering/cpu/target.h"

#include <gtest/gtest.h>

#include "lowering/compile.h"

namespace cdynamo::lowering {
namespace {

TEST(CpuTarget, HasAFunctionForEveryLibraryCall) {
  for (const graph::OpDef* op : graph::all_ops())
    if (graph::is_library_call(op->core.kind)) {
      EXPECT_NE(cpu_target().library(op->core.kind), nullptr) << op->name;
    }
  EXPECT_THROW(cpu_target().library(graph::CoreKind::kPointwise), graph::InternalError);
}

TEST(CpuTarget, LongReductionsAreDoneInBlocks) {
  EXPECT_EQ(cpu_target().reduction_blocks({.length = 1024, .results = 1024}).wanted, 0);
  EXPECT_GT(cpu_target().reduction_blocks({.length = 1 << 20, .results = 1024}).wanted, 1);  // accuracy
  EXPECT_GT(cpu_target().reduction_blocks({.length = 1 << 15, .results = 1}).wanted, 1);     // threads
}

// Rows of a page are reduced down their columns by pages that stay at hand; short rows have many to a page.
TEST(CpuTarget, ColumnsOfManyPagesAreReducedInBlocks) {
  const auto blocks = [](int64_t length, int64_t results, int64_t adjacent) {
    return cpu_target().reduction_blocks(
        {.length = length, .results = results, .results_are_innermost = true, .adjacent_results = adjacent});
  };
  EXPECT_EQ(blocks(512, 1024, 1024).wanted, 0);
  EXPECT_EQ(blocks(2048, 1024, 1024).wanted, 16);
  EXPECT_TRUE(blocks(2048, 1024, 1024).by_block);
  EXPECT_EQ(blocks(2048, 8192, 8192).wanted, 16);
  EXPECT_EQ(blocks(2048, 2048, 32).wanted, 0);
}

TEST(Target, OfTheCpuIsTheCpus) {
  EXPECT_EQ(&target_of(runtime::Device{}), &cpu_target());
  EXPECT_THROW(target_of(runtime::Device{runtime::DeviceType::kCUDA}), graph::Unsupported);
}

}  // namespace
}  // namespace cdynamo::lowering
