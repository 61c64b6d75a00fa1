// Elementary functions.
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

using Unary = Scalar (ScalarBuilder::*)(Scalar);

template <Unary function>
Scalar prim_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return (b.*function)(x[0]);
}

// floor, ceil, trunc, round: integers are left as they are.
template <Unary function>
Scalar rounding_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? (b.*function)(x[0]) : x[0];
}

struct Names {
  std::vector<std::string_view> torch, numpy;
};

// PyTorch makes the result like the operand before it looks how to iterate.
void angle_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (graph.framework == Framework::kTorch) preserved_results(graph, args, results);
}

OpDef function(std::string_view name, std::string_view schema, ScalarFn scalar, DerivativeFn derivative,
               Names names = {}, CheckFn check = nullptr, StridesFn strides = nullptr) {
  return {.name = name,
          .family = Family::kPointwise,
          .schemas = {schema},
          .torch_names = std::move(names.torch),
          .numpy_names = std::move(names.numpy),
          .promotion = Promotion::kFloat,
          .scalar = scalar,
          .strides = strides,
          .derivative = derivative,
          .check = check};
}
void check_no_integers(Graph& graph, const Args& args) {
  if (graph.framework == Framework::kTorch && !is_float(common_dtype(graph, args)))
    throw Unsupported(args.schema().name + " of integers");
}

void check_rounding(Graph& graph, const Args& args) {
  if (graph.framework == Framework::kTorch && args.value("self")->type.dtype == DType::kBool)
    runtime_error("rounding is not implemented for 'Bool'");
}

OpDef rounding(std::string_view name, std::string_view schema, ScalarFn scalar, Names names) {
  OpDef op = function(name, schema, scalar, CDYNAMO_DERIVATIVE(d.set(0, full_like(d.grad(), 0.0))),
                      std::move(names));
  op.promotion = Promotion::kCommon;
  op.check = check_rounding;
  op.core.linearity = Linearity::kAffine;
  return op;
}

Scalar sigmoid_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar one = number(b, 1, x[0]);
  return b.div(one, b.add(one, b.exp(b.neg(x[0]))));
}

Scalar logit_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar p = x[0], one = number(b, 1, p);
  if (args.has("eps")) {
    double eps = args.number("eps");
    p = b.min(b.max(p, number(b, eps, p)), number(b, 1 - eps, p));
  }
  return b.log(b.div(p, b.sub(one, p)));
}

// log(exp(x) + exp(y)) without overflow; equal infinities give themselves.
Scalar logaddexp_of(ScalarBuilder& b, const Scalar* x, bool base2) {
  Scalar top = b.max(x[0], x[1]), difference = b.neg(b.abs(b.sub(x[0], x[1])));
  Scalar tail = base2 ? b.mul(b.log1p(b.exp2(difference)), number(b, 1 / std::numbers::ln2, top))
                      : b.log1p(b.exp(difference));
  Scalar infinite = b.eq(b.abs(x[0]), number(b, std::numeric_limits<double>::infinity(), top));
  return b.select(b.bit_and(infinite, b.eq(x[0], x[1])), x[0], b.add(top, tail));
}

// x * f(y), 0 where x is 0 unless y is NaN.
Scalar xlogy_of(ScalarBuilder& b, const Scalar* x, bool plus_one) {
  Scalar zero = number(b, 0, x[0]);
  Scalar product = b.mul(x[0], plus_one ? b.log1p(x[1]) : b.log(x[1]));
  Scalar result = b.select(b.eq(x[0], zero), zero, product);
  return b.select(b.ne(x[1], x[1]), x[1], result);
}

void logit_derivative(Derivative& d) {
  Tensor x = d.operand(0), slope = d.grad() / abs(x * (1 - x));  // the same at 0 and -0
  if (!d.args.has("eps"))
    return d.set(0, where(logical_or(lt(x, 0), gt(x, 1)), std::numeric_limits<double>::quiet_NaN(), slope));
  const double eps = d.args.number("eps");
  d.set(0, where(logical_or(lt(x, eps), gt(x, 1 - eps)), 0.0, slope));
}
// 0 at the origin.
void atan2_derivative(Derivative& d) {
  Tensor y = d.operand(0), x = d.operand(1), square = x * x + y * y;
  Tensor g = where(eq(square, 0), 0.0, d.grad() / square);
  d.set(0, g * x);
  d.set(1, -(g * y));
}
// Eager rounds the logarithm to half types.
template <bool plus_one>
std::vector<Value*> xlogy_body(Builder& b, const Args& args) {
  const Arg &self = args["self"], &other = args["other"];
  Tensor result = wrap(b, b.call1(plus_one ? "core.xlog1py" : "core.xlogy", {self, other}));
  if (!is_half(result.dtype())) return one(result);
  auto value = [&](const Arg& arg) {
    const auto* tensor = std::get_if<Value*>(&arg);
    return detach(tensor ? cast(wrap(b, *tensor), result.dtype()) : full(b, {}, arg, result.dtype()));
  };
  Tensor x = value(self), y = value(other), log_y = plus_one ? log1p(y) : log(y);
  Tensor product = where(isnan(y), y, where(eq(x, 0), 0.0, x * log_y));
  return one(with_slope(expand(product, result.sizes()), result));
}

void xlogy_derivative(Derivative& d) {
  Tensor x = d.operand(0), y = d.operand(1);
  d.set(0, where(logical_and(eq(x, 0), le(y, 0)), 0.0, d.grad() * log(y)));
  d.set(1, d.grad() * x / y);
}
void xlog1py_derivative(Derivative& d) {
  Tensor x = d.operand(0), y = d.operand(1);
  d.set(0, where(logical_and(eq(x, 0), le(y, -1)), 0.0, d.grad() * log1p(y)));
  d.set(1, d.grad() * x / (y + 1));
}
void sinc_derivative(Derivative& d) {
  Tensor x = d.operand(0), angle = x * std::numbers::pi;
  d.set(0, where(eq(x, 0), 0.0, d.grad() * (cos(angle) - sin(angle) / angle) / x));
}
// The sign of self that other changed.
void copysign_derivative(Derivative& d) {
  Tensor ratio = where(eq(d.operand(0), 0), 0.0, d.result() / d.operand(0));
  d.set(0, d.grad() * ratio);
  d.set(1, full_like(d.grad(), 0.0));
}

Scalar entr_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar zero = number(b, 0, x[0]);
  Scalar inside = b.select(b.eq(x[0], zero), zero, number(b, -std::numeric_limits<double>::infinity(), x[0]));
  Scalar result = b.select(b.gt(x[0], zero), b.mul(b.neg(x[0]), b.log(x[0])), inside);
  return b.select(b.ne(x[0], x[0]), x[0], result);
}

Scalar sinc_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar zero = number(b, 0, x[0]), angle = b.mul(x[0], number(b, std::numbers::pi, x[0]));
  return b.select(b.eq(x[0], zero), number(b, 1, x[0]), b.div(b.sin(angle), angle));
}

// The derivative of digamma: reflection below 1/2, recurrence up to 6, then the asymptotic series.
Scalar trigamma_scalar(ScalarBuilder& b, const Scalar* operands, const Args&) {
  auto constant = [&](double value) { return number(b, value, operands[0]); };
  Scalar one = constant(1), mirrored = b.lt(operands[0], constant(0.5));
  Scalar x = b.select(mirrored, b.sub(one, operands[0]), operands[0]), total = constant(0);
  for (int step = 0; step < 6; ++step) {
    total = b.add(total, b.div(one, b.mul(x, x)));
    x = b.add(x, one);
  }
  Scalar square = b.div(one, b.mul(x, x)), series = constant(0);
  for (double coefficient : {5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6})
    series = b.mul(square, b.add(constant(coefficient), series));
  series = b.add(b.add(one, b.div(constant(0.5), x)), series);
  total = b.add(total, b.div(series, x));
  Scalar sine = b.div(constant(std::numbers::pi), b.sin(b.mul(constant(std::numbers::pi), operands[0])));
  return b.select(mirrored, b.sub(b.mul(sine, sine), total), total);
}

Scalar heaviside_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]);
  if (x[0].dtype == DType::kBool) return b.bit_or(x[0], x[1]);
  return b.select(b.gt(x[0], zero), one, b.select(b.eq(x[0], zero), x[1], zero));  // of NaN 0, unlike NumPy's
}

// torch.round with decimals: scaled, rounded to even, scaled back.
Scalar round_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  if (!is_float(x[0].dtype)) return x[0];
  int64_t decimals = args.has("decimals") ? args.constant("decimals") : 0;
  if (decimals == 0) return b.round_even(x[0]);
  Scalar scale = number(b, std::pow(10.0, std::abs(decimals)), x[0]);
  if (decimals > 0) return b.div(b.round_even(b.mul(x[0], scale)), scale);
  return b.mul(b.round_even(b.div(x[0], scale)), scale);
}

void check_round(Graph& graph, const Args& args) {
  check_rounding(graph, args);
  if (args.has("decimals") && args.constant("decimals") != 0 && !is_float(args.value("self")->type.dtype))
    throw Unsupported("round of integers with decimals");
}

Scalar nan_to_num_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  if (!is_float(x[0].dtype)) return x[0];
  DType dtype = args.value("self")->type.dtype;
  double largest = dtype == DType::kF16    ? 65504.0
                   : dtype == DType::kBF16 ? 3.3895313892515355e38
                   : dtype == DType::kF32  ? std::numeric_limits<float>::max()
                                           : std::numeric_limits<double>::max();
  double infinity = std::numeric_limits<double>::infinity();
  auto replacement = [&](const char* name, double otherwise) {
    return number(b, args.has(name) ? args.number(name) : otherwise, x[0]);
  };
  Scalar result = b.select(b.ne(x[0], x[0]), replacement("nan", 0), x[0]);
  result = b.select(b.eq(x[0], number(b, infinity, x[0])), replacement("posinf", largest), result);
  return b.select(b.eq(x[0], number(b, -infinity, x[0])), replacement("neginf", -largest), result);
}

// self * 2^other. By an integer in three steps of double, none of which overflows where the result does not.
std::vector<Value*> ldexp_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), other = operand(b, args, "other");
  if (!is_float(self.dtype()) || is_float(other.dtype())) {
    Tensor power = wrap(b, b.call1("core.pow", {2.0, other.value}));
    return forward(b, "mul", {self.value, power.value});
  }
  if (other.dtype() == DType::kBool) throw Unsupported("ldexp by bools, which eager refuses");
  Tensor exponent = minimum(maximum(cast(other, DType::kF64), -3000.0), 3000.0);
  Tensor third = floor(exponent * (1.0 / 3)), power = exp2(third);
  return one(cast(cast(self, DType::kF64) * power * power * exp2(exponent - third * 2.0), self.dtype()));
}

std::vector<OpDef> exponentials() {
  return {
    function("exp", "exp(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::exp>,
             CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.result())), {{}, {"np.exp"}}),
        function("exp2", "exp2(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::exp2>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.result() * std::numbers::ln2)),
                 {{"torch.special.exp2"}, {"np.exp2"}}),
        function("expm1", "expm1(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::expm1>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (d.result() + 1))),
                 {{"torch.special.expm1"}, {"np.expm1"}}),
        function("log", "log(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::log>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / d.operand(0))), {{}, {"np.log"}}),
        function("log2", "log2(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::log2>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.operand(0) * std::numbers::ln2))),
                 {{}, {"np.log2"}}),
        function("log10", "log10(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::log10>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.operand(0) * std::numbers::ln10))),
                 {{}, {"np.log10"}}),
        function("log1p", "log1p(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::log1p>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.operand(0) + 1))),
                 {{"torch.special.log1p"}, {"np.log1p"}}),
        function("sqrt", "sqrt(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::sqrt>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.result() * 2))), {{}, {"np.sqrt"}}),
        function("rsqrt", "rsqrt(Tensor self) -> Tensor",
                 CDYNAMO_SCALAR(return b.div(number(b, 1, x[0]), b.sqrt(x[0]))),
                 CDYNAMO_DERIVATIVE(Tensor r = d.result(); d.set(0, d.grad() * r * r * r * -0.5))),
        function("reciprocal", "reciprocal(Tensor self) -> Tensor",
                 CDYNAMO_SCALAR(return b.div(number(b, 1, x[0]), x[0])),
                 CDYNAMO_DERIVATIVE(d.set(0, -(d.grad() * d.result() * d.result())))),
        function("sigmoid", "sigmoid(Tensor self) -> Tensor", sigmoid_scalar,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.result() * (1 - d.result()))),
                 {{"torch.special.expit"}, {}}),
        function("logit", "logit(Tensor self, float? eps=None) -> Tensor", logit_scalar, logit_derivative,
                 {{"torch.special.logit"}, {}}),
        function("logaddexp", "logaddexp(Tensor self, Tensor other) -> Tensor",
                 CDYNAMO_SCALAR(return logaddexp_of(b, x, false)),
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (exp(d.operand(1) - d.operand(0)) + 1));
                                    d.set(1, d.grad() / (exp(d.operand(0) - d.operand(1)) + 1))),
                 {{}, {"np.logaddexp"}}, check_no_integers),
        function("logaddexp2", "logaddexp2(Tensor self, Tensor other) -> Tensor",
                 CDYNAMO_SCALAR(return logaddexp_of(b, x, true)),
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (exp2(d.operand(1) - d.operand(0)) + 1));
                                    d.set(1, d.grad() / (exp2(d.operand(0) - d.operand(1)) + 1))),
                 {{}, {"np.logaddexp2"}}, check_no_integers),
        {.name = "core.xlogy",
         .family = Family::kPointwise,
         .schemas = {"core.xlogy(Tensor self, Tensor other) -> Tensor"},
         .promotion = Promotion::kFloat,
         .scalar = CDYNAMO_SCALAR(return xlogy_of(b, x, false)),
         .derivative = xlogy_derivative,
         .core = {.eager = "torch.xlogy(self, other)"}},
        {.name = "xlogy",
         .family = Family::kComposite,
         .schemas = {"xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
                     "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
                     "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor"},
         .torch_names = {"torch.special.xlogy"},
         .body = xlogy_body<false>,
         .strides = strides_of_tensors},
        {.name = "core.xlog1py",
         .family = Family::kPointwise,
         .schemas = {"core.xlog1py(Tensor self, Tensor other) -> Tensor"},
         .promotion = Promotion::kFloat,
         .scalar = CDYNAMO_SCALAR(return xlogy_of(b, x, true)),
         .derivative = xlog1py_derivative,
         .core = {.eager = "torch.special.xlog1py(self, other)"}},
        {.name = "special_xlog1py",
         .family = Family::kComposite,
         .schemas = {"special_xlog1py(Tensor self, Tensor other) -> Tensor",
                     "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
                     "special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor"},
         .torch_names = {"torch.special.xlog1py"},
         .body = xlogy_body<true>,
         .strides = strides_of_tensors,
         .in_place_variant = false},
        {.name = "special_entr",
         .family = Family::kPointwise,
         .schemas = {"special_entr(Tensor self) -> Tensor"},
         .torch_names = {"torch.special.entr"},
         .promotion = Promotion::kFloat,
         .scalar = entr_scalar,
         .derivative = CDYNAMO_DERIVATIVE(d.set(0, -(d.grad() * (log(d.operand(0)) + 1)))),
         .in_place_variant = false},
        {.name = "ldexp",
         .family = Family::kComposite,
         .schemas = {"ldexp.Tensor(Tensor self, Tensor other) -> Tensor"},
         .body = ldexp_body},
  };
}

std::vector<OpDef> trigonometry() {
  return {
    function("sin", "sin(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::sin>,
             CDYNAMO_DERIVATIVE(d.set(0, d.grad() * cos(d.operand(0)))), {{}, {"np.sin"}}),
        function("cos", "cos(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::cos>,
                 CDYNAMO_DERIVATIVE(d.set(0, -(d.grad() * sin(d.operand(0))))), {{}, {"np.cos"}}),
        function("tan", "tan(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::tan>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (d.result() * d.result() + 1))), {{}, {"np.tan"}}),
        function("asin", "asin(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::asin>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * rsqrt(1 - d.operand(0) * d.operand(0)))),
                 {{"torch.arcsin", "torch.Tensor.arcsin", "torch.Tensor.arcsin_"}, {"np.arcsin", "np.asin"}}),
        function("acos", "acos(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::acos>,
                 CDYNAMO_DERIVATIVE(d.set(0, -(d.grad() * rsqrt(1 - d.operand(0) * d.operand(0))))),
                 {{"torch.arccos", "torch.Tensor.arccos", "torch.Tensor.arccos_"}, {"np.arccos", "np.acos"}}),
        function("atan", "atan(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::atan>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (d.operand(0) * d.operand(0) + 1))),
                 {{"torch.arctan", "torch.Tensor.arctan", "torch.Tensor.arctan_"}, {"np.arctan", "np.atan"}}),
        function(
            "atan2", "atan2(Tensor self, Tensor other) -> Tensor", CDYNAMO_SCALAR(return b.atan2(x[0], x[1])),
            atan2_derivative,
            {{"torch.arctan2", "torch.Tensor.arctan2", "torch.Tensor.arctan2_"}, {"np.arctan2", "np.atan2"}}),
        function("sinh", "sinh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::sinh>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * cosh(d.operand(0)))), {{}, {"np.sinh"}}),
        function("cosh", "cosh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::cosh>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * sinh(d.operand(0)))), {{}, {"np.cosh"}}),
        function("tanh", "tanh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::tanh>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (1 - d.result() * d.result()))), {{}, {"np.tanh"}}),
        function(
            "asinh", "asinh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::asinh>,
            CDYNAMO_DERIVATIVE(d.set(0, d.grad() * rsqrt(d.operand(0) * d.operand(0) + 1))),
            {{"torch.arcsinh", "torch.Tensor.arcsinh", "torch.Tensor.arcsinh_"}, {"np.arcsinh", "np.asinh"}}),
        function(
            "acosh", "acosh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::acosh>,
            CDYNAMO_DERIVATIVE(d.set(0, d.grad() * rsqrt(d.operand(0) * d.operand(0) - 1))),
            {{"torch.arccosh", "torch.Tensor.arccosh", "torch.Tensor.arccosh_"}, {"np.arccosh", "np.acosh"}}),
        function(
            "atanh", "atanh(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::atanh>,
            CDYNAMO_DERIVATIVE(d.set(0, d.grad() / (1 - d.operand(0) * d.operand(0)))),
            {{"torch.arctanh", "torch.Tensor.arctanh", "torch.Tensor.arctanh_"}, {"np.arctanh", "np.atanh"}}),
        function("hypot", "hypot(Tensor self, Tensor other) -> Tensor",
                 CDYNAMO_SCALAR(return b.hypot(x[0], x[1])),
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.operand(0) / d.result());
                                    d.set(1, d.grad() * d.operand(1) / d.result())),
                 {{}, {"np.hypot"}}, check_no_integers),
        function("sinc", "sinc(Tensor self) -> Tensor", sinc_scalar, sinc_derivative,
                 {{"torch.special.sinc"}, {}}),
        function("deg2rad", "deg2rad(Tensor self) -> Tensor",
                 CDYNAMO_SCALAR(return b.mul(x[0], number(b, std::numbers::pi / 180, x[0]))),
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (std::numbers::pi / 180))),
                 {{}, {"np.deg2rad", "np.radians"}}, nullptr, angle_order),
        function("rad2deg", "rad2deg(Tensor self) -> Tensor",
                 CDYNAMO_SCALAR(return b.mul(x[0], number(b, 180 / std::numbers::pi, x[0]))),
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (180 / std::numbers::pi))),
                 {{}, {"np.rad2deg", "np.degrees"}}, nullptr, angle_order),
  };
}

std::vector<OpDef> special_functions() {
  return {
    function("erf", "erf(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::erf>,
             CDYNAMO_DERIVATIVE(Tensor x = d.operand(0);
                                d.set(0, d.grad() * exp(-(x * x)) * (2 / std::sqrt(std::numbers::pi)))),
             {{"torch.special.erf"}, {}}),
        function("erfc", "erfc(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::erfc>,
                 CDYNAMO_DERIVATIVE(Tensor x = d.operand(0);
                                    d.set(0, d.grad() * exp(-(x * x)) * (-2 / std::sqrt(std::numbers::pi)))),
                 {{"torch.special.erfc"}, {}}),
        function("lgamma", "lgamma(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::lgamma>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * digamma(d.operand(0)))),
                 {{"torch.special.gammaln"}, {}}),
        function("digamma", "digamma(Tensor self) -> Tensor", prim_scalar<&ScalarBuilder::digamma>,
                 CDYNAMO_DERIVATIVE(d.set(0, d.grad() * apply("core.trigamma", {d.operand(0)}))),
                 {{"torch.special.digamma", "torch.special.psi"}, {}}),
    {
      .name = "core.trigamma", .family = Family::kPointwise,
      .schemas = {"core.trigamma(Tensor self) -> Tensor"}, .promotion = Promotion::kFloat,
      .scalar = trigamma_scalar,
      .derivative = CDYNAMO_DERIVATIVE((void)d; throw Unsupported("the second derivative of digamma")),
      .core = {.eager = "torch.special.polygamma(1, self)"}
    }
    ,
        function("copysign", "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
                 CDYNAMO_SCALAR(return b.copysign(x[0], x[1])), copysign_derivative, {{}, {"np.copysign"}}),
        rounding("floor", "floor(Tensor self) -> Tensor", rounding_scalar<&ScalarBuilder::floor>,
                 {{}, {"np.floor"}}),
        rounding("ceil", "ceil(Tensor self) -> Tensor", rounding_scalar<&ScalarBuilder::ceil>,
                 {{}, {"np.ceil"}}),
        rounding("trunc", "trunc(Tensor self) -> Tensor", rounding_scalar<&ScalarBuilder::trunc>,
                 {{"torch.fix", "torch.Tensor.fix", "torch.Tensor.fix_"}, {"np.trunc"}}),
        {.name = "round",
         .family = Family::kPointwise,
         .schemas = {"round.decimals(Tensor self, *, int decimals=0) -> Tensor"},
         .torch_names = {"torch.special.round"},
         .scalar = round_scalar,
         .derivative = CDYNAMO_DERIVATIVE(d.set(0, full_like(d.grad(), 0.0))),
         .check = check_round,
         .core = {.linearity = Linearity::kAffine}},
        {.name = "frac",
         .family = Family::kPointwise,
         .schemas = {"frac(Tensor self) -> Tensor"},
         .scalar = CDYNAMO_SCALAR(return b.sub(x[0], b.trunc(x[0]))),
         .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad())),
         .check =
             [](Graph&, const Args& args) {
               if (!is_float(args.value("self")->type.dtype))
                 runtime_error("\"frac\" not implemented for integers");
             },
         .core = {.linearity = Linearity::kAffine}},
        {.name = "heaviside",
         .family = Family::kPointwise,
         .schemas = {"heaviside(Tensor self, Tensor values) -> Tensor"},
         .promotion = Promotion::kSame,
         .scalar = heaviside_scalar,
         .derivative = [](Derivative&) { throw Unsupported("a derivative that eager refuses"); }},
        {.name = "nan_to_num",
         .family = Family::kPointwise,
         .schemas =
             {"nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"},
         .scalar = nan_to_num_scalar,
         .strides = preserved_results,
         .derivative = CDYNAMO_DERIVATIVE(
             d.set(0, d.grad() * cast(apply("isfinite", {d.operand(0)}), d.grad().dtype())))},
  };
}

}  // namespace

std::vector<OpDef> pointwise_math_ops() {
  std::vector<OpDef> ops = exponentials();
  for (auto part : {trigonometry, special_functions})
    for (OpDef& op : part()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
