// Autograd: reverse-mode differentiation of a core graph, in the same graph. Each node's entry says its
// derivative (graph/autograd/derivative.h); composites are decomposed by then, so theirs is that of their bodies.
//
//   std::vector<Value*> gradients = differentiate(builder, {loss}, {one}, {weight, bias});
//
// What is appended are core nodes like any others: they can be differentiated again.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace cdynamo::graph {

// What cannot be differentiated, and which of the user's calls it belongs to (Node::user_call).
struct NoDerivative : Unsupported {
  NoDerivative(std::string message, int user_call) : Unsupported(std::move(message)), user_call(user_call) {}
  int user_call;
};

// Appends the reverse pass from `outputs`, whose gradients are `cotangents` (null: zero), to `inputs`: graph
// inputs or results of nodes. One gradient for each input, of its dtype and sizes; null where no output
// depends on it by way of differentiable operators. Throws NoDerivative.
std::vector<Value*> differentiate(Builder& builder, const std::vector<Value*>& outputs,
                                  const std::vector<Value*>& cotangents, const std::vector<Value*>& inputs);

// By value id: does a gradient flow from the value to one of `inputs`?
std::vector<bool> reaches(const Graph& graph, const std::vector<Value*>& inputs);
// By value id: does a gradient flow to it from one of these outputs?
std::vector<bool> values_behind(const Graph& graph, const std::vector<bool>& outputs);
// The same by input.
std::vector<bool> inputs_behind(const Graph& graph, const std::vector<bool>& outputs);

}  // namespace cdynamo::graph
