// Activations.
#include <cmath>
#include <numbers>

#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

constexpr double kSeluAlpha = 1.6732632423543772848170429916717,
                 kSeluScale = 1.0507009873554804934193349852946;

void check_float(Graph&, const Args& args) {
  const Value* self = args.value(args.schema().params[0].name);
  if (!is_float(self->type.dtype))
    runtime_error(std::string("\"activation\" not implemented for '") + runtime::info(self->type.dtype).name +
                  "'");
}
void check_not_bool(Graph&, const Args& args) {
  if (operand_dtype(args, "self") == DType::kBool) runtime_error("Boolean inputs not supported for relu");
}

void check_shrink(Graph& graph, const Args& args) {
  check_float(graph, args);
  if (!(args.number("lambd") >= 0) || std::isinf(args.number("lambd")))
    runtime_error("lambda must be greater or equal to 0, but found to be " +
                  std::to_string(args.number("lambd")));
}

// The bound first: where it equals x the result is x (zeros keep their sign), and NaN needs no test of its own.
Scalar clamp(ScalarBuilder& b, Scalar x, double low, double high) {
  return b.min(number(b, high, x), b.max(number(b, low, x), x));
}
Scalar attribute(ScalarBuilder& b, const Args& args, const char* name, Scalar like) {
  return number(b, args.number(name), like);
}

Scalar gelu_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar v = x[0], half = number(b, 0.5, v), one = number(b, 1, v);
  if (args.string("approximate") == "tanh") {
    Scalar cube = b.mul(b.mul(v, v), v);
    Scalar inner = b.mul(number(b, std::numbers::sqrt2 * std::numbers::inv_sqrtpi, v),
                         b.add(v, b.mul(number(b, 0.044715, v), cube)));
    return b.mul(b.mul(half, v), b.add(one, b.tanh(inner)));
  }
  return b.mul(b.mul(v, half), b.add(one, b.erf(b.mul(v, number(b, std::numbers::sqrt2 / 2, v)))));
}
void check_gelu(Graph& graph, const Args& args) {
  check_float(graph, args);
  if (args.string("approximate") != "none" && args.string("approximate") != "tanh")
    runtime_error("approximate argument must be either none or tanh.");
}
void gelu_derivative(Derivative& d) {
  Tensor x = d.operand(0);
  if (d.args.string("approximate") == "tanh") {
    double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Tensor t = tanh((x + x * x * x * 0.044715) * beta);
    Tensor inner = (x * x * (3 * 0.044715) + 1) * beta;
    d.set(0, d.grad() * ((t + 1) * 0.5 + x * 0.5 * (1 - t * t) * inner));
    return;
  }
  Tensor cdf = (erf(x * (std::numbers::sqrt2 / 2)) + 1) * 0.5;
  Tensor pdf = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
  d.set(0, d.grad() * (cdf + x * pdf));
}

// The gradient but where the condition holds. At NaN eager's vectors and their tails differ: it is passed on.
Tensor unless(Derivative& d, Tensor condition) { return where(condition, 0.0, d.grad()); }
Tensor outside(Tensor x, double low, double high) { return logical_or(le(x, low), ge(x, high)); }
Tensor between(Tensor x, double low, double high) { return logical_and(gt(x, low), lt(x, high)); }

void hardswish_derivative(Derivative& d) {
  Tensor x = d.operand(0);
  Tensor inside = d.grad() * (x * (1.0 / 3) + 0.5);
  d.set(0, where(le(x, -3), 0.0, where(lt(x, 3), inside, d.grad())));
}
void softplus_derivative(Derivative& d) {
  Tensor scaled = d.operand(0) * d.args.number("beta");
  d.set(0, where(gt(scaled, d.args.number("threshold")), d.grad(), d.grad() * sigmoid(scaled)));
}
void mish_derivative(Derivative& d) {
  Tensor x = d.operand(0), t = tanh(wrap(d.builder, d.builder.call1("softplus", {x.value})));
  d.set(0, d.grad() * (t + x * sigmoid(x) * (1 - t * t)));
}
// scale * (x >= 0 ? x : alpha * expm1(x * input_scale))
void elu_gradient(Derivative& d, double alpha, double scale, double input_scale) {
  Tensor x = d.operand(0);
  Tensor low = d.grad() * exp(x * input_scale) * (alpha * scale * input_scale);
  d.set(0, where(le(x, 0), low, d.grad() * scale));
}
void shrink_derivative(Derivative& d) { d.set(0, unless(d, le(abs(d.operand(0)), d.args.number("lambd")))); }

Scalar softplus_of(ScalarBuilder& b, Scalar x, double beta, double threshold) {
  Scalar scaled = b.mul(x, number(b, beta, x));
  return b.select(b.gt(scaled, number(b, threshold, x)), x,
                  b.div(b.log1p(b.exp(scaled)), number(b, beta, x)));
}
Scalar elu_of(ScalarBuilder& b, Scalar x, double alpha, double scale, double input_scale) {
  Scalar low = b.mul(b.expm1(b.mul(x, number(b, input_scale, x))), number(b, alpha * scale, x));
  return b.select(b.lt(x, number(b, 0, x)), low, b.mul(x, number(b, scale, x)));
}
Scalar shrink_scalar(ScalarBuilder& b, const Scalar* x, const Args& args, bool soft) {
  Scalar limit = attribute(b, args, "lambd", x[0]), minus = b.neg(limit), zero = number(b, 0, x[0]);
  Scalar above = soft ? b.sub(x[0], limit) : x[0], below = soft ? b.add(x[0], limit) : x[0];
  Scalar result = b.select(b.gt(x[0], limit), above, b.select(b.lt(x[0], minus), below, zero));
  return b.select(b.ne(x[0], x[0]), x[0], result);
}

OpDef activation(std::string_view name, std::string_view schema, ScalarFn scalar, DerivativeFn derivative,
                 CheckFn check = check_float) {
  return {.name = name,
          .family = Family::kPointwise,
          .schemas = {schema},
          .scalar = scalar,
          .derivative = derivative,
          .check = check};
}

std::vector<Value*> prelu_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), weight = operand(b, args, "weight");
  if (weight.rank() > 1) runtime_error("prelu: Expected `weight` to be a scalar or 1D tensor");
  if (self.dtype() != weight.dtype()) runtime_error("prelu: Type promoting not supported");
  if (!is_float(self.dtype())) throw Unsupported("prelu of integers");
  if (weight.rank() == 1 && !(weight.size(0) == Sym(1))) {
    Sym channels = self.rank() > 1 ? self.size(1) : Sym(1);
    if (!b.sym().guard_eq(weight.size(0), channels, "prelu"))
      runtime_error("Mismatch of parameter numbers and input channel size.");
    std::vector<Sym> shape(self.rank(), 1);
    shape[1] = weight.size(0);
    weight = reshape(weight, shape);
  } else {
    weight = reshape(weight, {});
  }
  return one(where(gt(self, 0), self, self * weight));
}

std::vector<Value*> glu_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (self.rank() == 0) runtime_error("glu does not support 0-dimensional tensors");
  check_float(b.graph(), args);
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  if (!b.sym().guard_eq(mod(self.size(dim), 2), 0, "glu"))
    runtime_error("Halving dimension must be even, but dimension " + std::to_string(dim) + " is size " +
                  self.size(dim).str());
  Sym half = floordiv(self.size(dim), 2);
  Tensor x = to_compute(slice(self, dim, 0, half)), gate = to_compute(slice(self, dim, half, half));
  return one(cast(x * sigmoid(gate), self.dtype()));
}

std::vector<OpDef> rectifiers() {
  return {
      {.name = "relu",
       .family = Family::kPointwise,
       .schemas = {"relu(Tensor self) -> Tensor"},
       .opinfo = "nn.functional.relu",
       .scalar = CDYNAMO_SCALAR(return b.max(number(b, 0, x[0]), x[0])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, where(le(d.result(), 0), 0.0, d.grad()))),
       .check = check_not_bool},
      {.name = "relu6",
       .family = Family::kPointwise,
       .schemas = {"relu6(Tensor self) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return clamp(b, x[0], 0, 6)),
       .strides = preserved_results,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, unless(d, outside(d.operand(0), 0, 6)))),
       .check = check_not_bool},
      {.name = "hardtanh",
       .family = Family::kPointwise,
       .schemas = {"hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return clamp(b, x[0], args.number("min_val"), args.number("max_val"))),
       .strides = preserved_results,
       .derivative = CDYNAMO_DERIVATIVE(
           d.set(0, unless(d, outside(d.operand(0), d.args.number("min_val"), d.args.number("max_val"))))),
       .check = check_not_bool},
      activation(
          "leaky_relu", "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
          CDYNAMO_SCALAR(return b.select(b.gt(x[0], number(b, 0, x[0])), x[0],
                                         b.mul(x[0], attribute(b, args, "negative_slope", x[0])))),
          CDYNAMO_DERIVATIVE(d.set(0, where(gt(d.operand(0), 0), d.grad(),
                                            d.grad() * Operand(d.args["negative_slope"], &d.builder))))),
      {.name = "threshold",
       .family = Family::kPointwise,
       .schemas = {"threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return b.select(b.le(x[0], attribute(b, args, "threshold", x[0])),
                                                attribute(b, args, "value", x[0]), x[0])),
       .derivative = CDYNAMO_DERIVATIVE(
           d.set(0, where(le(d.operand(0), Operand(d.args["threshold"], &d.builder)), 0.0, d.grad()))),
       .check = check_not_bool},
      activation(
          "hardsigmoid", "hardsigmoid(Tensor self) -> Tensor",
          CDYNAMO_SCALAR(return b.div(clamp(b, b.add(x[0], number(b, 3, x[0])), 0, 6), number(b, 6, x[0]))),
          CDYNAMO_DERIVATIVE(d.set(0, where(between(d.operand(0), -3, 3), d.grad() / 6.0, 0.0)))),
      activation("hardswish", "hardswish(Tensor self) -> Tensor",
                 CDYNAMO_SCALAR(return b.div(b.mul(x[0], clamp(b, b.add(x[0], number(b, 3, x[0])), 0, 6)),
                                             number(b, 6, x[0]))),
                 hardswish_derivative),
      activation("softshrink", "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                 CDYNAMO_SCALAR(return shrink_scalar(b, x, args, true)), shrink_derivative, check_shrink),
      activation("hardshrink", "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                 CDYNAMO_SCALAR(return shrink_scalar(b, x, args, false)), shrink_derivative),
  };
}

std::vector<OpDef> smooth() {
  return {
    {.name = "gelu",
     .family = Family::kPointwise,
     .schemas = {"gelu(Tensor self, *, str approximate=\"none\") -> Tensor"},
     .opinfo = "nn.functional.gelu",
     .scalar = gelu_scalar,
     .derivative = gelu_derivative,
     .in_place_variant = false,
     .check = check_gelu},
        activation("silu", "silu(Tensor self) -> Tensor",
                   CDYNAMO_SCALAR(return b.div(x[0], b.add(number(b, 1, x[0]), b.exp(b.neg(x[0]))))),
                   CDYNAMO_DERIVATIVE(Tensor s = sigmoid(d.operand(0));
                                      d.set(0, d.grad() * s * (d.operand(0) * (1 - s) + 1)))),
        activation("mish", "mish(Tensor self) -> Tensor",
                   CDYNAMO_SCALAR(return b.mul(x[0], b.tanh(softplus_of(b, x[0], 1, 20)))), mish_derivative),
        {.name = "softplus",
         .family = Family::kPointwise,
         .schemas = {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"},
         .scalar = CDYNAMO_SCALAR(return softplus_of(b, x[0], args.number("beta"), args.number("threshold"))),
         .derivative = softplus_derivative,
         .in_place_variant = false,
         .check = check_float},
        activation("elu", "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
                   CDYNAMO_SCALAR(return elu_of(b, x[0], args.number("alpha"), args.number("scale"),
                                                args.number("input_scale"))),
                   CDYNAMO_DERIVATIVE(elu_gradient(d, d.args.number("alpha"), d.args.number("scale"),
                                                   d.args.number("input_scale")))),
        activation("selu", "selu(Tensor self) -> Tensor",
                   CDYNAMO_SCALAR(return elu_of(b, x[0], kSeluAlpha, kSeluScale, 1)),
                   CDYNAMO_DERIVATIVE(elu_gradient(d, kSeluAlpha, kSeluScale, 1))),
        activation(
            "celu", "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
            CDYNAMO_SCALAR(double alpha = args.number("alpha"); return elu_of(b, x[0], alpha, 1, 1 / alpha)),
            CDYNAMO_DERIVATIVE(double alpha = d.args.number("alpha"); elu_gradient(d, alpha, 1, 1 / alpha))),
        {.name = "log_sigmoid",
         .family = Family::kPointwise,
         .schemas = {"log_sigmoid(Tensor self) -> Tensor"},
         .scalar = CDYNAMO_SCALAR(
             return b.sub(b.min(x[0], number(b, 0, x[0])), b.log1p(b.exp(b.neg(b.abs(x[0])))))),
         .strides = contiguous_results,
         .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * sigmoid(-d.operand(0)))),
         .in_place_variant = false,
         .check = check_float},
        {.name = "prelu",
         .family = Family::kComposite,
         .schemas = {"prelu(Tensor self, Tensor weight) -> Tensor"},
         .body = prelu_body,
         .strides = preserved_results,
         .in_place_variant = false},
        {.name = "glu",
         .family = Family::kComposite,
         .schemas = {"glu(Tensor self, int dim=-1) -> Tensor"},
         .body = glu_body,
         .in_place_variant = false},
  };
}

}  // namespace

std::vector<OpDef> activation_ops() {
  std::vector<OpDef> ops = rectifiers();
  for (OpDef& op : smooth()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
