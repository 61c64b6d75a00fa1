// What a mask selects, in blocks that do not wait for each other: how many elements each block selects, the running number of these,
// and the elements of each block to where the blocks before it end.
#pragma once

#include "lowering/fusion/kernel_builder.h"

namespace cdynamo::lowering {

BuiltKernels build_running_counts(const LoweringContext& context, const Node& node);
BuiltKernels build_compress(const LoweringContext& context, const Node& node);

}  // namespace cdynamo::lowering
