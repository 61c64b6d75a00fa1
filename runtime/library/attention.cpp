// Scaled dot product attention: blocks of queries against blocks of keys with a running maximum and sum, so
// that the matrix of scores is never whole in memory.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "runtime/gemm/gemm.h"
#include "runtime/host/arena.h"
#include "runtime/host/parallel.h"
#include "runtime/library/attention_kernels.h"
#include "runtime/library/attention_shape.h"
#include "runtime/library/convert.h"
#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

constexpr int64_t kQueries = 64, kKeys = 512;

using Problem = AttentionShape;

template <typename T>
const T* at(const TensorView& view, int64_t batch, int64_t head, int64_t row) {
  return static_cast<const T*>(view.data) + batch * view.strides[0] + head * view.strides[1] +
         row * view.strides[2];
}

// Adds the mask and cuts off what causality forbids.
template <typename T>
void mask_scores(const Problem& p, const TensorView& mask, int64_t batch, int64_t head, int64_t q0,
                 int64_t rows, int64_t k0, int64_t columns, T* scores) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = scores + i * columns;
    if (mask.data) {
      const auto* m = static_cast<const T*>(mask.data) + batch * mask.strides[0] + head * mask.strides[1] +
                      (q0 + i) * mask.strides[2];
      for (int64_t j = 0; j < columns; ++j) row[j] += m[(k0 + j) * mask.strides[3]];
    }
    if (p.causal)
      for (int64_t j = std::max<int64_t>(0, q0 + i + 1 - k0); j < columns; ++j)
        row[j] = -std::numeric_limits<T>::infinity();
  }
}

// One thread's blocks, no larger than the problem's.
template <typename T>
struct Scratch {
  explicit Scratch(const Problem& p)
      : rows(std::min(kQueries, p.queries)),
        arena(rows * (std::min(kKeys, p.keys) + p.value_width + 2) * sizeof(T)),
        scores(reinterpret_cast<T*>(arena.data())) {
    if (!scores) throw std::bad_alloc();
    out = scores + rows * std::min(kKeys, p.keys);
    maximum = out + rows * p.value_width;
    sum = maximum + rows;
  }
  int64_t rows;
  Arena arena;
  T *scores, *out, *maximum, *sum;
};

template <typename T>
void attend_block(const Problem& p, const LibraryArgs& args, DType dtype, int64_t batch, int64_t head,
                  int64_t q0, Scratch<T>& scratch) {
  const TensorView &query = args.operands[0], &key = args.operands[1], &value = args.operands[2],
                   &mask = args.operands[3], &output = args.output(), &logsumexp = args.output(1);
  const int64_t rows = std::min(kQueries, p.queries - q0);
  if (p.keys == 0) std::fill_n(scratch.out, rows * p.value_width, T(0));
  std::fill_n(scratch.maximum, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(scratch.sum, rows, T(0));
  const int64_t last_key = p.causal ? std::min(p.keys, q0 + rows) : p.keys;
  for (int64_t k0 = 0; k0 < last_key; k0 += kKeys) {
    const int64_t columns = std::min(kKeys, last_key - k0);
    T* scores = scratch.scores;
    gemm_serial(dtype, {rows, columns, p.width},
                {at<T>(query, batch, head, q0), query.strides[2], query.strides[3]},
                {at<T>(key, batch, head, k0), key.strides[3], key.strides[2]}, {scores, columns, 1});
    scale_scores(scores, rows * columns, static_cast<T>(p.scale));
    if (mask.data || p.causal) mask_scores(p, mask, batch, head, q0, rows, k0, columns, scores);
    for (int64_t i = 0; i < rows; ++i) {
      const T shrink =
          online_softmax_row(scores + i * columns, columns, &scratch.maximum[i], &scratch.sum[i]);
      if (k0 > 0 && shrink != T(1)) scale_scores(scratch.out + i * p.value_width, p.value_width, shrink);
    }
    gemm_serial(dtype, {rows, p.value_width, columns}, {scores, columns, 1},
                {at<T>(value, batch, head, k0), value.strides[2], value.strides[3]},
                {scratch.out, p.value_width, 1}, k0 > 0);
  }
  for (int64_t i = 0; i < rows; ++i) {
    T* to = const_cast<T*>(at<T>(output, batch, head, q0 + i));
    // A row all of whose keys are masked is 0.
    const T scale = scratch.sum[i] == T(0) ? T(0) : T(1) / scratch.sum[i];
    for (int64_t e = 0; e < p.value_width; ++e)
      to[e * output.strides[3]] = scratch.out[i * p.value_width + e] * scale;
    if (logsumexp.data)
      static_cast<T*>(logsumexp.data)[batch * logsumexp.strides[0] + head * logsumexp.strides[1] +
                                      (q0 + i) * logsumexp.strides[2]] =
          scratch.maximum[i] + std::log(scratch.sum[i]);
  }
}

template <typename T>
void attend(const Problem& p, const LibraryArgs& args, DType dtype) {
  const int64_t blocks = (p.queries + kQueries - 1) / kQueries;
  const int64_t work = p.queries * p.keys * p.width;
  const int64_t items = p.batch * p.heads * blocks;
  const int64_t grain = std::max<int64_t>(1, (1 << 17) * blocks / std::max<int64_t>(work, 1));
  parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch(p);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t pair = item / blocks;
      attend_block(p, args, dtype, pair / p.heads, pair % p.heads, item % blocks * kQueries, scratch);
    }
  });
}

// Half types: dense float32 copies of all operands, rounded once at the end.
void attend_half(const Problem& p, const LibraryArgs& args) {
  std::vector<float> values[5];
  std::vector<int64_t> strides[5];
  TensorView views[6];
  views[5] = args.output(1);  // float32 already
  for (int i = 0; i < 5; ++i) {
    const TensorView& view = i < 4 ? args.operands[i] : args.output();
    views[i] = view;
    if (!view.data) continue;
    values[i].resize(count_elements(view));
    if (i < 4) read_dense(view, values[i].data());
    strides[i] = dense_strides(view.sizes, view.rank);
    for (int d = 0; i == 3 && d < view.rank; ++d)
      if (view.sizes[d] == 1) strides[i][d] = 0;  // broadcast
    views[i].data = values[i].data();
    views[i].strides = strides[i].data();
    views[i].dtype = DType::kF32;
  }
  LibraryArgs widened = args;
  widened.operands = views;
  attend<float>(p, widened, DType::kF32);
  write_dense(args.output(), values[4].data());
}

}  // namespace

bool library_attention(const LibraryArgs& args, RunError* error) {
  const TensorView &query = args.operands[0], &key = args.operands[1], &value = args.operands[2],
                   &output = args.output();
  if (query.rank != 4) {
    *error = {RunError::kRuntimeError, "attention of tensors that are not (batch, heads, length, width)"};
    return false;
  }
  const Problem p(query, key, value, args);
  if (count_elements(output) == 0) return true;
  const FullMask mask(args.operands[3]);
  const TensorView operands[] = {query, key, value, mask.view, output, args.output(1)};
  LibraryArgs full = args;
  full.operands = operands;
  if (output.dtype == DType::kF64)
    attend<double>(p, full, DType::kF64);
  else if (output.dtype == DType::kF32)
    attend<float>(p, full, DType::kF32);
  else if (args.output(1).data || !torch_attention(args))
    attend_half(p, full);
  return true;
}

}  // namespace cdynamo::runtime
