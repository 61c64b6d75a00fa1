// sin, cos, tan: subtract the nearest multiple of pi (of pi/2 for tan) in three parts, then a polynomial.
// Each part's product is exact in the fma, and the first difference is exact, so the reduced argument is good
// to its last bit up to the limits below; huge and infinite arguments are C's. Nothing is subtracted from what is known
// to be small.
#include <array>
#include <cmath>
#include <limits>
#include <utility>

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

E with_sign(E x, E sign) { return (x.bits() ^ sign).as_float(); }

bool is_small(E x) { return x.b->bound(x.s) <= 1.5; }

E at_most_one(E x) {
  x.b->note_bound(x.s, 1);
  return x;
}

E is_huge(E magnitude) { return magnitude > magnitude.pick(kLimitF32, kLimitF64); }

// ---- arguments of any size: Payne and Hanek's reduction

// float32, from 1 on: |x| / pi modulo 2 as an i64, in units of 2^-63. x is m * 2^(e - 23) with 24 bits in m; of the digits of 2 / pi those before
// the (e - 24)th make multiples of 4 only, and those after 96 more add nothing that shows.
E turns(E magnitude) {
  // The binary digits of 2 / pi, 32 at a time; the first are those before the point.
  static constexpr std::array<double, 8> kDigits = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                                    0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  E bits = magnitude.bits().to(DType::kI64);
  auto shift_left = [](E x, E by) { return x.with(x.b->shl(x.s, by.s)); };
  auto shift_right = [](E x, E by) { return x.with(x.b->shr(x.s, by.s)); };
  auto low_word = [](E x) { return x & x.integer(0xFFFFFFFF); };
  E m = (bits & bits.integer(0x7FFFFF)) | bits.integer(0x800000);
  // The window begins at the digit e - 24, the table 32 digits before the first, which counts from 1.
  E begin = shift_right(bits, bits.integer(23)) + bits.integer(31 - 127 - 24);
  E first = shift_right(begin, bits.integer(5)).to(DType::kI32);
  E skipped = bits.integer(32) - (begin & bits.integer(31));
  auto word = [&](int i) {
    E digits = first.with(first.b->constant_at(kDigits, (first + first.integer(i)).s));
    return digits.to(DType::kI64);
  };
  auto window = [&](E high, E low) {
    return low_word(shift_right(shift_left(high, high.integer(32)) | low, skipped));
  };
  E digits[] = {word(0), word(1), word(2), word(3)};
  E low = m * window(digits[2], digits[3]);
  E middle = m * window(digits[1], digits[2]) + shift_right(low, low.integer(32));
  E high = m * window(digits[0], digits[1]) + shift_right(middle, middle.integer(32));
  return shift_left(high, high.integer(32)) | low_word(middle);
}

// sin(|x| + halves * pi/2)
E any_sin_f32(E x, int64_t halves) {
  const int64_t half = int64_t{1} << 62;
  E sum = turns(abs(x));
  sum = sum + sum.integer(halves * half);
  // The nearest multiple of pi, whose parity is the sign, and what is left, up to half a turn to both sides.
  E nearest = sum + sum.integer(half);
  E rest = (nearest & nearest.integer(INT64_MAX)) - nearest.integer(half);
  E angle = rest.to(DType::kF64) * 0x1.921fb54442d18p-62;  // pi * 2^-63
  E sign = nearest.with(nearest.b->shr(nearest.s, nearest.integer(32).s)).to(DType::kI32);
  E result = with_sign(sin_reduced(angle.to(DType::kF32)), sign & sign.integer(INT32_MIN));
  return select(abs(x) < std::numeric_limits<double>::infinity(), result,
                std::numeric_limits<double>::quiet_NaN());
}

// float64

// The binary digits of 2 / pi, 24 at a time.
constexpr int kChunkBits = 24;
constexpr std::array<int32_t, 50> kTwoOverPi = {
    0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041, 0xFE5163, 0xABDEBB,
    0xC561B7, 0x246E3A, 0x424DD2, 0xE00649, 0x2EEA09, 0xD1921C, 0xFE1DEB, 0x1CB129, 0xA73EE8, 0x8235F5,
    0x2EBB44, 0x84E99C, 0x7026B4, 0x5F7E41, 0x3991D6, 0x398353, 0x39F49C, 0x845F8B, 0xBDF928, 0x3B1FF8,
    0x97FFDE, 0x05980F, 0xEF2F11, 0x8B5A0A, 0x6D1F6D, 0x367ECF, 0x27CB09, 0xB74F46, 0x3F669E, 0x5FEA2D,
    0x7527BA, 0xC7EBE5, 0xF17B3D, 0x0739F7, 0x8A5292, 0xEA6BFB, 0x5FB11F, 0x8D5D08, 0x560330, 0x46FC7B,
};
// Products with them stay in range where the argument is made smaller and they larger by as much.
constexpr int kTableShift = 200;

std::array<double, kTwoOverPi.size()> shifted_digits() {
  std::array<double, kTwoOverPi.size()> result;
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = std::ldexp(kTwoOverPi[i], kTableShift - kChunkBits * (static_cast<int>(i) + 1));
  return result;
}

// A number in three parts, each below the last bit of the one before.
struct Triple {
  E high, middle, low;
};

// The rounded sum and what it lost.
std::pair<E, E> exact_sum(E a, E b) {
  E sum = a + b;
  E part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

Triple add(Triple to, E x) {
  auto [high, lost] = exact_sum(to.high, x);
  auto [middle, lost_too] = exact_sum(to.middle, lost);
  return {high, middle, to.low + lost_too};
}

struct ReducedAngle {
  E quadrant, angle,
      rest;  // the argument is quadrant * pi/2 + angle + rest, up to multiples of 2 pi; |angle| <= pi/4
};

// |x| * 2/pi modulo 4. Products of half of x's digits and a chunk's are exact; so is what is left of each modulo 4. Chunks
// before the first make multiples of 4 only, those after the last add nothing that shows.
ReducedAngle reduce_any(E magnitude) {
  constexpr int kChunks = 10;
  static const auto digits = shifted_digits();
  E small = magnitude * std::ldexp(1.0, -kTableShift);
  E upper = (small.bits() & small.bits().integer(~int64_t{0x7ffffff})).as_float(), lower = small - upper;
  E zero = magnitude.like(0);
  E exponent = magnitude.with(magnitude.b->split(magnitude.s).exponent);
  E first = at_most(at_least(floor((exponent - 56) * (1.0 / kChunkBits)), 0), kTwoOverPi.size() - kChunks);
  Triple sum{zero, zero, zero};
  for (int i = 0; i < kChunks; ++i) {
    E index = (first + i).to(DType::kI32);
    E chunk = magnitude.with(magnitude.b->constant_at(digits, index.s));
    for (E part : {upper, lower}) {
      E product = part * chunk;
      sum = add(sum, product - floor(product * 0.25) * 4);
    }
  }
  E quadrant = round_even(sum.high);
  auto [f, f_lost] = exact_sum(sum.high - quadrant, sum.middle);
  E f_low = f_lost + sum.low;
  // What the sum's lower parts carried over.
  E again = round_even(f);
  f = f - again;
  quadrant = quadrant + again;
  constexpr double kHalfPi = 1.5707963267948966, kHalfPiLow = 6.123233995736766e-17;
  E angle = f * kHalfPi;
  E rest = fma(f, kHalfPi, -angle) + fma(f, kHalfPiLow, f_low * kHalfPi);
  return {quadrant - floor(quadrant * 0.25) * 4, angle, rest};
}

// sin(angle + rest) and cos(angle + rest).
E sin_of(const ReducedAngle& r) { return sin_reduced(r.angle) + r.rest * fma(r.angle * r.angle, -0.5, 1.0); }
E cos_of(const ReducedAngle& r) {
  constexpr double kHalfPi = 1.5707963267948966, kHalfPiLow = 6.123233995736766e-17;
  E a = abs(r.angle), rest = select(r.angle < 0, -r.rest, r.rest);
  E complement = kHalfPi - a;
  E lost = ((kHalfPi - complement) - a) + (kHalfPiLow - rest);
  return fma(lost, a, sin_reduced(complement));  // the cosine of the complement is the sine of a
}

E any_sin(E x, int quadrants_ahead) {
  E a = abs(x).to(DType::kF64);
  const ReducedAngle r = reduce_any(a);
  E q = r.quadrant + quadrants_ahead;
  q = q - floor(q * 0.25) * 4;
  E odd = (q == 1) | (q == 3);
  E result = select(odd, cos_of(r), sin_of(r));
  result = select(q >= 2, -result, result);
  return select(a < std::numeric_limits<double>::infinity(), result,
                std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

E exact_sin(E x) {
  E result = x.is_f64() ? any_sin(x, 0) : any_sin_f32(x, 0);
  return select(x < 0, -result, result);
}
E exact_cos(E x) { return x.is_f64() ? any_sin(x, 1) : any_sin_f32(x, 1); }
E exact_tan(E x) {
  E result = (any_sin(x, 0) / any_sin(x, 1)).to(x.s.dtype);
  return select(x < 0, -result, result);
}

// On |x|, so that the sign of zero is kept.
E sin(E x) {
  E a = abs(x);
  if (is_small(x)) return at_most_one(with_sign(sin_reduced(a), sign_bits(x)));
  E shifted = fma(a, 0.31830988618379067, magic(x));
  E n = shifted - magic(x);
  // The long chain first: the order in which it is emitted is the one that registers are given in.
  E magnitude = sin_reduced(reduce(a, n, 1));
  E result = with_sign(magnitude, sign_of_parity(shifted) ^ sign_bits(x));
  return at_most_one(rare(is_huge(a), result, Prim::k_sin, {x}));
}

// cos(x) = sin(x + pi/2): the nearest odd multiple of pi/2 is subtracted.
E cos(E x) {
  E a = abs(x);
  if (!x.is_f64() && x.b->bound(x.s) <= 1) {
    E t = x * x;
    return at_most_one(fma(t, polynomial(t, kCosSmallF32), 1.0));
  }
  if (is_small(x)) return at_most_one(-sin_reduced(reduce(a, x.like(0.5), 1)));
  E shifted = fma(a, 0.31830988618379067, -0.5) + magic(x);
  E n = (shifted - magic(x)) + 0.5;
  E magnitude = sin_reduced(reduce(a, n, 1));
  E sign = sign_of_parity(shifted);
  sign = sign ^ sign.integer(x.is_f64() ? INT64_MIN : INT32_MIN);
  return at_most_one(rare(is_huge(a), with_sign(magnitude, sign), Prim::k_cos, {x}));
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
  E result = with_sign(fma(missing, inverse, quotient), sign_bits(x));
  return rare(is_huge(a), result, Prim::k_tan, {x});
}

}  // namespace cdynamo::lowering::math
