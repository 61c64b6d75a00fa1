// A GPU as a target: outer axes to blocks and threads, rows to warps and blocks.
#pragma once

#include "lowering/gpu/thread_plan.h"
#include "lowering/target.h"
#include "runtime/cuda/driver.h"

namespace cdynamo::lowering {

class GpuTarget : public Target {
 public:
  GpuTarget(int device_index, const runtime::cuda::DeviceInfo& device);
  const char* obstacle(const Kernel& kernel, const graph::SymContext& context) const override;
  const char* fusion_obstacle(const Kernel& kernel, const graph::SymContext& context) const override;
  bool gains_by_channels_last(const graph::Node& convolution) const override;
  bool gains_by_padding(const graph::PaddedProduct& product) const override;
  ReductionBlocks reduction_blocks(const ReductionShape& shape) const override;
  bool scatters_in_any_order(DType dtype, bool adds) const override;
  std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels, const graph::SymContext& context,
                                       const EmitOptions& options) const override;
  runtime::LibraryFn library(graph::CoreKind kind) const override;
  ReductionBlocks scan_blocks(const ReductionShape& shape) const override;
  bool gains_by_attention(const graph::AttentionShape& shape) const override;
  bool brings_memory(graph::CoreKind kind) const override;
  std::unique_ptr<runtime::Executable> make_executable(runtime::Plan plan) const override;

 private:
  const int device_index_;
  const runtime::cuda::DeviceInfo& device_;
  const gpu::Architecture architecture_;
};

// Of the framework's device `index`; made once. Throws graph::Unsupported where there is none.
const GpuTarget& gpu_target(int index);

}  // namespace cdynamo::lowering
