// Reductions as PyTorch names them: sum, mean, var, max, argmax, norms; and running ones: cumsum and its kin.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

Dims dims_of(const Args& args, int64_t rank) {
  if (!args.has("dim")) return wrap_dims({}, rank);
  return wrap_dims(args.constants("dim"), rank);
}
bool keepdim_of(const Args& args) { return args.schema().find("keepdim") >= 0 && args.boolean("keepdim"); }
// Sums of bool and integers are int64.
DType sum_dtype(const Args& args, DType dtype) {
  DType otherwise = is_float(dtype) ? dtype : DType::kI64;
  return args.schema().find("dtype") >= 0 ? dtype_or(args, otherwise) : otherwise;
}

// Eager expands the gradient of a sum over everything from a number, with strides of 0 all over, where that of
// one over listed dims gets these back first.
Tensor expanded_from_number(Tensor x) {
  if (std::count(x.sizes().begin(), x.sizes().end(), Sym(1)) == 0) return x;
  const std::vector<Sym> strides(x.rank(), 0);
  return wrap(*x.builder, x.builder->call1("core.unit_strides", {x.value, strides}));
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> sum_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  Tensor x = cast(self, sum_dtype(args, self.dtype()));
  const bool is_listed = args.has("dim") && !args.constants("dim").empty();
  if (!is_listed && !keepdim_of(args)) x = expanded_from_number(x);
  return one(reduce(x, dims_of(args, x.rank()), keepdim_of(args)));
}

// NaNs count as 0.
std::vector<Value*> nansum_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  if (is_float(self.dtype())) self = where(isnan(self), 0.0, self);
  return one(sum(cast(self, sum_dtype(args, self.dtype())), dims_of(args, self.rank()), keepdim_of(args)));
}

// The mean is taken in the compute type and rounded once.
Tensor mean_of(Tensor x, const Dims& dims, bool keepdim, DType dtype) {
  return cast(mean(own(cast(x, runtime::compute_type(dtype))), dims, keepdim), dtype);
}
std::vector<Value*> mean_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  DType dtype = dtype_or(args, self.dtype());
  if (!is_float(dtype))
    runtime_error(std::string("mean(): could not infer output dtype. Input dtype must be either a floating "
                              "point or complex dtype. Got: ") +
                  runtime::info(self.dtype()).name);
  return one(mean_of(self, dims_of(args, self.rank()), keepdim_of(args), dtype));
}

// ---- variance -------------------------------------------------------------------------------------------

struct Moments {
  Tensor variance, mean;  // with the reduced dims kept, in the compute type
};
Moments moments(Tensor x, const Dims& dims, double correction) {
  x = to_compute(x);
  Tensor center = mean(x, dims, true), difference = x - center;
  Tensor squares = sum(difference * difference, dims, true);
  Sym count = count_along(x, dims);
  // Eager divides by max(0, n - correction).
  if (correction == std::floor(correction)) {
    Sym degrees = max(count - static_cast<int64_t>(correction), 0);
    return {squares / Operand(degrees), center};
  }
  double degrees = std::max(0.0, static_cast<double>(x.builder->sym().specialize(count, "var")) - correction);
  return {squares / degrees, center};
}

double correction_of(const Args& args) {
  if (args.schema().find("unbiased") >= 0) return args.boolean("unbiased") ? 1 : 0;
  return args.has("correction") ? args.number("correction") : 1;
}
Tensor without(Tensor x, const Dims& dims, bool keepdim) {
  if (keepdim) return x;
  std::vector<Sym> sizes;
  size_t next = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (next < dims.size() && dims[next] == d)
      ++next;
    else
      sizes.push_back(x.size(d));
  }
  return reshape(x, sizes);
}

template <bool with_root, bool with_mean>
std::vector<Value*> var_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  if (!is_float(self.dtype())) runtime_error("std and var only support floating point and complex dtypes");
  Dims dims = dims_of(args, self.rank());
  Moments m = moments(self, dims, correction_of(args));
  bool keepdim = keepdim_of(args);
  Tensor spread = cast(without(with_root ? root(m.variance) : m.variance, dims, keepdim), self.dtype());
  if (!with_mean) return one(spread);
  return {spread.value, cast(without(m.mean, dims, keepdim), self.dtype()).value};
}

// ---- extremes -------------------------------------------------------------------------------------------

// The place of a reduced dim that has to have elements.
void require_elements(Builder& b, Tensor x, const Dims& dims, const char* name) {
  for (int64_t dim : dims)
    if (b.sym().guard_eq(x.size(dim), 0, name))
      index_error(std::string(name) + "(): Expected reduction dim " + std::to_string(dim) +
                  " to have non-zero size.");
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> extreme_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  Dims dims = dims_of(args, self.rank());
  require_elements(b, self, dims, "amax");
  return one(reduce(self, dims, keepdim_of(args)));
}

Tensor arg_reduce(Builder& b, Tensor x, bool largest, std::optional<int64_t> dim, bool keepdim) {
  const char* op = largest ? "core.argmax" : "core.argmin";
  if (x.rank() == 0) return full(b, {}, Sym(0), DType::kI64);
  Dims dims = dim ? Dims{*dim} : wrap_dims({}, x.rank());
  return reduce(op, x, dims, keepdim);
}

// max(x): a value; max(x, dim): values and indices; max(x, y): maximum.
template <bool largest>
std::vector<Value*> max_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  if (args.schema().find("other") >= 0)
    return forward(b, largest ? "maximum" : "minimum", {self.value, args["other"]});
  if (args.schema().find("dim") < 0) {
    if (b.sym().guard_eq(self.type().numel(), 0, "max"))
      runtime_error(
          "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
          "with the 'dim' argument.");
    return one(
        reduce(largest ? "core.shared_max" : "core.shared_min", self, wrap_dims({}, self.rank()), false));
  }
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  bool keepdim = keepdim_of(args);
  if (self.rank() == 0) return {self.value, full(b, {}, Sym(0), DType::kI64).value};
  require_elements(b, self, {dim}, largest ? "max" : "min");
  return {reduce(largest ? "core.max" : "core.min", self, {dim}, keepdim).value,
          arg_reduce(b, self, largest, dim, keepdim).value};
}

template <bool largest>
std::vector<Value*> argmax_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  if (self.dtype() == DType::kBool) runtime_error("\"argmax_cpu\" not implemented for 'Bool'");
  std::optional<int64_t> dim;
  if (args.has("dim")) dim = wrap_dim(args.constant("dim"), self.rank());
  require_elements(b, self, dim && self.rank() > 0 ? Dims{*dim} : wrap_dims({}, self.rank()),
                   largest ? "argmax" : "argmin");
  return one(arg_reduce(b, self, largest, dim, keepdim_of(args)));
}

std::vector<Value*> aminmax_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  Dims dims =
      args.has("dim") ? Dims{wrap_dim(args.constant("dim"), self.rank())} : wrap_dims({}, self.rank());
  if (self.rank() == 0) dims.clear();
  require_elements(b, self, dims, "aminmax");
  return {amin(self, dims, keepdim_of(args)).value, amax(self, dims, keepdim_of(args)).value};
}

template <Tensor (*reduce)(Tensor, Dims, bool)>
std::vector<Value*> truth_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  Tensor result = reduce(self, dims_of(args, self.rank()), keepdim_of(args));
  return one(self.dtype() == DType::kU8 ? cast(result, DType::kU8) : result);
}

std::vector<Value*> count_nonzero_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  return one(sum(cast(ne(self, 0), DType::kI64), dims_of(args, self.rank()), false));
}

// ---- exponentials and norms -----------------------------------------------------------------------------

std::vector<Value*> logsumexp_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  DType dtype = is_float(self.dtype()) ? self.dtype() : b.graph().default_float();
  Tensor x = cast(self, dtype);  // eager calls operator by operator: half types round at each
  Dims dims = wrap_dims(args.constants("dim"), x.rank());
  bool keepdim = keepdim_of(args);
  Tensor top = amax(x, dims, true);
  top = detach(where(eq(abs(top), std::numeric_limits<double>::infinity()), 0.0, top));
  Tensor result = log(sum(exp(x - top), dims, true)) + top;
  return one(cast(without(result, dims, keepdim), dtype));
}

Tensor vector_norm(Tensor x, double ord, const Dims& dims, bool keepdim, DType dtype) {
  return cast(p_norm(cast(x, runtime::compute_type(dtype)), ord, dims, keepdim), dtype);
}

void require_float(DType dtype, const char* name) {
  if (!is_float(dtype))
    runtime_error(std::string(name) + ": Expected a floating point or complex tensor as input. Got " +
                  runtime::info(dtype).name);
}
void check_infinite_norm(Builder& b, Tensor x, double ord, const Dims& dims) {
  if (ord > 0 && std::isfinite(ord)) return;
  for (int64_t dim : dims)
    if (b.sym().guard_eq(x.size(dim), 0, "norm")) throw Unsupported("such a norm of no elements");
}

std::vector<Value*> vector_norm_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  DType dtype = dtype_or(args, self.dtype());
  require_float(self.dtype(), "linalg.vector_norm");
  require_float(dtype, "linalg.vector_norm");
  const bool narrows = dtype != self.dtype() && runtime::bytes(dtype) <= runtime::bytes(self.dtype());
  if (narrows) throw Unsupported("linalg.vector_norm in a narrower dtype");
  double ord = args.number("ord");
  Dims dims = dims_of(args, self.rank());
  check_infinite_norm(b, self, ord, dims);
  return one(vector_norm(self, ord, dims, keepdim_of(args), dtype));
}

// torch.norm: of all elements, or over dims; p is a number or "fro".
std::vector<Value*> norm_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  double p = 2;
  if (args.has("p")) {
    if (const auto* text = std::get_if<std::string>(&args["p"])) {
      if (*text != "fro") throw Unsupported("norm of kind " + *text);
      if (args.has("dim") && args.constants("dim").size() > 2)
        throw Unsupported("norm of more than two dims");
    } else {
      p = args.number("p");
    }
  }
  DType dtype = args.schema().find("dtype") >= 0 ? dtype_or(args, self.dtype()) : self.dtype();
  require_float(dtype, "norm");
  Dims dims = args.schema().find("dim") >= 0 ? dims_of(args, self.rank()) : wrap_dims({}, self.rank());
  check_infinite_norm(b, self, p, dims);
  return one(vector_norm(self, p, dims, keepdim_of(args), dtype));
}

std::vector<Value*> dist_body(Builder& b, const Args& args) {
  Tensor difference = operand(b, args, "self") - operand(b, args, "other");
  require_float(difference.dtype(), "dist");
  Dims all = wrap_dims({}, difference.rank());
  check_infinite_norm(b, difference, args.number("p"), all);
  return one(vector_norm(difference, args.number("p"), all, false, difference.dtype()));
}

// ---- running --------------------------------------------------------------------------------------------

std::vector<Value*> scan_body(Builder& b, const Args& args, const char* core_op) {
  Tensor self = self_of(b, args);
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  Tensor x = cast(self, sum_dtype(args, self.dtype()));
  if (x.dtype() == DType::kBool && b.graph().framework == Framework::kTorch)
    throw Unsupported("running sums and products of dtype bool");
  if (x.rank() == 0) return one(x);
  return forward(b, core_op, {x.value, Sym(dim)});
}

// Values, and where they come from: of equal elements the last so far, as is NaN once there was one.
template <bool largest>
std::vector<Value*> cumulative_extreme_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  const int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  if (self.rank() == 0) return {self.value, full(b, {}, Sym(0), DType::kI64).value};
  const bool is_bool = self.dtype() == DType::kBool;
  Tensor x = is_bool ? cast(self, DType::kU8) : self;
  const auto scanned = [&](Tensor of, bool most) {
    return wrap(b, b.call1(most ? "core.cummax_values" : "core.cummin_values", {of.value, Sym(dim)}));
  };
  Tensor values = scanned(x, largest);
  Tensor hit = eq(x, values);
  if (is_float(x.dtype())) hit = logical_or(hit, isnan(x));
  Tensor indices = scanned(where(hit, iota(b, x.sizes(), dim, DType::kI64), 0), true);
  return {(is_bool ? cast(values, DType::kBool) : values).value, indices.value};
}

std::vector<Value*> logcumsumexp_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  const int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  if (!is_float(self.dtype())) throw Unsupported("logcumsumexp of integers");
  if (self.rank() == 0) return one(self);
  return forward(b, "core.logcumsumexp", {self.value, Sym(dim)});
}

// Where there is nothing to take differences of eager's result is what they would be taken of.
Alias diff_alias(const Node& node) {
  const Args args(node.op->parsed[node.overload], node.args);
  const TensorType& type = args.value("self")->type;
  if (type.rank() == 0 || args.constant("n") < 1 || args.has("prepend") || args.has("append"))
    return Alias::kNone;
  const bool is_empty = type.sizes[wrap_dim(args.constant("dim"), type.rank())] == Sym(int64_t{0});
  return is_empty ? Alias::kSelf : Alias::kNone;
}

std::vector<Value*> diff_body(Builder& b, const Args& args) {
  Tensor x = self_of(b, args);
  if (x.rank() == 0) runtime_error("diff expects input to be at least one-dimensional");
  int64_t dim = wrap_dim(args.constant("dim"), x.rank()), n = args.constant("n");
  if (n == 0) return forward(b, "clone", {x.value});
  std::vector<Value*> parts;
  if (args.has("prepend")) parts.push_back(args.value("prepend"));
  parts.push_back(x.value);
  if (args.has("append")) parts.push_back(args.value("append"));
  for (Value* part : parts)
    if (part->type.rank() != x.rank())
      runtime_error("diff expects prepend or append to be the same dimension as input");
  if (parts.size() > 1) x = wrap(b, b.call1("cat", {parts, Sym(dim)}));
  if (n < 0) runtime_error("order must be non-negative but got " + std::to_string(n));
  for (int64_t i = 0; i < n && !(x.size(dim) == Sym(int64_t{0})); ++i) {
    Sym size = max(x.size(dim) - 1, 0);
    Tensor next = slice(x, dim, min(Sym(1), x.size(dim)), size), previous = slice(x, dim, 0, size);
    x = x.dtype() == DType::kBool ? apply("logical_xor", {next, previous}) : next - previous;
  }
  return one(x);
}

std::vector<OpDef> totals() {
  return {
      composite("sum",
                {"sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                 "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
                 "-> Tensor"},
                sum_body<sum>),
      composite(
          "prod",
          {"prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
           "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"},
          sum_body<prod>),
      composite(
          "nansum",
          {"nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"},
          nansum_body),
      composite(
          "mean",
          {"mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
           "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"},
          mean_body),
      composite("var",
                {"var(Tensor self, bool unbiased=True) -> Tensor",
                 "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
                 "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
                 "keepdim=False) -> Tensor"},
                var_body<false, false>),
      composite("std",
                {"std(Tensor self, bool unbiased=True) -> Tensor",
                 "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
                 "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
                 "keepdim=False) -> Tensor"},
                var_body<true, false>),
      composite("var_mean",
                {"var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
                 "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, "
                 "Tensor)",
                 "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
                 "keepdim=False) -> (Tensor, Tensor)"},
                var_body<false, true>),
      composite("std_mean",
                {"std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
                 "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, "
                 "Tensor)",
                 "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
                 "keepdim=False) -> (Tensor, Tensor)"},
                var_body<true, true>),
      composite("logsumexp", {"logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"},
                logsumexp_body, {"torch.special.logsumexp"}),
      composite("linalg_vector_norm",
                {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
                 "ScalarType? dtype=None) -> Tensor"},
                vector_norm_body, {"torch.linalg.vector_norm"}),
      composite("norm",
                {"norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
                 "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
                 "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType "
                 "dtype) -> Tensor",
                 "norm.names(Tensor self, str p='fro', int[1]? dim=None, bool keepdim=False, ScalarType? "
                 "dtype=None) -> Tensor"},
                norm_body),
      composite("dist", {"dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"}, dist_body),
      composite("count_nonzero",
                {"count_nonzero(Tensor self, int? dim=None) -> Tensor",
                 "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"},
                count_nonzero_body),
  };
}

std::vector<OpDef> extremes() {
  return {
      composite("amax", {"amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"},
                extreme_body<amax>),
      composite("amin", {"amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"},
                extreme_body<amin>),
      composite("max",
                {"max(Tensor self) -> Tensor",
                 "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
                 "max.other(Tensor self, Tensor other) -> Tensor"},
                max_body<true>),
      composite("min",
                {"min(Tensor self) -> Tensor",
                 "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
                 "min.other(Tensor self, Tensor other) -> Tensor"},
                max_body<false>),
      composite("argmax", {"argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"},
                argmax_body<true>),
      composite("argmin", {"argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"},
                argmax_body<false>),
      composite("aminmax",
                {"aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"},
                aminmax_body),
      composite("any",
                {"any(Tensor self) -> Tensor", "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                 "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"},
                truth_body<any>),
      composite("all",
                {"all(Tensor self) -> Tensor", "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                 "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"},
                truth_body<all>),
  };
}

OpDef scan(std::string_view name, std::string_view schema, BodyFn body) {
  OpDef op = composite(name, {schema}, body);
  op.in_place_variant = schema.ends_with("-> Tensor");
  return op;
}

std::vector<OpDef> running() {
  OpDef diff = composite(  // a difference of slices
      "diff", {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"},
      diff_body, {}, nullptr);
  diff.alias = diff_alias;
  return {
      scan("cumsum", "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
           CDYNAMO_BODY(return scan_body(b, args, "core.cumsum"))),
      scan("cumprod", "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
           CDYNAMO_BODY(return scan_body(b, args, "core.cumprod"))),
      scan("logcumsumexp", "logcumsumexp(Tensor self, int dim) -> Tensor", logcumsumexp_body),
      scan("cummax", "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
           cumulative_extreme_body<true>),
      scan("cummin", "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
           cumulative_extreme_body<false>),
      std::move(diff),
  };
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  std::vector<OpDef> ops = totals();
  for (auto part : {extremes, running})
    for (OpDef& op : part()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
