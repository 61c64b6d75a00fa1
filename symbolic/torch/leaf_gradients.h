// The .grad attributes of leaves during capture: read, set, and accumulated into by backward(). What a
// capture leaves there is set again after the graph has run.
#pragma once

#include "symbolic/torch/tensor.h"

namespace cdynamo::symbolic {

// Whether the input is a leaf, which is guarded.
bool input_is_leaf(Executor& ex, const TensorValue& self);
// x.grad of an input or of what the graph has made.
ValuePtr leaf_gradient(Executor& ex, TensorValue& self);
// x.grad = value.
void set_leaf_gradient(Executor& ex, TensorValue& self, const ValuePtr& value);

// loss.backward() where the history of the loss lies within the graph and ends in leaves; breaks the
// graph elsewhere.
ValuePtr backward_method(Executor& ex, const ValuePtr& self, const CallArgs& args);

}  // namespace cdynamo::symbolic
