// Differentiation inside captured code: torch.autograd.grad, and the two functions that cdynamo.grad is made
// of (python/cdynamo/_grad.py). Each becomes one node, which the graph's decomposition differentiates.
#pragma once

#include "symbolic/array_value.h"

namespace cdynamo::symbolic {

// torch.autograd.grad(outputs, inputs, ...). Breaks the graph where a history outside of it is asked for.
ValuePtr torch_autograd_grad(Executor& ex, PyObject* callable, const CallArgs& args);

// cdynamo._grad.variable(x): x as a value of its own. cdynamo._grad.gradients(value, variables): a list.
ValuePtr make_variable(Executor& ex, const CallArgs& args);
ValuePtr gradients_of(Executor& ex, const CallArgs& args);

}  // namespace cdynamo::symbolic
