#include "runtime/gemm/gemm.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/gemm/half.h"
#include "runtime/gemm/half_lines.h"
#include "runtime/gemm/kernels.h"
#include "runtime/host/parallel.h"

namespace cdynamo::runtime {
namespace {

template <typename T>
using Accumulator = std::conditional_t<
    std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float,
    std::conditional_t<std::is_integral_v<T>,
                       std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, char, T>>, T>>;

// Narrow unsigned integers would be multiplied as ints, whose overflow is undefined.
template <typename Acc>
Acc product(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(1U * a * b);
  else
    return a * b;
}

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
          for (int64_t j = 0; j < width; ++j) row[j] += product(left, static_cast<Acc>(right[j]));
        else
          for (int64_t j = 0; j < width; ++j)
            row[j] += product(left, static_cast<Acc>(right[j * b.column_stride]));
      }
      for (int64_t j = 0; j < width; ++j) out[j * c.column_stride] = narrow<T>(row[j]);
    }
  }
}

// A float32 copy that lies as the matrix does, where one of its strides is 1.
template <typename T>
class Widened {
 public:
  Widened(const ConstMatrix& matrix, int64_t rows, int64_t columns) : values_(rows * columns) {
    const bool by_columns = matrix.row_stride == 1 && matrix.column_stride != 1;
    const ConstMatrix lines = by_columns ? matrix.transposed() : matrix;
    const int64_t count = by_columns ? columns : rows, length = by_columns ? rows : columns;
    const T* from = static_cast<const T*>(matrix.data);
    for (int64_t i = 0; i < count; ++i)
      if (lines.column_stride == 1)
        widen_half(from + i * lines.row_stride, length, values_.data() + i * length);
      else
        for (int64_t j = 0; j < length; ++j)
          values_[i * length + j] = from[i * lines.row_stride + j * lines.column_stride];
    view_ = {values_.data(), length, 1};
    if (by_columns) view_ = view_.transposed();
  }
  const ConstMatrix& view() const { return view_; }

 private:
  std::vector<float> values_;
  ConstMatrix view_;
};

// Half operands become float32 copies, so that the float32 kernels do the work; the right side block by block, which stays
// in a cache.
template <typename T>
void gemm_half(const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate) {
  if (shape.m > shape.n)
    return gemm_half<T>({shape.n, shape.m, shape.k}, b.transposed(), a.transposed(), c.transposed(),
                        accumulate);
  constexpr int64_t kBlock = 1 << 18;
  const T* const right = static_cast<const T*>(b.data);
  T* const to = static_cast<T*>(c.data);
  const Widened<T> left(a, shape.m, shape.k);
  if (shape.m == 1 && b.row_stride == 1) {
    for (int64_t j = 0; j < shape.n; ++j) {
      T& out = to[j * c.column_stride];
      const float sum =
          dot_half(right + j * b.column_stride, static_cast<const float*>(left.view().data), shape.k);
      out = T::from(accumulate ? static_cast<float>(out) + sum : sum);
    }
    return;
  }
  const int64_t step = std::clamp<int64_t>(kBlock / std::max<int64_t>(shape.k, 1), 64, shape.n + 64);
  std::vector<float> sums(shape.m * std::min(step, shape.n));
  for (int64_t j0 = 0; j0 < shape.n; j0 += step) {
    const int64_t columns = std::min(step, shape.n - j0);
    const Widened<T> block({right + j0 * b.column_stride, b.row_stride, b.column_stride}, shape.k, columns);
    T* const out = to + j0 * c.column_stride;
    if (accumulate)
      for (int64_t i = 0; i < shape.m; ++i)
        for (int64_t j = 0; j < columns; ++j)
          sums[i * columns + j] = out[i * c.row_stride + j * c.column_stride];
    gemm_serial(DType::kF32, {shape.m, columns, shape.k}, left.view(), block.view(),
                {sums.data(), columns, 1}, accumulate);
    for (int64_t i = 0; i < shape.m; ++i)
      if (c.column_stride == 1)
        narrow_half(sums.data() + i * columns, columns, out + i * c.row_stride);
      else
        for (int64_t j = 0; j < columns; ++j)
          out[i * c.row_stride + j * c.column_stride] = T::from(sums[i * columns + j]);
  }
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
    case DType::kU64: return gemm_plain<uint64_t>(shape, a, b, c, accumulate);
    case DType::kU32: return gemm_plain<uint32_t>(shape, a, b, c, accumulate);
    case DType::kU16: return gemm_plain<uint16_t>(shape, a, b, c, accumulate);
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
