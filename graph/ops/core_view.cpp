// The core's views and fills: cast, full, iota, expand, permute, reshape, slice, diagonal, window, pad.
#include <algorithm>

#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"
#include "graph/ops/view_maps.h"
#include "graph/ops/view_rules.h"
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
  type.strides = preserved_strides(graph, type);
  type.dtype = *args.dtype("dtype");
  type.weak = false;
  return {type};
}

// Strides of the core's values are meaningless.
std::vector<TensorType> infer_regroup(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  type.strides = contiguous_strides(type.sizes);
  type = regrouped(graph, type, *args.dtype("dtype"));
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
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (self.sizes[i] == Sym(1) && sizes[i] != Sym(1)) strides[i] = 0;
    const bool is_known = self.sizes[i].is_constant() && sizes[i].is_constant();
    if (is_known && self.sizes[i] != Sym(1) && self.sizes[i] != sizes[i])
      throw InternalError("core.expand of a dim of another size");
  }
  return view_type(args, std::move(sizes), std::move(strides));
}

std::vector<TensorType> infer_permute(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  std::vector<Sym> sizes, strides;
  const Dims order = args.constants("dims");
  if (wrap_dims(order, self.rank(), false).size() != self.sizes.size())
    throw InternalError("an order of dims that is no permutation");
  for (int64_t dim : order) {
    sizes.push_back(self.sizes.at(dim));
    strides.push_back(self.strides.at(dim));
  }
  return view_type(args, std::move(sizes), std::move(strides));
}

std::vector<TensorType> infer_reshape(Graph& graph, const Args& args) {
  std::vector<Sym> sizes = args.sizes("size");
  const auto had = args.value("self")->type.numel().maybe_constant();
  const auto has = TensorType{.sizes = sizes}.numel().maybe_constant();
  if (had && has && *had != *has) runtime_error("a shape of another number of elements");
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
  if (dim1 == dim2) throw InternalError("a diagonal of one dim");
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

std::vector<TensorType> infer_detach(Graph& graph, const Args& args) { return {args.value("self")->type}; }

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

// The gradient of a stretched dim is the sum along it.
void expand_derivative(Derivative& d) {
  Dims dims;
  for (int i = 0; i < d.operand(0).rank(); ++i)
    if (d.operand(0).size(i) == Sym(1) && d.result().size(i) != Sym(1)) dims.push_back(i);
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
  // Eager copies the part, with its strides where it has no gaps.
  TensorType part = d.operand(0).type();
  part.strides = contiguous_strides(d.grad().sizes());
  d.set(0, is_non_overlapping_and_dense(d.builder.sym(), part) ? grad : own(grad));
}

// As eager computes it.
void softmax_derivative(Derivative& d) {
  Tensor result = to_compute(d.result()), grad = to_compute(d.grad());
  const int64_t dim = d.args.constant("dim");
  d.set(1, d.args.boolean("logarithm") ? grad - exp(result) * sum(grad, {dim}, true)
                                       : softmax_gradient(result, grad, dim));
}

void unit_strides_derivative(Derivative& d) {
  d.set(0, wrap(d.builder, d.builder.call1("core.unit_strides", {d.grad().value, d.args["strides"]})));
}

// One dim of core.window. Place i of the operand is element k of window o where i + padding = o * stride + k * dilation.
struct WindowDim {
  int64_t dim, kernel, stride, padding, dilation;
  Sym size, out;
  // With i = q * stride + r and o = q - t, k * dilation = r + padding + t * stride: t goes from least() to most().
  int64_t least() const { return -((padding + stride - 1) / stride); }
  int64_t most() const {
    const int64_t reach = dilation * (kernel - 1) - padding;
    return reach >= 0 ? reach / stride : -((stride - 1 - reach) / stride);
  }
  int64_t overlaps() const { return std::max<int64_t>(most() - least() + 1, 1); }
  Sym blocks() const { return floordiv(size + (stride - 1), stride); }
};

Tensor pad_dim(Tensor x, int64_t dim, Sym low, Sym high) {
  std::vector<Sym> lows(x.rank(), 0), highs(x.rank(), 0);
  lows[dim] = low;
  highs[dim] = high;
  return pad(x, lows, highs, 0.0);
}

// The elements of the windows along `dim`, zeros between and around them, as (t - least, r).
Tensor split_elements(Tensor x, int64_t dim, const WindowDim& w) {
  std::vector<Sym> sizes = x.sizes();
  if (w.dilation > 1) {
    sizes[dim] = w.kernel * w.dilation;
    x = reshape(pad_dim(unsqueeze(x, dim + 1), dim + 1, 0, w.dilation - 1), sizes);
    x = slice(x, dim, 0, w.dilation * (w.kernel - 1) + 1);
  }
  const int64_t low = -(w.padding + w.least() * w.stride), places = w.overlaps() * w.stride;
  const int64_t kept = std::min(w.dilation * (w.kernel - 1) + 1, places - low);
  x = pad_dim(slice(x, dim, 0, kept), dim, low, places - low - kept);
  sizes[dim] = w.overlaps();
  sizes.insert(sizes.begin() + dim + 1, w.stride);
  return reshape(x, sizes);
}

// Along `dim`, element q of the result is element q - t: 0 where there is none.
Tensor shifted(Tensor x, int64_t dim, int64_t t, const Sym& size) {
  if (t < 0) {
    const Sym left = max(x.size(dim) + t, 0);
    x = slice(x, dim, min(x.size(dim), -t), left);
  }
  return slice(pad_dim(x, dim, std::max<int64_t>(t, 0), size), dim, 0, size);
}

// The sum over all windows that cover a place; the trailing dims of `x` are the windows' elements along `dims`.
Tensor fold(Tensor x, const std::vector<WindowDim>& dims) {
  const int64_t leading = x.rank() - static_cast<int64_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    x = split_elements(x, leading + 2 * static_cast<int64_t>(i), dims[i]);
  Tensor total;
  std::vector<int64_t> at(dims.size(), 0);
  for (bool more = true; more;) {
    Tensor term = x;
    for (size_t i = dims.size(); i-- > 0;) term = select(term, leading + 2 * static_cast<int64_t>(i), at[i]);
    for (size_t i = 0; i < dims.size(); ++i)
      term = shifted(term, dims[i].dim, dims[i].least() + at[i], dims[i].blocks());
    total = total.value ? total + term : term;
    more = false;
    for (size_t i = dims.size(); i-- > 0 && !more;) {
      more = ++at[i] < dims[i].overlaps();
      if (!more) at[i] = 0;
    }
  }
  // (q, r) back to one dim.
  Dims order;
  std::vector<Sym> merged;
  for (int64_t d = 0; d < leading; ++d) {
    order.push_back(d);
    merged.push_back(total.size(d));
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i].dim == d) {
        order.push_back(leading + static_cast<int64_t>(i));
        merged.back() = merged.back() * dims[i].stride;
      }
  }
  total = reshape(permute(total, order), merged);
  for (const WindowDim& w : dims)
    if (!(total.size(w.dim) == w.size)) total = slice(total, w.dim, 0, w.size);
  return total;
}

// The same by index, for windows that overlap many times: element after element is added to its place.
Tensor fold_by_index(Tensor x, const WindowDim& w) {
  Builder& b = *x.builder;
  const int64_t last = x.rank() - 1;
  const std::vector<Sym> windows{w.out, w.kernel};
  Tensor place = iota(b, windows, 0, DType::kI64) * Operand(w.stride) +
                 iota(b, windows, 1, DType::kI64) * Operand(w.dilation) - Operand(w.padding);
  Tensor inside = logical_and(ge(place, 0), lt(place, Operand(w.size)));
  Dims order{w.dim, last};
  for (int64_t d = 0; d < last; ++d)
    if (d != w.dim) order.push_back(d);
  x = permute(x, order);
  std::vector<Sym> mask(x.rank(), 1), sizes(x.sizes().begin() + 1, x.sizes().end());
  mask[0] = w.out;
  mask[1] = w.kernel;
  sizes[0] = w.size;
  x = where(reshape(inside, mask), x, 0.0);
  const std::vector<Value*> index{where(inside, place, Operand(0)).value};
  x = wrap(b, b.call1("core.index_put", {full(b, sizes, 0.0, x.dtype()).value, index, x.value, true}));
  Dims back;
  for (int64_t d = 0; d < last; ++d) back.push_back(d == w.dim ? 0 : d < w.dim ? d + 1 : d);
  return permute(x, back);
}

void window_derivative(Derivative& d) {
  constexpr int64_t kMostTerms = 16;  // of one sum; more are added up one dim after the other
  constexpr int64_t kMostOverlaps = 32;
  auto constants = [&](const char* name) {
    std::vector<int64_t> result;
    for (const Sym& value : d.args.sizes(name))
      result.push_back(d.builder.sym().specialize(value, "a window's gradient"));
    return result;
  };
  const std::vector<int64_t> at = d.args.constants("dims"), kernel = constants("kernel"),
                             stride = constants("stride"), padding = constants("padding"),
                             dilation = constants("dilation");
  const std::vector<Sym> out = d.args.sizes("out");
  std::vector<WindowDim> dims;
  int64_t terms = 1;
  for (size_t i = 0; i < at.size(); ++i) {
    dims.push_back({at[i], kernel[i], stride[i], padding[i], dilation[i], d.operand(0).size(at[i]), out[i]});
    terms *= dims.back().overlaps();
  }
  if (terms <= kMostTerms) return d.set(0, own(fold(d.grad(), dims)));
  Tensor grad = d.grad();
  for (; !dims.empty(); dims.pop_back())
    grad = dims.back().overlaps() <= kMostOverlaps ? fold(grad, {dims.back()})
                                                   : fold_by_index(grad, dims.back());
  d.set(0, own(grad));
}

}  // namespace

std::vector<OpDef> core_view_ops() {
  return {
      {.name = "core.cast",
       .family = Family::kPointwise,
       .schemas = {"core.cast(Tensor self, ScalarType dtype) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return b.cast(x[0], runtime::compute_type(*args.dtype("dtype")))),
       .infer = infer_cast,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, cast(d.grad(), d.operand(0).dtype()))),
       .core = {.kind = CoreKind::kCast,
                .linearity = Linearity::kAll,
                .eager = "self.to(torch_dtype(dtype))"}},
      {.name = "core.bitcast",
       .family = Family::kPointwise,
       .schemas = {"core.bitcast(Tensor self, ScalarType dtype) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0].dtype == DType::kBool ? b.cast(x[0], *args.dtype("dtype"))
                                                                  : b.bitcast(x[0], *args.dtype("dtype"))),
       .infer = infer_cast,
       .differentiable = false,
       .core = {.view = &kBitcastView, .eager = "self.view(torch_dtype(dtype))"}},
      {.name = "core.regroup",
       .family = Family::kIndexing,
       .schemas = {"core.regroup(Tensor self, ScalarType source, ScalarType dtype) -> Tensor"},
       .infer = infer_regroup,
       .differentiable = false,
       .core = {.kind = CoreKind::kRegroup,
                .linearity = Linearity::kNone,
                .view = &kRegroupView,
                .eager = "self.view(torch_dtype(dtype))"}},
      {.name = "core.full",
       .family = Family::kIndexing,
       .schemas = {"core.full(int[] size, Scalar value, ScalarType dtype) -> Tensor"},
       .infer = infer_fill,
       .differentiable = false,
       .core = {.kind = CoreKind::kFull,
                .linearity = Linearity::kNone,
                .interpret = interpret_full,
                .eager = "torch.full(size, value, dtype=torch_dtype(dtype))"}},
      {.name = "core.iota",
       .family = Family::kIndexing,
       .schemas = {"core.iota(int[] size, int dim, ScalarType dtype) -> Tensor"},
       .infer = infer_fill,
       .differentiable = false,
       .core = {.kind = CoreKind::kIota,
                .linearity = Linearity::kNone,
                .interpret = interpret_iota,
                .eager = "iota(size, dim, torch_dtype(dtype))"}},
      {.name = "core.expand",
       .family = Family::kView,
       .schemas = {"core.expand(Tensor self, int[] size) -> Tensor"},
       .infer = infer_expand,
       .derivative = expand_derivative,
       .view = true,
       .core = {.kind = CoreKind::kExpand,
                .linearity = Linearity::kAll,
                .view = &kExpandView,
                .interpret = interpret_expand,
                .eager = "self.expand(size)"}},
      {.name = "core.permute",
       .family = Family::kView,
       .schemas = {"core.permute(Tensor self, int[] dims) -> Tensor"},
       .infer = infer_permute,
       .derivative =
           CDYNAMO_DERIVATIVE(d.set(0, permute_folded(d.grad(), inverse_order(d.args.constants("dims"))))),
       .view = true,
       .core = {.kind = CoreKind::kPermute,
                .linearity = Linearity::kAll,
                .view = &kPermuteView,
                .interpret = interpret_permute,
                .eager = "self.permute(dims)"}},
      {.name = "core.reshape",
       .family = Family::kView,
       .schemas = {"core.reshape(Tensor self, int[] size) -> Tensor"},
       .infer = infer_reshape,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, reshape(d.grad(), d.operand(0).sizes()))),
       .view = true,
       .core = {.kind = CoreKind::kReshape,
                .linearity = Linearity::kAll,
                .view = &kReshapeView,
                .interpret = interpret_reshape,
                .eager = "self.reshape(size)"}},
      {.name = "core.slice",
       .family = Family::kView,
       .schemas = {"core.slice(Tensor self, int[] start, int[] size, int[] step) -> Tensor"},
       .infer = infer_slice,
       .derivative = slice_derivative,
       .view = true,
       .core = {.kind = CoreKind::kSlice,
                .linearity = Linearity::kAll,
                .view = &kSliceView,
                .interpret = interpret_slice,
                .eager = "strided_slice(self, start, size, step)"}},
      {.name = "core.diagonal",
       .family = Family::kView,
       .schemas = {"core.diagonal(Tensor self, int offset, int dim1, int dim2) -> Tensor"},
       .infer = infer_diagonal,
       .derivative = diagonal_derivative,
       .view = true,
       .core = {.kind = CoreKind::kDiagonal,
                .linearity = Linearity::kAll,
                .view = &kDiagonalView,
                .interpret = interpret_diagonal,
                .eager = "self.diagonal(offset, dim1, dim2)"}},
      {.name = "core.detach",
       .family = Family::kView,
       .schemas = {"core.detach(Tensor self) -> Tensor"},
       .infer = infer_detach,
       .differentiable = false,
       .view = true,
       .core = {.kind = CoreKind::kGone,
                .linearity = Linearity::kAll,
                .view = &kDetachView,
                .interpret = interpret_detach,
                .eager = "self.detach()"}},
      {.name = "core.own",
       .family = Family::kPointwise,
       .schemas = {"core.own(Tensor self) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .infer = infer_detach,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, own(d.grad()))),
       .core = {.kind = CoreKind::kGone, .linearity = Linearity::kAll, .eager = "self"}},
      {.name = "core.copy",
       .family = Family::kPointwise,
       .schemas = {"core.copy(Tensor self) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .infer = infer_detach,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad())),
       .core = {.kind = CoreKind::kGone, .linearity = Linearity::kAll, .eager = "self"}},
      {.name = "core.follow",
       .family = Family::kPointwise,
       .schemas = {"core.follow(Tensor self, Tensor leader) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .infer = infer_detach,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, full_like(d.operand(1), 0.0))),
       .core = {.kind = CoreKind::kGone, .eager = "self"}},
      {.name = "core.slope",
       .family = Family::kPointwise,
       .schemas = {"core.slope(Tensor self, Tensor source, Tensor? slope=None) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .infer = infer_detach,
       .derivative = CDYNAMO_DERIVATIVE(d.set(1, d.operands.size() > 2 ? d.grad() * d.operand(2) : d.grad())),
       .core = {.kind = CoreKind::kGone, .eager = "self"}},
      {.name = "core.softmax",
       .family = Family::kPointwise,
       .schemas = {"core.softmax(Tensor self, Tensor source, int dim, bool logarithm) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .infer = infer_detach,
       .derivative = softmax_derivative,
       .core = {.kind = CoreKind::kGone, .eager = "self"}},
      {.name = "core.unit_strides",
       .family = Family::kView,
       .schemas = {"core.unit_strides(Tensor self, int[] strides) -> Tensor"},
       .infer = infer_detach,
       .derivative = unit_strides_derivative,
       .view = true,
       .core = {.kind = CoreKind::kGone,
                .linearity = Linearity::kAll,
                .view = &kUnitStridesView,
                .interpret = interpret_detach,
                .eager = "self"}},
      {.name = "core.window",
       .family = Family::kView,
       .schemas = {"core.window(Tensor self, int[] dims, int[] kernel, int[] stride, int[] padding, int[] "
                   "dilation, int[] out, "
                   "Scalar fill) -> Tensor"},
       .infer = infer_window,
       .derivative = window_derivative,
       .core = {.kind = CoreKind::kWindow,
                .linearity = Linearity::kNone,
                .view = &kWindowView,
                .interpret = interpret_window,
                .eager = "windows(self, dims, kernel, stride, padding, dilation, out, fill)"}},
      {.name = "core.pad",
       .family = Family::kView,
       .schemas = {"core.pad(Tensor self, int[] low, int[] high, Scalar fill) -> Tensor"},
       .infer = infer_pad,
       .derivative = pad_derivative,
       .core = {.kind = CoreKind::kPad,
                .linearity = Linearity::kAffine,
                .interpret = interpret_pad,
                .eager = "pad(self, low, high, fill)"}},
  };
}

}  // namespace cdynamo::graph
