// sin, cos, tan: subtract the nearest multiple of pi (of pi/2 for tan) in three parts, then a polynomial.
// Each part's product is exact in the fma, and the first difference is exact, so the reduced argument is good
// to its last bit up to the limits below; huge and infinite arguments are C's.
#include <array>

#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

constexpr std::array kPiF32 = {3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15};
constexpr std::array kPiF64 = {3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33};
constexpr double kLimitF32 = 1e5, kLimitF64 = 1e8;

// Adding and subtracting it rounds to an integer, whose lowest bits are then those of the sum.
constexpr double kMagicF32 = 0x1.8p23, kMagicF64 = 0x1.8p52;

E magic(E x) { return x.pick(kMagicF32, kMagicF64); }

// x - n * factor * pi
E reduce(E x, E n, double factor) {
  const auto& parts = x.is_f64() ? kPiF64 : kPiF32;
  for (double part : parts) x = fma(n, -part * factor, x);
  return x;
}

// The lowest bit of an integer's bits as the sign of a float.
E sign_of_parity(E rounded) {
  E bits = rounded.bits();
  return bits.with(bits.b->shl(bits.s, bits.integer(rounded.is_f64() ? 63 : 31).s));
}

E sign_bits(E x) {
  E bits = x.bits();
  return bits & bits.integer(x.is_f64() ? INT64_MIN : INT32_MIN);
}

// |r| <= pi / 2
E sin_reduced(E r) {
  E t = r * r;
  return fma(r * t, polynomial(t, kSinF32, kSinF64), r);
}

E is_huge(E magnitude) { return magnitude > magnitude.pick(kLimitF32, kLimitF64); }

}  // namespace

E sin(E x) {
  E a = abs(x);
  E shifted = fma(a, 0.31830988618379067, magic(x));
  E n = shifted - magic(x);
  E result = sin_reduced(reduce(a, n, 1));
  // On |x|, so that the sign of zero is kept.
  result = (result.bits() ^ (sign_of_parity(shifted) ^ sign_bits(x))).as_float();
  return rare(is_huge(a), result, Prim::k_sin, {x});
}

// cos(x) = sin(x + pi/2): the nearest odd multiple of pi/2 is subtracted.
E cos(E x) {
  E a = abs(x);
  E shifted = fma(a, 0.31830988618379067, -0.5) + magic(x);
  E n = (shifted - magic(x)) + 0.5;
  E result = sin_reduced(reduce(a, n, 1));
  E sign = sign_of_parity(shifted);
  sign = sign ^ sign.integer(x.is_f64() ? INT64_MIN : INT32_MIN);
  result = (result.bits() ^ sign).as_float();
  return rare(is_huge(a), result, Prim::k_cos, {x});
}

E tan(E x) {
  E a = abs(x);
  E shifted = fma(a, 0.63661977236758134, magic(x));
  E n = shifted - magic(x);
  // The argument in two parts: a quotient would show its rounding.
  const auto& parts = x.is_f64() ? kPiF64 : kPiF32;
  E first = fma(n, -0.5 * parts[0], a);
  E r = fma(n, -0.5 * parts[1], first);
  E rest = fma(n, -0.5 * parts[2], fma(n, -0.5 * parts[1], first - r));
  E t = r * r;
  E square_lost = fma(r, r, -t);
  // Sine and cosine in two parts each, the quotient corrected by what they and the division lost.
  E s_low = fma(r * t, polynomial(t, kSinQuarterF32, kSinQuarterF64), rest);
  E s = r + s_low;
  s_low = (r - s) + s_low;
  E h = fma(t, -0.5, 1.0);
  E c_low = fma(t, -0.5, 1 - h) +
            fma(t * t, polynomial(t, kCosQuarterF32, kCosQuarterF64), -fma(r, rest, square_lost * 0.5));
  E c = h + c_low;
  c_low = (h - c) + c_low;
  E bits = shifted.bits();
  E odd = (bits & bits.integer(1)) == bits.integer(1);
  E numerator = select(odd, -c, s), numerator_low = select(odd, -c_low, s_low);
  E denominator = select(odd, s, c), denominator_low = select(odd, s_low, c_low);
  E inverse = 1 / denominator;
  E quotient = numerator * inverse;
  E missing = fma(-quotient, denominator, numerator) + fma(-quotient, denominator_low, numerator_low);
  E result = fma(missing, inverse, quotient);
  result = (result.bits() ^ sign_bits(x)).as_float();
  return rare(is_huge(a), result, Prim::k_tan, {x});
}

}  // namespace cdynamo::lowering::math
