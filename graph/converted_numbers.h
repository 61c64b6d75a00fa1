// Numbers among an operator's arguments that eager converts to the result's dtype, and refuses where they do not
// fit: fill_(300) of int8, masked_fill(mask, -1e9) of float16.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

// Throws the RuntimeError that eager raises where `number` (a Sym, a double) is out of `dtype`'s range; a size
// symbol is guarded to be in it. Other arguments pass.
void require_fits(Graph& graph, const Arg& number, DType dtype);

// The same for the arguments of a call of PyTorch's whose result has `dtype`.
void check_converted_numbers(Graph& graph, const OpDef& op, const Args& args, DType dtype);

// NumPy (NEP 50): a Python int beside arrays of an integer dtype is converted to it, and has to be in its range. A
// comparison takes any int, and is left to NumPy where it is out of range.
void check_numpy_integers(Graph& graph, Promotion rule, const std::vector<Arg>& operands,
                          const std::vector<DType>& dtypes);

}  // namespace cdynamo::graph
