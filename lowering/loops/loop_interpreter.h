// Runs kernels statement by statement, one element at a time: the oracle for scheduling (against
// graph/interpreter.h) and for emission (against the same kernels).
//
#pragma once

#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

// Runs one work item (a point of the outer axes, row-major). Buffers and error as runtime::HostKernelFn has them.
void interpret_item(const Kernel& kernel, const graph::SymContext& context, void* const* buffers,
                    const int64_t* symbols, int64_t item, int64_t* error);

}  // namespace cdynamo::lowering
