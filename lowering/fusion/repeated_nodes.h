// Which nodes are computed again at each reader rather than stored.
#pragma once

#include "lowering/fusion/kernel_builder.h"

namespace cdynamo::lowering {

// Sets context.repeated: cheap nodes with several readers whose operands are hardly larger than their result, together with
// what only they read.
void mark_repeated_nodes(LoweringContext& context);

}  // namespace cdynamo::lowering
