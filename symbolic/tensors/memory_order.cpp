#include "symbolic/tensors/memory_order.h"

#include <algorithm>
#include <numeric>

#include "graph/strides.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

graph::Value* in_memory_order(Executor& ex, graph::Value* tensor) {
  graph::SymContext& sym = *ex.graph().sym;
  const graph::TensorType& type = tensor->type;
  if (graph::is_contiguous(sym, type) || !graph::is_non_overlapping_and_dense(sym, type)) return tensor;
  std::vector<graph::Sym> dims(type.rank());
  std::iota(dims.begin(), dims.end(), 0);
  std::ranges::stable_sort(dims, [&](const graph::Sym& a, const graph::Sym& b) {
    return sym.guard(graph::Relation::kLt, type.strides[b.constant()], type.strides[a.constant()],
                     "as_strided");
  });
  return append_call1(ex, "permute", {tensor, std::move(dims)});
}

}  // namespace cdynamo::symbolic
