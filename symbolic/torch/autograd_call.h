// Nodes whose call is made of PyTorch's own functions and whose derivative is PyTorch's autograd of them
// (python/cdynamo/_library/autograd_call.py): core.library nodes whose results have types that capture knows, sizes that change
// included.
#pragma once

#include <vector>

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// A call of `call`, as one of the program's, whose results are of these types: a tuple of tensors.
ValuePtr append_autograd_call(Executor& ex, PyRef call, const std::vector<graph::Value*>& operands,
                              std::vector<graph::TensorType> types);

}  // namespace cdynamo::symbolic
