// The strides that eager's gradients have: a gradient that a pointwise operator computes lies in memory as the
// operands have it, so they are followed back to inputs and to what other operators make (row-major).
#pragma once

#include <vector>

#include "graph/graph.h"

namespace cdynamo::graph {

class GradientStrides {
 public:
  // Of a joint graph, for `gradients` (null ones are left out) and what they are views of.
  GradientStrides(const Graph& joint, const std::vector<Value*>& gradients);
  std::vector<Sym> of(const Value* value) const;

 private:
  void infer(const Node& node);

  SymContext& context_;
  std::vector<std::vector<Sym>> strides_;  // by value id; empty: row-major, or of no dims
};

}  // namespace cdynamo::graph
