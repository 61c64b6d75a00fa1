// Hooks of tensors during capture. On what came in they are registered after the graph has run, which is as good. On
// what the graph makes, a hook that only computes with tensors becomes a part of the graph (core.function), right where
// the tensor is made; another one breaks it, before anything has read the tensor: a hook sees the whole gradient.
#pragma once

#include <string>

#include "graph/graph.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Breaks the graph before anything has read the value: autograd is to see all of it in PyTorch.
[[noreturn]] void break_before_uses(Executor& ex, const graph::Value* value, const std::string& what);

ValuePtr register_hook_method(Executor& ex, const ValuePtr& self, const CallArgs& args);
ValuePtr register_post_accumulate_hook_method(Executor& ex, const ValuePtr& self, const CallArgs& args);
ValuePtr retain_grad_method(Executor& ex, const ValuePtr& self, const CallArgs& args);
// Breaks the graph where the tensor is to keep its gradient: of two results of one graph neither is in the other's history.
void refuse_retained(Executor& ex, const graph::Value* value);

}  // namespace cdynamo::symbolic
