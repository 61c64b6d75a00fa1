// Matrix products on the CPU: C = A B (or C += A B), any strides, no operand is modified.
//
//   gemm(DType::kF32, {.m = 64, .n = 256, .k = 128}, {a, 128, 1}, {b, 256, 1}, {c, 256, 1});
//
// float32 and float64 run on register-tiled kernels for AVX-512, AVX2 or plain vectors, chosen by what the
// processor has; half types accumulate in float32 and round once; integers wrap.
#pragma once

#include <cstdint>

#include "runtime/types.h"

namespace cdynamo::runtime {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

// Element (i, j) is at data[i * row_stride + j * column_stride].
template <typename T>
struct MatrixOf {
  T* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  MatrixOf transposed() const { return {data, column_stride, row_stride}; }
};
using Matrix = MatrixOf<void>;
using ConstMatrix = MatrixOf<const void>;

// The calling thread alone.
void gemm_serial(DType dtype, const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c,
                 bool accumulate = false);
// On the process's threads where it is worth it.
void gemm(DType dtype, const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c,
          bool accumulate = false);

}  // namespace cdynamo::runtime
