// Arithmetic: sums, products, quotients, remainders, powers, extremes, bits.
#include <cmath>

#include "graph/ops/entry.h"
#include "graph/promotion.h"

namespace cdynamo::graph {
namespace {

// ---- scalar code -----------------------------------------------------------------------------------------------------

// alpha as a scalar of x's dtype.
Scalar alpha_of(ScalarBuilder& b, const Args& args, Scalar x) { return number(b, args.number("alpha"), x); }
bool plain_alpha(const Args& args) { return !args.has("alpha") || args.number("alpha") == 1; }

Scalar add_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  if (x[0].dtype == DType::kBool) return b.bit_or(x[0], plain_alpha(args) ? x[1] : b.constant_int(0, DType::kBool));
  return b.add(x[0], plain_alpha(args) ? x[1] : b.mul(x[1], alpha_of(b, args, x[1])));
}

Scalar sub_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  return b.sub(x[0], plain_alpha(args) ? x[1] : b.mul(x[1], alpha_of(b, args, x[1])));
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

Scalar integer_power(ScalarBuilder& b, Scalar base, int64_t exponent) {
  Scalar result = number(b, 1, base);
  for (bool first = true; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = first ? base : b.mul(result, base), first = false;
    if (exponent > 1) base = b.mul(base, base);
  }
  return result;
}

// Eager's special cases for exponents that are numbers.
Scalar pow_scalar_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  double e = args.number("exponent");
  if (!is_float(x[0].dtype)) return integer_power(b, x[0], static_cast<int64_t>(e));
  Scalar one = number(b, 1, x[0]);
  if (e == 0) return one;
  if (e == 1) return x[0];
  if (e == 0.5) return b.sqrt(x[0]);
  if (e == 2) return b.mul(x[0], x[0]);
  if (e == 3) return b.mul(b.mul(x[0], x[0]), x[0]);
  if (e == -0.5) return b.div(one, b.sqrt(x[0]));
  if (e == -1) return b.div(one, x[0]);
  if (e == -2) return b.div(one, b.mul(x[0], x[0]));
  return b.pow(x[0], number(b, e, x[0]));
}

// Square and multiply over the bits of the exponent; a negative exponent leaves 0, 1 or -1.
Scalar pow_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  if (is_float(x[0].dtype)) return b.pow(x[0], x[1]);
  if (x[0].dtype == DType::kBool) return b.bit_or(x[0], b.bit_not(x[1]));
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]), base = x[0], exponent = x[1], result = one;
  int width = 8 * runtime::bytes(x[0].dtype);
  for (int bit = 0; bit < width; ++bit) {
    result = b.select(b.ne(b.bit_and(exponent, one), zero), b.mul(result, base), result);
    exponent = b.shr(exponent, one);
    if (bit + 1 < width) base = b.mul(base, base);
  }
  if (is_unsigned(x[0])) return result;
  Scalar odd = b.ne(b.bit_and(x[1], one), zero), minus = number(b, -1, x[0]);
  Scalar inverse = b.select(b.eq(x[0], one), one, b.select(b.eq(x[0], minus), b.select(odd, minus, one), zero));
  return b.select(b.lt(x[1], zero), inverse, result);
}

Scalar clamp_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar result = x[0];
  int next = 1;
  if (args.has("min")) result = b.max(result, x[next++]);
  if (args.has("max")) result = b.min(result, x[next]);
  return result;
}

Scalar sign_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  if (x[0].dtype == DType::kBool) return x[0];
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]);
  Scalar positive = b.select(b.gt(x[0], zero), one, zero);
  if (is_unsigned(x[0])) return positive;
  return b.select(b.lt(x[0], zero), number(b, -1, x[0]), positive);
}

Scalar lerp_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  Scalar one = number(b, 1, x[0]), difference = b.sub(x[1], x[0]);
  Scalar from_start = b.add(x[0], b.mul(x[2], difference));
  Scalar from_end = b.sub(x[1], b.mul(difference, b.sub(one, x[2])));
  return b.select(b.lt(b.abs(x[2]), number(b, 0.5, x[0])), from_start, from_end);
}

// fmax, fmin: a NaN is passed over.
Scalar ignoring_nan(ScalarBuilder& b, const Scalar* x, bool greater) {
  Scalar extreme = greater ? b.max(x[0], x[1]) : b.min(x[0], x[1]);
  if (!is_float(x[0].dtype)) return extreme;
  return b.select(b.ne(x[0], x[0]), x[1], b.select(b.ne(x[1], x[1]), x[0], extreme));
}

Scalar extreme(ScalarBuilder& b, const Scalar* x, bool greater) {
  if (x[0].dtype == DType::kBool) return greater ? b.bit_or(x[0], x[1]) : b.bit_and(x[0], x[1]);
  return greater ? b.max(x[0], x[1]) : b.min(x[0], x[1]);
}

// C++ leaves shifts by the width and more undefined; eager gives 0 (or -1 for a negative number shifted right).
Scalar shift_scalar(ScalarBuilder& b, const Scalar* x, bool left) {
  int width = 8 * runtime::bytes(x[0].dtype);
  Scalar zero = number(b, 0, x[0]), last = number(b, width - 1, x[0]);
  Scalar too_far = b.bit_or(b.lt(x[1], zero), b.gt(x[1], last));
  Scalar amount = b.select(too_far, left ? zero : last, x[1]);
  return left ? b.select(too_far, zero, b.shl(x[0], amount)) : b.shr(x[0], amount);
}

// ---- checks ------------------------------------------------------------------------------------------------------------

DType common_dtype(Graph& graph, std::initializer_list<const Arg*> operands) {
  std::vector<PromotedOperand> promoted;
  for (const Arg* arg : operands) promoted.push_back(promoted_operand(*arg));
  return result_type(graph.framework, graph.default_float, promoted);
}
DType common_dtype(Graph& graph, const Args& args) { return common_dtype(graph, {&args["self"], &args["other"]}); }

bool is_bool(const Arg& arg) { return promoted_operand(arg).dtype == DType::kBool; }

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
  if (fraction && !is_float(common_dtype(graph, args))) runtime_error("For integral input tensors, argument alpha must not be a floating point number.");
  if (std::holds_alternative<bool>(alpha) && common_dtype(graph, args) != DType::kBool)
    runtime_error("Boolean alpha only supported for Boolean results.");
}

void check_sub_alpha(Graph& graph, const Args& args) {
  check_sub(graph, args);
  check_alpha(graph, args);
}

void check_neg(Graph& graph, const Args& args) {
  if (!is_bool(args["self"])) return;
  if (graph.framework == Framework::kNumpy) type_error("The numpy boolean negative, the `-` operator, is not supported");
  runtime_error("Negation, the `-` operator, on a bool tensor is not supported.");
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

void check_shift(Graph& graph, const Args& args) {
  if (is_float(common_dtype(graph, args))) runtime_error("\"shift\" not implemented for floating point types");
}

// ---- bodies ------------------------------------------------------------------------------------------------------------

std::vector<Value*> div_body(Builder& b, const Args& args) {
  Arg self = args["self"], other = args["other"];
  if (!args.has("rounding_mode")) return forward(b, "core.true_divide", {self, other});
  std::string_view mode = args.string("rounding_mode");
  if (mode == "floor") return forward(b, "floor_divide", {self, other});
  if (mode == "trunc") {
    // Eager rounds the quotient of half types before it cuts it.
    if (is_half(common_dtype(b.graph(), args))) return forward(b, "trunc", {b.call1("core.true_divide", {self, other})});
    return forward(b, "core.div_trunc", {self, other});
  }
  runtime_error("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + std::string(mode) + "'");
}

std::vector<Value*> rsub_body(Builder& b, const Args& args) {
  return forward(b, "sub", {args["other"], args["self"], args["alpha"]});
}

std::vector<Value*> pow_body(Builder& b, const Args& args) {
  Graph& graph = b.graph();
  const Arg &self = args["self"], &exponent = args["exponent"];
  if (std::holds_alternative<Value*>(exponent)) {
    DType type = common_dtype(graph, {&self, &exponent});
    // NumPy refuses integers to negative powers, which are known only at run time.
    if (graph.framework == Framework::kNumpy && is_integer(type) && runtime::info(promoted_operand(exponent).dtype).is_signed)
      throw Unsupported("an integer array to the power of an integer array, which has to raise where it is negative");
    return forward(b, "core.pow", {self, exponent});
  }
  DType type = common_dtype(graph, {&self, &exponent});
  double e = args.number("exponent");
  if (is_integer(type) && e < 0) {
    if (graph.framework == Framework::kNumpy) value_error("Integers to negative integer powers are not allowed.");
    runtime_error("Integers to negative integer powers are not allowed.");
  }
  if (type == DType::kBool) throw Unsupported("bool to the power of bool");
  Arg number = is_float(type) ? Arg(e) : Arg(Sym(static_cast<int64_t>(e)));
  return forward(b, "core.pow_scalar", {cast(wrap(b, std::get<Value*>(self)), type).value, number});
}

std::vector<Value*> float_power_body(Builder& b, const Args& args) {
  auto wide = [&](std::string_view name) -> Arg {
    const Arg& arg = args[name];
    if (const auto* value = std::get_if<Value*>(&arg)) return cast(wrap(b, *value), DType::kF64).value;
    return args.number(name);
  };
  return forward(b, "pow", {wide("self"), wide("exponent")});
}

std::vector<Value*> clamp_body(Builder& b, const Args& args) {
  if (!args.has("min") && !args.has("max")) runtime_error("torch.clamp: At least one of 'min' or 'max' must not be None");
  auto bound = [&](const char* name) { return args.has(name) ? args[name] : Arg(); };
  return forward(b, "core.clamp", {args["self"], bound("min"), bound("max")});
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
void check_addcdiv(Graph& graph, const Args& args) {
  if (!is_float(args.value("tensor1")->type.dtype) && !is_float(args.value("tensor2")->type.dtype))
    runtime_error("Integer division with addcdiv is no longer supported");
}

// ---- derivatives -------------------------------------------------------------------------------------------------------

Operand alpha_operand(Derivative& d) { return Operand(d.args["alpha"], &d.builder); }
Tensor scaled(Derivative& d, Tensor grad) { return plain_alpha(d.args) ? grad : grad * alpha_operand(d); }

void pow_derivative(Derivative& d) {
  Tensor x = d.operand(0), e = d.operand(1), g = d.grad();
  d.set(0, where(eq(e, 0), 0.0, g * e * pow(x, e - 1)));
  d.set(1, where(logical_and(eq(x, 0), ge(e, 0)), 0.0, g * d.result() * log(x)));
}

void clamp_derivative(Derivative& d) {
  Tensor x = d.operand(0), grad = d.grad();
  Tensor inside = full(d.builder, x.sizes(), true, DType::kBool);
  int next = 1;
  if (d.args.has("min")) inside = logical_and(inside, ge(x, d.operand(next++)));
  if (d.args.has("max")) inside = logical_and(inside, le(x, d.operand(next)));
  d.set(0, where(inside, grad, 0.0));
}

// Where the operands are equal each gets half of the gradient.
void extreme_derivative(Derivative& d, bool greater) {
  Tensor x = d.operand(0), y = d.operand(1), half = d.grad() * 0.5;
  Tensor first = greater ? gt(x, y) : lt(x, y), second = greater ? gt(y, x) : lt(y, x), same = eq(x, y);
  d.set(0, where(first, d.grad(), where(same, half, 0.0)));
  d.set(1, where(second, d.grad(), where(same, half, 0.0)));
}

// fmax, fmin: an operand that is NaN gets nothing, the other all.
void ignoring_nan_derivative(Derivative& d, bool greater) {
  Tensor x = d.operand(0), y = d.operand(1);
  Tensor first = logical_or(greater ? ge(x, y) : le(x, y), isnan(y));
  d.set(0, where(first, d.grad(), 0.0));
  d.set(1, where(first, 0.0, d.grad()));
}

std::vector<OpDef> sums_and_products() {
  return {
      {.name = "add", .family = Family::kPointwise,
       .schemas = {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.Tensor.__add__", "torch.Tensor.__radd__", "torch.Tensor.__iadd__"}, .numpy_names = {"np.add"},
       .scalar = add_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, scaled(d, d.grad()))), .check = check_alpha},
      {.name = "sub", .family = Family::kPointwise,
       .schemas = {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.subtract", "torch.Tensor.subtract", "torch.Tensor.subtract_", "torch.Tensor.__sub__", "torch.Tensor.__isub__"},
       .numpy_names = {"np.subtract"}, .scalar = sub_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, scaled(d, -d.grad()))), .check = check_sub_alpha},
      {.name = "rsub", .family = Family::kComposite,
       .schemas = {"rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                   "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"},
       .torch_names = {"torch.Tensor.__rsub__"}, .opinfo = "__rsub__", .body = rsub_body, .in_place_variant = false},
      {.name = "mul", .family = Family::kPointwise,
       .schemas = {"mul.Tensor(Tensor self, Tensor other) -> Tensor", "mul.Scalar(Tensor self, Scalar other) -> Tensor"},
       .torch_names = {"torch.multiply", "torch.Tensor.multiply", "torch.Tensor.multiply_", "torch.Tensor.__mul__",
                       "torch.Tensor.__rmul__", "torch.Tensor.__imul__"},
       .numpy_names = {"np.multiply"}, .scalar = mul_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * d.operand(1)); d.set(1, d.grad() * d.operand(0)))},
      {.name = "core.true_divide", .family = Family::kPointwise,
       .schemas = {"core.true_divide(Tensor self, Tensor other) -> Tensor"},
       .torch_names = {}, .numpy_names = {"np.divide", "np.true_divide"}, .promotion = Promotion::kDivide,
       .scalar = CDYNAMO_SCALAR(return b.div(x[0], x[1])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() / d.operand(1)); d.set(1, -(d.grad() * d.result() / d.operand(1))))},
      {.name = "core.div_trunc", .family = Family::kPointwise,
       .schemas = {"core.div_trunc(Tensor self, Tensor other) -> Tensor"},
       .scalar = div_trunc_scalar, .derivative = CDYNAMO_DERIVATIVE((void)d), .check = check_divisor},
      {.name = "div", .family = Family::kComposite,
       .schemas = {"div.Tensor(Tensor self, Tensor other) -> Tensor", "div.Scalar(Tensor self, Scalar other) -> Tensor",
                   "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
                   "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"},
       .torch_names = {"torch.divide", "torch.true_divide", "torch.Tensor.divide", "torch.Tensor.divide_",
                       "torch.Tensor.true_divide", "torch.Tensor.true_divide_", "torch.Tensor.__truediv__", "torch.Tensor.__itruediv__"},
       .body = div_body},
      {.name = "floor_divide", .family = Family::kPointwise,
       .schemas = {"floor_divide(Tensor self, Tensor other) -> Tensor", "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor"},
       .torch_names = {"torch.Tensor.__floordiv__", "torch.Tensor.__ifloordiv__"}, .numpy_names = {"np.floor_divide"},
       .promotion = Promotion::kInteger, .scalar = floor_divide_scalar, .derivative = CDYNAMO_DERIVATIVE((void)d), .check = check_divisor},
      {.name = "remainder", .family = Family::kPointwise,
       .schemas = {"remainder.Tensor(Tensor self, Tensor other) -> Tensor", "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
                   "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__mod__", "torch.Tensor.__imod__"}, .numpy_names = {"np.remainder", "np.mod"},
       .promotion = Promotion::kInteger, .scalar = remainder_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, -(d.grad() * floor_divide(d.operand(0), d.operand(1))))),
       .check = check_divisor},
      {.name = "fmod", .family = Family::kPointwise,
       .schemas = {"fmod.Tensor(Tensor self, Tensor other) -> Tensor", "fmod.Scalar(Tensor self, Scalar other) -> Tensor"},
       .numpy_names = {"np.fmod"}, .promotion = Promotion::kInteger, .scalar = CDYNAMO_SCALAR(return b.rem(x[0], x[1])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad()); d.set(1, -(d.grad() * trunc(d.operand(0) / d.operand(1))))),
       .check = check_divisor},
      {.name = "addcmul", .family = Family::kPointwise,
       .schemas = {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"},
       .scalar = addcmul_scalar,
       .derivative = CDYNAMO_DERIVATIVE(Tensor g = d.grad() * Operand(d.args["value"], &d.builder); d.set(0, d.grad());
                                        d.set(1, g * d.operand(2)); d.set(2, g * d.operand(1)))},
      {.name = "addcdiv", .family = Family::kPointwise,
       .schemas = {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"},
       .scalar = addcdiv_scalar,
       .derivative = CDYNAMO_DERIVATIVE(Tensor g = d.grad() * Operand(d.args["value"], &d.builder) / d.operand(2);
                                        d.set(0, d.grad()); d.set(1, g); d.set(2, -(g * d.operand(1) / d.operand(2)))),
       .check = check_addcdiv},
      {.name = "lerp", .family = Family::kPointwise,
       .schemas = {"lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
                   "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"},
       .promotion = Promotion::kSame, .scalar = lerp_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * (1 - d.operand(2))); d.set(1, d.grad() * d.operand(2));
                                        d.set(2, d.grad() * (d.operand(1) - d.operand(0))))},
  };
}

std::vector<OpDef> powers_and_extremes() {
  return {
      {.name = "core.pow", .family = Family::kPointwise,
       .schemas = {"core.pow(Tensor self, Tensor exponent) -> Tensor"},
       .promotion = Promotion::kInteger, .scalar = pow_scalar, .derivative = pow_derivative},
      {.name = "core.pow_scalar", .family = Family::kPointwise,
       .schemas = {"core.pow_scalar(Tensor self, Scalar exponent) -> Tensor"},
       .scalar = pow_scalar_scalar,
       .derivative = CDYNAMO_DERIVATIVE(double e = d.args.number("exponent");
                                        d.set(0, e == 0 ? full_like(d.grad(), 0.0) : d.grad() * e * pow(d.operand(0), e - 1)))},
      {.name = "pow", .family = Family::kComposite,
       .schemas = {"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                   "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", "pow.Scalar(Scalar self, Tensor exponent) -> Tensor"},
       .torch_names = {"torch.Tensor.__pow__", "torch.Tensor.__ipow__"}, .numpy_names = {"np.power", "np.pow"}, .body = pow_body},
      {.name = "float_power", .family = Family::kComposite,
       .schemas = {"float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                   "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                   "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor"},
       .numpy_names = {"np.float_power"}, .body = float_power_body},
      {.name = "square", .family = Family::kComposite, .schemas = {"square(Tensor self) -> Tensor"},
       .body = CDYNAMO_BODY(return forward(b, "pow", {args["self"], Sym(2)}))},
      {.name = "neg", .family = Family::kPointwise, .schemas = {"neg(Tensor self) -> Tensor"},
       .torch_names = {"torch.negative", "torch.Tensor.negative", "torch.Tensor.negative_", "torch.Tensor.__neg__"},
       .numpy_names = {"np.negative"}, .scalar = CDYNAMO_SCALAR(return b.neg(x[0])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, -d.grad())), .check = check_neg},
      {.name = "positive", .family = Family::kComposite, .schemas = {"positive(Tensor self) -> Tensor"},
       .torch_names = {"torch.Tensor.__pos__"},
       .body = CDYNAMO_BODY(if (is_bool(args["self"])) runtime_error("The `+` operator, on a bool tensor is not supported.");
                            return {args.value("self")}),
       .in_place_variant = false, .alias = [](const Node&) { return Alias::kSelf; }},
      {.name = "abs", .family = Family::kPointwise, .schemas = {"abs(Tensor self) -> Tensor"},
       .torch_names = {"torch.absolute", "torch.Tensor.absolute", "torch.Tensor.absolute_", "torch.Tensor.__abs__"},
       .numpy_names = {"np.abs", "np.absolute"},
       .scalar = CDYNAMO_SCALAR(return is_unsigned(x[0]) ? x[0] : b.abs(x[0])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * sign(d.operand(0))))},
      {.name = "sign", .family = Family::kPointwise, .schemas = {"sign(Tensor self) -> Tensor"},
       .torch_names = {"torch.sgn", "torch.Tensor.sgn", "torch.Tensor.sgn_"},
       .scalar = sign_scalar, .derivative = CDYNAMO_DERIVATIVE(d.set(0, full_like(d.grad(), 0.0)))},
      {.name = "maximum", .family = Family::kPointwise, .schemas = {"maximum(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.maximum"}, .scalar = CDYNAMO_SCALAR(return extreme(b, x, true)),
       .derivative = CDYNAMO_DERIVATIVE(extreme_derivative(d, true)), .in_place_variant = false},
      {.name = "minimum", .family = Family::kPointwise, .schemas = {"minimum(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.minimum"}, .scalar = CDYNAMO_SCALAR(return extreme(b, x, false)),
       .derivative = CDYNAMO_DERIVATIVE(extreme_derivative(d, false)), .in_place_variant = false},
      {.name = "fmax", .family = Family::kPointwise, .schemas = {"fmax(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.fmax"}, .scalar = CDYNAMO_SCALAR(return ignoring_nan(b, x, true)),
       .derivative = CDYNAMO_DERIVATIVE(ignoring_nan_derivative(d, true)), .in_place_variant = false},
      {.name = "fmin", .family = Family::kPointwise, .schemas = {"fmin(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.fmin"}, .scalar = CDYNAMO_SCALAR(return ignoring_nan(b, x, false)),
       .derivative = CDYNAMO_DERIVATIVE(ignoring_nan_derivative(d, false)), .in_place_variant = false},
      {.name = "core.clamp", .family = Family::kPointwise,
       .schemas = {"core.clamp(Tensor self, Tensor? min, Tensor? max) -> Tensor"},
       .scalar = clamp_scalar, .derivative = clamp_derivative},
      {.name = "clamp", .family = Family::kComposite,
       .schemas = {"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                   "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"},
       .torch_names = {"torch.clip", "torch.Tensor.clip", "torch.Tensor.clip_"}, .body = clamp_body},
      {.name = "clamp_min", .family = Family::kComposite,
       .schemas = {"clamp_min(Tensor self, Scalar min) -> Tensor", "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"},
       .body = CDYNAMO_BODY(return forward(b, "core.clamp", {args["self"], args["min"], Arg()}))},
      {.name = "clamp_max", .family = Family::kComposite,
       .schemas = {"clamp_max(Tensor self, Scalar max) -> Tensor", "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"},
       .body = CDYNAMO_BODY(return forward(b, "core.clamp", {args["self"], Arg(), args["max"]}))},
  };
}

std::vector<OpDef> bits() {
  return {
      {.name = "bitwise_and", .family = Family::kPointwise,
       .schemas = {"bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", "bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__and__", "torch.Tensor.__rand__", "torch.Tensor.__iand__"}, .numpy_names = {"np.bitwise_and"},
       .promotion = Promotion::kBitwise, .scalar = CDYNAMO_SCALAR(return b.bit_and(x[0], x[1])), .differentiable = false},
      {.name = "bitwise_or", .family = Family::kPointwise,
       .schemas = {"bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", "bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__or__", "torch.Tensor.__ror__", "torch.Tensor.__ior__"}, .numpy_names = {"np.bitwise_or"},
       .promotion = Promotion::kBitwise, .scalar = CDYNAMO_SCALAR(return b.bit_or(x[0], x[1])), .differentiable = false},
      {.name = "bitwise_xor", .family = Family::kPointwise,
       .schemas = {"bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", "bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__xor__", "torch.Tensor.__rxor__", "torch.Tensor.__ixor__"}, .numpy_names = {"np.bitwise_xor"},
       .promotion = Promotion::kBitwise, .scalar = CDYNAMO_SCALAR(return b.bit_xor(x[0], x[1])), .differentiable = false},
      {.name = "bitwise_not", .family = Family::kPointwise, .schemas = {"bitwise_not(Tensor self) -> Tensor"},
       .torch_names = {"torch.Tensor.__invert__"}, .numpy_names = {"np.bitwise_not", "np.invert"},
       .promotion = Promotion::kBitwise, .scalar = CDYNAMO_SCALAR(return b.bit_not(x[0])), .differentiable = false},
      {.name = "bitwise_left_shift", .family = Family::kPointwise,
       .schemas = {"bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__lshift__", "torch.Tensor.__ilshift__"}, .numpy_names = {"np.left_shift"},
       .promotion = Promotion::kInteger, .scalar = CDYNAMO_SCALAR(return shift_scalar(b, x, true)), .differentiable = false, .check = check_shift},
      {.name = "bitwise_right_shift", .family = Family::kPointwise,
       .schemas = {"bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__rshift__", "torch.Tensor.__irshift__"}, .numpy_names = {"np.right_shift"},
       .promotion = Promotion::kInteger, .scalar = CDYNAMO_SCALAR(return shift_scalar(b, x, false)), .differentiable = false, .check = check_shift},
  };
}

}  // namespace

std::vector<OpDef> pointwise_arithmetic_ops() {
  std::vector<OpDef> ops = sums_and_products();
  for (auto part : {powers_and_extremes, bits})
    for (OpDef& op : part()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
