// pow and hypot. float32 is computed in float64, which leaves it within 1 ULP; float64's pow carries its
// logarithm in two doubles.
#include <limits>

#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

// From a power of |x| that is right for finite positive |x| and finite y: zeros and negative numbers here,
// the rest is C's.
E pow_cases(E x, E y, E power_of_magnitude) {
  E a = abs(x), zero = x.like(0), one = x.like(1);
  E half_y = y * 0.5;
  E integral = floor(y) == y;
  E odd = integral & (floor(half_y) != half_y);
  E result = select(a == 0, select(y > 0, zero, select(y == 0, one, kInf)), power_of_magnitude);
  E negative = x.bits() < x.bits().integer(0);
  result = select(negative & odd, -result, result);
  // A negative number to a power that is not an integer.
  result = select((x < 0) & !integral, std::numeric_limits<double>::quiet_NaN(), result);
  E plain = (a < kInf) & (abs(y) < kInf);
  return rare(!plain, result, Prim::k_pow, {x, y});
}

// A number as an unevaluated sum, the second part below the last bit of the first.
struct Pair {
  E high, low;
};

Pair product(Pair x, Pair y) {
  E high = x.high * y.high;
  return {high, fma(x.high, y.high, -high) + (x.high * y.low + x.low * y.high)};
}

// x + y where |x.high| >= |y.high| or x.high is 0.
Pair sum(Pair x, Pair y) {
  E high = x.high + y.high;
  return {high, ((x.high - high) + y.high) + (x.low + y.low)};
}

// log2 of a positive finite float64, to about 2^-65 of itself.
Pair log2_pair(E x) {
  auto split = x.b->split(x.s);
  E f = x.with(split.mantissa) - 1, n = x.with(split.exponent), zero = x.like(0);
  // s = f / (2 + f); log(1 + f) = 2 atanh(s).
  E divisor = f + 2;
  E divisor_low = f - (divisor - 2);
  E inverse = 1 / divisor;
  E ratio = f * inverse;
  Pair s = {ratio, (fma(-ratio, divisor, f) - ratio * divisor_low) * inverse};
  Pair z = product(s, s);
  // 2/3 + z (2/5 + ...), where only the first term needs two parts.
  Pair two_thirds = {x.like(2.0 / 3), x.like(3.7007434154171886e-17)};
  Pair series = sum(two_thirds, {z.high * polynomial(z.high, kPowLogF64), zero});
  Pair cube = product(product(s, z), series);
  Pair natural = sum({s.high * 2, s.low * 2}, cube);
  Pair log2e = {x.like(1.4426950408889634), x.like(2.0355273740931033e-17)};
  return sum({n, zero}, product(natural, log2e));
}

// 2^(y log2 x) for 0 < x < infinity.
E pow_f64(E x, E y) {
  Pair logarithm = log2_pair(x);
  E high = y * logarithm.high;
  E low = fma(y, logarithm.high, -high) + y * logarithm.low;
  // Beyond these the result is 0 or infinity, whatever the second part.
  E clamped = at_least(at_most(high, 1100.0), -1100.0);
  low = select(clamped == high, low, 0.0);
  E n = round_even(clamped);
  Power power = exp_parts(((clamped - n) + low) * 0.6931471805599453);
  return scale(power.fraction, power.n + n);
}

}  // namespace

E pow(E x, E y) {
  if (x.is_f64()) return pow_cases(x, y, pow_f64(abs(x), y));
  // exp2(y log2 |x|): 53 bits of the logarithm are enough for 24 of the power, whose exponent has 8.
  E log_of_magnitude = log2(abs(x).to(DType::kF64));
  E power = exp2(log_of_magnitude * y.to(DType::kF64)).to(DType::kF32);
  return pow_cases(x, y, power);
}

E hypot(E x, E y) {
  E a = abs(x), b = abs(y);
  if (!x.is_f64()) {
    E wide_a = a.to(DType::kF64), wide_b = b.to(DType::kF64);
    E result = sqrt(fma(wide_a, wide_a, wide_b * wide_b)).to(DType::kF32);
    return select((a == kInf) | (b == kInf), kInf, result);
  }
  E swapped = b > a;
  E greater = select(swapped, b, a), lesser = select(swapped, a, b);
  E result = sqrt(fma(greater, greater, lesser * lesser));
  // Squares that overflow or vanish, infinities and NaN.
  E plain = (greater < 1e150) & (greater > 1e-140) & (lesser == lesser);
  return rare(!plain, result, Prim::k_hypot, {x, y});
}

}  // namespace cdynamo::lowering::math
