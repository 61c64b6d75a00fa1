// Dense copies of tensors in another dtype, for library calls that have code for float32 and float64 only.
#pragma once

#include <vector>

#include "runtime/types.h"

namespace cdynamo::runtime {

int64_t count_elements(const TensorView& view);
std::vector<int64_t> dense_strides(const int64_t* sizes, int rank);

// All elements in row-major order; dtypes other than double go through float or double arithmetic as C
// converts.
void read_dense(const TensorView& view, float* out);
void read_dense(const TensorView& view, double* out);
void write_dense(const TensorView& view, const float* values);
void write_dense(const TensorView& view, const double* values);

}  // namespace cdynamo::runtime
