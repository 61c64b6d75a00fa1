#include "runtime/gemm/gemm.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/gemm/half.h"
#include "runtime/gemm/kernels.h"
#include "runtime/parallel.h"

namespace cdynamo::runtime {
namespace {

template <typename T>
using Accumulator = std::conditional_t<
    std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float,
    std::conditional_t<std::is_integral_v<T>,
                       std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, char, T>>, T>>;

template <typename T>
T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T::from(value);
  else
    return static_cast<T>(value);
}

// Row by row of C, the inner loop along N where B allows: the compiler's own vectors.
template <typename T>
void gemm_plain(const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate) {
  using Acc = Accumulator<T>;
  const T *pa = static_cast<const T*>(a.data), *pb = static_cast<const T*>(b.data);
  T* pc = static_cast<T*>(c.data);
  constexpr int64_t kBlock = 256;
  Acc row[kBlock];
  for (int64_t j0 = 0; j0 < shape.n; j0 += kBlock) {
    const int64_t width = std::min(kBlock, shape.n - j0);
    for (int64_t i = 0; i < shape.m; ++i) {
      T* out = pc + i * c.row_stride + j0 * c.column_stride;
      for (int64_t j = 0; j < width; ++j)
        row[j] = accumulate ? static_cast<Acc>(out[j * c.column_stride]) : Acc(0);
      for (int64_t k = 0; k < shape.k; ++k) {
        const Acc left = static_cast<Acc>(pa[i * a.row_stride + k * a.column_stride]);
        const T* right = pb + k * b.row_stride + j0 * b.column_stride;
        if (b.column_stride == 1)
          for (int64_t j = 0; j < width; ++j) row[j] += static_cast<Acc>(left * static_cast<Acc>(right[j]));
        else
          for (int64_t j = 0; j < width; ++j)
            row[j] += static_cast<Acc>(left * static_cast<Acc>(right[j * b.column_stride]));
      }
      for (int64_t j = 0; j < width; ++j) out[j * c.column_stride] = narrow<T>(row[j]);
    }
  }
}

// Half operands become float32 copies, so that the float32 kernels do the work.
template <typename T>
void gemm_half(const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate) {
  std::vector<float> left(shape.m * shape.k), right(shape.k * shape.n), out(shape.m * shape.n);
  auto widen = [](const T* from, int64_t rows, int64_t columns, const ConstMatrix& matrix, float* to) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        to[i * columns + j] = from[i * matrix.row_stride + j * matrix.column_stride];
  };
  widen(static_cast<const T*>(a.data), shape.m, shape.k, a, left.data());
  widen(static_cast<const T*>(b.data), shape.k, shape.n, b, right.data());
  T* to = static_cast<T*>(c.data);
  if (accumulate) widen(to, shape.m, shape.n, {c.data, c.row_stride, c.column_stride}, out.data());
  gemm_serial(DType::kF32, shape, {left.data(), shape.k, 1}, {right.data(), shape.n, 1},
              {out.data(), shape.n, 1}, accumulate);
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j)
      to[i * c.row_stride + j * c.column_stride] = T::from(out[i * shape.n + j]);
}

template <typename P>
MatrixOf<P> part(DType dtype, MatrixOf<P> matrix, int64_t row, int64_t column) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  matrix.data = static_cast<Byte*>(matrix.data) +
                (row * matrix.row_stride + column * matrix.column_stride) * bytes(dtype);
  return matrix;
}

}  // namespace

void gemm_serial(DType dtype, const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c,
                 bool accumulate) {
  if (shape.m == 0 || shape.n == 0) return;
  switch (dtype) {
    case DType::kF32: return tiled_gemm().f32(shape, a, b, c, accumulate);
    case DType::kF64: return tiled_gemm().f64(shape, a, b, c, accumulate);
    case DType::kF16: return gemm_half<Float16>(shape, a, b, c, accumulate);
    case DType::kBF16: return gemm_half<BFloat16>(shape, a, b, c, accumulate);
    case DType::kI64: return gemm_plain<int64_t>(shape, a, b, c, accumulate);
    case DType::kI32: return gemm_plain<int32_t>(shape, a, b, c, accumulate);
    case DType::kI16: return gemm_plain<int16_t>(shape, a, b, c, accumulate);
    case DType::kI8: return gemm_plain<int8_t>(shape, a, b, c, accumulate);
    case DType::kU8: return gemm_plain<uint8_t>(shape, a, b, c, accumulate);
    case DType::kBool: return gemm_plain<bool>(shape, a, b, c, accumulate);
  }
}

void gemm(DType dtype, const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate) {
  constexpr int64_t kWorthThreads = 1 << 18;  // multiplications and additions
  const int64_t work = shape.m * shape.n * std::max<int64_t>(shape.k, 1);
  if (work < kWorthThreads) return gemm_serial(dtype, shape, a, b, c, accumulate);
  // Threads share the longer side of C, in steps of whole tiles.
  const bool by_columns = shape.n >= shape.m;
  const int64_t extent = by_columns ? shape.n : shape.m, step = by_columns ? 64 : 16;
  const int64_t steps = (extent + step - 1) / step;
  parallel_for(steps, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * step, count = std::min(extent, end * step) - first;
    if (count <= 0) return;
    if (by_columns)
      gemm_serial(dtype, {shape.m, count, shape.k}, a, part(dtype, b, 0, first), part(dtype, c, 0, first),
                  accumulate);
    else
      gemm_serial(dtype, {count, shape.n, shape.k}, part(dtype, a, first, 0), b, part(dtype, c, first, 0),
                  accumulate);
  });
}

}  // namespace cdynamo::runtime
