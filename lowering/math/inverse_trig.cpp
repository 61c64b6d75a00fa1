// asin, acos, atan, atan2: odd polynomials near zero, and identities that bring every argument there.
#include <limits>

#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

// Multiples of pi in two parts, the first rounded to the type.
struct Angle {
  double high, low;
};
constexpr Angle kHalfPiF32 = {1.5707963705062866, -4.3711390001862426e-08};
constexpr Angle kHalfPiF64 = {1.5707963267948966, 6.123233995736766e-17};

E high(E x, double multiple) { return x.pick(kHalfPiF32.high * multiple, kHalfPiF64.high * multiple); }
E low(E x, double multiple) { return x.pick(kHalfPiF32.low * multiple, kHalfPiF64.low * multiple); }

// asin(s) = s + asin_rest(s) for |s| <= 1/2
E asin_rest(E s) {
  E t = s * s;
  return s * t * polynomial(t, kAsinF32, kAsinF64);
}

E negative(E x) { return x.bits() < x.bits().integer(0); }

// The angle whose tangent is numerator / denominator, both positive, numerator <= denominator: in [0, pi/4],
// in two parts.
struct TwoParts {
  E high, low;
};
TwoParts atan_ratio(E numerator, E denominator) {
  // The greater ones from pi/4: atan(y/x) = pi/4 + atan((y - x)/(y + x)).
  E above = numerator > denominator * 0.45;
  E zero = numerator.like(0);
  E difference = numerator - denominator, sum = numerator + denominator;
  E divided = select(above, difference, numerator), divisor = select(above, sum, denominator);
  E ratio = divided / divisor;
  // What the difference, the sum and the quotient lost.
  E divided_lost = select(above, numerator - (difference + denominator), zero);
  E divisor_lost = select(above, numerator - (sum - denominator), zero);
  E ratio_lost = (fma(-ratio, divisor, divided) + fma(-ratio, divisor_lost, divided_lost)) / divisor;
  E t = ratio * ratio;
  E rest = ratio * t * polynomial(t, kAtanF32, kAtanF64);
  // The first part is pi/4 or the ratio itself; what is left is small beside it.
  return {select(above, high(ratio, 0.5), ratio),
          select(above, ratio, zero) + (rest + select(above, ratio_lost + low(ratio, 0.5), ratio_lost))};
}

}  // namespace

E asin(E x) {
  E a = abs(x);
  E big = a > 0.5;
  E s = select(big, sqrt((1 - a) * 0.5), a);
  E rest = asin_rest(s);
  // Beyond 1/2: pi/2 - 2 asin(sqrt((1 - a)/2)).
  E far = (high(x, 1) - s * 2) - fma(rest, 2.0, -low(x, 1));
  return copysign(select(big, far, s + rest), x);
}

E acos(E x) {
  E a = abs(x);
  E big = a > 0.5;
  E s = select(big, sqrt((1 - a) * 0.5), x);
  E rest = asin_rest(s);
  E near = high(x, 1) - (s - (low(x, 1) - rest));
  E twice = (s + rest) * 2;
  E below = high(x, 2) - (twice - low(x, 2));
  return select(big, select(negative(x), below, twice), near);
}

E atan(E x) {
  E a = abs(x);
  E inverted = a > 1;
  // An infinite argument would make NaN of the corrections; a great one has the same angle.
  E one = x.like(1);
  E numerator = select(inverted, one, a),
    denominator = select(inverted, at_most(a, x.is_f64() ? 0x1p200 : 0x1p60), one);
  TwoParts angle = atan_ratio(numerator, denominator);
  E near = angle.high + angle.low;
  E far = high(x, 1) - (angle.high - (low(x, 1) - angle.low));
  return copysign(select(inverted, far, near), x);
}

E atan2(E y, E x) {
  E ay = abs(y), ax = abs(x);
  // Kept away from overflow and from the subnormal numbers by a power of two; the ratio does not notice.
  const bool f64 = y.is_f64();
  E swapped = ay > ax;
  E greater = select(swapped, ay, ax), lesser = select(swapped, ax, ay);
  E huge = greater > (f64 ? 0x1p1000 : 0x1p120);
  E tiny = greater < (f64 ? 0x1p-900 : 0x1p-90);
  E factor = select(huge, f64 ? 0x1p-100 : 0x1p-20, select(tiny, f64 ? 0x1p170 : 0x1p60, y.like(1)));
  E infinite = greater == std::numeric_limits<double>::infinity();
  E both = infinite & (lesser == std::numeric_limits<double>::infinity());
  E zero = greater == 0;
  // 0/0 is the angle 0, infinity over infinity is pi/4.
  E numerator = select(both, 1.0, select(infinite, 0.0, lesser * factor));
  E denominator = select(zero | infinite, 1.0, greater * factor);
  TwoParts angle = atan_ratio(numerator, denominator);
  // Each reflection is base - angle, the base in two parts.
  E zero_angle = y.like(0);
  E base_high = select(swapped, high(y, 1), zero_angle), base_low = select(swapped, low(y, 1), zero_angle);
  E sign = select(swapped, -1.0, y.like(1));
  E left = negative(x);
  base_high = select(left, high(y, 2) - base_high, base_high);
  base_low = select(left, low(y, 2) - base_low, base_low);
  sign = select(left, -sign, sign);
  E offset = sign * angle.high;
  E sum = base_high + offset;
  E lost = select(base_high == 0, zero_angle, offset - (sum - base_high));
  E result = copysign(sum + (lost + fma(sign, angle.low, base_low)), y);
  return select((x != x) | (y != y), x + y, result);
}

}  // namespace cdynamo::lowering::math
