// What the entries of NumPy's functions share: arrays out of arguments, axes, dtypes of results.
#pragma once

#include "graph/ops/entry.h"

namespace cdynamo::graph {

// An argument that is an array or a Python number.
Tensor numpy_array(Builder& b, const Args& args, std::string_view name);
// `axis`: None is all dims, () is none.
Dims numpy_axes(const Args& args, int64_t rank);
// One axis that has to be there.
int64_t numpy_axis(const Args& args, int64_t rank);
bool numpy_keepdims(const Args& args);

// Sums and products of bool and signed integers are int64.
DType numpy_sum_dtype(const Args& args, DType dtype);
// What a float function makes of a dtype: integers become float64.
DType numpy_float_dtype(DType dtype);
DType numpy_common_dtype(Graph& graph, const std::vector<Tensor>& arrays);
Tensor numpy_flat(Tensor x);

// Column-major where the array is that and not row-major too (its flags.fnc), else row-major.
std::vector<Sym> numpy_fortran_or_c(SymContext& sym, const TensorType& array, const std::vector<Sym>& sizes);

// The memory order of the result of a ufunc that computes in the result's dtype: that of the arguments that are arrays.
std::vector<Sym> numpy_operand_strides(SymContext& sym, const TensorType& result,
                                       const std::vector<Arg>& operands);
// OpDef::strides of what is one ufunc to NumPy and several steps to the body. PyTorch's are as the body says.
void ufunc_order(Graph& graph, const Args& args, std::vector<TensorType>& results);

// An entry under NumPy's own name alone.
OpDef numpy_function(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                     std::vector<std::string_view> more_names = {}, StridesFn strides = contiguous_results);
OpDef numpy_view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                 AliasFn alias = nullptr);

}  // namespace cdynamo::graph
