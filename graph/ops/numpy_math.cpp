// NumPy's functions that differ from PyTorch's of the same kind: rounding, clipping, products.
#include <cmath>
#include <limits>

#include "graph/ops/entry.h"
#include "graph/promotion.h"

namespace cdynamo::graph {
namespace {

// ---- pointwise ---------------------------------------------------------------------------------------------------------

Scalar sign_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]);
  Scalar positive = b.select(b.gt(x[0], zero), one, zero);
  if (is_unsigned(x[0])) return positive;
  Scalar sign = b.select(b.lt(x[0], zero), number(b, -1, x[0]), positive);
  return is_float(x[0].dtype) ? b.select(b.ne(x[0], x[0]), x[0], sign) : sign;
}
void refuse_bool(Graph&, const Args& args) {
  if (operand_dtype(args, "x") == DType::kBool) type_error("ufunc 'sign' did not contain a loop with signature matching types BoolDType");
}
Scalar reciprocal_scalar(ScalarBuilder& b, const Scalar* x, const Args&) { return b.div(number(b, 1, x[0]), x[0]); }

// A power, and one step of Newton's method.
Scalar cbrt_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar size = b.abs(x[0]), zero = number(b, 0, x[0]), three = number(b, 3, x[0]);
  Scalar root = b.pow(size, number(b, 1.0 / 3.0, x[0]));
  Scalar square = b.mul(root, root);
  Scalar better = b.sub(root, b.div(b.sub(b.mul(square, root), size), b.mul(three, square)));
  Scalar regular = b.bit_and(b.gt(size, zero), b.lt(size, number(b, std::numeric_limits<double>::infinity(), x[0])));
  return b.copysign(b.select(regular, better, root), x[0]);
}

OpDef ufunc(std::string_view name, std::string_view schema, Promotion promotion, ScalarFn scalar, CheckFn check = nullptr) {
  return {.name = name, .family = Family::kPointwise, .schemas = {schema}, .numpy_names = {name}, .promotion = promotion,
          .scalar = scalar, .in_place_variant = false, .check = check};
}

// ---- bodies --------------------------------------------------------------------------------------------------------------

std::vector<Value*> square_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x");
  if (x.dtype() == DType::kBool) x = cast(x, DType::kI8);
  return one(x * x);
}
std::vector<Value*> clip_body(Builder& b, const Args& args) {
  Operand x = any_operand(b, args, "a");
  bool low = args.has("min"), high = args.has("max");
  if (!low && !high) return one(operand(b, args, "a"));
  if (low) x = maximum(x, any_operand(b, args, "min"));
  if (high) x = minimum(x, any_operand(b, args, "max"));
  return {std::get<Value*>(x.arg)};
}
std::vector<Value*> round_body(Builder& b, const Args& args) {
  Tensor a = operand(b, args, "a");
  int64_t decimals = args.constant("decimals");
  if (!is_float(a.dtype())) {
    if (decimals < 0 || a.dtype() == DType::kBool) throw Unsupported("round of integers to tens");
    return one(a);
  }
  if (decimals == 0) return forward(b, "round", {a.value, Sym(0)});
  double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  auto rounded = [&](Tensor x) { return wrap(b, b.call1("round", {x.value, Sym(0)})); };
  return one(decimals > 0 ? rounded(a * scale) / scale : rounded(a / scale) * scale);
}
std::vector<Value*> isclose_body(Builder& b, const Args& args) {
  Operand x = any_operand(b, args, "a"), y = any_operand(b, args, "b");
  auto as_float = [&](Operand operand) -> Operand {
    const auto* value = std::get_if<Value*>(&operand.arg);
    return value && !is_float((*value)->type.dtype) ? Operand(cast(wrap(b, *value), DType::kF64)) : operand;
  };
  x = as_float(x);
  y = as_float(y);
  if (!std::holds_alternative<Value*>(y.arg)) y = full(b, {}, y.arg, DType::kF64);
  Tensor bound = abs(wrap(b, std::get<Value*>(y.arg))) * args.number("rtol") + args.number("atol");
  Tensor close = logical_and(le(abs(x - y), bound), apply("isfinite", {y}));
  close = logical_or(close, eq(x, y));
  if (args.boolean("equal_nan")) close = logical_or(close, logical_and(ne(x, x), ne(y, y)));
  return one(close);
}
std::vector<Value*> nan_to_num_body(Builder& b, const Args& args) {
  Arg nan = args.has("nan") ? args["nan"] : Arg(0.0);
  return forward(b, "nan_to_num", {args["x"], nan, args["posinf"], args["neginf"]});
}
std::vector<Value*> sinc_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x");
  return forward(b, "sinc", {is_float(x.dtype()) ? x.value : cast(x, DType::kF64).value});
}

// ---- products ---------------------------------------------------------------------------------------------------------------

struct Pair {
  Tensor a, b;
};
Pair promoted(Builder& b, const Args& args) {
  Tensor x = operand(b, args, args.schema().params[0].name), y = operand(b, args, args.schema().params[1].name);
  DType dtype = promote_types(b.graph().framework, x.dtype(), y.dtype());
  if (dtype == DType::kBool) throw Unsupported("a product of bool matrices");
  return {cast(x, dtype), cast(y, dtype)};
}
Sym product_of(const std::vector<Sym>& sizes, size_t begin, size_t end) {
  Sym count = 1;
  for (size_t i = begin; i < end; ++i) count = count * sizes[i];
  return count;
}

std::vector<Value*> matmul_body(Builder& b, const Args& args) {
  Pair p = promoted(b, args);
  if (p.a.rank() == 0 || p.b.rank() == 0) value_error("matmul: Input operand does not have enough dimensions");
  return one(matmul(p.a, p.b));
}
// a's last dim with b's last but one.
std::vector<Value*> dot_body(Builder& b, const Args& args) {
  Pair p = promoted(b, args);
  if (p.a.rank() == 0 || p.b.rank() == 0) return one(p.a * p.b);
  if (p.b.rank() <= 2) return one(matmul(p.a, p.b));
  std::vector<Sym> sizes(p.a.sizes().begin(), p.a.sizes().end() - 1);
  Dims order{p.b.rank() - 2};
  for (int64_t d = 0; d < p.b.rank(); ++d)
    if (d != p.b.rank() - 2) {
      order.push_back(d);
      sizes.push_back(p.b.size(d));
    }
  Tensor right = permute(p.b, order), left = reshape(p.a, {product_of(p.a.sizes(), 0, p.a.sizes().size() - 1), p.a.size(-1)});
  if (!b.sym().guard_eq(left.size(1), right.size(0), "dot")) value_error("shapes not aligned");
  return one(reshape(mm(left, reshape(right, {right.size(0), product_of(right.sizes(), 1, right.sizes().size())})), sizes));
}
std::vector<Value*> inner_body(Builder& b, const Args& args) {
  Pair p = promoted(b, args);
  return forward(b, "inner", {p.a.value, p.b.value});
}
std::vector<Value*> vdot_body(Builder& b, const Args& args) {
  Pair p = promoted(b, args);
  return one(matmul(reshape(p.a, {p.a.type().numel()}), reshape(p.b, {p.b.type().numel()})));
}
std::vector<Value*> outer_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "a"), y = operand(b, args, "b");
  return one(reshape(x, {x.type().numel(), 1}) * reshape(y, {1, y.type().numel()}));
}
std::vector<Value*> tensordot_body(Builder& b, const Args& args) {
  Pair p = promoted(b, args);
  size_t axes = static_cast<size_t>(args.constant("axes")), a_rank = p.a.sizes().size(), b_rank = p.b.sizes().size();
  if (axes > a_rank || axes > b_rank) value_error("shape-mismatch for sum");
  for (size_t i = 0; i < axes; ++i)
    if (!b.sym().guard_eq(p.a.sizes()[a_rank - axes + i], p.b.sizes()[i], "tensordot")) value_error("shape-mismatch for sum");
  std::vector<Sym> sizes(p.a.sizes().begin(), p.a.sizes().end() - static_cast<int64_t>(axes));
  sizes.insert(sizes.end(), p.b.sizes().begin() + static_cast<int64_t>(axes), p.b.sizes().end());
  Sym inner = product_of(p.b.sizes(), 0, axes);
  Tensor left = reshape(p.a, {product_of(p.a.sizes(), 0, a_rank - axes), inner});
  return one(reshape(mm(left, reshape(p.b, {inner, product_of(p.b.sizes(), axes, b_rank)})), sizes));
}
std::vector<Value*> cross_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "a"), y = operand(b, args, "b");
  int64_t axis = args.constant("axis");
  if (x.rank() == 0 || y.rank() == 0) value_error("At least one array has zero dimension");
  int64_t dx = wrap_dim(axis, x.rank()), dy = wrap_dim(axis, y.rank());
  if (!b.sym().guard_eq(x.size(dx), 3, "cross") || !b.sym().guard_eq(y.size(dy), 3, "cross")) throw Unsupported("cross products of vectors that have not three places");
  auto part = [&](int i, int j) { return select(x, dx, i) * select(y, dy, j) - select(x, dx, j) * select(y, dy, i); };
  std::vector<Tensor> parts{part(1, 2), part(2, 0), part(0, 1)};
  int64_t dim = wrap_dim(axis, parts[0].rank() + 1);
  for (Tensor& p : parts) p = unsqueeze(p, dim);
  return one(concat(parts, dim));
}

OpDef numpy(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, std::vector<std::string_view> more_names = {}) {
  OpDef op{.name = name, .family = Family::kComposite, .schemas = std::move(schemas), .numpy_names = {name}, .body = body, .in_place_variant = false};
  op.numpy_names.insert(op.numpy_names.end(), more_names.begin(), more_names.end());
  return op;
}

}  // namespace

std::vector<OpDef> numpy_math_ops() {
  return {
      ufunc("np.sign", "np.sign(Tensor x) -> Tensor", Promotion::kCommon, sign_scalar, refuse_bool),
      ufunc("np.rint", "np.rint(Tensor x) -> Tensor", Promotion::kFloat, CDYNAMO_SCALAR(return b.round_even(x[0]))),
      ufunc("np.fabs", "np.fabs(Tensor x) -> Tensor", Promotion::kFloat, CDYNAMO_SCALAR(return b.abs(x[0]))),
      ufunc("np.cbrt", "np.cbrt(Tensor x) -> Tensor", Promotion::kFloat, cbrt_scalar),
      ufunc("np.reciprocal", "np.reciprocal(Tensor x) -> Tensor", Promotion::kCommon, reciprocal_scalar),
      numpy("np.square", {"np.square(Tensor x) -> Tensor"}, square_body),
      numpy("np.positive", {"np.positive(Tensor x) -> Tensor"}, CDYNAMO_BODY(return forward(b, "clone", {args["x"]}))),
      numpy("np.conjugate", {"np.conjugate(Tensor x) -> Tensor"}, CDYNAMO_BODY(return forward(b, "clone", {args["x"]})), {"np.conj"}),
      numpy("np.clip", {"np.clip(Tensor a, Tensor? min=None, Tensor? max=None) -> Tensor",
                        "np.clip.named(Tensor a, Tensor? a_min=None, Tensor? a_max=None) -> Tensor"},
            CDYNAMO_BODY(if (args.schema().find("a_min") >= 0) return forward(b, "np.clip", {args["a"], args["a_min"], args["a_max"]});
                         return clip_body(b, args)), {"np.ndarray.clip"}),
      numpy("np.round", {"np.round(Tensor a, int decimals=0) -> Tensor"}, round_body, {"np.around", "np.ndarray.round"}),
      numpy("np.isclose", {"np.isclose(Tensor a, Tensor b, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"}, isclose_body),
      numpy("np.nan_to_num", {"np.nan_to_num(Tensor x, bool copy=True, float? nan=0.0, float? posinf=None, float? neginf=None) -> Tensor"}, nan_to_num_body),
      numpy("np.sinc", {"np.sinc(Tensor x) -> Tensor"}, sinc_body),
      numpy("np.matmul", {"np.matmul(Tensor x1, Tensor x2) -> Tensor"}, matmul_body),
      numpy("np.dot", {"np.dot(Tensor a, Tensor b) -> Tensor"}, dot_body, {"np.ndarray.dot"}),
      numpy("np.inner", {"np.inner(Tensor a, Tensor b) -> Tensor"}, inner_body),
      numpy("np.vdot", {"np.vdot(Tensor a, Tensor b) -> Tensor"}, vdot_body),
      numpy("np.outer", {"np.outer(Tensor a, Tensor b) -> Tensor"}, outer_body),
      numpy("np.tensordot", {"np.tensordot(Tensor a, Tensor b, int axes=2) -> Tensor"}, tensordot_body),
      numpy("np.cross", {"np.cross(Tensor a, Tensor b, *, int axis=-1) -> Tensor"}, cross_body),
  };
}

}  // namespace cdynamo::graph
