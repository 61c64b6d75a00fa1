// Differentiation inside captured code: torch.autograd.grad becomes one node, which the graph's decomposition
// differentiates.
#pragma once

#include <span>

#include "absl/container/flat_hash_set.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// torch.autograd.grad(outputs, inputs, ...). Breaks the graph where a history outside of it is asked for.
ValuePtr torch_autograd_grad(Executor& ex, PyObject* callable, const CallArgs& args);

// The operator through which a backward under torch.autograd.function.once_differentiable gives its gradients.
inline constexpr const char* kOnceDifferentiable = "core.once_differentiable";

// The values from which a gradient flows to one of the roots within the captured graph.
absl::flat_hash_set<const graph::Value*> dependents_of(Executor& ex, std::span<graph::Value* const> roots);
// Does a gradient flow from `value` to `root` within the captured graph?
bool depends_on(Executor& ex, const graph::Value* value, const graph::Value* root);
// Breaks the graph where eager refuses `grad_output` (null: one is implied) as the gradient of `output`.
void require_grad_output(Executor& ex, const graph::Value* output, const graph::Value* grad_output);
// What was given for a flag, `otherwise` for nothing and None. Breaks the graph where it is no bool.
bool autograd_flag(const ValuePtr& value, bool otherwise);
// The gradients of the outputs with respect to the inputs as graph values; grad_outputs may be null.
std::vector<graph::Value*> append_gradients(Executor& ex, std::vector<graph::Value*> outputs,
                                            std::vector<graph::Value*> inputs,
                                            std::vector<graph::Value*> grad_outputs, bool create_graph);

}  // namespace cdynamo::symbolic
