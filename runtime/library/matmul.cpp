#include <algorithm>
#include <vector>

#include "runtime/gemm/gemm.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"
#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

// The last two dims as a matrix, `batch` steps along the first of three.
template <typename M>
M matrix(const TensorView& view, int64_t batch) {
  const int last = view.rank - 1;
  char* data = static_cast<char*>(view.data);
  if (view.rank == 3) data += batch * view.strides[0] * bytes(view.dtype);
  return {data, view.strides[last - 1], view.strides[last]};
}

// Half types have instructions of their own that PyTorch's library uses. Without those for float16 it multiplies element by
// element, hundreds of times slower than float32.
bool framework_multiplies(DType dtype) {
#if defined(__x86_64__)
  static const bool has_float16 = __builtin_cpu_supports("avx512fp16");
#else
  constexpr bool has_float16 = true;
#endif
  return dtype == DType::kBF16 || (dtype == DType::kF16 && has_float16);
}

// c = a @ b (or c += a @ b), matrices or batches of them: the threads share a product, or the batch where it is long.
void multiply_batch(const LibraryArgs& args, bool accumulate) {
  const TensorView &a = args.operands[0], &b = args.operands[1], &c = args.output();
  const int last = c.rank - 1;
  const GemmShape shape{c.sizes[last - 1], c.sizes[last], a.sizes[last]};
  const int64_t batch = c.rank == 3 ? c.sizes[0] : 1;
  auto multiply = [&](auto&& product, int64_t i) {
    product(c.dtype, shape, matrix<ConstMatrix>(a, i), matrix<ConstMatrix>(b, i), matrix<Matrix>(c, i),
            accumulate);
  };
  const int64_t work = shape.m * shape.n * std::max<int64_t>(shape.k, 1);
  const int64_t threads = batch * work >= (1 << 18) ? num_threads() : 1;
  if (batch == 1 || batch < threads) {
    for (int64_t i = 0; i < batch; ++i) multiply(gemm, i);
    return;
  }
  const int64_t grain = threads > 1 ? std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(work, 1)) : batch;
  parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiply(gemm_serial, i);
  });
}

// c = addend, which has c's sizes and lies in any way.
void copy_half(const TensorView& addend, const TensorView& c) {
  const int last = c.rank - 1;
  const int64_t batch = c.rank == 3 ? c.sizes[0] : 1;
  for (int64_t n = 0; n < batch; ++n) {
    const ConstMatrix from = matrix<ConstMatrix>(addend, n);
    const Matrix to = matrix<Matrix>(c, n);
    for (int64_t i = 0; i < c.sizes[last - 1]; ++i) {
      const uint16_t* in = static_cast<const uint16_t*>(from.data) + i * from.row_stride;
      uint16_t* out = static_cast<uint16_t*>(to.data) + i * to.row_stride;
      for (int64_t j = 0; j < c.sizes[last]; ++j) out[j * to.column_stride] = in[j * from.column_stride];
    }
  }
}

// alpha * (a @ b) + beta * addend of half types, which rounds once: by float32 copies.
void multiply_and_scale(const LibraryArgs& args, float beta, float alpha) {
  const TensorView &a = args.operands[0], &b = args.operands[1], &addend = args.operands[2],
                   &c = args.output();
  const int last = c.rank - 1;
  const GemmShape shape{c.sizes[last - 1], c.sizes[last], a.sizes[last]};
  std::vector<float> left(count_elements(a)), right(count_elements(b)), sums(count_elements(c)), start;
  read_dense(a, left.data());
  read_dense(b, right.data());
  const int64_t batch = c.rank == 3 ? c.sizes[0] : 1;
  for (int64_t i = 0; i < batch; ++i)
    gemm(DType::kF32, shape, ConstMatrix{left.data() + i * shape.m * shape.k, shape.k, 1},
         ConstMatrix{right.data() + i * shape.k * shape.n, shape.n, 1},
         Matrix{sums.data() + i * shape.m * shape.n, shape.n, 1});
  for (float& sum : sums) sum *= alpha;
  if (beta != 0) {
    start.resize(sums.size());
    read_dense(addend, start.data());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += beta * start[i];
  }
  write_dense(c, sums.data());
}

// core.addmm: of half types only.
void multiply_and_add(const LibraryArgs& args) {
  const float beta = static_cast<float>(args.numbers[0]), alpha = static_cast<float>(args.numbers[1]);
  if (alpha != 1 || (beta != 0 && beta != 1)) return multiply_and_scale(args, beta, alpha);
  if (beta == 1) copy_half(args.operands[2], args.output());
  multiply_batch(args, beta == 1);
}

}  // namespace

bool library_matmul(const LibraryArgs& args, RunError* error) {
  const TensorView& c = args.output();
  if (args.num_inputs == 3) {
    if (!framework_multiplies(c.dtype) || !torch_addmm(args)) multiply_and_add(args);
    return true;
  }
  if (framework_multiplies(c.dtype) && c.rank >= 2 && torch_matmul(args)) return true;
  multiply_batch(args, false);
  return true;
}

}  // namespace cdynamo::runtime
