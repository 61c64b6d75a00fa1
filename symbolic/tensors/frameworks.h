// Where tensors and arrays meet: each as the other, on the same memory, and NumPy's scalars as PyTorch takes them. What a call that
// mixes both means is stated with these in the room whose call it is.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

bool is_tensor(const ValuePtr& value);
bool is_numpy_array(const ValuePtr& value);  // no scalar

// tensor.numpy(force=): raises where eager does.
ValuePtr array_of_tensor(Executor& ex, const ValuePtr& tensor, bool force = false);
// torch.from_numpy(array): breaks the graph where eager warns or raises.
ValuePtr tensor_of_array(Executor& ex, const ValuePtr& array);

// Whether a tensor is among the arguments, in lists and tuples too; the arguments with arrays in their place.
bool holds_tensor(Executor& ex, const CallArgs& args);
CallArgs with_arrays(Executor& ex, const CallArgs& args);

// NumPy's scalars are Python's numbers to PyTorch: one that is known (others as they are), and one that the graph holds, in a
// recorded call.
ValuePtr without_numpy_scalar(Executor& ex, const ValuePtr& value);
graph::Value* number_of_scalar(Executor& ex, const ArrayValue& scalar);
bool is_numpy_number(const ValuePtr& value);

}  // namespace cdynamo::symbolic
