// What a call of a pointwise operator means before it is a node: its operands, the dtype each is cast to, and
// the result's type.
//
// Overload 0 is the canonical one: its Tensor parameters are the operands, in order. Another overload may
// have a Scalar of the same name in the place of a Tensor (eq.Scalar): that is an operand too. A number may
// also stand for a Tensor.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

struct PointwiseCall {
  std::vector<Arg> operands;          // values and numbers; absent optional ones are left out
  std::vector<int> params;            // for each operand: its parameter in overload 0
  std::vector<DType> operand_dtypes;  // what each is cast to
  TensorType result;
};

// Throws UserError. `args` are those of schemas[overload].
PointwiseCall analyze_pointwise(Graph& graph, const OpDef& op, int overload, const std::vector<Arg>& args);

// The arguments of overload 0 where those of another overload were given; operands may then be numbers.
std::vector<Arg> canonical_args(const OpDef& op, int overload, const std::vector<Arg>& args);

}  // namespace cdynamo::graph
