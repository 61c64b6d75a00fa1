// The CPU as a target: vectors along one axis, threads over the others.
#pragma once

#include "lowering/target.h"

namespace cdynamo::lowering {

class CpuTarget : public Target {
 public:
  const char* obstacle(const Kernel& kernel, const graph::SymContext& context) const override;
  ReductionBlocks reduction_blocks(const ReductionShape& shape) const override;
  std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels, const graph::SymContext& context,
                                       const EmitOptions& options) const override;
  runtime::LibraryFn library(graph::CoreKind kind) const override;
  std::unique_ptr<runtime::Executable> make_executable(runtime::Plan plan) const override;
};

const CpuTarget& cpu_target();

}  // namespace cdynamo::lowering
