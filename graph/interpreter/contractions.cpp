#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/interpreter/kernels.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

using Index = std::vector<int64_t>;

// Integers wrap, floats are summed in double.
struct Accumulator {
  double real = 0;
  int64_t integer = 0;
  void add_product(const Element& a, const Element& b) {
    real += a.real * b.real;
    integer = static_cast<int64_t>(static_cast<uint64_t>(integer) +
                                   static_cast<uint64_t>(a.integer) * static_cast<uint64_t>(b.integer));
  }
  void store_to(DenseTensor& out, size_t at) const {
    if (runtime::is_float(out.dtype))
      out.set(at, real);
    else
      out.elements[at].integer = wrap_to(integer, out.dtype);
  }
};

// Calls fn(place in the windows, in the image, in the weights) for each product of a convolution. Windows are stride steps apart: the
// output, or the input of a transposed convolution.
struct Convolution {
  Index stride, padding, dilation;
  int64_t groups;
  explicit Convolution(const KernelCall& call)
      : stride(call.integers("stride")),
        padding(call.integers("padding")),
        dilation(call.integers("dilation")),
        groups(call.integer("groups")) {}

  template <typename F>
  void each(const Index& windows, const Index& image, const Index& weight, F&& fn) const {
    Index kernel(weight.begin() + 2, weight.end());
    int64_t windows_per_group = windows[1] / groups, image_per_group = image[1] / groups;
    for_each_index(windows, [&](const Index& at) {
      int64_t group = at[1] / windows_per_group;
      for (int64_t c = 0; c < image_per_group; ++c)
        for_each_index(kernel, [&](const Index& k) {
          Index in_image{at[0], group * image_per_group + c}, in_weight{at[1], c};
          for (size_t d = 0; d < kernel.size(); ++d) {
            int64_t place = at[d + 2] * stride[d] - padding[d] + k[d] * dilation[d];
            if (place < 0 || place >= image[d + 2]) return;
            in_image.push_back(place);
            in_weight.push_back(k[d]);
          }
          fn(flat(at, windows), flat(in_image, image), flat(in_weight, weight));
        });
    });
  }
};

}  // namespace

namespace {

// Calls fn(element of the result, the sum of its products).
template <typename F>
void each_product(const KernelCall& call, const DenseTensor& out, F&& fn) {
  const DenseTensor &a = call.tensor("self"), &b = call.tensor("mat2");
  int64_t rows = out.sizes[out.rank() - 2], columns = out.sizes.back(), inner = a.sizes.back();
  int64_t batches = out.rank() == 3 ? out.sizes[0] : 1;
  for (int64_t n = 0; n < batches; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        Accumulator total;
        for (int64_t k = 0; k < inner; ++k)
          total.add_product(a.elements[static_cast<size_t>((n * rows + i) * inner + k)],
                            b.elements[static_cast<size_t>((n * inner + k) * columns + j)]);
        fn(static_cast<size_t>((n * rows + i) * columns + j), total);
      }
}

}  // namespace

void interpret_matmul(const KernelCall& call, Results& results) {
  each_product(call, results[0],
               [&](size_t at, const Accumulator& total) { total.store_to(results[0], at); });
}

void interpret_addmm(const KernelCall& call, Results& results) {
  const double beta = call.args.number("beta"), alpha = call.args.number("alpha");
  each_product(call, results[0], [&](size_t at, const Accumulator& total) {
    const double start = beta == 0 ? 0 : beta * call.tensor("addend").elements[at].real;
    results[0].set(at, start + alpha * total.real);
  });
}

void interpret_convolution(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor &input = call.tensor("input"), &weight = call.tensor("weight");
  std::vector<Accumulator> totals(out.elements.size());
  auto add = [&](size_t to, size_t from, size_t w) {
    totals[to].add_product(input.elements[from], weight.elements[w]);
  };
  if (call.args.boolean("transposed"))
    Convolution(call).each(input.sizes, out.sizes, weight.sizes,
                           [&](size_t windows, size_t image, size_t w) { add(image, windows, w); });
  else
    Convolution(call).each(out.sizes, input.sizes, weight.sizes, add);
  const DenseTensor* bias = call.args.has("bias") ? &call.tensor("bias") : nullptr;
  size_t at = 0;
  for_each_index(out.sizes, [&](const Index& i) {
    if (bias)
      totals[at].real += bias->elements[static_cast<size_t>(i[1])].real,
          totals[at].integer += bias->elements[static_cast<size_t>(i[1])].integer;
    totals[at].store_to(out, at);
    ++at;
  });
}

void interpret_convolution_weight_grad(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor &windows = call.tensor("windows"), &image = call.tensor("image");
  std::vector<Accumulator> totals(out.elements.size());
  Convolution(call).each(windows.sizes, image.sizes, out.sizes, [&](size_t at, size_t in_image, size_t w) {
    totals[w].add_product(windows.elements[at], image.elements[in_image]);
  });
  for (size_t at = 0; at < totals.size(); ++at) totals[at].store_to(out, at);
}

namespace {

// Rows of scores, query . keys * scale + mask, and what comes of them.
struct Attention {
  const DenseTensor &query, &key, &value;
  const DenseTensor* mask;
  double scale;
  bool causal;
  explicit Attention(const KernelCall& call)
      : query(call.tensor("query")),
        key(call.tensor("key")),
        value(call.tensor("value")),
        mask(call.args.has("attn_mask") ? &call.tensor("attn_mask") : nullptr),
        scale(call.args.number("scale")),
        causal(call.args.boolean("is_causal")) {}

  int64_t keys() const { return key.sizes[2]; }
  static double dot(const DenseTensor& a, int64_t row_a, const DenseTensor& b, int64_t row_b, int64_t batch,
                    int64_t head) {
    double sum = 0;
    for (int64_t e = 0; e < a.sizes[3]; ++e)
      sum += a.elements[flat({batch, head, row_a, e}, a.sizes)].real *
             b.elements[flat({batch, head, row_b, e}, b.sizes)].real;
    return sum;
  }

  double score(int64_t b, int64_t h, int64_t l, int64_t s) const {
    if (causal && s > l) return -std::numeric_limits<double>::infinity();
    double score = dot(query, l, key, s, b, h) * scale;
    if (!mask) return score;
    Index at{b, h, l, s};
    at.erase(at.begin(), at.begin() + (4 - mask->rank()));
    for (size_t d = 0; d < at.size(); ++d)
      if (mask->sizes[d] == 1) at[d] = 0;
    return score + mask->elements[flat(at, mask->sizes)].real;
  }

  // A row that sees nothing has weights of 0 and a log-sum-exp of -inf.
  std::vector<double> weights(int64_t b, int64_t h, int64_t l, double* logsumexp) const {
    std::vector<double> row(static_cast<size_t>(keys()));
    const double nothing = -std::numeric_limits<double>::infinity();
    double top = nothing, total = 0;
    for (int64_t s = 0; s < keys(); ++s) {
      double& weight = row[static_cast<size_t>(s)];
      weight = score(b, h, l, s);
      top = std::max(top, weight);
    }
    for (double& weight : row) total += weight = top == nothing ? 0 : std::exp(weight - top);
    for (double& weight : row) weight = total == 0 ? 0 : weight / total;
    *logsumexp = total == 0 ? nothing : top + std::log(total);
    return row;
  }

  template <typename F>
  void each_row(F&& fn) const {
    for_each_index({query.sizes[0], query.sizes[1], query.sizes[2]},
                   [&](const Index& at) { fn(at[0], at[1], at[2]); });
  }
};

}  // namespace

void interpret_sdpa(const KernelCall& call, Results& outs) {
  const Attention attention(call);
  attention.each_row([&](int64_t b, int64_t h, int64_t l) {
    double logsumexp = 0;
    const std::vector<double> row = attention.weights(b, h, l, &logsumexp);
    outs[1].set(flat({b, h, l}, outs[1].sizes), logsumexp);
    for (int64_t e = 0; e < outs[0].sizes[3]; ++e) {
      double sum = 0;
      for (int64_t s = 0; s < attention.keys(); ++s)
        sum += row[static_cast<size_t>(s)] *
               attention.value.elements[flat({b, h, s, e}, attention.value.sizes)].real;
      outs[0].set(flat({b, h, l, e}, outs[0].sizes), sum);
    }
  });
}

void interpret_sdpa_backward(const KernelCall& call, Results& outs) {
  const Attention attention(call);
  const DenseTensor &grad = call.tensor("grad"), &out = call.tensor("out");
  std::vector<std::vector<double>> totals;
  for (const DenseTensor& result : outs) totals.emplace_back(result.elements.size());
  attention.each_row([&](int64_t b, int64_t h, int64_t l) {
    double logsumexp = 0;
    const std::vector<double> row = attention.weights(b, h, l, &logsumexp);
    const double mean = Attention::dot(grad, l, out, l, b, h);
    for (int64_t s = 0; s < attention.keys(); ++s) {
      const double weight = row[static_cast<size_t>(s)];
      const double of_score =
          weight * (Attention::dot(grad, l, attention.value, s, b, h) - mean) * attention.scale;
      for (int64_t e = 0; e < attention.query.sizes[3]; ++e) {
        const size_t q = flat({b, h, l, e}, outs[0].sizes), k = flat({b, h, s, e}, outs[1].sizes);
        totals[0][q] += of_score * attention.key.elements[k].real;
        totals[1][k] += of_score * attention.query.elements[q].real;
      }
      for (int64_t e = 0; e < attention.value.sizes[3]; ++e)
        totals[2][flat({b, h, s, e}, outs[2].sizes)] +=
            weight * grad.elements[flat({b, h, l, e}, grad.sizes)].real;
    }
  });
  for (size_t i = 0; i < outs.size(); ++i)
    for (size_t at = 0; at < totals[i].size(); ++at) outs[i].set(at, totals[i][at]);
}

}  // namespace cdynamo::graph
