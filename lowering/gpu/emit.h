// Emission for GPUs: scheduled kernels -> PTX -> functions on a device.
#pragma once

#include <string>

#include "lowering/gpu/kernel_emitter.h"
#include "lowering/target.h"
#include "runtime/codegen/llvm_compile.h"
#include "runtime/cuda/driver.h"

namespace cdynamo::lowering::gpu {

// What profilers show for a kernel: the operators that it computes.
std::string function_name(const ScheduledKernel& kernel);

runtime::CodeTarget code_target(const Architecture& architecture);

// One kernel as PTX text; needs no device. `llvm_ir`, where not null, gets the text too.
std::string emit_ptx(const ScheduledKernel& kernel, const ThreadPlan& plan, const Architecture& architecture,
                     KernelCode* code, std::string* llvm_ir = nullptr);

std::unique_ptr<CompiledModule> emit_gpu(std::span<const ScheduledKernel> kernels,
                                         const graph::SymContext& context, const Architecture& architecture,
                                         const runtime::cuda::DeviceInfo& device, const EmitOptions& options);

}  // namespace cdynamo::lowering::gpu
