// Runs kernels statement by statement, one element at a time: the oracle for scheduling (against
// graph/interpreter.h) and for emission (against the same kernels).
//
//   auto executable = compile_with(core, {}, nullptr, interpret_kernels);
#pragma once

#include "lowering/cpu/emit.h"

namespace cdynamo::lowering {

// Runs one work item (a point of the outer axes, row-major). Buffers as KernelFn has them.
void interpret_item(const Kernel& kernel, const graph::SymContext& context, void* const* buffers,
                    const int64_t* symbols, int64_t item, int64_t* error);

// The same in emit_cpu's place: a module whose functions interpret. Work items are the points of all outer
// axes.
std::unique_ptr<CompiledModule> interpret_kernels(std::span<const Kernel> kernels,
                                                  const graph::SymContext& context,
                                                  const EmitOptions& options);

}  // namespace cdynamo::lowering
