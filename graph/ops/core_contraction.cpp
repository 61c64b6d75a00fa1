// The core's contractions, and calls of the framework's library.
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

const TensorType& type_of(const Args& args, std::string_view name) { return args.value(name)->type; }

std::vector<TensorType> infer_mm(Graph& graph, const Args& args) {
  const TensorType &a = type_of(args, "self"), &b = type_of(args, "mat2");
  return {contiguous_type(args.value("self"), {a.sizes.at(0), b.sizes.at(1)}, a.dtype)};
}

std::vector<TensorType> infer_bmm(Graph& graph, const Args& args) {
  const TensorType &a = type_of(args, "self"), &b = type_of(args, "mat2");
  return {contiguous_type(args.value("self"), {a.sizes.at(0), a.sizes.at(1), b.sizes.at(2)}, a.dtype)};
}

std::vector<TensorType> infer_convolution(Graph& graph, const Args& args) {
  const TensorType &input = type_of(args, "input"), &weight = type_of(args, "weight");
  size_t spatial = input.sizes.size() - 2;
  std::vector<Sym> stride = args.sizes("stride"), padding = args.sizes("padding"),
                   dilation = args.sizes("dilation"), output_padding = args.sizes("output_padding");
  bool transposed = args.boolean("transposed");
  std::vector<Sym> sizes{input.sizes[0],
                         transposed ? weight.sizes[1] * args.integer("groups") : weight.sizes[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const Sym &n = input.sizes[i + 2], &k = weight.sizes[i + 2];
    Sym reach = dilation[i] * (k - 1);
    sizes.push_back(transposed ? (n - 1) * stride[i] - padding[i] * 2 + reach + output_padding[i] + 1
                               : floordiv(n + padding[i] * 2 - reach - 1, stride[i]) + 1);
  }
  return {contiguous_type(args.value("input"), std::move(sizes), input.dtype)};
}

std::vector<TensorType> infer_sdpa(Graph& graph, const Args& args) {
  const TensorType &query = type_of(args, "query"), &value = type_of(args, "value");
  std::vector<Sym> sizes = query.sizes;
  sizes.back() = value.sizes.back();
  return {contiguous_type(args.value("query"), std::move(sizes), query.dtype)};
}

std::vector<TensorType> infer_library(Graph& graph, const Args& args) {
  throw InternalError("the types of a library call come from capture");
}

void mm_derivative(Derivative& d) {
  d.set(0, mm(d.grad(), transpose(d.operand(1), 0, 1)));
  d.set(1, mm(transpose(d.operand(0), 0, 1), d.grad()));
}

void bmm_derivative(Derivative& d) {
  d.set(0, bmm(d.grad(), transpose(d.operand(1), 1, 2)));
  d.set(1, bmm(transpose(d.operand(0), 1, 2), d.grad()));
}

}  // namespace

std::vector<OpDef> core_contraction_ops() {
  return {
      {.name = "core.mm",
       .family = Family::kContraction,
       .schemas = {"core.mm(Tensor self, Tensor mat2) -> Tensor"},
       .infer = infer_mm,
       .derivative = mm_derivative},
      {.name = "core.bmm",
       .family = Family::kContraction,
       .schemas = {"core.bmm(Tensor self, Tensor mat2) -> Tensor"},
       .infer = infer_bmm,
       .derivative = bmm_derivative},
      {.name = "core.convolution",
       .family = Family::kContraction,
       .schemas = {"core.convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
                   "int[] dilation, "
                   "bool transposed, int[] output_padding, int groups) -> Tensor"},
       .infer = infer_convolution},
      {.name = "core.sdpa",
       .family = Family::kContraction,
       .schemas = {"core.sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
                   "float scale) -> Tensor"},
       .infer = infer_sdpa},
      {.name = "core.library",
       .family = Family::kLibrary,
       .schemas = {"core.library(Tensor[] inputs, int call) -> Tensor[]"},
       .infer = infer_library,
       .differentiable = false},
  };
}

}  // namespace cdynamo::graph
