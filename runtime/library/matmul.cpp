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

// Of half types, in float32.
void multiply_and_add(const LibraryArgs& args) {
  const TensorView &a = args.operands[0], &b = args.operands[1], &addend = args.operands[2],
                   &c = args.output();
  const float beta = static_cast<float>(args.numbers[0]), alpha = static_cast<float>(args.numbers[1]);
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

}  // namespace

bool library_matmul(const LibraryArgs& args, RunError* error) {
  const TensorView &a = args.operands[0], &b = args.operands[1], &c = args.output();
  if (args.num_inputs == 3) {
    if (!framework_multiplies(c.dtype) || !torch_addmm(args)) multiply_and_add(args);
    return true;
  }
  if (framework_multiplies(c.dtype) && c.rank >= 2 && torch_matmul(args)) return true;
  const int last = c.rank - 1;
  const GemmShape shape{c.sizes[last - 1], c.sizes[last], a.sizes[last]};
  const int64_t batch = c.rank == 3 ? c.sizes[0] : 1;
  auto one = [&](int64_t i, bool threads) {
    const auto run = [&](auto&& gemm_function) {
      gemm_function(c.dtype, shape, matrix<ConstMatrix>(a, i), matrix<ConstMatrix>(b, i),
                    matrix<Matrix>(c, i));
    };
    if (threads)
      run([](auto... x) { gemm(x...); });
    else
      run([](auto... x) { gemm_serial(x...); });
  };
  if (batch == 1) {
    one(0, true);
    return true;
  }
  const int64_t work = shape.m * shape.n * std::max<int64_t>(shape.k, 1);
  const int64_t threads = batch * work >= (1 << 18) ? num_threads() : 1;
  if (batch >= threads) {
    const int64_t grain = threads > 1 ? std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(work, 1)) : batch;
    parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i, false);
    });
  } else {
    for (int64_t i = 0; i < batch; ++i) one(i, true);
  }
  return true;
}

}  // namespace cdynamo::runtime
