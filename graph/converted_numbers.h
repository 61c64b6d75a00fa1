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

}  // namespace cdynamo::graph
