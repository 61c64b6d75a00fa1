// The gradient of scaled dot product attention. The weights are computed again from the scores and the rows' log-sum-exp, a block of
// queries against a block of keys at a time, so that the matrix of scores is never whole in memory:
//   P = exp(Q K' scale + mask - lse)    dV += P' G    dS = P (G V' - rowsum(G O)) scale    dQ += dS K    dK += dS' Q
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "runtime/gemm/gemm.h"
#include "runtime/gemm/half.h"
#include "runtime/host/parallel.h"
#include "runtime/library/attention_kernels.h"
#include "runtime/library/attention_shape.h"
#include "runtime/library/convert.h"

namespace cdynamo::runtime {
namespace {

constexpr int64_t kQueries = 128, kKeys = 256;

// One head of a tensor: rows of `width` elements.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t row_stride = 0, element_stride = 1;
  T* row(int64_t i) const { return data + i * row_stride; }
  operator Rows<const T>() const { return {data, row_stride, element_stride}; }
};
template <typename T>
ConstMatrix matrix(const Rows<T>& rows, int64_t first) {
  return {rows.row(first), rows.row_stride, rows.element_stride};
}

// What one head reads and writes; results that are not asked for have no data.
template <typename T>
struct Head {
  Rows<const T> grad, query, key, value, out;
  const T* logsumexp;
  int64_t logsumexp_stride;
  Rows<T> query_grad, key_grad, value_grad;
};

template <typename T>
struct Scratch {
  std::vector<T> scores = std::vector<T>(kQueries * kKeys), grads = std::vector<T>(kQueries * kKeys),
                 mask = std::vector<T>(kKeys);
};

// Row `i` of the mask, from key k0 on.
template <typename T>
void read_mask(const TensorView& mask, int64_t batch, int64_t head, int64_t i, int64_t k0, int64_t count,
               T* to) {
  const int64_t at =
      batch * mask.strides[0] + head * mask.strides[1] + i * mask.strides[2] + k0 * mask.strides[3];
  auto copy = [&](const auto* from) {
    for (int64_t j = 0; j < count; ++j)
      to[j] = static_cast<T>(static_cast<float>(from[at + j * mask.strides[3]]));
  };
  switch (mask.dtype) {
    case DType::kF16: return copy(static_cast<const Float16*>(mask.data));
    case DType::kBF16: return copy(static_cast<const BFloat16*>(mask.data));
    default:
      for (int64_t j = 0; j < count; ++j) to[j] = static_cast<const T*>(mask.data)[at + j * mask.strides[3]];
  }
}

template <typename T>
T dot(const Rows<const T>& a, const Rows<const T>& b, int64_t row, int64_t width) {
  T sum = 0;
  for (int64_t e = 0; e < width; ++e)
    sum += a.row(row)[e * a.element_stride] * b.row(row)[e * b.element_stride];
  return sum;
}

template <typename T>
void clear(const Rows<T>& rows, int64_t begin, int64_t end, int64_t width) {
  for (int64_t i = begin; rows.data && i < end; ++i)
    for (int64_t e = 0; e < width; ++e) rows.row(i)[e * rows.element_stride] = T(0);
}

template <typename T>
class HeadGradient {
 public:
  HeadGradient(const AttentionShape& shape, const TensorView& mask, const Head<T>& head, int64_t batch,
               int64_t index, Scratch<T>& scratch)
      : p_(shape), mask_(mask), head_(head), batch_(batch), index_(index), scratch_(scratch) {}

  // The gradients of queries [q_begin, q_end) or of keys and values [k_begin, k_end), from the pairs of both.
  void run(int64_t q_begin, int64_t q_end, int64_t k_begin, int64_t k_end) {
    clear(head_.query_grad, q_begin, q_end, p_.width);
    clear(head_.key_grad, k_begin, k_end, p_.width);
    clear(head_.value_grad, k_begin, k_end, p_.value_width);
    for (int64_t q0 = q_begin; q0 < q_end; q0 += kQueries) {
      const int64_t rows = std::min(kQueries, q_end - q0);
      const int64_t last_key = p_.causal ? std::min(k_end, q0 + rows) : k_end;
      if (last_key <= k_begin) continue;
      for (int64_t i = 0; i < rows; ++i) means_[i] = dot(head_.grad, head_.out, q0 + i, p_.value_width);
      for (int64_t k0 = k_begin; k0 < last_key; k0 += kKeys)
        block(q0, rows, k0, std::min(kKeys, last_key - k0));
    }
  }

 private:
  static constexpr DType kType = sizeof(T) == 4 ? DType::kF32 : DType::kF64;

  void block(int64_t q0, int64_t rows, int64_t k0, int64_t columns) {
    T *scores = scratch_.scores.data(), *grads = scratch_.grads.data();
    gemm_serial(kType, {rows, columns, p_.width}, matrix(head_.query, q0), matrix(head_.key, k0).transposed(),
                {scores, columns, 1});
    gemm_serial(kType, {rows, columns, p_.value_width}, matrix(head_.grad, q0),
                matrix(head_.value, k0).transposed(), {grads, columns, 1});
    for (int64_t i = 0; i < rows; ++i)
      row(q0 + i, k0, columns, means_[i], scores + i * columns, grads + i * columns);
    const ConstMatrix weights{scores, 1, columns}, of_scores{grads, columns, 1};
    if (head_.value_grad.data)
      gemm_serial(kType, {columns, p_.value_width, rows}, weights, matrix(head_.grad, q0),
                  place(head_.value_grad, k0), true);
    if (head_.query_grad.data)
      gemm_serial(kType, {rows, p_.width, columns}, of_scores, matrix(head_.key, k0),
                  place(head_.query_grad, q0), true);
    if (head_.key_grad.data)
      gemm_serial(kType, {columns, p_.width, rows}, of_scores.transposed(), matrix(head_.query, q0),
                  place(head_.key_grad, k0), true);
  }

  void row(int64_t q, int64_t k0, int64_t columns, T mean, T* scores, T* grads) {
    const T logsumexp = head_.logsumexp[q * head_.logsumexp_stride];
    int64_t seen = p_.causal ? std::clamp<int64_t>(q + 1 - k0, 0, columns) : columns;
    if (logsumexp == -std::numeric_limits<T>::infinity()) seen = 0;
    if (mask_.data) read_mask(mask_, batch_, index_, q, k0, seen, scratch_.mask.data());
    softmax_gradient_row(scores, grads, seen, mask_.data ? scratch_.mask.data() : nullptr,
                         static_cast<T>(p_.scale), logsumexp, mean);
    std::fill(scores + seen, scores + columns, T(0));
    std::fill(grads + seen, grads + columns, T(0));
  }

  static Matrix place(const Rows<T>& rows, int64_t first) {
    return {rows.row(first), rows.row_stride, rows.element_stride};
  }

  const AttentionShape& p_;
  const TensorView& mask_;
  const Head<T>& head_;
  const int64_t batch_, index_;
  Scratch<T>& scratch_;
  T means_[kQueries];
};

template <typename T>
Rows<T> rows_of(const TensorView& view, int64_t batch, int64_t head) {
  if (!view.data) return {};
  return {static_cast<T*>(view.data) + batch * view.strides[0] + head * view.strides[1], view.strides[2],
          view.strides[3]};
}

// Heads of half types: float32 copies of what is read, results rounded once at the end.
template <typename H>
class WidenedHead {
 public:
  WidenedHead(const AttentionShape& p, const LibraryArgs& args, int64_t batch, int64_t head) {
    const TensorView* operands = args.operands;
    widened_.grad = read(operands[0], batch, head, p.queries, p.value_width);
    widened_.query = read(operands[1], batch, head, p.queries, p.width);
    widened_.key = read(operands[2], batch, head, p.keys, p.width);
    widened_.value = read(operands[3], batch, head, p.keys, p.value_width);
    widened_.out = read(operands[5], batch, head, p.queries, p.value_width);
    widened_.query_grad = room(args.output(0), batch, head, p.queries, p.width);
    widened_.key_grad = room(args.output(1), batch, head, p.keys, p.width);
    widened_.value_grad = room(args.output(2), batch, head, p.keys, p.value_width);
  }
  Head<float>& head() { return widened_; }

  void write() const {
    for (const Result& result : results_)
      for (int64_t i = 0; i < result.count; ++i)
        for (int64_t e = 0; e < result.width; ++e)
          result.to.row(i)[e * result.to.element_stride] = H::from(result.from.row(i)[e]);
  }

 private:
  struct Result {
    Rows<float> from;
    Rows<H> to;
    int64_t count, width;
  };

  Rows<float> dense(int64_t count, int64_t width) {
    memory_.emplace_back(count * width);
    return {memory_.back().data(), width, 1};
  }
  Rows<const float> read(const TensorView& view, int64_t batch, int64_t head, int64_t count, int64_t width) {
    const Rows<const H> from = rows_of<const H>(view, batch, head);
    const Rows<float> to = dense(count, width);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t e = 0; e < width; ++e)
        to.row(i)[e] = static_cast<float>(from.row(i)[e * from.element_stride]);
    return to;
  }
  Rows<float> room(const TensorView& view, int64_t batch, int64_t head, int64_t count, int64_t width) {
    if (!view.data) return {};
    results_.push_back({dense(count, width), rows_of<H>(view, batch, head), count, width});
    return results_.back().from;
  }

  std::vector<std::vector<float>> memory_;
  std::vector<Result> results_;
  Head<float> widened_{};
};

// What one thread does at a time: a head; or where there are too few of them a part of its queries, and then of its keys, for which the
// weights are computed twice.
struct Share {
  bool queries = true, keys = true;
  int64_t q_begin = 0, q_end, k_begin = 0, k_end;
};

std::vector<Share> shares_of(const AttentionShape& p, bool may_cut) {
  const int64_t heads = p.batch * p.heads, threads = num_threads();
  const int64_t count = (threads + heads - 1) / std::max<int64_t>(heads, 1);
  if (!may_cut || count <= 1 || p.queries * p.keys < kQueries * kKeys)
    return {{.q_end = p.queries, .k_end = p.keys}};
  std::vector<Share> shares;
  const int64_t rows = (p.queries + count - 1) / count, columns = (p.keys + count - 1) / count;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t q = std::min(i * rows, p.queries), k = std::min(i * columns, p.keys);
    shares.push_back({.keys = false, .q_begin = q, .q_end = std::min(q + rows, p.queries), .k_end = p.keys});
    shares.push_back(
        {.queries = false, .q_end = p.queries, .k_begin = k, .k_end = std::min(k + columns, p.keys)});
  }
  return shares;
}

// E: of the tensors; T: what is computed in.
template <typename E, typename T>
void gradient(const AttentionShape& p, const LibraryArgs& args, const TensorView& mask) {
  const TensorView& logsumexp = args.operands[6];
  const std::vector<Share> shares = shares_of(p, std::is_same_v<E, T>);
  const int64_t count = static_cast<int64_t>(shares.size()), work = p.queries * p.keys * p.width * 4 / count;
  const int64_t grain = std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(work, 1));
  parallel_for(p.batch * p.heads * count, grain, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t pair = item / count, batch = pair / p.heads, index = pair % p.heads;
      const Share& share = shares[item % count];
      auto run = [&](Head<T>& head) {
        head.logsumexp = static_cast<const T*>(logsumexp.data) + batch * logsumexp.strides[0] +
                         index * logsumexp.strides[1];
        head.logsumexp_stride = logsumexp.strides[2];
        HeadGradient<T>(p, mask, head, batch, index, scratch)
            .run(share.q_begin, share.q_end, share.k_begin, share.k_end);
      };
      if constexpr (std::is_same_v<E, T>) {
        auto read = [&](int i) { return rows_of<const T>(args.operands[i], batch, index); };
        auto write = [&](int i, bool wanted) {
          return wanted ? rows_of<T>(args.output(i), batch, index) : Rows<T>();
        };
        Head<T> head{read(0),
                     read(1),
                     read(2),
                     read(3),
                     read(5),
                     nullptr,
                     0,
                     write(0, share.queries),
                     write(1, share.keys),
                     write(2, share.keys)};
        run(head);
      } else {
        WidenedHead<E> widened(p, args, batch, index);
        run(widened.head());
        widened.write();
      }
    }
  });
}

}  // namespace

bool library_attention_backward(const LibraryArgs& args, RunError* error) {
  const TensorView &query = args.operands[1], &key = args.operands[2], &value = args.operands[3];
  if (query.rank != 4) {
    *error = {RunError::kRuntimeError, "attention of tensors that are not (batch, heads, length, width)"};
    return false;
  }
  const AttentionShape shape(query, key, value, args);
  const FullMask mask(args.operands[4]);
  switch (query.dtype) {
    case DType::kF64: gradient<double, double>(shape, args, mask.view); break;
    case DType::kF32: gradient<float, float>(shape, args, mask.view); break;
    case DType::kF16: gradient<Float16, float>(shape, args, mask.view); break;
    case DType::kBF16: gradient<BFloat16, float>(shape, args, mask.view); break;
    default: *error = {RunError::kRuntimeError, "the gradient of attention of integers"}; return false;
  }
  return true;
}

}  // namespace cdynamo::runtime
