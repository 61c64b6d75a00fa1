#include "lowering/cpu/target.h"

#include <algorithm>

#include "lowering/cpu/emit.h"
#include "lowering/loops/schedule.h"
#include "runtime/plan_executable.h"

namespace cdynamo::lowering {
namespace {

constexpr int64_t kLongRow = 1 << 16;  // a longer reduction is split for its rounding error's sake
constexpr int64_t kBlock = 8192;       // elements of a block of a split reduction
constexpr int64_t kMostBlocks = 4096;
constexpr int64_t kFewRows = 16;            // fewer outer points do not keep the threads busy
constexpr int64_t kWorthThreads = 1 << 14;  // elements
constexpr int64_t kLanes = 32;
// A strip of columns as wide as a vector goes from row to row, in pages each of its own where rows are long. The next strip
// goes through them again: few enough pages for their addresses, and the lines next to those read, to be at hand still.
constexpr int64_t kPage = 1024;  // elements of 4 bytes
constexpr int64_t kManyPages = 512, kPagesOfBlock = 128;
constexpr LaneStyle kVectors{.few = 16, .tiles = true};

}  // namespace

const char* CpuTarget::obstacle(const Kernel& kernel, const graph::SymContext& context) const {
  return reduces_crosswise(kernel, context, kVectors) ? "one reduction runs along memory, the other across it"
                                                      : nullptr;
}

ReductionBlocks CpuTarget::reduction_blocks(const ReductionShape& shape) const {
  // Lanes of a column reduction take up the results.
  const int64_t rows = shape.results_are_innermost ? (shape.results + kLanes - 1) / kLanes : shape.results;
  const bool too_few = rows < kFewRows && shape.length * rows >= kWorthThreads && shape.length >= kBlock / 4;
  const int64_t pages = std::min(shape.length, shape.length * shape.adjacent_results / kPage);
  if (shape.results_are_innermost && pages > kManyPages) return {pages / kPagesOfBlock, kMostBlocks, true};
  if (shape.length <= kLongRow && !too_few) return {};
  return {std::clamp<int64_t>(shape.length / kBlock, 4, kMostBlocks / 2), kMostBlocks};
}

std::unique_ptr<CompiledModule> CpuTarget::emit(std::span<const Kernel> kernels,
                                                const graph::SymContext& context,
                                                const EmitOptions& options) const {
  std::vector<ScheduledKernel> scheduled;
  for (const Kernel& kernel : kernels) {
    scheduled.push_back(schedule(kernel, context, kVectors));
    if (options.loop_ir) *options.loop_ir += print(scheduled.back()) + "\n";
  }
  return emit_cpu(scheduled, context, options);
}

runtime::LibraryFn CpuTarget::library(graph::CoreKind kind) const {
  using enum graph::CoreKind;
  switch (kind) {
    case kMatmul:
    case kBatchMatmul: return runtime::library_matmul;
    case kConvolution: return runtime::library_convolution;
    case kConvolutionWeightGrad: return runtime::library_convolution_weight_grad;
    case kAttention: return runtime::library_attention;
    case kAttentionBackward: return runtime::library_attention_backward;
    case kRandom: return runtime::library_random;
    case kLibrary: return runtime::library_callback;
    default: throw graph::InternalError("the CPU has no library function of a kind of operator");
  }
}

std::unique_ptr<runtime::Executable> CpuTarget::make_executable(runtime::Plan plan) const {
  return runtime::make_plan_executable(std::move(plan));
}

const CpuTarget& cpu_target() {
  static const CpuTarget target;
  return target;
}

}  // namespace cdynamo::lowering
