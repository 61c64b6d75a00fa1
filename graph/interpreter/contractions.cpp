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

void multiply(const DenseTensor& a, const DenseTensor& b, DenseTensor& out) {
  int64_t rows = out.sizes[out.rank() - 2], columns = out.sizes.back(), inner = a.sizes.back();
  int64_t batches = out.rank() == 3 ? out.sizes[0] : 1;
  for (int64_t n = 0; n < batches; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        Accumulator total;
        for (int64_t k = 0; k < inner; ++k)
          total.add_product(a.elements[static_cast<size_t>((n * rows + i) * inner + k)],
                            b.elements[static_cast<size_t>((n * inner + k) * columns + j)]);
        total.store_to(out, static_cast<size_t>((n * rows + i) * columns + j));
      }
}

// Each (input place, weight place, output place) of a convolution, transposed or not, adds one product.
void convolution(const KernelCall& call, DenseTensor& out) {
  const DenseTensor &input = call.tensor("input"), &weight = call.tensor("weight");
  Index stride = call.integers("stride"), padding = call.integers("padding"),
        dilation = call.integers("dilation");
  bool transposed = call.args.boolean("transposed");
  int64_t groups = call.integer("groups");
  size_t spatial = input.sizes.size() - 2;
  std::vector<Accumulator> totals(out.elements.size());
  Index kernel(weight.sizes.begin() + 2, weight.sizes.end());
  // `small` has stride steps: the output, or the input of a transposed convolution; `large` is the other.
  const DenseTensor& small = transposed ? input : out;
  const DenseTensor& large = transposed ? static_cast<const DenseTensor&>(out) : input;
  int64_t small_per_group = small.sizes[1] / groups, large_per_group = large.sizes[1] / groups;
  for_each_index(small.sizes, [&](const Index& s) {
    int64_t group = s[1] / small_per_group;
    for (int64_t c = 0; c < large_per_group; ++c)
      for_each_index(kernel, [&](const Index& k) {
        Index l{s[0], group * large_per_group + c};
        Index w{s[1], c};
        for (size_t d = 0; d < spatial; ++d) {
          int64_t at = s[d + 2] * stride[d] - padding[d] + k[d] * dilation[d];
          if (at < 0 || at >= large.sizes[d + 2]) return;
          l.push_back(at);
          w.push_back(k[d]);
        }
        const Index &in = transposed ? s : l, &to = transposed ? l : s;
        totals[flat(to, out.sizes)].add_product(input.elements[flat(in, input.sizes)],
                                                weight.elements[flat(w, weight.sizes)]);
      });
  });
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

// One query row: softmax(query . keys * scale + mask) . values. A row that sees nothing gives 0.
void attend(const KernelCall& call, DenseTensor& out, int64_t b, int64_t h, int64_t l) {
  const DenseTensor &query = call.tensor("query"), &key = call.tensor("key"), &value = call.tensor("value");
  const DenseTensor* mask = call.args.has("attn_mask") ? &call.tensor("attn_mask") : nullptr;
  int64_t keys = key.sizes[2], width = query.sizes[3], value_width = value.sizes[3];
  double scale = call.args.number("scale"), top = -std::numeric_limits<double>::infinity(), total = 0;
  std::vector<double> scores(static_cast<size_t>(keys));
  for (int64_t s = 0; s < keys; ++s) {
    double dot = 0;
    for (int64_t e = 0; e < width; ++e)
      dot += query.elements[flat({b, h, l, e}, query.sizes)].real *
             key.elements[flat({b, h, s, e}, key.sizes)].real;
    dot *= scale;
    if (mask) {
      Index at{b, h, l, s};
      at.erase(at.begin(), at.begin() + (4 - mask->rank()));
      for (size_t d = 0; d < at.size(); ++d)
        if (mask->sizes[d] == 1) at[d] = 0;
      dot += mask->elements[flat(at, mask->sizes)].real;
    }
    if (call.args.boolean("is_causal") && s > l) dot = -std::numeric_limits<double>::infinity();
    scores[static_cast<size_t>(s)] = dot;
    top = std::max(top, dot);
  }
  if (top == -std::numeric_limits<double>::infinity()) top = 0, total = 1;
  for (double& score : scores) total += score = std::exp(score - top);
  for (int64_t e = 0; e < value_width; ++e) {
    double sum = 0;
    for (int64_t s = 0; s < keys; ++s)
      sum += scores[static_cast<size_t>(s)] / total * value.elements[flat({b, h, s, e}, value.sizes)].real;
    out.set(flat({b, h, l, e}, out.sizes), sum);
  }
}

void sdpa(const KernelCall& call, DenseTensor& out) {
  for (int64_t b = 0; b < out.sizes[0]; ++b)
    for (int64_t h = 0; h < out.sizes[1]; ++h)
      for (int64_t l = 0; l < out.sizes[2]; ++l) attend(call, out, b, h, l);
}

}  // namespace

bool run_contraction(const KernelCall& call, DenseTensor& out) {
  std::string_view name = call.node.op->name;
  if (name == "core.mm" || name == "core.bmm")
    multiply(call.tensor("self"), call.tensor("mat2"), out);
  else if (name == "core.convolution")
    convolution(call, out);
  else if (name == "core.sdpa")
    sdpa(call, out);
  else
    return false;
  return true;
}

}  // namespace cdynamo::graph
