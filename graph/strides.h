// The strides that eager gives to results: what users see of them has to be equal.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace cdynamo::graph {

bool is_contiguous(SymContext& sym, const TensorType& type);
bool is_column_major(SymContext& sym, TensorType type);
bool is_channels_last(SymContext& sym, const TensorType& type);  // rank 4 (NHWC) and 5 (NDHWC)
bool is_non_overlapping_and_dense(SymContext& sym, const TensorType& type);

// What suggest_memory_format says: the order of strides is that of channels-last and of it alone.
bool suggests_channels_last(SymContext& sym, const TensorType& type);
// Those of a fresh tensor of `sizes` in the format that `type` suggests.
std::vector<Sym> suggested_strides(SymContext& sym, const TensorType& type, const std::vector<Sym>& sizes);

std::vector<Sym> column_major_strides(std::vector<Sym> sizes);
std::vector<Sym> channels_last_strides(const std::vector<Sym>& sizes);

// Those with which a tensor is seen as one of `sizes`: 0 along what it is expanded by.
std::vector<Sym> broadcast_strides(SymContext& sym, const std::vector<Sym>& sizes, const TensorType& type);

// TensorIterator's rule for the result of a pointwise operator.
std::vector<Sym> elementwise_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                     const std::vector<const TensorType*>& operands);

// NumPy's order "K", as its iterator (nditer) decides it for results of ufuncs: dims go by the size of their
// strides, and where operands disagree row-major order wins. Operands broadcast to `sizes`.
std::vector<Sym> numpy_strides(SymContext& sym, const std::vector<Sym>& sizes,
                               const std::vector<const TensorType*>& operands);

// A reduction's that keeps the reduced dims, with size 1 (`sizes`): they have their place by their strides, like any other.
std::vector<Sym> numpy_kept_strides(SymContext& sym, const std::vector<Sym>& sizes, const TensorType& array);

// The same for concatenate, which sorts the dims in another order.
std::vector<Sym> numpy_concat_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                      const std::vector<const TensorType*>& arrays);

// Where a node's result lies that nobody sees but the graph's own nodes: attention's has the heads side by side, as
// the product that follows reads it; that of the framework's operator as its type says; anything else is row-major.
std::vector<Sym> inner_strides(const Value& value);

// A ufunc's result: that of numpy_strides, but where all operands with dims are in column order and none is cast
// (`casts`) NumPy takes one loop over the memory, without its iterator, and dims of size 1 have strides of that order.
std::vector<Sym> numpy_ufunc_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                     const std::vector<const TensorType*>& operands, bool casts);

// What keeps an array's order: PyTorch's memory_format=preserve_format (empty_like, clone, to), NumPy's order "K".
std::vector<Sym> preserved_strides(const Graph& graph, const TensorType& type);

// The strides with which a tensor can be seen as `new_sizes` without a copy; nullopt: a copy is needed.
std::optional<std::vector<Sym>> view_strides(SymContext& sym, const TensorType& type,
                                             const std::vector<Sym>& new_sizes);

}  // namespace cdynamo::graph
