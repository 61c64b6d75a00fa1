// Pooling: reductions over windows.
#include <limits>

#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

struct Pool {
  Dims dims;  // the spatial dims of the input
  std::vector<Sym> kernel, stride, padding, dilation, out;
};

std::vector<Sym> per_dim(const Args& args, const char* name, size_t dims, std::vector<Sym> otherwise) {
  if (args.schema().find(name) < 0) return otherwise;
  std::vector<Sym> values = args.sizes(name);
  if (values.empty()) return otherwise;
  if (values.size() == 1) values.assign(dims, values[0]);
  if (values.size() != dims)
    runtime_error(std::string(name) + " must either be a single int, or a tuple of " + std::to_string(dims) +
                  " ints");
  return values;
}

// How many windows there are; in ceil mode the last one has to start inside the input or the padding before
// it.
Sym window_count(SymContext& sym, const Sym& size, const Pool& pool, size_t d, bool ceil) {
  Sym reach = pool.dilation[d] * (pool.kernel[d] - 1) + 1, room = size + pool.padding[d] * 2 - reach;
  if (!ceil) return floordiv(room, pool.stride[d]) + 1;
  Sym count = floordiv(room + pool.stride[d] - 1, pool.stride[d]) + 1;
  bool outside = sym.guard(Relation::kLe, size + pool.padding[d], (count - 1) * pool.stride[d], "pooling");
  return outside ? count - 1 : count;
}

Pool pool_of(Builder& b, const Args& args, Tensor input, size_t dims) {
  int rank = static_cast<int>(dims);
  if (input.rank() != rank + 1 && input.rank() != rank + 2)
    runtime_error("Expected " + std::to_string(rank + 1) + "D or " + std::to_string(rank + 2) + "D input");
  SymContext& sym = b.sym();
  for (int d = input.rank() == rank + 2 ? 1 : 0; d < input.rank(); ++d)
    if (sym.guard_eq(input.size(d), 0, "pooling"))
      runtime_error("Expected input's non-batch dimensions to have positive length");
  Pool pool;
  for (int d = input.rank() - rank; d < input.rank(); ++d) pool.dims.push_back(d);
  pool.kernel = per_dim(args, "kernel_size", dims, {});
  if (pool.kernel.empty()) runtime_error("kernel_size must not be empty");
  pool.stride = per_dim(args, "stride", dims, pool.kernel);
  pool.padding = per_dim(args, "padding", dims, std::vector<Sym>(dims, 0));
  pool.dilation = per_dim(args, "dilation", dims, std::vector<Sym>(dims, 1));
  bool ceil = args.boolean("ceil_mode");
  for (size_t d = 0; d < dims; ++d) {
    if (!sym.guard(Relation::kLt, 0, pool.kernel[d], "pooling"))
      runtime_error("kernel size should be greater than zero");
    if (!sym.guard(Relation::kLt, 0, pool.stride[d], "pooling")) runtime_error("stride should not be zero");
    if (!sym.guard(Relation::kLt, 0, pool.dilation[d], "pooling"))
      runtime_error("dilation should be greater than zero");
    if (sym.guard(Relation::kLt, pool.padding[d], 0, "pooling") ||
        sym.guard(Relation::kLt, pool.kernel[d], pool.padding[d] * 2, "pooling"))
      runtime_error("pad should be at most half of effective kernel size");
    pool.out.push_back(window_count(sym, input.size(pool.dims[d]), pool, d, ceil));
    if (sym.guard(Relation::kLt, pool.out[d], 1, "pooling"))
      runtime_error("Given input size: " + sizes_text(input.sizes()) +
                    ". Calculated output size is too small");
  }
  return pool;
}

Tensor windows(Tensor x, const Pool& pool, Arg fill) {
  std::vector<Sym> dims(pool.dims.begin(), pool.dims.end());
  return wrap(*x.builder,
              x.builder->call1("core.window", {x.value, dims, pool.kernel, pool.stride, pool.padding,
                                               pool.dilation, pool.out, std::move(fill)}));
}
Dims trailing(Tensor x, size_t count) {
  Dims dims;
  for (int64_t d = x.rank() - static_cast<int64_t>(count); d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

template <size_t dims>
std::vector<Value*> max_pool_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (!is_float(self.dtype())) throw Unsupported("max_pool of integers");
  Pool pool = pool_of(b, args, self, dims);
  Tensor view = windows(self, pool, -std::numeric_limits<double>::infinity());
  return one(reduce("core.max", view, trailing(view, dims), /*keepdim=*/false));
}

// The number of elements that each window averages over, as one factor for each dim.
Tensor window_sizes(Builder& b, const Pool& pool, Tensor self, size_t d, bool include_pad, DType dtype) {
  Tensor start = iota(b, {pool.out[d]}, 0, DType::kI64) * Operand(pool.stride[d]) - Operand(pool.padding[d]);
  Sym size = self.size(pool.dims[d]);
  Tensor end = minimum(start + Operand(pool.kernel[d]), full(b, {}, size + pool.padding[d], DType::kI64));
  if (!include_pad) {
    end = minimum(end, full(b, {}, size, DType::kI64));
    start = maximum(start, full(b, {}, Sym(0), DType::kI64));
  }
  std::vector<Sym> shape(self.rank(), 1);
  shape[pool.dims[d]] = pool.out[d];
  return reshape(cast(end - start, dtype), shape);
}

template <size_t dims>
std::vector<Value*> avg_pool_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (!is_float(self.dtype())) throw Unsupported("avg_pool of integers");
  Pool pool = pool_of(b, args, self, dims);
  Tensor x = to_compute(self), view = windows(x, pool, 0.0), total = sum(view, trailing(view, dims));
  bool include_pad = args.boolean("count_include_pad"),
       has_divisor = args.schema().find("divisor_override") >= 0 && args.has("divisor_override");
  if (has_divisor && args.constant("divisor_override") == 0) runtime_error("divisor must be not zero");
  bool no_pad = true;
  for (const Sym& padding : pool.padding) no_pad &= padding == Sym(0);
  Tensor result;
  if (has_divisor) {
    result = total / Operand(args.integer("divisor_override"));
  } else if (!args.boolean("ceil_mode") && (include_pad || no_pad)) {
    Sym count = 1;
    for (const Sym& size : pool.kernel) count = count * size;
    result = total / Operand(count);
  } else {
    result = total / window_sizes(b, pool, self, 0, include_pad, x.dtype());
    for (size_t d = 1; d < dims; ++d)
      result = result / window_sizes(b, pool, self, d, include_pad, x.dtype());
  }
  return one(cast(result, self.dtype()));
}

// Along one dim: window i is floor(i * size / out) .. ceil((i + 1) * size / out). The elements are picked by
// index, as many for each window as the widest has, and those beyond a window's end count as 0.
Tensor uneven_average(Tensor x, int64_t dim, const Sym& out) {
  Builder& b = *x.builder;
  Sym size = x.size(dim), width = floordiv(size + out - 1, out) + 1;
  Tensor place = iota(b, {out, width}, 0, DType::kI64), offset = iota(b, {out, width}, 1, DType::kI64);
  Tensor start = floor_divide(place * Operand(size), Operand(out));
  Tensor end = floor_divide((place + 1) * Operand(size) + Operand(out - 1), Operand(out));
  Tensor at = start + offset;
  Tensor inside = lt(at, end), index = minimum(at, full(b, {}, size - 1, DType::kI64));
  std::vector<Value*> selection(static_cast<size_t>(dim), nullptr);
  selection.push_back(index.value);
  Tensor picked = wrap(b, b.call1("index", {x.value, selection}));
  std::vector<Sym> shape(picked.rank(), 1);
  shape[dim] = out;
  shape[dim + 1] = width;
  Tensor total = sum(where(reshape(inside, shape), picked, 0.0), {dim + 1});
  shape.erase(shape.begin() + dim + 1);
  return total / reshape(cast(slice(end - start, 1, 0, 1), x.dtype()), shape);
}

template <size_t dims>
std::vector<Value*> adaptive_avg_pool_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (!is_float(self.dtype())) throw Unsupported("adaptive_avg_pool of integers");
  int rank = static_cast<int>(dims);
  if (self.rank() != rank + 1 && self.rank() != rank + 2)
    runtime_error("adaptive_avg_pool: Expected " + std::to_string(rank + 1) + "D or " +
                  std::to_string(rank + 2) + "D tensor");
  std::vector<Sym> output = args.sizes("output_size");
  if (output.size() == 1) output.assign(dims, output[0]);
  if (output.size() != dims) runtime_error("adaptive_avg_pool: output_size must be " + std::to_string(rank));
  Tensor x = own(to_compute(self));
  bool even = true;
  for (int d = 0; d < rank; ++d) {
    if (!b.sym().guard(Relation::kLt, 0, output[d], "pooling"))
      throw Unsupported("adaptive pooling to no places");
    even = even && b.sym().guard_eq(mod(x.size(d - rank), output[d]), 0, "pooling");
  }
  if (!even) {
    for (int d = 0; d < rank; ++d) x = uneven_average(x, x.rank() - rank + d, output[d]);
    return one(cast(x, self.dtype()));
  }
  // Each spatial dim is split in (out, window).
  std::vector<Sym> split(x.sizes().begin(), x.sizes().end() - rank), kept = split;
  Dims reduced;
  for (int d = 0; d < rank; ++d) {
    Sym size = x.size(d - rank);
    split.insert(split.end(), {output[d], floordiv(size, output[d])});
    reduced.push_back(static_cast<int64_t>(split.size()) - 1);
    kept.push_back(output[d]);
  }
  return one(cast(mean(reshape(x, split), reduced), self.dtype()));
}

void pool_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& input = args.value("self")->type;
  bool last = suggests_channels_last(*graph.sym, input);
  for (TensorType& type : results)
    type.strides =
        last && type.rank() >= 4 ? channels_last_strides(type.sizes) : contiguous_strides(type.sizes);
}
// To one place: eager takes the mean, and gives channels-last inputs strides of that order.
void adaptive_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  pool_strides(graph, args, results);
  TensorType& type = results[0];
  bool one_place = type.rank() == 4 && type.sizes[2] == Sym(1) && type.sizes[3] == Sym(1);
  if (one_place && suggests_channels_last(*graph.sym, args.value("self")->type))
    type.strides = {type.sizes[1], 1, type.sizes[1], type.sizes[1]};
}

OpDef pooling(std::string_view name, std::string_view schema, BodyFn body, StridesFn strides = pool_strides) {
  return composite(name, {schema}, body, {}, strides);
}

}  // namespace

std::vector<OpDef> pooling_ops() {
  return {
      pooling("max_pool1d",
              "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] "
              "dilation=1, bool ceil_mode=False) -> Tensor",
              max_pool_body<1>),
      pooling("max_pool2d",
              "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
              "dilation=1, bool ceil_mode=False) -> Tensor",
              max_pool_body<2>),
      pooling("max_pool3d",
              "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
              "dilation=1, bool ceil_mode=False) -> Tensor",
              max_pool_body<3>),
      pooling("avg_pool1d",
              "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool "
              "ceil_mode=False, bool count_include_pad=True) -> Tensor",
              avg_pool_body<1>),
      pooling("avg_pool2d",
              "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool "
              "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
              avg_pool_body<2>),
      pooling("avg_pool3d",
              "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool "
              "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
              avg_pool_body<3>),
      pooling("adaptive_avg_pool1d", "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
              adaptive_avg_pool_body<1>, adaptive_strides),
      pooling("adaptive_avg_pool2d", "adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor",
              adaptive_avg_pool_body<2>, adaptive_strides),
      pooling("adaptive_avg_pool3d", "adaptive_avg_pool3d(Tensor self, int[3] output_size) -> Tensor",
              adaptive_avg_pool_body<3>, adaptive_strides),
  };
}

}  // namespace cdynamo::graph
