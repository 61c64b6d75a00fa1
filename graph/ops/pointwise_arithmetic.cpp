// Sums, products, quotients and remainders.
#include <algorithm>
#include <cmath>

#include "graph/ops/entry.h"
#include "graph/promotion.h"

namespace cdynamo::graph {
namespace {

// ---- scalar code ----------------------------------------------------------------------------------------

// alpha as a scalar of x's dtype.
Scalar alpha_of(ScalarBuilder& b, const Args& args, Scalar x) { return number(b, args.number("alpha"), x); }

bool plain_alpha(const Args& args) { return !args.has("alpha") || args.number("alpha") == 1; }

// x + alpha * y, rounded once, as eager's kernels have it.
Scalar add_multiple(ScalarBuilder& b, Scalar x, Scalar y, Scalar alpha) {
  return is_float(x.dtype) ? b.fma(y, alpha, x) : b.add(x, b.mul(y, alpha));
}

Scalar add_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  if (x[0].dtype == DType::kBool)
    return b.bit_or(x[0], plain_alpha(args) ? x[1] : b.constant_int(0, DType::kBool));
  return plain_alpha(args) ? b.add(x[0], x[1]) : add_multiple(b, x[0], x[1], alpha_of(b, args, x[1]));
}

Scalar sub_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  return plain_alpha(args) ? b.sub(x[0], x[1]) : add_multiple(b, x[0], x[1], b.neg(alpha_of(b, args, x[1])));
}

Scalar mul_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  return x[0].dtype == DType::kBool ? b.bit_and(x[0], x[1]) : b.mul(x[0], x[1]);
}

// Python's %: the sign of the divisor.
Scalar remainder_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar rest = b.rem(x[0], x[1]);
  if (is_unsigned(rest)) return rest;
  Scalar zero = number(b, 0, rest);
  Scalar wrong_sign = b.bit_and(b.ne(rest, zero), b.bit_xor(b.lt(x[1], zero), b.lt(rest, zero)));
  return b.select(wrong_sign, b.add(rest, x[1]), rest);
}

// NumPy's, as Python's: a zero has the sign of the divisor too. PyTorch's keeps that of the dividend.
Scalar numpy_remainder_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar rest = remainder_scalar(b, x, args);
  if (!is_float(rest.dtype)) return rest;
  Scalar zero = number(b, 0, rest);
  return b.select(b.eq(rest, zero), b.copysign(zero, x[1]), rest);
}

// The quotient rounded down, computed as eager does: (a - fmod(a, b)) / b made whole.
Scalar float_floor_divide(ScalarBuilder& b, Scalar x, Scalar y) {
  Scalar zero = number(b, 0, x), one = number(b, 1, x);
  Scalar rest = b.rem(x, y);
  Scalar quotient = b.div(b.sub(x, rest), y);
  Scalar wrong_sign = b.bit_and(b.ne(rest, zero), b.bit_xor(b.lt(y, zero), b.lt(rest, zero)));
  quotient = b.select(wrong_sign, b.sub(quotient, one), quotient);
  Scalar down = b.floor(quotient);
  Scalar near = b.select(b.gt(b.sub(quotient, down), number(b, 0.5, x)), b.add(down, one), down);
  Scalar result = b.select(b.ne(quotient, zero), near, b.copysign(zero, b.div(x, y)));
  return b.select(b.eq(y, zero), b.div(x, y), result);
}

Scalar floor_divide_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  if (is_float(x[0].dtype)) return float_floor_divide(b, x[0], x[1]);
  Scalar quotient = b.div(x[0], x[1]);
  if (is_unsigned(quotient)) return quotient;
  Scalar zero = number(b, 0, quotient);
  Scalar rest = b.rem(x[0], x[1]);
  Scalar wrong_sign = b.bit_and(b.ne(rest, zero), b.bit_xor(b.lt(x[1], zero), b.lt(rest, zero)));
  return b.select(wrong_sign, b.sub(quotient, number(b, 1, quotient)), quotient);
}

Scalar div_trunc_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar quotient = b.div(x[0], x[1]);
  return is_float(quotient.dtype) ? b.trunc(quotient) : quotient;
}

Scalar lerp_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar one = number(b, 1, x[0]), difference = b.sub(x[1], x[0]);
  Scalar from_start = b.add(x[0], b.mul(x[2], difference));
  Scalar from_end = b.sub(x[1], b.mul(difference, b.sub(one, x[2])));
  return b.select(b.lt(b.abs(x[2]), number(b, 0.5, x[0])), from_start, from_end);
}

// ---- checks ---------------------------------------------------------------------------------------------

void check_sub(Graph& graph, const Args& args) {
  bool torch = graph.framework == Framework::kTorch;
  bool a = is_bool(args["self"]), b = is_bool(args["other"]);
  if (torch ? a || b : a && b) {
    if (!torch) type_error("numpy boolean subtract, the `-` operator, is not supported");
    runtime_error("Subtraction, the `-` operator, with a bool tensor is not supported.");
  }
}

void check_alpha(Graph& graph, const Args& args) {
  const Arg& alpha = args["alpha"];
  bool fraction = std::holds_alternative<double>(alpha);
  if (fraction && !is_float(common_dtype(graph, args)))
    runtime_error("For integral input tensors, argument alpha must not be a floating point number.");
  if (std::holds_alternative<bool>(alpha) && common_dtype(graph, args) != DType::kBool)
    runtime_error("Boolean alpha only supported for Boolean results.");
  if (!plain_alpha(args) && common_dtype(graph, args) == DType::kBool) throw Unsupported("alpha of bools");
}

void check_sub_alpha(Graph& graph, const Args& args) {
  check_sub(graph, args);
  check_alpha(graph, args);
}

void remainder_derivative(Derivative& d) {
  d.set(0, d.grad());
  d.set(1, -(d.grad() * floor_divide(d.operand(0), d.operand(1))));
}

// Eager raises where an integer divisor is 0; compiled code does not, so it has to be known. NumPy gives 0.
void check_divisor(Graph& graph, const Args& args) {
  if (is_float(common_dtype(graph, args))) return;
  const Arg& other = args["other"];
  if (const auto* sym = std::get_if<Sym>(&other)) {
    if (!graph.sym->guard(Relation::kNe, *sym, 0, "divisor")) runtime_error("ZeroDivisionError");
  } else if (graph.framework == Framework::kTorch) {
    throw Unsupported("integer division by a tensor, which has to raise where it is 0");
  }
}

// ---- bodies ---------------------------------------------------------------------------------------------

bool is_one_element(const Arg& operand) {
  const auto* value = std::get_if<Value*>(&operand);
  return !value || std::ranges::count((*value)->type.sizes, Sym(1)) == (*value)->type.rank();
}

std::vector<Value*> div_body(Builder& b, const Args& args) {
  Arg self = args["self"], other = args["other"];
  if (!args.has("rounding_mode")) return forward(b, "core.true_divide", {self, other});
  std::string_view mode = args.string("rounding_mode");
  if (mode == "floor") return forward(b, "floor_divide", {self, other});
  if (mode == "trunc") {
    // Eager rounds the quotient of half types before it cuts it, but where there is one divisor.
    if (is_half(common_dtype(b.graph(), args)) && !is_one_element(other))
      return forward(b, "trunc", {b.call1("core.true_divide", {self, other})});
    return forward(b, "core.div_trunc", {self, other});
  }
  runtime_error("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" +
                std::string(mode) + "'");
}

std::vector<Value*> rsub_body(Builder& b, const Args& args) {
  return forward(b, "sub", {args["other"], args["self"], args["alpha"]});
}

// value * tensor1 * tensor2 and value * tensor1 / tensor2; self comes first for the promotion.
Scalar addcmul_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar value = number(b, args.number("value"), x[0]);
  return b.add(x[0], b.mul(b.mul(value, x[1]), x[2]));
}

Scalar addcdiv_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar value = number(b, args.number("value"), x[0]);
  return b.add(x[0], b.div(b.mul(value, x[1]), x[2]));
}

void check_addcmul(Graph& graph, const Args& args) {
  if (common_dtype(graph, {&args["self"], &args["tensor1"], &args["tensor2"]}) == DType::kBool)
    runtime_error("\"addcmul_cpu_out\" not implemented for 'Bool'");
}
void check_lerp(Graph& graph, const Args& args) {
  if (!is_float(operand_dtype(args, "self"))) runtime_error("\"lerp_kernel\" not implemented for integers");
}
void check_addcdiv(Graph& graph, const Args& args) {
  if (!is_float(args.value("tensor1")->type.dtype) && !is_float(args.value("tensor2")->type.dtype))
    runtime_error("Integer division with addcdiv is no longer supported");
}

// ---- derivatives ----------------------------------------------------------------------------------------

// Half types round in eager's order; others save a division.
void quotient_derivative(Derivative& d) {
  Tensor quotient = d.grad() / d.operand(1);
  d.set(0, quotient);
  d.set(1, is_half(d.result().dtype()) ? -d.grad() * (d.result() / d.operand(1)) : -(quotient * d.result()));
}

Operand alpha_operand(Derivative& d) { return Operand(d.args["alpha"], &d.builder); }

Tensor scaled(Derivative& d, Tensor grad) { return plain_alpha(d.args) ? grad : grad * alpha_operand(d); }

// Steps: a gradient of zeros, which eager tells from no gradient.
void no_slope(Derivative& d) {
  d.set(0, full_like(d.grad(), 0.0));
  d.set(1, full_like(d.grad(), 0.0));
}

}  // namespace

std::vector<OpDef> pointwise_arithmetic_ops() {
  return {
      {.name = "add",
       .family = Family::kPointwise,
       .schemas = {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.Tensor.__add__", "torch.Tensor.__radd__", "torch.Tensor.__iadd__"},
       .numpy_names = {"np.add"},
       .scalar = add_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, scaled(d, d.grad()))),
       .check = check_alpha,
       .numbers_as_tensors = true,
       .rounded_number = "alpha",
       .core = {.linearity = Linearity::kAll}},
      {.name = "sub",
       .family = Family::kPointwise,
       .schemas = {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.subtract", "torch.Tensor.subtract", "torch.Tensor.subtract_",
                       "torch.Tensor.__sub__", "torch.Tensor.__isub__"},
       .numpy_names = {"np.subtract"},
       .scalar = sub_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, scaled(d, -d.grad()))),
       .check = check_sub_alpha,
       .numbers_as_tensors = true,
       .rounded_number = "alpha",
       .core = {.linearity = Linearity::kAll}},
      {.name = "rsub",
       .family = Family::kComposite,
       .schemas = {"rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.Tensor.__rsub__"},
       .opinfo = "__rsub__",
       .body = rsub_body,
       .in_place_variant = false},
      {.name = "mul",
       .family = Family::kPointwise,
       .schemas = {"mul.Tensor(Tensor self, Tensor other) -> Tensor",
                   "mul.Scalar(Tensor self, Scalar other) -> Tensor"},
       .torch_names = {"torch.multiply", "torch.Tensor.multiply", "torch.Tensor.multiply_",
                       "torch.Tensor.__mul__", "torch.Tensor.__rmul__", "torch.Tensor.__imul__"},
       .numpy_names = {"np.multiply"},
       .scalar = mul_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.operand(1)); d.set(1, d.grad() * d.operand(0))),
       .numbers_as_tensors = true,
       .wide_scalar = WideScalar::kEither,
       .core = {.linearity = Linearity::kProduct}},
      {.name = "core.true_divide",
       .family = Family::kPointwise,
       .schemas = {"core.true_divide(Tensor self, Tensor other) -> Tensor"},
       .torch_names = {},
       .numpy_names = {"np.divide", "np.true_divide"},
       .promotion = Promotion::kDivide,
       .scalar = CDYNAMO_SCALAR(return b.div(x[0], x[1])),
       .derivative = quotient_derivative,
       .saves_result = false,
       .wide_scalar = WideScalar::kSecond,
       .core = {.linearity = Linearity::kFirst, .eager = "self / other"}},
      {.name = "core.div_trunc",
       .family = Family::kPointwise,
       .schemas = {"core.div_trunc(Tensor self, Tensor other) -> Tensor"},
       .scalar = div_trunc_scalar,
       .derivative = no_slope,
       .check = check_divisor,
       .wide_scalar = WideScalar::kSecond,
       .core = {.eager = "torch.div(self, other, rounding_mode='trunc')"}},
      {.name = "div",
       .family = Family::kComposite,
       .schemas = {"div.Tensor(Tensor self, Tensor other) -> Tensor",
                   "div.Scalar(Tensor self, Scalar other) -> Tensor",
                   "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
                   "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"},
       .torch_names = {"torch.divide", "torch.true_divide", "torch.Tensor.divide", "torch.Tensor.divide_",
                       "torch.Tensor.true_divide", "torch.Tensor.true_divide_", "torch.Tensor.__truediv__",
                       "torch.Tensor.__itruediv__"},
       .body = div_body,
       .numbers_as_tensors = true},
      {.name = "floor_divide",
       .family = Family::kPointwise,
       .schemas = {"floor_divide(Tensor self, Tensor other) -> Tensor",
                   "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor"},
       .torch_names = {"torch.Tensor.__floordiv__", "torch.Tensor.__ifloordiv__"},
       .numpy_names = {"np.floor_divide"},
       .promotion = Promotion::kInteger,
       .scalar = floor_divide_scalar,
       .derivative = no_slope,
       .check = check_divisor,
       .numbers_as_tensors = true,
       .wide_scalar = WideScalar::kSecond},
      {.name = "remainder",
       .family = Family::kPointwise,
       .schemas = {"remainder.Tensor(Tensor self, Tensor other) -> Tensor",
                   "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
                   "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__mod__", "torch.Tensor.__imod__"},
       .promotion = Promotion::kInteger,
       .scalar = remainder_scalar,
       .derivative = remainder_derivative,
       .check = check_divisor,
       .core = {.linearity = Linearity::kFirstAffine}},
      {.name = "np.remainder",
       .family = Family::kPointwise,
       .schemas = {"np.remainder(Tensor self, Tensor other) -> Tensor"},
       .torch_names = {},
       .numpy_names = {"np.remainder", "np.mod"},
       .promotion = Promotion::kInteger,
       .scalar = numpy_remainder_scalar,
       .derivative = remainder_derivative,
       .in_place_variant = false,
       .check = check_divisor,
       .core = {.linearity = Linearity::kFirstAffine}},
      {.name = "fmod",
       .family = Family::kPointwise,
       .schemas = {"fmod.Tensor(Tensor self, Tensor other) -> Tensor",
                   "fmod.Scalar(Tensor self, Scalar other) -> Tensor"},
       .numpy_names = {"np.fmod"},
       .promotion = Promotion::kInteger,
       .scalar = CDYNAMO_SCALAR(return b.rem(x[0], x[1])),
       .derivative =
           CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, -(d.grad() * trunc(d.operand(0) / d.operand(1))))),
       .check = check_divisor,
       .core = {.linearity = Linearity::kFirstAffine}},
      {.name = "addcmul",
       .family = Family::kPointwise,
       .schemas = {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"},
       .scalar = addcmul_scalar,
       .derivative =
           CDYNAMO_DERIVATIVE(Tensor g = d.grad() * Operand(d.args["value"], &d.builder); d.set(0, d.grad());
                              d.set(1, g * d.operand(2)); d.set(2, g * d.operand(1))),
       .check = check_addcmul,
       .core = {.linearity = Linearity::kFirstAffine}},
      {.name = "addcdiv",
       .family = Family::kPointwise,
       .schemas = {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"},
       .scalar = addcdiv_scalar,
       .derivative =
           CDYNAMO_DERIVATIVE(Tensor g = d.grad() * Operand(d.args["value"], &d.builder) / d.operand(2);
                              d.set(0, d.grad()); d.set(1, g); d.set(2, -(g * d.operand(1) / d.operand(2)))),
       .check = check_addcdiv},
      {.name = "lerp",
       .family = Family::kPointwise,
       .schemas = {"lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
                   "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"},
       .promotion = Promotion::kSame,
       .scalar = lerp_scalar,
       .strides = strides_of_tensors,
       .derivative =
           CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (1 - d.operand(2))); d.set(1, d.grad() * d.operand(2));
                              d.set(2, d.grad() * (d.operand(1) - d.operand(0)))),
       .check = check_lerp,
       .wide_scalar = WideScalar::kSecond},
  };
}

}  // namespace cdynamo::graph
