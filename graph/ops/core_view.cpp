// The core's views and fills: cast, full, iota, expand, permute, reshape, slice, diagonal, window, pad.
#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> view_type(const Args& args, std::vector<Sym> sizes, std::vector<Sym> strides) {
  TensorType type = args.value("self")->type;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return {type};
}

std::vector<TensorType> infer_cast(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  type.strides = preserved_strides(*graph.sym, type);
  type.dtype = *args.dtype("dtype");
  type.weak = false;
  return {type};
}

std::vector<TensorType> infer_fill(Graph& graph, const Args& args) {
  TensorType type;
  type.dtype = *args.dtype("dtype");
  type.sizes = args.sizes("size");
  type.strides = contiguous_strides(type.sizes);
  return {type};
}

std::vector<TensorType> infer_expand(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  std::vector<Sym> sizes = args.sizes("size"), strides = self.strides;
  if (sizes.size() != self.sizes.size()) throw InternalError("core.expand changes the rank");
  for (size_t i = 0; i < sizes.size(); ++i)
    if (self.sizes[i] == Sym(1) && sizes[i] != Sym(1)) strides[i] = 0;
  return view_type(args, std::move(sizes), std::move(strides));
}

std::vector<TensorType> infer_permute(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  std::vector<Sym> sizes, strides;
  for (int64_t dim : args.constants("dims")) {
    sizes.push_back(self.sizes.at(dim));
    strides.push_back(self.strides.at(dim));
  }
  return view_type(args, std::move(sizes), std::move(strides));
}

std::vector<TensorType> infer_reshape(Graph& graph, const Args& args) {
  std::vector<Sym> sizes = args.sizes("size");
  auto strides = view_strides(*graph.sym, args.value("self")->type, sizes);
  std::vector<Sym> row_major = contiguous_strides(sizes);
  return view_type(args, std::move(sizes), strides ? *strides : row_major);
}

std::vector<TensorType> infer_slice(Graph& graph, const Args& args) {
  std::vector<Sym> strides = args.value("self")->type.strides, step = args.sizes("step");
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = strides[i] * step.at(i);
  return view_type(args, args.sizes("size"), std::move(strides));
}

std::vector<TensorType> infer_diagonal(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  int64_t dim1 = args.constant("dim1"), dim2 = args.constant("dim2"), offset = args.constant("offset");
  const Sym &rows = self.sizes.at(dim1), &columns = self.sizes.at(dim2);
  Sym length = offset >= 0 ? max(min(rows, columns - offset), 0) : max(min(rows + offset, columns), 0);
  std::vector<Sym> sizes, strides;
  for (int d = 0; d < self.rank(); ++d) {
    if (d == dim1 || d == dim2) continue;
    sizes.push_back(self.sizes[d]);
    strides.push_back(self.strides[d]);
  }
  sizes.push_back(length);
  strides.push_back(self.strides[dim1] + self.strides[dim2]);
  return view_type(args, std::move(sizes), std::move(strides));
}

std::vector<TensorType> infer_window(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  std::vector<Sym> sizes = self->type.sizes, out = args.sizes("out"), kernel = args.sizes("kernel");
  std::vector<int64_t> dims = args.constants("dims");
  for (size_t i = 0; i < dims.size(); ++i) sizes.at(dims[i]) = out.at(i);
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  return {contiguous_type(self, std::move(sizes), self->type.dtype)};
}

std::vector<TensorType> infer_pad(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  std::vector<Sym> sizes = self->type.sizes, low = args.sizes("low"), high = args.sizes("high");
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] + low.at(i) + high.at(i);
  return {contiguous_type(self, std::move(sizes), self->type.dtype)};
}

Dims inverse(const Dims& dims) {
  Dims result(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) result[dims[i]] = static_cast<int64_t>(i);
  return result;
}

// The gradient of a stretched dim is the sum along it.
void expand_derivative(Derivative& d) {
  Dims dims;
  for (int i = 0; i < d.operand(0).rank(); ++i)
    if (d.operand(0).size(i) != d.result().size(i)) dims.push_back(i);
  d.set(0, sum(d.grad(), dims, true));
}

void slice_derivative(Derivative& d) {
  Tensor zero = full_like(d.operand(0), 0.0);
  d.set(0, wrap(d.builder, d.builder.call1("core.slice_scatter",
                                           {zero.value, d.grad().value, d.args["start"], d.args["step"]})));
}

void diagonal_derivative(Derivative& d) {
  Tensor zero = full_like(d.operand(0), 0.0);
  d.set(0, wrap(d.builder,
                d.builder.call1("core.diagonal_scatter", {zero.value, d.grad().value, d.args["offset"],
                                                          d.args["dim1"], d.args["dim2"]})));
}

void pad_derivative(Derivative& d) {
  Tensor grad = d.grad();
  std::vector<Sym> low = d.args.sizes("low");
  for (int i = 0; i < grad.rank(); ++i) grad = slice(grad, i, low[i], d.operand(0).size(i));
  d.set(0, grad);
}

}  // namespace

std::vector<OpDef> core_view_ops() {
  return {
      {.name = "core.cast",
       .family = Family::kPointwise,
       .schemas = {"core.cast(Tensor self, ScalarType dtype) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return b.cast(x[0], runtime::compute_type(*args.dtype("dtype")))),
       .infer = infer_cast,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, cast(d.grad(), d.operand(0).dtype())))},
      {.name = "core.full",
       .family = Family::kIndexing,
       .schemas = {"core.full(int[] size, Scalar value, ScalarType dtype) -> Tensor"},
       .infer = infer_fill,
       .differentiable = false},
      {.name = "core.iota",
       .family = Family::kIndexing,
       .schemas = {"core.iota(int[] size, int dim, ScalarType dtype) -> Tensor"},
       .infer = infer_fill,
       .differentiable = false},
      {.name = "core.expand",
       .family = Family::kView,
       .schemas = {"core.expand(Tensor self, int[] size) -> Tensor"},
       .infer = infer_expand,
       .derivative = expand_derivative,
       .view = true},
      {.name = "core.permute",
       .family = Family::kView,
       .schemas = {"core.permute(Tensor self, int[] dims) -> Tensor"},
       .infer = infer_permute,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, permute(d.grad(), inverse(d.args.constants("dims"))))),
       .view = true},
      {.name = "core.reshape",
       .family = Family::kView,
       .schemas = {"core.reshape(Tensor self, int[] size) -> Tensor"},
       .infer = infer_reshape,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, reshape(d.grad(), d.operand(0).sizes()))),
       .view = true},
      {.name = "core.slice",
       .family = Family::kView,
       .schemas = {"core.slice(Tensor self, int[] start, int[] size, int[] step) -> Tensor"},
       .infer = infer_slice,
       .derivative = slice_derivative,
       .view = true},
      {.name = "core.diagonal",
       .family = Family::kView,
       .schemas = {"core.diagonal(Tensor self, int offset, int dim1, int dim2) -> Tensor"},
       .infer = infer_diagonal,
       .derivative = diagonal_derivative,
       .view = true},
      {.name = "core.window",
       .family = Family::kView,
       .schemas = {"core.window(Tensor self, int[] dims, int[] kernel, int[] stride, int[] padding, int[] "
                   "dilation, int[] out, "
                   "Scalar fill) -> Tensor"},
       .infer = infer_window,
       .differentiable = false},
      {.name = "core.pad",
       .family = Family::kView,
       .schemas = {"core.pad(Tensor self, int[] low, int[] high, Scalar fill) -> Tensor"},
       .infer = infer_pad,
       .derivative = pad_derivative},
  };
}

}  // namespace cdynamo::graph
