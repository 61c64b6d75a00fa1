// Emission: scheduled kernels -> machine code in this process. Each becomes a runtime::HostKernelFn
// (runtime/host/kernel.h); its work items are outer points, or blocks of lanes of the last outer axis.
#pragma once

#include "lowering/loops/schedule.h"
#include "lowering/target.h"

namespace cdynamo::lowering {

// `context` names the symbols.
std::unique_ptr<CompiledModule> emit_cpu(std::span<const ScheduledKernel> kernels,
                                         const graph::SymContext& context, const EmitOptions& options = {});

}  // namespace cdynamo::lowering
