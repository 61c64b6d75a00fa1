// Tensors that captured code makes and that require grad: x.requires_grad_(), requires_grad=True, nn.Parameter. In the graph each
// is a value whose flag is set: what is computed of it requires grad, and a gradient that the program asks for within the capture is
// found. The leaf itself, if it leaves, is made of its content when the graph has run. What leaves and requires grad for
// such leaves alone has a history that ends in leaves which nobody can reach; where somebody can, the graph breaks.
#pragma once

#include <optional>

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// The tensor, which is a leaf from here on.
ValuePtr made_leaf(Executor& ex, const ValuePtr& tensor);

// A leaf that was made here, of which nothing has been computed: it does not require grad from here on.
ValuePtr no_leaf_any_more(Executor& ex, const ValuePtr& tensor);

// A call of an operator or a function that makes a tensor with requires_grad=True, without that; nothing for other calls.
std::optional<CallArgs> without_requires_grad(Executor& ex, PyObject* callable, const CallArgs& args);

// When all outputs are known: breaks the graph where a leaf leaves together with what was computed of it.
void check_made_leaves(Executor& ex);

}  // namespace cdynamo::symbolic
