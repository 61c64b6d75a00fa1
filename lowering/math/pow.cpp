// pow and hypot. float32 is computed in float64, which leaves it within 1 ULP; float64's pow is C's.
#include <limits>

#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// C's special cases for a power of |x| that is right where 0 < |x| < infinity and y is finite.
E pow_cases(E x, E y, E power_of_magnitude) {
  E a = abs(x);
  E zero = x.like(0), nan = x.like(std::numeric_limits<double>::quiet_NaN());
  E half_y = y * 0.5;
  E integral = floor(y) == y;
  E odd = integral & (floor(half_y) != half_y);
  E negative = x.bits() < x.bits().integer(0);
  E result = power_of_magnitude;
  // |x| of 0 or infinity: 0 or infinity by the sign of y. y infinite: by whether |x| is above or below 1.
  E y_positive = y > 0;
  result = select(a == 0, select(y_positive, 0.0, zero + kInf), result);
  result = select(a == kInf, select(y_positive, kInf, zero), result);
  E grows = (a > 1).with(x.b->bit_xor((a > 1).s, (y < 0).s));
  E y_infinite = abs(y) == kInf;
  result = select(y_infinite, select(a == 1, 1.0, select(grows, kInf, zero)), result);
  result = select(negative & odd, -result, result);
  // A finite negative number to a power that is not an integer.
  result = select((x < 0) & !integral & (a < kInf), nan, result);
  result = select((x != x) | (y != y), x + y, result);
  return select((x == 1) | (y == 0), 1.0, result);
}

}  // namespace

E pow(E x, E y) {
  if (x.is_f64()) return library(Prim::k_pow, {x, y});
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
