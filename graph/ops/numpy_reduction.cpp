// NumPy's reductions: its signatures, its result types.
#include <cmath>
#include <limits>

#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

Tensor self_of(Builder& b, const Args& args) { return operand(b, args, "a"); }
Dims axes_of(const Args& args, int64_t rank) {
  if (!args.has("axis")) return wrap_dims({}, rank);
  Dims axes = args.constants("axis");
  if (rank == 0 && !axes.empty()) index_error("axis " + std::to_string(axes[0]) + " is out of bounds for array of dimension 0");
  return wrap_dims(std::move(axes), rank, false);
}
bool keepdims_of(const Args& args) { return args.boolean("keepdims"); }

// Sums of bool and narrow integers are int64.
DType total_dtype(const Args& args, DType dtype) {
  if (std::optional<DType> given = args.dtype("dtype")) return *given;
  if (dtype == DType::kU8) throw Unsupported("the sum of uint8, which is uint64");
  return is_float(dtype) ? dtype : DType::kI64;
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> total_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  return one(reduce(cast(a, total_dtype(args, a.dtype())), axes_of(args, a.rank()), keepdims_of(args)));
}
std::vector<Value*> nansum_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  if (is_float(a.dtype())) a = where(isnan(a), full(b, {}, 0.0, a.dtype()), a);
  return one(sum(cast(a, total_dtype(args, a.dtype())), axes_of(args, a.rank()), keepdims_of(args)));
}

// Means of integers are float64; float16 is summed in float32.
DType mean_dtype(const Args& args, DType dtype) {
  DType result = args.dtype("dtype").value_or(is_float(dtype) ? dtype : DType::kF64);
  if (!is_float(result)) throw Unsupported("a mean as an integer");
  return result;
}
std::vector<Value*> mean_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  DType dtype = mean_dtype(args, a.dtype());
  return one(cast(mean(cast(a, runtime::compute_type(dtype)), axes_of(args, a.rank()), keepdims_of(args)), dtype));
}
std::vector<Value*> average_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  DType dtype = is_float(a.dtype()) ? a.dtype() : DType::kF64;
  a = cast(a, dtype);
  Dims axes = axes_of(args, a.rank());
  if (!args.has("weights")) return one(mean(a, axes, keepdims_of(args)));
  Tensor weights = operand(b, args, "weights");
  if (weights.sizes() != a.sizes()) {
    if (weights.rank() != 1 || axes.size() != 1 || !b.sym().guard_eq(weights.size(0), a.size(axes[0]), "average"))
      type_error("Axis must be specified when shapes of a and weights differ.");
    std::vector<Sym> shape(a.rank(), 1);
    shape[axes[0]] = weights.size(0);
    weights = reshape(weights, shape);
  }
  Tensor product = a * weights;
  Tensor factors = expand(cast(weights, product.dtype()), product.sizes());
  return one(sum(product, axes, keepdims_of(args)) / sum(factors, axes, keepdims_of(args)));
}

template <bool root>
std::vector<Value*> var_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  DType dtype = mean_dtype(args, a.dtype());
  Tensor x = cast(a, runtime::compute_type(dtype));
  Dims axes = axes_of(args, x.rank());
  Tensor difference = x - mean(x, axes, true);
  Tensor squares = sum(difference * difference, axes, keepdims_of(args));
  double ddof = args.number(args.has("correction") ? "correction" : "ddof");
  Sym count = count_along(x, axes);
  Tensor variance;
  if (ddof == std::floor(ddof)) variance = squares / Operand(max(count - static_cast<int64_t>(ddof), 0));
  else variance = squares / std::max(0.0, static_cast<double>(b.sym().specialize(count, "var")) - ddof);
  return one(cast(root ? sqrt(variance) : variance, dtype));
}

// ---- extremes ----------------------------------------------------------------------------------------------------------

void require_elements(Builder& b, Tensor x, const Dims& axes) {
  for (int64_t axis : axes)
    if (b.sym().guard_eq(x.size(axis), 0, "reduction")) value_error("zero-size array to reduction operation which has no identity");
}
template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> extreme_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  Dims axes = axes_of(args, a.rank());
  require_elements(b, a, axes);
  return one(reduce(a, axes, keepdims_of(args)));
}
std::vector<Value*> ptp_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  Dims axes = axes_of(args, a.rank());
  require_elements(b, a, axes);
  return one(amax(a, axes, keepdims_of(args)) - amin(a, axes, keepdims_of(args)));
}
template <bool largest>
std::vector<Value*> argmax_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  if (a.dtype() == DType::kBool) a = cast(a, DType::kU8);
  Dims axes = args.has("axis") ? Dims{wrap_dim(args.constant("axis"), a.rank())} : wrap_dims({}, a.rank());
  if (a.rank() == 0) return one(full(b, {}, Sym(0), DType::kI64));
  require_elements(b, a, axes);
  return one(reduce(largest ? "core.argmax" : "core.argmin", a, axes, keepdims_of(args)));
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> truth_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  return one(reduce(a, axes_of(args, a.rank()), keepdims_of(args)));
}
std::vector<Value*> count_nonzero_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  return one(sum(cast(cast(a, DType::kBool), DType::kI64), axes_of(args, a.rank()), keepdims_of(args)));
}

// ---- others ------------------------------------------------------------------------------------------------------------------

std::vector<Value*> scan_body(Builder& b, const Args& args, const char* core_op) {
  Tensor a = self_of(b, args);
  Tensor x = cast(a, total_dtype(args, a.dtype()));
  if (!args.has("axis")) return forward(b, core_op, {reshape(x, {x.type().numel()}).value, Sym(0)});
  if (x.rank() == 0) x = reshape(x, {1});
  return forward(b, core_op, {x.value, Sym(wrap_dim(args.constant("axis"), x.rank()))});
}

// Of vectors, and the Frobenius norm of matrices.
std::vector<Value*> norm_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x");
  DType dtype = is_float(x.dtype()) ? x.dtype() : DType::kF64;
  x = cast(x, runtime::compute_type(dtype));
  Dims axes = axes_of(args, x.rank());
  double ord = 2, infinity = std::numeric_limits<double>::infinity();
  bool matrix = axes.size() > 1;
  if (args.has("ord")) {
    if (const auto* text = std::get_if<std::string>(&args["ord"])) {
      if (*text != "fro" || axes.size() != 2) throw Unsupported("norm with ord=" + *text);
    } else {
      ord = args.number("ord");
      if (matrix) throw Unsupported("norm of matrices with ord");
    }
  }
  Tensor size = abs(x), result;
  bool keepdims = keepdims_of(args);
  if (ord == infinity) result = amax(size, axes, keepdims);
  else if (ord == -infinity) result = amin(size, axes, keepdims);
  else if (ord == 0) result = sum(cast(ne(x, 0), x.dtype()), axes, keepdims);
  else if (ord == 1) result = sum(size, axes, keepdims);
  else if (ord == 2) result = sqrt(sum(x * x, axes, keepdims));
  else result = pow(sum(pow(size, ord), axes, keepdims), 1 / ord);
  return one(cast(result, dtype));
}

std::vector<Value*> diff_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  if (a.rank() == 0) value_error("diff requires input that is at least one dimensional");
  int64_t axis = wrap_dim(args.constant("axis"), a.rank()), n = args.constant("n");
  if (n < 0) value_error("order must be non-negative but got " + std::to_string(n));
  for (int64_t i = 0; i < n; ++i) {
    Sym size = max(a.size(axis) - 1, 0);
    Tensor next = slice(a, axis, min(Sym(1), a.size(axis)), size), previous = slice(a, axis, 0, size);
    a = a.dtype() == DType::kBool ? ne(next, previous) : next - previous;
  }
  return one(a);
}

std::vector<Value*> trace_body(Builder& b, const Args& args) {
  Tensor a = self_of(b, args);
  if (a.rank() < 2) value_error("diag requires an array of at least two dimensions");
  Sym axis1 = wrap_dim(args.constant("axis1"), a.rank()), axis2 = wrap_dim(args.constant("axis2"), a.rank());
  Tensor diagonal = wrap(b, b.call1("core.diagonal", {a.value, Sym(args.constant("offset")), axis1, axis2}));
  return one(sum(cast(diagonal, total_dtype(args, a.dtype())), {diagonal.rank() - 1}));
}

OpDef numpy(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, std::vector<std::string_view> more_names = {}) {
  OpDef op{.name = name, .family = Family::kComposite, .schemas = std::move(schemas), .numpy_names = {name}, .body = body,
           .strides = contiguous_results, .in_place_variant = false};
  op.numpy_names.insert(op.numpy_names.end(), more_names.begin(), more_names.end());
  return op;
}

}  // namespace

std::vector<OpDef> numpy_reduction_ops() {
  return {
      numpy("np.sum", {"np.sum(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, bool keepdims=False) -> Tensor"}, total_body<sum>, {"np.ndarray.sum"}),
      numpy("np.prod", {"np.prod(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, bool keepdims=False) -> Tensor"}, total_body<prod>, {"np.ndarray.prod"}),
      numpy("np.nansum", {"np.nansum(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, bool keepdims=False) -> Tensor"}, nansum_body),
      numpy("np.mean", {"np.mean(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, bool keepdims=False) -> Tensor"}, mean_body, {"np.ndarray.mean"}),
      numpy("np.average", {"np.average(Tensor a, int[]? axis=None, Tensor? weights=None, *, bool keepdims=False) -> Tensor"}, average_body),
      numpy("np.var", {"np.var(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, float ddof=0, bool keepdims=False, float? correction=None) -> Tensor"}, var_body<false>, {"np.ndarray.var"}),
      numpy("np.std", {"np.std(Tensor a, int[]? axis=None, ScalarType? dtype=None, *, float ddof=0, bool keepdims=False, float? correction=None) -> Tensor"}, var_body<true>, {"np.ndarray.std"}),
      numpy("np.max", {"np.max(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, extreme_body<amax>, {"np.amax", "np.ndarray.max"}),
      numpy("np.min", {"np.min(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, extreme_body<amin>, {"np.amin", "np.ndarray.min"}),
      numpy("np.ptp", {"np.ptp(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, ptp_body),
      numpy("np.argmax", {"np.argmax(Tensor a, int? axis=None, *, bool keepdims=False) -> Tensor"}, argmax_body<true>, {"np.ndarray.argmax"}),
      numpy("np.argmin", {"np.argmin(Tensor a, int? axis=None, *, bool keepdims=False) -> Tensor"}, argmax_body<false>, {"np.ndarray.argmin"}),
      numpy("np.any", {"np.any(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, truth_body<any>, {"np.ndarray.any"}),
      numpy("np.all", {"np.all(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, truth_body<all>, {"np.ndarray.all"}),
      numpy("np.count_nonzero", {"np.count_nonzero(Tensor a, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, count_nonzero_body),
      numpy("np.cumsum", {"np.cumsum(Tensor a, int? axis=None, ScalarType? dtype=None) -> Tensor"}, CDYNAMO_BODY(return scan_body(b, args, "core.cumsum")), {"np.ndarray.cumsum"}),
      numpy("np.cumprod", {"np.cumprod(Tensor a, int? axis=None, ScalarType? dtype=None) -> Tensor"}, CDYNAMO_BODY(return scan_body(b, args, "core.cumprod")), {"np.ndarray.cumprod"}),
      numpy("np.linalg.norm", {"np.norm(Tensor x, Scalar? ord=None, int[]? axis=None, *, bool keepdims=False) -> Tensor",
                               "np.norm.kind(Tensor x, str ord, int[]? axis=None, *, bool keepdims=False) -> Tensor"}, norm_body),
      numpy("np.diff", {"np.diff(Tensor a, int n=1, int axis=-1) -> Tensor"}, diff_body),
      numpy("np.trace", {"np.trace(Tensor a, int offset=0, int axis1=0, int axis2=1, ScalarType? dtype=None) -> Tensor"}, trace_body, {"np.ndarray.trace"}),
  };
}

}  // namespace cdynamo::graph
