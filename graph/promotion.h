// Type promotion: PyTorch's rules, and NumPy's (NEP 50) where the graph is a NumPy program's.
//
// PyTorch: operands fall into three ranks: tensors with dims, 0-dim tensors, Python numbers. A lower rank
// counts only by its category (bool < integer < float), and only where that is above the higher rank's.
// NumPy: 0-dim arrays count like any other, Python numbers by their category.
#pragma once

#include <span>

#include "graph/op.h"

namespace cdynamo::graph {

struct PromotedOperand {
  DType dtype;
  bool weak = false;     // a Python number
  bool has_dims = true;  // rank > 0
};
// What promotion sees of an argument: a value, or a number (Sym, double, bool).
PromotedOperand promoted_operand(const Arg& arg);

DType promote_types(Framework framework, DType a, DType b);
// torch.result_type, numpy.result_type.
DType result_type(Framework framework, DType default_float, std::span<const PromotedOperand> operands);
// The float type in which a float function of an integer type computes.
DType float_type(Framework framework, DType default_float, DType dtype);

struct Promoted {
  std::vector<DType> operands;  // the dtype each operand is cast to
  DType result;
};
// Throws UserError where the framework refuses the dtypes.
Promoted promote(Framework framework, DType default_float, Promotion rule,
                 std::span<const PromotedOperand> operands, std::string_view op_name);
// May a value of `from` be written in place to a tensor of `to`?
bool can_cast_in_place(Framework framework, DType from, DType to);

}  // namespace cdynamo::graph
