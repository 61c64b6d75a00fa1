// Logarithms: x = m 2^n with m near 1, f = m - 1 exactly, a polynomial for log(1 + f).
#include <cmath>
#include <limits>

#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

// A constant in parts: `high` has few enough bits that its product with an exponent is exact.
struct Parts {
  double high, low;
};
constexpr Parts kLn2F32 = {0.693145751953125, 1.4286068203094173e-06};
constexpr Parts kLn2F64 = {0.6931471805598903, 5.497923018708371e-14};
constexpr Parts kLog10Of2F32 = {0.301025390625, 4.605038981195214e-06};
constexpr Parts kLog10Of2F64 = {0.30102999566395283, 2.8363394551044964e-14};

// log(1 + f) - f, for f in about [-1/4, 1/2].
E log1p_rest(E f) {
  if (!f.is_f64()) return f * f * fma(f, polynomial(f, kLogF32), -0.5);
  // With s = f / (2 + f): log(1 + f) = 2s + s^3 P(s^2) = f - (h - s (h + s^2 P)), h = f^2 / 2.
  E s = f / (f + 2);
  E z = s * s;
  E h = f * f * 0.5;
  return fma(s, fma(z, polynomial(z, kLogSF64), h), -h);
}

// C's results for zero, negative numbers, infinity and NaN; `result` elsewhere. `x` is what the logarithm is
// taken of.
E finish(E x, E result) {
  E special = select(x == 0, -kInf, select(x > 0, x, kNaN));
  return select((x > 0) & (x < kInf), result, special);
}

// n * unit + (f + rest) * factor with the leading terms in two parts each.
E log_base(E x, Parts factor, Parts unit) {
  LogParts parts = log_parts(x);
  E product = parts.f * factor.high;
  E low = fma(parts.f, factor.high, -product);
  low = fma(parts.f, factor.low, low);
  low = fma(parts.rest, factor.high, low);
  low = fma(parts.n, unit.low, low);
  E whole = parts.n * unit.high;
  E sum = whole + product;
  // What the sum lost; `whole` is 0 or the greater.
  E lost = product - (sum - whole);
  return finish(x, sum + (lost + low));
}

}  // namespace

LogParts log_parts(E x) {
  auto split = x.b->split(x.s);
  E f = x.with(split.mantissa) - 1;
  return {f, log1p_rest(f), x.with(split.exponent)};
}

// 1 + x = (1 + f) 2^n where f = x 2^-n + (2^-n - 1) is rounded once.
LogParts log1p_parts(E x) {
  E n = x.with(x.b->split((x + 1).s).exponent);
  E power = scale(x.like(1), -n);
  E f = fma(x, power, power - 1);
  return {f, log1p_rest(f), n};
}

E log(E x) {
  LogParts parts = log_parts(x);
  E low = fma(parts.n, x.pick(kLn2F32.low, kLn2F64.low), parts.rest);
  return finish(x, fma(parts.n, x.pick(kLn2F32.high, kLn2F64.high), parts.f + low));
}

E log1p(E x) {
  LogParts parts = log1p_parts(x);
  E low = fma(parts.n, x.pick(kLn2F32.low, kLn2F64.low), parts.rest);
  E result = fma(parts.n, x.pick(kLn2F32.high, kLn2F64.high), parts.f + low);
  E special = select(x == -1, -kInf, select(x > -1, x, kNaN));
  result = select((x > -1) & (x < kInf), result, special);
  return select(abs(x) < x.pick(0x1p-25, 0x1p-54), x, result);
}

E log2(E x) {
  if (x.is_f64()) return log_base(x, {1.4426950408889634, 2.0355273740931033e-17}, {1, 0});
  return log_base(x, {1.4426950216293335, 1.9259629911266175e-08}, {1, 0});
}

E log10(E x) {
  if (x.is_f64()) return log_base(x, {0.4342944819032518, 1.098319650216765e-17}, kLog10Of2F64);
  return log_base(x, {0.4342944920063019, -1.0103050052231683e-08}, kLog10Of2F32);
}

}  // namespace cdynamo::lowering::math
