// Products on tensor cores whose rows in memory end off 16 bytes: the library has its fast kernels only where each dim that runs along
// memory, of an operand or of the result, is a multiple of 16 bytes. Others are computed of operands padded with zeros, and
// what was asked for is a part of the result (GPT-2's 50,257 words are 50,264 then).
#pragma once

#include <functional>
#include <memory>

#include "graph/graph.h"

namespace cdynamo::graph {

// What a target weighs: sizes that nobody knows count as their hints.
struct PaddedProduct {
  DType dtype = DType::kF32;
  int64_t row_alignment = 0;  // bytes: the least of the rows that are to be padded
  double multiplications = 0;
  double copied_bytes =
      0;  // read and written: operands that lie in memory already, a result that is an output
  int copies = 0;
};
using GainsByPadding = std::function<bool(const PaddedProduct&)>;

// Null where no product gains.
std::unique_ptr<Graph> pad_products(const Graph& core, const GainsByPadding& gains);

}  // namespace cdynamo::graph
