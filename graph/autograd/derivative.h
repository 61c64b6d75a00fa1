// Derivative: what the derivative of an operator's entry sees. It is asked for at core level: operands of
// pointwise nodes have the node's sizes, and casts and expansions are nodes with derivatives of their own.
//
//   .derivative = [](Derivative& d) { d.set(0, d.grad() * cos(d.operand(0))); }
#pragma once

#include <vector>

#include "graph/builder.h"

namespace cdynamo::graph {

struct Derivative {
  Derivative(Builder& builder, const Node& node, std::vector<Tensor> grads);

  Builder& builder;
  const Node& node;
  Args args;
  std::vector<Tensor> operands;  // the tensors among the arguments, lists spread out, absent ones left out
  std::vector<Tensor> results;
  std::vector<Tensor> grads;      // of the results; a null value where it is zero
  std::vector<Tensor> gradients;  // of the operands; a null value where it is zero or was not set

  Tensor operand(int index) const { return operands.at(index); }
  Tensor result(int index = 0) const { return results.at(index); }
  Tensor grad(int index = 0) const { return grads.at(index); }
  // Operands that are not of a float type have no gradient: setting one does nothing.
  void set(int index, Tensor gradient);
};

// permute, where a permutation of a permutation is one, and none where they undo each other.
Tensor permute_folded(Tensor x, Dims dims);
inline Tensor transpose_folded(Tensor matrix) { return permute_folded(matrix, {1, 0}); }

// core.argmax (core.argmin) of the operand and dims of this core.max (core.min), where the graph has it: eager's operator
// saves the index and not its operand. Null where there is none.
Value* index_of_extreme(const Graph& graph, const Node& extreme);
// Appends it for those of one dim; what is not read is dead code.
void add_indices_of_extremes(Graph& function);

}  // namespace cdynamo::graph
