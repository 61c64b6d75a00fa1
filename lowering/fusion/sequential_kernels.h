// Kernels whose loops run in order: scans, scatter and index_put; what masks select (selection_kernels.h).
#pragma once

#include "lowering/fusion/kernel_builder.h"

namespace cdynamo::lowering {

// One kernel for a scan; for scatter and index_put a copy of `self` into the result and then the writes.
BuiltKernels build_sequential(const LoweringContext& context, const Node& node);

// A kernel that copies `value` to `destination`, a layout of the same sizes; from `source` where that is
// given.
Kernel build_copy(const LoweringContext& context, const Value& value, const BufferLayout& destination,
                  const BufferLayout* source = nullptr);

}  // namespace cdynamo::lowering
