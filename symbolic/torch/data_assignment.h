// tensor.data = other: the tensor has the memory of `other` from there on, and its own history.
#pragma once

#include "symbolic/torch/tensor.h"

namespace cdynamo::symbolic {

void assign_data(Executor& ex, TensorValue& self, const ValuePtr& other);

}  // namespace cdynamo::symbolic
