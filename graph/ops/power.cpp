// Powers, extremes and signs.
#include <algorithm>
#include <limits>

#include "graph/ops/numpy_rules.h"
#include "graph/promotion.h"
#include "graph/reference.h"
#include "graph/strides.h"
#include "graph/torch_release.h"

namespace cdynamo::graph {
namespace {

Scalar integer_power(ScalarBuilder& b, Scalar base, int64_t exponent) {
  Scalar result = number(b, 1, base);
  for (bool first = true; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = first ? base : b.mul(result, base), first = false;
    if (exponent > 1) base = b.mul(base, base);
  }
  return result;
}

// Eager's special cases for exponents that are numbers, and others that are within an ULP and a half.
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
  if (e == 4) {
    Scalar square = b.mul(x[0], x[0]);
    return b.mul(square, square);
  }
  if (e == 1.5) {
    // The square root of minus infinity is no number, its power is infinite.
    Scalar infinity = number(b, std::numeric_limits<double>::infinity(), x[0]);
    return b.select(b.eq(x[0], b.neg(infinity)), infinity, b.mul(x[0], b.sqrt(x[0])));
  }
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
  Scalar inverse =
      b.select(b.eq(x[0], one), one, b.select(b.eq(x[0], minus), b.select(odd, minus, one), zero));
  return b.select(b.lt(x[1], zero), inverse, result);
}

Scalar clamp_scalar(ScalarBuilder& b, const Scalar* x, const Args& args) {
  Scalar result = x[0];
  int next = 1;
  if (args.has("min")) result = b.max(x[next++], result);
  if (args.has("max")) result = b.min(x[next], result);
  return result;
}

Scalar sign_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  if (x[0].dtype == DType::kBool) return x[0];
  Scalar zero = number(b, 0, x[0]), one = number(b, 1, x[0]);
  Scalar positive = b.select(b.gt(x[0], zero), one, zero);
  if (is_unsigned(x[0])) return positive;
  return b.select(b.lt(x[0], zero), number(b, -1, x[0]), positive);
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

void check_neg(Graph& graph, const Args& args) {
  if (!is_bool(args["self"])) return;
  if (graph.framework == Framework::kNumpy)
    type_error("The numpy boolean negative, the `-` operator, is not supported");
  runtime_error("Negation, the `-` operator, on a bool tensor is not supported.");
}

// float16's powers are C's, others' square roots.
Tensor half_root(Tensor x, double exponent) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor result = wrap(*x.builder, x.builder->call1("core.pow_scalar", {x.value, exponent}));
  if (exponent > 0) return where(eq(x, -kInfinity), kInfinity, result);
  return where(eq(x, 0), kInfinity, where(eq(x, -kInfinity), 0.0, result));
}

std::vector<Value*> pow_body(Builder& b, const Args& args) {
  Graph& graph = b.graph();
  const Arg &self = args["self"], &exponent = args["exponent"];
  if (std::holds_alternative<Value*>(exponent)) {
    DType type = common_dtype(graph, {&self, &exponent});
    if (type == DType::kBool && graph.framework == Framework::kTorch)
      throw Unsupported("bool to the power of bool");
    // NumPy refuses integers to negative powers, which are known only at run time.
    if (graph.framework == Framework::kNumpy && is_integer(type) &&
        runtime::info(promoted_operand(exponent).dtype).is_signed)
      throw Unsupported(
          "an integer array to the power of an integer array, which has to raise where it is negative");
    return forward(b, "core.pow", {self, exponent});
  }
  DType type = common_dtype(graph, {&self, &exponent});
  double e = args.number("exponent");
  if (is_integer(type) && e < 0) {
    if (graph.framework == Framework::kNumpy)
      value_error("Integers to negative integer powers are not allowed.");
    runtime_error("Integers to negative integer powers are not allowed.");
  }
  if (type == DType::kBool) throw Unsupported("bool to the power of bool");
  if (is_half(type) && graph.framework == Framework::kTorch) {
    // Eager rounds the exponent, and bfloat16's products as well.
    e = round_to(e, type);
    Tensor x = cast(wrap(b, std::get<Value*>(self)), type);
    if (type == DType::kBF16 && e == 3) return one(x * x * x);
    if (type == DType::kBF16 && e == -2) return one(reciprocal(x * x));
  }
  if (type == DType::kF16 && graph.framework == Framework::kTorch && std::abs(e) == 0.5)
    return one(half_root(cast(wrap(b, std::get<Value*>(self)), type), e));
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

// A number to the power of a tensor is row-major in PyTorch.
void pow_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  ufunc_order(graph, args, results);
  if (graph.framework == Framework::kTorch && !std::holds_alternative<Value*>(args["self"]))
    contiguous_results(graph, args, results);
}

// The derivative tells bounds that were numbers from tensors, and they may be tensors by then.
std::vector<Value*> clamp(Builder& b, const Arg& self, const Arg& low, const Arg& high) {
  const auto is_tensor = [](const Arg& bound) {
    const auto* value = std::get_if<Value*>(&bound);
    return value && !(*value)->type.weak;
  };
  const bool by_tensors = is_tensor(low) || is_tensor(high);
  return forward(b, "core.clamp", {self, low, high, by_tensors});
}

std::vector<Value*> clamp_body(Builder& b, const Args& args) {
  if (!args.has("min") && !args.has("max"))
    runtime_error("torch.clamp: At least one of 'min' or 'max' must not be None");
  auto bound = [&](const char* name) { return args.has(name) ? args[name] : Arg(); };
  return clamp(b, args["self"], bound("min"), bound("max"));
}

void pow_derivative(Derivative& d) {
  Tensor x = d.operand(0), e = d.operand(1), g = d.grad();
  d.set(0, where(eq(e, 0), 0.0, g * e * pow(x, e - 1)));
  d.set(1, where(logical_and(eq(x, 0), ge(e, 0)), 0.0, g * d.result() * log(x)));
}

void check_clamp(Graph& graph, const Args& args) {
  bool is_all_bool = graph.framework == Framework::kTorch;
  for (const char* name : {"self", "min", "max"}) is_all_bool &= !args.has(name) || is_bool(args[name]);
  if (is_all_bool) runtime_error("\"clamp_scalar_cpu\" not implemented for 'Bool'");
}

constexpr TorchRelease kSharesTies{2, 14};      // from here on operands that are equal share the gradient
constexpr TorchRelease kFmaxIgnoresNan{2, 15};  // and in 2.14 alone fmax and fmin did not know NaN

// A number as bound. What lies on it has no gradient from 2.14 on.
void clamp_by_numbers_derivative(Derivative& d) {
  Tensor x = d.operand(0);
  const bool strict = torch_release() >= kSharesTies;
  Tensor inside = full(d.builder, x.sizes(), true, DType::kBool);
  int at = 1;
  if (d.args.has("min")) {
    Tensor low = d.operand(at++);
    inside = logical_and(inside, strict ? gt(x, low) : ge(x, low));
  }
  if (d.args.has("max")) {
    Tensor high = d.operand(at);
    inside = logical_and(inside, strict ? lt(x, high) : le(x, high));
  }
  d.set(0, where(inside, d.grad(), 0.0));
}

// Where two of maximum's operands are equal each gets half of the gradient, where one is NaN both get all of it.
void extreme_derivative(Derivative& d, bool greater) {
  Tensor x = d.operand(0), y = d.operand(1);
  Tensor shared = where(eq(x, y), d.grad() * 0.5, d.grad());
  Tensor below = lt(x, y), above = gt(x, y);
  d.set(0, where(greater ? below : above, 0.0, shared));
  d.set(1, where(greater ? above : below, 0.0, shared));
}

// Two tensors as bounds, from 2.14 on. Of bounds that cross, the upper one is the result.
void clamp_between_derivative(Derivative& d) {
  Tensor x = d.operand(0), low = d.operand(1), high = d.operand(2), grad = d.grad(), half = grad * 0.5;
  Tensor is_range = lt(low, high);
  Tensor on_low = logical_and(is_range, eq(x, low)), on_high = logical_and(is_range, eq(x, high));
  Tensor below = logical_and(le(low, high), lt(x, low)),
         above = logical_or(lt(high, low), logical_and(le(low, high), gt(x, high)));
  Tensor outside = logical_or(lt(x, low), gt(x, high));
  d.set(0, where(outside, 0.0, where(logical_or(on_low, on_high), half, grad)));
  d.set(1, where(below, grad, where(on_low, half, 0.0)));
  d.set(2, where(above, grad, where(on_high, half, 0.0)));
}

void clamp_derivative(Derivative& d) {
  const bool has_low = d.args.has("min"), has_high = d.args.has("max");
  if (!d.args.boolean("by_tensors")) return clamp_by_numbers_derivative(d);
  if (torch_release() >= kSharesTies)
    return has_low && has_high ? clamp_between_derivative(d) : extreme_derivative(d, has_low);
  Tensor x = d.operand(0), grad = d.grad();
  Tensor inside = full(d.builder, x.sizes(), true, DType::kBool);
  const int at_low = 1, at_high = has_low ? 2 : 1;
  if (has_low) inside = logical_and(inside, ge(x, d.operand(at_low)));
  if (has_high) inside = logical_and(inside, le(x, d.operand(at_high)));
  d.set(0, where(inside, grad, 0.0));
  // Of bounds that cross, the upper one is the result.
  if (has_low) {
    Tensor below = lt(x, d.operand(at_low));
    if (has_high) below = logical_and(below, lt(d.operand(at_low), d.operand(at_high)));
    d.set(at_low, where(below, grad, 0.0));
  }
  if (has_high) {
    Tensor above = gt(x, d.operand(at_high));
    if (has_low) above = logical_or(above, lt(d.operand(at_high), d.operand(at_low)));
    d.set(at_high, where(above, grad, 0.0));
  }
}

// fmax, fmin: an operand that is NaN gets nothing, the other all.
void ignoring_nan_derivative(Derivative& d, bool greater) {
  const TorchRelease release = torch_release();
  if (release >= kSharesTies && release < kFmaxIgnoresNan) return extreme_derivative(d, greater);
  Tensor x = d.operand(0), y = d.operand(1);
  Tensor first = logical_or(greater ? ge(x, y) : le(x, y), isnan(y));
  const bool shares = release >= kSharesTies;
  auto half_of_ties = [&](Tensor gradient) {
    return shares ? where(eq(x, y), d.grad() * 0.5, gradient) : gradient;
  };
  d.set(0, half_of_ties(where(first, d.grad(), 0.0)));
  d.set(1, half_of_ties(where(first, 0.0, d.grad())));
}

}  // namespace

std::vector<OpDef> power_ops() {
  return {
      {.name = "core.pow",
       .family = Family::kPointwise,
       .schemas = {"core.pow(Tensor self, Tensor exponent) -> Tensor"},
       .promotion = Promotion::kInteger,
       .scalar = pow_scalar,
       .derivative = pow_derivative,
       .core = {.eager = "self**exponent"}},
      {.name = "core.pow_scalar",
       .family = Family::kPointwise,
       .schemas = {"core.pow_scalar(Tensor self, Scalar exponent) -> Tensor"},
       .scalar = pow_scalar_scalar,
       .derivative = CDYNAMO_DERIVATIVE(double e = d.args.number("exponent"); d.set(
           0, e == 0 ? full_like(d.grad(), 0.0) : d.grad() * e * pow(d.operand(0), e - 1))),
       .core = {.eager = "self**exponent"}},
      {.name = "pow",
       .family = Family::kComposite,
       .schemas = {"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                   "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                   "pow.Scalar(Scalar self, Tensor exponent) -> Tensor"},
       .torch_names = {"torch.Tensor.__pow__", "torch.Tensor.__ipow__"},
       .numpy_names = {"np.power", "np.pow"},
       .body = pow_body,
       .strides = pow_order},
      {.name = "float_power",
       .family = Family::kComposite,
       .schemas = {"float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                   "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                   "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor"},
       .numpy_names = {"np.float_power"},
       .body = float_power_body,
       .strides = ufunc_order},
      {.name = "square",
       .family = Family::kComposite,
       .schemas = {"square(Tensor self) -> Tensor"},
       .body = CDYNAMO_BODY(return forward(b, "pow", {args["self"], Sym(2)}))},
      {.name = "neg",
       .family = Family::kPointwise,
       .schemas = {"neg(Tensor self) -> Tensor"},
       .torch_names = {"torch.negative", "torch.Tensor.negative", "torch.Tensor.negative_",
                       "torch.Tensor.__neg__"},
       .numpy_names = {"np.negative"},
       .scalar = CDYNAMO_SCALAR(return b.neg(x[0])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, -d.grad())),
       .check = check_neg,
       .core = {.linearity = Linearity::kAll}},
      {.name = "positive",
       .family = Family::kComposite,
       .schemas = {"positive(Tensor self) -> Tensor"},
       .torch_names = {"torch.Tensor.__pos__"},
       .body = CDYNAMO_BODY(if (is_bool(args["self"]))
                                runtime_error("The `+` operator, on a bool tensor is not supported.");
                            return {args.value("self")}),
       .in_place_variant = false,
       .alias = [](const Node&) { return Alias::kSelf; }},
      {.name = "abs",
       .family = Family::kPointwise,
       .schemas = {"abs(Tensor self) -> Tensor"},
       .torch_names = {"torch.absolute", "torch.Tensor.absolute", "torch.Tensor.absolute_",
                       "torch.Tensor.__abs__"},
       .numpy_names = {"np.abs", "np.absolute"},
       .scalar = CDYNAMO_SCALAR(return is_unsigned(x[0]) ? x[0] : b.abs(x[0])),
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, d.grad() * sign(d.operand(0)))),
       .check =
           [](Graph& graph, const Args& args) {
             if (graph.framework == Framework::kTorch && operand_dtype(args, "self") == DType::kBool)
               runtime_error("\"abs_cpu\" not implemented for 'Bool'");
           }},
      {.name = "sign",
       .family = Family::kPointwise,
       .schemas = {"sign(Tensor self) -> Tensor"},
       .torch_names = {"torch.sgn", "torch.Tensor.sgn", "torch.Tensor.sgn_"},
       .scalar = sign_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, full_like(d.grad(), 0.0))),
       .core = {.linearity = Linearity::kAffine}},
      {.name = "maximum",
       .family = Family::kPointwise,
       .schemas = {"maximum(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.maximum"},
       .scalar = CDYNAMO_SCALAR(return extreme(b, x, true)),
       .derivative = CDYNAMO_DERIVATIVE(extreme_derivative(d, true)),
       .in_place_variant = false},
      {.name = "minimum",
       .family = Family::kPointwise,
       .schemas = {"minimum(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.minimum"},
       .scalar = CDYNAMO_SCALAR(return extreme(b, x, false)),
       .derivative = CDYNAMO_DERIVATIVE(extreme_derivative(d, false)),
       .in_place_variant = false},
      {.name = "fmax",
       .family = Family::kPointwise,
       .schemas = {"fmax(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.fmax"},
       .scalar = CDYNAMO_SCALAR(return ignoring_nan(b, x, true)),
       .derivative = CDYNAMO_DERIVATIVE(ignoring_nan_derivative(d, true)),
       .in_place_variant = false},
      {.name = "fmin",
       .family = Family::kPointwise,
       .schemas = {"fmin(Tensor self, Tensor other) -> Tensor"},
       .numpy_names = {"np.fmin"},
       .scalar = CDYNAMO_SCALAR(return ignoring_nan(b, x, false)),
       .derivative = CDYNAMO_DERIVATIVE(ignoring_nan_derivative(d, false)),
       .in_place_variant = false},
      {.name = "core.clamp",
       .family = Family::kPointwise,
       .schemas = {"core.clamp(Tensor self, Tensor? min, Tensor? max, bool by_tensors) -> Tensor"},
       .scalar = clamp_scalar,
       .derivative = clamp_derivative,
       .check = check_clamp,
       .core = {.eager = "clamp(self, min, max)"}},
      {.name = "clamp",
       .family = Family::kComposite,
       .schemas = {"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                   "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"},
       .torch_names = {"torch.clip", "torch.Tensor.clip", "torch.Tensor.clip_"},
       .body = clamp_body,
       .strides = strides_of_tensors,
       .numbers_of_graph = true},
      {.name = "clamp_min",
       .family = Family::kComposite,
       .schemas = {"clamp_min(Tensor self, Scalar min) -> Tensor",
                   "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"},
       .body = CDYNAMO_BODY(return clamp(b, args["self"], args["min"], Arg())),
       .strides = strides_of_tensors},
      {.name = "clamp_max",
       .family = Family::kComposite,
       .schemas = {"clamp_max(Tensor self, Scalar max) -> Tensor",
                   "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"},
       .body = CDYNAMO_BODY(return clamp(b, args["self"], Arg(), args["max"])),
       .strides = strides_of_tensors},
  };
}

}  // namespace cdynamo::graph
