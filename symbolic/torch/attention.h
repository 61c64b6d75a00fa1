// scaled_dot_product_attention on a GPU: eager chooses one of several kernels by sizes, dtypes, the device and settings. The one that
// it would choose is a core.library node (python/cdynamo/_library/attention.py); where it has none for a call, the operator's body is
// matrix products.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// Null for other operators and other devices, and where eager multiplies matrices.
ValuePtr try_fused_attention(Executor& ex, const graph::OpDef& op, const BoundCall& call);

}  // namespace cdynamo::symbolic
