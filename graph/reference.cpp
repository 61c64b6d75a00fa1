#include "graph/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "graph/op.h"

namespace cdynamo::graph {

using runtime::is_float;

static_assert(sizeof(void*) == 8, "a handle holds a double");

static Scalar hold(double value, DType dtype) { return {std::bit_cast<void*>(value), dtype}; }
static Scalar hold(int64_t value, DType dtype) { return {std::bit_cast<void*>(value), dtype}; }

double ReferenceBuilder::real(Scalar value) {
  return is_float(value.dtype) ? std::bit_cast<double>(value.handle)
                               : integer_to_real(integer(value), value.dtype);
}
int64_t ReferenceBuilder::integer(Scalar value) { return std::bit_cast<int64_t>(value.handle); }

// ---- rounding -------------------------------------------------------------------------------------------

// Rounds to `mantissa` stored bits, with subnormals below 2^least; ties to even.
static double round_mantissa(double value, int mantissa, int least, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  int ulp = std::max(exponent - 1, least) - mantissa;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -ulp)), ulp);
  return std::fabs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                      : rounded;
}

double round_to(double value, DType dtype) {
  switch (dtype) {
    case DType::kF32: return static_cast<double>(static_cast<float>(value));
    // A half is rounded from the float32 that the operator computed.
    case DType::kF16: return round_mantissa(static_cast<float>(value), 10, -14, 65504.0);
    case DType::kBF16: return round_mantissa(static_cast<float>(value), 7, -126, 3.3895313892515355e38);
    default: return value;
  }
}

int64_t wrap_to(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kU16: return static_cast<uint16_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kU32: return static_cast<uint32_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    default: return value;
  }
}

int64_t real_to_integer(double value, DType dtype) {
  if (dtype == DType::kBool) return value != 0;
  // The upper half of uint64 is the lower one, moved.
  if (dtype == DType::kU64 && value >= 0x1p63)
    return static_cast<int64_t>(static_cast<uint64_t>(real_to_integer(value - 0x1p63, DType::kI64)) ^
                                uint64_t{1} << 63);
  const bool wide = runtime::bytes(dtype) == 8 || dtype == DType::kU32;
  double limit = wide ? 0x1p63 : 0x1p31;
  bool fits = wide ? value >= -limit && value < limit : value > -limit - 1 && value < limit;
  int64_t indefinite = wide ? INT64_MIN : INT32_MIN;
  return wrap_to(fits ? static_cast<int64_t>(value) : indefinite, dtype);
}

double integer_to_real(int64_t value, DType dtype) {
  return dtype == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value))
                              : static_cast<double>(value);
}

// ---- primitives -----------------------------------------------------------------------------------------

static double digamma_of(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double fraction = x - std::trunc(x);
    return digamma_of(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;
  double inverse = 1 / (x * x);
  double series =
      inverse *
      (1.0 / 12 - inverse * (1.0 / 120 - inverse * (1.0 / 252 - inverse * (1.0 / 240 - inverse / 132))));
  return result + std::log(x) - 0.5 / x - series;
}

static double unary_real(Prim prim, double x) {
  switch (prim) {
    case Prim::k_neg: return -x;
    case Prim::k_abs: return std::fabs(x);
    case Prim::k_sqrt: return std::sqrt(x);
    case Prim::k_floor: return std::floor(x);
    case Prim::k_ceil: return std::ceil(x);
    case Prim::k_trunc: return std::trunc(x);
    case Prim::k_round_even: return std::nearbyint(x);
    case Prim::k_exp: return std::exp(x);
    case Prim::k_exp2: return std::exp2(x);
    case Prim::k_expm1: return std::expm1(x);
    case Prim::k_log: return std::log(x);
    case Prim::k_log2: return std::log2(x);
    case Prim::k_log10: return std::log10(x);
    case Prim::k_log1p: return std::log1p(x);
    case Prim::k_sin: return std::sin(x);
    case Prim::k_cos: return std::cos(x);
    case Prim::k_tan: return std::tan(x);
    case Prim::k_asin: return std::asin(x);
    case Prim::k_acos: return std::acos(x);
    case Prim::k_atan: return std::atan(x);
    case Prim::k_sinh: return std::sinh(x);
    case Prim::k_cosh: return std::cosh(x);
    case Prim::k_tanh: return std::tanh(x);
    case Prim::k_asinh: return std::asinh(x);
    case Prim::k_acosh: return std::acosh(x);
    case Prim::k_atanh: return std::atanh(x);
    case Prim::k_erf: return std::erf(x);
    case Prim::k_erfc: return std::erfc(x);
    case Prim::k_lgamma: return std::lgamma(x);
    case Prim::k_digamma: return digamma_of(x);
    default: throw InternalError("not a primitive of one float");
  }
}

static double binary_real(Prim prim, double x, double y) {
  switch (prim) {
    case Prim::k_add: return x + y;
    case Prim::k_sub: return x - y;
    case Prim::k_mul: return x * y;
    case Prim::k_div: return x / y;
    case Prim::k_rem: return std::fmod(x, y);
    case Prim::k_min: return std::isnan(x) || x < y ? x : y;
    case Prim::k_max: return std::isnan(x) || x > y ? x : y;
    case Prim::k_copysign: return std::copysign(x, y);
    case Prim::k_atan2: return std::atan2(x, y);
    case Prim::k_pow: return std::pow(x, y);
    case Prim::k_hypot: return std::hypot(x, y);
    default: throw InternalError("not a primitive of two floats");
  }
}

static int64_t integer_prim(Prim prim, int64_t x, int64_t y, DType dtype) {
  auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  if (dtype == DType::kU64) {
    switch (prim) {
      case Prim::k_div: return y == 0 ? 0 : static_cast<int64_t>(u(x) / u(y));
      case Prim::k_rem: return y == 0 ? 0 : static_cast<int64_t>(u(x) % u(y));
      case Prim::k_abs: return x;
      case Prim::k_min: return u(x) < u(y) ? x : y;
      case Prim::k_max: return u(x) > u(y) ? x : y;
      case Prim::k_shr: return static_cast<int64_t>(u(x) >> (y & 63));
      default: break;
    }
  }
  switch (prim) {
    case Prim::k_add: return static_cast<int64_t>(u(x) + u(y));
    case Prim::k_sub: return static_cast<int64_t>(u(x) - u(y));
    case Prim::k_mul: return static_cast<int64_t>(u(x) * u(y));
    case Prim::k_div: return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(0 - u(x)) : x / y;
    case Prim::k_rem: return y == 0 || y == -1 ? 0 : x % y;
    case Prim::k_neg: return static_cast<int64_t>(0 - u(x));
    case Prim::k_abs: return x < 0 ? static_cast<int64_t>(0 - u(x)) : x;
    case Prim::k_min: return std::min(x, y);
    case Prim::k_max: return std::max(x, y);
    case Prim::k_bit_and: return x & y;
    case Prim::k_bit_or: return x | y;
    case Prim::k_bit_xor: return x ^ y;
    case Prim::k_bit_not: return dtype == DType::kBool ? !x : ~x;
    case Prim::k_shl: return static_cast<int64_t>(u(x) << (y & 63));
    case Prim::k_shr: return x >> (y & 63);
    default: throw InternalError("not a primitive of integers");
  }
}

template <typename T>
static bool compare(Prim prim, T x, T y) {
  switch (prim) {
    case Prim::k_eq: return x == y;
    case Prim::k_ne: return x != y;
    case Prim::k_lt: return x < y;
    case Prim::k_le: return x <= y;
    case Prim::k_gt: return x > y;
    default: return x >= y;
  }
}

Scalar ReferenceBuilder::prim(Prim prim, const Scalar* operands, int count) {
  DType dtype = operands[0].dtype;
  for (int i = 1; i < count; ++i)
    if (operands[i].dtype != dtype) throw InternalError("operands of a primitive differ in dtype");
  bool comparison = prim >= Prim::k_eq && prim <= Prim::k_ge;
  if (is_float(dtype)) {
    double x = real(operands[0]), y = count > 1 ? real(operands[1]) : 0;
    if (comparison) return hold(static_cast<int64_t>(compare(prim, x, y)), DType::kBool);
    if (prim == Prim::k_fma) return constant(std::fma(x, y, real(operands[2])), dtype);
    return constant(count == 1 ? unary_real(prim, x) : binary_real(prim, x, y), dtype);
  }
  int64_t x = integer(operands[0]), y = count > 1 ? integer(operands[1]) : 0;
  const bool holds = dtype == DType::kU64 ? compare(prim, static_cast<uint64_t>(x), static_cast<uint64_t>(y))
                                          : compare(prim, x, y);
  if (comparison) return hold(static_cast<int64_t>(holds), DType::kBool);
  return constant_int(integer_prim(prim, x, y, dtype), dtype);
}

Scalar ReferenceBuilder::constant(double value, DType dtype) {
  return is_float(dtype) ? hold(round_to(value, dtype), dtype) : hold(real_to_integer(value, dtype), dtype);
}
Scalar ReferenceBuilder::constant_int(int64_t value, DType dtype) {
  return is_float(dtype) ? constant(static_cast<double>(value), dtype) : hold(wrap_to(value, dtype), dtype);
}

Scalar ReferenceBuilder::cast(Scalar value, DType dtype) {
  return is_float(value.dtype) || is_float(dtype) ? constant(real(value), dtype)
                                                  : constant_int(integer(value), dtype);
}

Scalar ReferenceBuilder::select(Scalar condition, Scalar yes, Scalar no) {
  if (condition.dtype != DType::kBool || yes.dtype != no.dtype) throw InternalError("dtypes of a select");
  return integer(condition) ? yes : no;
}

Scalar ReferenceBuilder::bitcast(Scalar value, DType dtype) {
  int64_t bits = 0;
  if (value.dtype == DType::kF32)
    bits = std::bit_cast<int32_t>(static_cast<float>(real(value)));
  else
    bits = std::bit_cast<int64_t>(value.handle);
  if (dtype == DType::kF32)
    return hold(static_cast<double>(std::bit_cast<float>(static_cast<int32_t>(bits))), dtype);
  if (dtype == DType::kF64) return hold(std::bit_cast<double>(bits), dtype);
  return hold(wrap_to(bits, dtype), dtype);
}

}  // namespace cdynamo::graph
