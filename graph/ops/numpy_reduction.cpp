// NumPy's reductions: totals, moments, extremes, norms, running sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/numpy_rules.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> sum_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  return one(
      reduce(cast(a, numpy_sum_dtype(args, a.dtype())), numpy_axes(args, a.rank()), numpy_keepdims(args)));
}

// NaNs count as `neutral`.
template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> nansum_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  if (is_float(a.dtype())) a = where(isnan(a), Operand(reduce == &prod ? 1.0 : 0.0), a);
  return one(
      reduce(cast(a, numpy_sum_dtype(args, a.dtype())), numpy_axes(args, a.rank()), numpy_keepdims(args)));
}

// ---- moments: half types are summed in float32 and rounded at the end -----------------------------------

DType moment_dtype(const Args& args, DType dtype) {
  return args.has("dtype") ? *args.dtype("dtype") : numpy_float_dtype(dtype);
}

Dims moment_axes(const Args& args, int64_t rank) {
  if (rank == 0 && args.has("axis") && !args.constants("axis").empty())
    value_error("axis is out of bounds for array of dimension 0");
  return numpy_axes(args, rank);
}

std::vector<Value*> mean_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const DType dtype = moment_dtype(args, a.dtype());
  Tensor x = cast(a, runtime::compute_type(dtype));
  return one(cast(mean(x, moment_axes(args, a.rank()), numpy_keepdims(args)), dtype));
}

Tensor without_kept(Tensor x, const Dims& dims, bool keepdims) {
  if (keepdims) return x;
  for (size_t i = dims.size(); i-- > 0;) x = squeeze(x, dims[i]);
  return x;
}

template <bool with_root>
std::vector<Value*> var_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const DType dtype = moment_dtype(args, a.dtype());
  if (with_root && !is_float(dtype)) throw Unsupported("numpy: a standard deviation of integers");
  Tensor x = cast(a, runtime::compute_type(dtype));
  const Dims dims = moment_axes(args, a.rank());
  Tensor difference = x - mean(x, dims, true);
  const double ddof = args.number("ddof");
  if (ddof != std::floor(ddof)) throw Unsupported("numpy: a fractional ddof");
  const Sym degrees = max(count_along(x, dims) - static_cast<int64_t>(ddof), 0);
  Tensor variance = sum(difference * difference, dims, true) / Operand(degrees);
  return one(cast(without_kept(with_root ? root(variance) : variance, dims, numpy_keepdims(args)), dtype));
}

std::vector<Value*> nanmean_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const DType dtype = moment_dtype(args, a.dtype());
  Tensor x = cast(a, runtime::compute_type(dtype));
  const Dims dims = moment_axes(args, a.rank());
  Tensor missing = isnan(x);
  Tensor count = sum(cast(logical_not(missing), x.dtype()), dims, numpy_keepdims(args));
  return one(cast(sum(where(missing, 0.0, x), dims, numpy_keepdims(args)) / count, dtype));
}

std::vector<Value*> average_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  Tensor x = cast(a, numpy_float_dtype(a.dtype()));
  const Dims dims = numpy_axes(args, a.rank());
  const bool keepdims = numpy_keepdims(args);
  if (!args.has("weights")) return one(mean(x, dims, keepdims));
  Tensor weights = numpy_array(b, args, "weights");
  if (weights.rank() != x.rank()) {
    if (weights.rank() != 1 || dims.size() != 1)
      type_error("Axis must be specified when shapes of a and weights differ.");
    if (!b.sym().expect_eq(weights.size(0), x.size(dims[0]), "average"))
      value_error("Shape of weights must be consistent with shape of a along specified axis.");
    std::vector<Sym> sizes(x.rank(), 1);
    sizes[dims[0]] = weights.size(0);
    weights = reshape(weights, sizes);
  }
  Tensor wide = expand(cast(weights, numpy_common_dtype(b.graph(), {x, weights})), x.sizes());
  return one(sum(x * wide, dims, keepdims) / sum(wide, dims, keepdims));
}

// ---- extremes -------------------------------------------------------------------------------------------

void require_elements(Builder& b, Tensor x, const Dims& dims, const char* message) {
  for (int64_t dim : dims)
    if (b.sym().guard_eq(x.size(dim), 0, "a reduction without identity")) value_error(message);
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> extreme_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const Dims dims = numpy_axes(args, a.rank());
  require_elements(b, a, dims, "zero-size array to reduction operation which has no identity");
  return one(reduce(a, dims, numpy_keepdims(args)));
}

std::vector<Value*> ptp_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const Dims dims = numpy_axes(args, a.rank());
  require_elements(b, a, dims, "zero-size array to reduction operation which has no identity");
  return one(amax(a, dims, numpy_keepdims(args)) - amin(a, dims, numpy_keepdims(args)));
}

template <bool largest>
std::vector<Value*> argmax_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  if (args.has("out")) throw Unsupported("numpy: out= in front of other arguments");
  if (a.dtype() == DType::kBool) a = cast(a, DType::kU8);
  if (a.rank() == 0) return one(full(b, {}, Sym(0), DType::kI64));
  const Dims dims = args.has("axis") ? Dims{numpy_axis(args, a.rank())} : wrap_dims({}, a.rank());
  require_elements(b, a, dims, "attempt to get argmax of an empty sequence");
  return one(reduce(largest ? "core.argmax" : "core.argmin", a, dims, numpy_keepdims(args)));
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> truth_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  return one(reduce(a, numpy_axes(args, a.rank()), numpy_keepdims(args)));
}

std::vector<Value*> count_nonzero_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  return one(sum(cast(cast(a, DType::kBool), DType::kI64), numpy_axes(args, a.rank()), numpy_keepdims(args)));
}

// ---- norms ----------------------------------------------------------------------------------------------

// The greatest (or least) sum of magnitudes of the columns (1) or rows (inf).
Tensor matrix_norm(Tensor x, double ord, Dims dims, bool keepdims) {
  if (std::abs(ord) != 1 && !std::isinf(ord))
    throw Unsupported("numpy: a norm of matrices by singular values");
  int64_t inner = dims[0], outer = dims[1];
  if (std::isinf(ord)) std::swap(inner, outer);
  Tensor sums = sum(abs(x), {inner}, true);
  Tensor result = ord > 0 ? amax(sums, {outer}, true) : amin(sums, {outer}, true);
  std::sort(dims.begin(), dims.end());
  return without_kept(result, dims, keepdims);
}

std::vector<Value*> norm_body(Builder& b, const Args& args) {
  Tensor x = numpy_array(b, args, "x");
  if (x.rank() == 0 && args.has("axis")) value_error("axis is out of bounds for array of dimension 0");
  x = cast(x, numpy_float_dtype(x.dtype()));
  const bool keepdims = numpy_keepdims(args);
  bool frobenius = !args.has("ord");
  if (!frobenius)
    if (const auto* kind = std::get_if<std::string>(&args["ord"])) {
      if (*kind != "fro") throw Unsupported("numpy: a norm of kind " + *kind);
      frobenius = true;
    }
  Dims dims;
  if (args.has("axis")) {
    for (int64_t dim : args.constants("axis")) dims.push_back(wrap_dim(dim, x.rank(), false));
  } else {
    for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
  }
  if (dims.size() == 2 && dims[0] == dims[1]) value_error("Duplicate axes given.");
  if (frobenius) return one(p_norm(x, 2, numpy_axes(args, x.rank()), keepdims));
  require_elements(b, x, dims, "zero-size array to reduction operation which has no identity");
  if (dims.size() == 1) return one(p_norm(x, args.number("ord"), dims, keepdims));
  if (dims.size() != 2) value_error("Improper number of dimensions to norm.");
  return one(matrix_norm(x, args.number("ord"), dims, keepdims));
}

// The dims that are left lie as they lay in the array: order "K" of the iterator.
void kept_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  contiguous_results(graph, args, results);
  const auto* array = std::get_if<Value*>(&args[args.schema().params[0].name]);
  if (!array || results[0].rank() < 2) return;
  const TensorType& from = (*array)->type;
  const Dims reduced = numpy_axes(args, from.rank());
  std::vector<Sym> sizes = from.sizes, strides;
  for (int64_t d : reduced) sizes[d] = Sym(1);
  strides = numpy_kept_strides(*graph.sym, sizes, from);
  if (numpy_keepdims(args)) {
    results[0].strides = std::move(strides);
    return;
  }
  results[0].strides.clear();
  for (int64_t d = 0; d < from.rank(); ++d)
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end())
      results[0].strides.push_back(strides[d]);
}
// Of what a reduction gives, by a ufunc.
void ufunc_of_kept_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  kept_order(graph, args, results);
  const TensorType kept = results[0];
  results[0].strides = numpy_ufunc_strides(*graph.sym, kept.sizes, {&kept}, false);
}

// The root of a sum of squares is such a one; norms of other orders end with the reduction.
void norm_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const bool roots =
      !args.has("ord") || std::holds_alternative<std::string>(args["ord"]) || args.number("ord") == 2;
  (roots ? ufunc_of_kept_order : kept_order)(graph, args, results);
}

void scan_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  contiguous_results(graph, args, results);
  if (const auto* array = std::get_if<Value*>(&args["a"]); array && args.has("axis"))
    results[0].strides = numpy_strides(*graph.sym, results[0].sizes, {&(*array)->type});
}

// ---- running --------------------------------------------------------------------------------------------

// Rounded at each step: what is beyond the dtype's range stays an infinity.
std::vector<Value*> scan_body(Builder& b, const Args& args, const char* core_op) {
  Tensor a = numpy_array(b, args, "a");
  if (args.has("out")) throw Unsupported("numpy: out= in front of other arguments");
  Tensor x = cast(a, numpy_sum_dtype(args, a.dtype()));
  if (!args.has("axis") || x.rank() == 0) return forward(b, core_op, {numpy_flat(x).value, Sym(0), true});
  return forward(b, core_op, {x.value, Sym(numpy_axis(args, x.rank())), true});
}

std::vector<Value*> diff_body(Builder& b, const Args& args) {
  Tensor x = numpy_array(b, args, "a");
  const int64_t n = args.constant("n");
  if (n < 0) value_error("order must be non-negative but got " + std::to_string(n));
  if (n == 0) throw Unsupported("diff of order 0, which is its argument itself");
  if (x.rank() == 0) value_error("diff requires input that is at least one dimensional");
  const int64_t dim = numpy_axis(args, x.rank());
  for (int64_t i = 0; i < n; ++i) {
    const Sym size = max(x.size(dim) - 1, 0);
    Tensor next = slice(x, dim, min(Sym(1), x.size(dim)), size), previous = slice(x, dim, 0, size);
    x = x.dtype() == DType::kBool ? ne(next, previous) : next - previous;
  }
  return one(x);
}

// The trapezoidal rule; `x` gives the places of the samples, else they are `dx` apart.
std::vector<Value*> trapezoid_body(Builder& b, const Args& args) {
  Tensor y = numpy_array(b, args, "y");
  const int64_t dim = numpy_axis(args, y.rank());
  const Sym size = y.size(dim) - 1;
  Tensor pairs = slice(y, dim, 1, size) + slice(y, dim, 0, size);
  if (!args.has("x")) return one(sum(Operand(args["dx"], &b) * pairs / 2.0, {dim}));
  Tensor x = numpy_array(b, args, "x");
  const int64_t along = x.rank() == 1 ? 0 : dim;
  Tensor steps = slice(x, along, 1, size) - slice(x, along, 0, size);
  if (x.rank() == 1) {
    std::vector<Sym> sizes(y.rank(), 1);
    sizes[dim] = size;
    steps = reshape(steps, sizes);
  }
  return one(sum(steps * pairs / 2.0, {dim}));
}

OpDef reduction(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                StridesFn strides = kept_order, std::vector<std::string_view> more_names = {}) {
  return numpy_function(name, std::move(schemas), body, std::move(more_names), strides);
}

}  // namespace

std::vector<OpDef> numpy_reduction_ops() {
  return {
      reduction("np.sum",
                {"np.sum(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                sum_body<sum>),
      reduction("np.prod",
                {"np.prod(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                sum_body<prod>),
      reduction("np.nansum",
                {"np.nansum(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                nansum_body<sum>),
      reduction("np.nanprod",
                {"np.nanprod(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                nansum_body<prod>),
      reduction("np.mean",
                {"np.mean(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                mean_body),
      reduction("np.nanmean",
                {"np.nanmean(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, bool "
                 "keepdims=False) -> Tensor"},
                nanmean_body),
      reduction("np.var",
                {"np.var(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, float "
                 "ddof=0, bool keepdims=False) -> Tensor"},
                var_body<false>),
      reduction("np.std",
                {"np.std(Tensor a, int[]? axis=None, ScalarType? dtype=None, Tensor? out=None, float "
                 "ddof=0, bool keepdims=False) -> Tensor"},
                var_body<true>),
      reduction(
          "np.average",
          {"np.average(Tensor a, int[]? axis=None, Tensor? weights=None, *, bool keepdims=False) -> Tensor"},
          average_body),
      reduction("np.max",
                {"np.max(Tensor a, int[]? axis=None, Tensor? out=None, bool keepdims=False) -> Tensor"},
                extreme_body<amax>, kept_order, {"np.amax"}),
      reduction("np.min",
                {"np.min(Tensor a, int[]? axis=None, Tensor? out=None, bool keepdims=False) -> Tensor"},
                extreme_body<amin>, kept_order, {"np.amin"}),
      reduction("np.ptp",
                {"np.ptp(Tensor a, int[]? axis=None, Tensor? out=None, bool keepdims=False) -> Tensor"},
                ptp_body, ufunc_of_kept_order),
      reduction("np.argmax",
                {"np.argmax(Tensor a, int? axis=None, Tensor? out=None, *, bool keepdims=False) -> Tensor"},
                argmax_body<true>, contiguous_results),
      reduction("np.argmin",
                {"np.argmin(Tensor a, int? axis=None, Tensor? out=None, *, bool keepdims=False) -> Tensor"},
                argmax_body<false>, contiguous_results),
      reduction("np.any",
                {"np.any(Tensor a, int[]? axis=None, Tensor? out=None, bool keepdims=False) -> Tensor"},
                truth_body<any>),
      reduction("np.all",
                {"np.all(Tensor a, int[]? axis=None, Tensor? out=None, bool keepdims=False) -> Tensor"},
                truth_body<all>),
      reduction("np.count_nonzero",
                {"np.count_nonzero(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"},
                count_nonzero_body),
      reduction(
          "np.linalg_norm",
          {"np.linalg_norm(Tensor x, Scalar? ord=None, int[]? axis=None, bool keepdims=False) -> Tensor",
           "np.linalg_norm.kind(Tensor x, str ord, int[]? axis=None, bool keepdims=False) -> Tensor"},
          norm_body, norm_order, {"np.linalg.norm"}),
      reduction("np.cumsum",
                {"np.cumsum(Tensor a, int? axis=None, ScalarType? dtype=None, Tensor? out=None) -> Tensor"},
                CDYNAMO_BODY(return scan_body(b, args, "core.cumsum")), scan_order),
      reduction("np.cumprod",
                {"np.cumprod(Tensor a, int? axis=None, ScalarType? dtype=None, Tensor? out=None) -> Tensor"},
                CDYNAMO_BODY(return scan_body(b, args, "core.cumprod")), scan_order),
      reduction("np.diff", {"np.diff(Tensor a, int n=1, int axis=-1) -> Tensor"}, diff_body, nullptr),
      reduction("np.trapezoid",
                {"np.trapezoid(Tensor y, Tensor? x=None, Scalar dx=1.0, int axis=-1) -> Tensor"},
                trapezoid_body, kept_order, {"np.trapz"}),
  };
}

}  // namespace cdynamo::graph
