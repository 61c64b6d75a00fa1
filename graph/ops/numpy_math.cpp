// NumPy's functions of each element that differ from PyTorch's of the same kind: signs, rounding, clipping.
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/ops/numpy_rules.h"
#include "graph/promotion.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

// ---- pointwise ------------------------------------------------------------------------------------------

Scalar sign_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]);
  Scalar positive = b.select(b.gt(x[0], zero), one, zero);
  if (is_unsigned(x[0])) return positive;
  Scalar sign = b.select(b.lt(x[0], zero), number(b, -1, x[0]), positive);
  return is_float(x[0].dtype) ? b.select(b.ne(x[0], x[0]), x[0], sign) : sign;
}
void refuse_bool(Graph&, const Args& args) {
  if (operand_dtype(args, "x") == DType::kBool)
    type_error("ufunc 'sign' did not contain a loop with signature matching types BoolDType");
}
// What NumPy gives for 1 / 0 depends on the width.
void refuse_integers(Graph&, const Args& args) {
  if (!is_float(operand_dtype(args, "x"))) throw Unsupported("numpy: reciprocal of integers");
}
Scalar reciprocal_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return b.div(number(b, 1, x[0]), x[0]);
}

// A power, and one step of Newton's method.
Scalar cbrt_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar size = b.abs(x[0]), zero = number(b, 0, x[0]), three = number(b, 3, x[0]);
  Scalar root = b.pow(size, number(b, 1.0 / 3.0, x[0]));
  Scalar square = b.mul(root, root);
  Scalar better = b.sub(root, b.div(b.sub(b.mul(square, root), size), b.mul(three, square)));
  Scalar regular =
      b.bit_and(b.gt(size, zero), b.lt(size, number(b, std::numeric_limits<double>::infinity(), x[0])));
  return b.copysign(b.select(regular, better, root), x[0]);
}

void no_slope(Derivative& d) { d.set(0, full_like(d.grad(), 0.0)); }

OpDef ufunc(std::string_view name, std::string_view schema, Promotion promotion, ScalarFn scalar,
            DerivativeFn derivative, CheckFn check = nullptr) {
  return {.name = name,
          .family = Family::kPointwise,
          .schemas = {schema},
          .numpy_names = {name},
          .promotion = promotion,
          .scalar = scalar,
          .derivative = derivative,
          .in_place_variant = false,
          .check = check};
}

// ---- bodies ---------------------------------------------------------------------------------------------

std::vector<Value*> square_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x");
  if (x.dtype() == DType::kBool) x = cast(x, DType::kI8);
  return one(x * x);
}

// The bounds of a clip: by the names of ndarray.clip, or those of numpy.clip.
struct Bounds {
  Arg low, high;
  bool has_low, has_high;
};
Bounds bounds_of(const Args& args) {
  const bool named = args.schema().find("a_min") >= 0;
  const char *low = named ? "a_min" : "min", *high = named ? "a_max" : "max";
  return {args[low], args[high], args.has(low), args.has(high)};
}
bool is_number(const Arg& bound) {
  const auto* number = std::get_if<double>(&bound);
  return number ? !std::isnan(*number) : std::holds_alternative<Sym>(bound);
}
// One ufunc of three operands: they are promoted together, and a number for an array is one of its own dtype.
std::vector<Value*> clip_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  const Bounds bounds = bounds_of(args);
  if (!bounds.has_low && !bounds.has_high) throw Unsupported("numpy: clip without bounds");
  std::vector<PromotedOperand> operands = {promoted_operand(a.value)};
  if (bounds.has_low) operands.push_back(promoted_operand(bounds.low));
  if (bounds.has_high) operands.push_back(promoted_operand(bounds.high));
  Tensor x = cast(a, result_type(b.graph().framework, b.graph().default_float(), operands));
  const Operand low(bounds.low, &b), high(bounds.high, &b);
  // Between two numbers a zero keeps its sign.
  if (is_float(x.dtype()) && is_number(bounds.low) && is_number(bounds.high)) {
    x = where(lt(x, low), low, x);
    return one(where(gt(x, high), high, x));
  }
  if (bounds.has_low) x = maximum(x, low);
  if (bounds.has_high) x = minimum(x, high);
  return one(x);
}
void clip_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const Bounds bounds = bounds_of(args);
  results[0].strides = numpy_operand_strides(*graph.sym, results[0], {args["a"], bounds.low, bounds.high});
}
std::vector<Value*> round_body(Builder& b, const Args& args) {
  Tensor a = operand(b, args, "a");
  int64_t decimals = args.constant("decimals");
  if (decimals != static_cast<int>(decimals)) throw Unsupported("round to more decimals than a C int counts");
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
  Operand x = any_operand(b, args, "a");
  Tensor y = numpy_array(b, args, "b");
  y = cast(y, numpy_float_dtype(y.dtype()));
  Tensor bound = abs(y) * args.number("rtol") + args.number("atol");
  Tensor close = logical_and(le(abs(x - y), bound), apply("isfinite", {y}));
  close = logical_or(close, eq(x, y));
  if (args.boolean("equal_nan")) close = logical_or(close, logical_and(ne(x, x), ne(y, y)));
  return one(close);
}
std::vector<Value*> nan_to_num_body(Builder& b, const Args& args) {
  if (!args.boolean("copy")) throw Unsupported("nan_to_num in place");
  Arg nan = args.has("nan") ? args["nan"] : Arg(0.0);
  return forward(b, "nan_to_num", {args["x"], nan, args["posinf"], args["neginf"]});
}
std::vector<Value*> sinc_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x") * std::numbers::pi;
  const double epsilon = is_half(x.dtype()) ? 0x1p-10 : x.dtype() == DType::kF32 ? 0x1p-23 : 0x1p-52;
  Tensor y = where(ne(x, 0.0), x, epsilon);
  return one(sin(y) / y);
}

OpDef numpy(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
            std::vector<std::string_view> more_names = {}, StridesFn strides = nullptr) {
  return numpy_function(name, std::move(schemas), body, std::move(more_names), strides);
}

void copy_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = preserved_strides(graph, args.value("x")->type);
}

// PyArray_Round: a copy of integers, numpy.rint for no decimals, else two steps into an array of its own.
void round_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const auto* array = std::get_if<Value*>(&args["a"]);
  if (!array) return;
  if (!is_float(results[0].dtype))
    results[0].strides = preserved_strides(graph, (*array)->type);
  else if (args.constant("decimals") != 0)
    results[0].strides = numpy_fortran_or_c(*graph.sym, (*array)->type, results[0].sizes);
}

}  // namespace

std::vector<OpDef> numpy_math_ops() {
  return {
    ufunc("np.sign", "np.sign(Tensor x) -> Tensor", Promotion::kCommon, sign_scalar, no_slope, refuse_bool),
        ufunc("np.rint", "np.rint(Tensor x) -> Tensor", Promotion::kFloat,
              CDYNAMO_SCALAR(return b.round_even(x[0])), no_slope),
        ufunc("np.fabs", "np.fabs(Tensor x) -> Tensor", Promotion::kFloat, CDYNAMO_SCALAR(return b.abs(x[0])),
              CDYNAMO_DERIVATIVE(d.set(0, d.grad() * sign(d.operand(0))))),
        ufunc("np.cbrt", "np.cbrt(Tensor x) -> Tensor", Promotion::kFloat, cbrt_scalar,
              CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.result() * d.result() * 3)))),
        ufunc("np.reciprocal", "np.reciprocal(Tensor x) -> Tensor", Promotion::kCommon, reciprocal_scalar,
              CDYNAMO_DERIVATIVE(d.set(0, -(d.grad() * d.result() * d.result()))), refuse_integers),
        numpy("np.square", {"np.square(Tensor x) -> Tensor"}, square_body, {}, ufunc_order),
        numpy("np.positive", {"np.positive(Tensor x) -> Tensor"},
              CDYNAMO_BODY(if (is_bool(args["x"]))
                               type_error("ufunc 'positive' did not contain a loop for bool");
                           return forward(b, "clone", {args["x"]})),
              {}, ufunc_order),
        numpy(
            "np.conjugate", {"np.conjugate(Tensor x) -> Tensor"},
            CDYNAMO_BODY(Tensor x = operand(b, args, "x"); return forward(
                             b, "clone", {x.dtype() == DType::kBool ? cast(x, DType::kI8).value : x.value})),
            {"np.conj"}, ufunc_order),
        numpy("np.clip",
              {"np.clip(Tensor a, Tensor? min=None, Tensor? max=None) -> Tensor",
               "np.clip.named(Tensor a, Tensor? a_min=None, Tensor? a_max=None) -> Tensor"},
              clip_body, {"np.ndarray.clip"}, clip_order),
        numpy("np.round", {"np.round(Tensor a, int decimals=0) -> Tensor"}, round_body,
              {"np.around", "np.ndarray.round"}, round_order),
        numpy("np.isclose",
              {"np.isclose(Tensor a, Tensor b, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> "
               "Tensor"},
              isclose_body),
        numpy("np.nan_to_num",
              {"np.nan_to_num(Tensor x, bool copy=True, float? nan=0.0, float? posinf=None, float? "
               "neginf=None) -> Tensor"},
              nan_to_num_body, {}, copy_order),
        numpy("np.sinc", {"np.sinc(Tensor x) -> Tensor"}, sinc_body),
  };
}

}  // namespace cdynamo::graph
