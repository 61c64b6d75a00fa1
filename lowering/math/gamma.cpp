// lgamma and digamma. float32 is computed in float64: within 2 ULP but next to the zeros on the negative
// axis, where the error is a few ULP of 1. float64 is C's lgamma, and a digamma within some 1e-15 of max(1,
// |result|).
#include <array>
#include <limits>

#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

constexpr double kPi = 3.141592653589793;
constexpr int kShift = 8;

// log Gamma(x) for x > 0, in float64: Stirling's series at x + 8, less the logarithm of x (x+1) .. (x+7).
E lgamma_positive(E x) {
  constexpr std::array kStirling = {8.333333333333333e-2,  -2.777777777777778e-3, 7.936507936507937e-4,
                                    -5.952380952380953e-4, 8.417508417508417e-4,  -1.9175269175269176e-3};
  E big = x > 1e4;
  E product = x;
  for (int i = 1; i < kShift; ++i) product = product * (x + i);
  E z = select(big, x, x + kShift);
  E inverse = 1 / z;
  E series = inverse * polynomial(inverse * inverse, kStirling);
  E stirling = fma(z - 0.5, log(z), -z) + (0.9189385332046727 + series);
  return stirling - select(big, 0.0, log(product));
}

// psi(x) for x > 0, in float64.
E digamma_positive(E x) {
  constexpr std::array kSeries = {8.333333333333333e-2,  -8.333333333333333e-3, 3.968253968253968e-3,
                                  -4.166666666666667e-3, 7.575757575757576e-3,  -2.109279609279609e-2};
  E sum = 1 / x;
  for (int i = 1; i < kShift; ++i) sum = sum + 1 / (x + i);
  E z = x + kShift;
  E inverse = 1 / z;
  E square = inverse * inverse;
  return log(z) - (inverse * 0.5 + square * polynomial(square, kSeries)) - sum;
}

}  // namespace

E lgamma(E x) { return x.is_f64() ? library(Prim::k_lgamma, {x}) : exact_lgamma(x); }

E exact_lgamma(E x) {
  E wide = x.to(DType::kF64);
  E reflect = wide < 0.5;
  E positive = lgamma_positive(select(reflect, 1 - wide, wide));
  // Gamma(x) Gamma(1 - x) = pi / sin(pi x), the sine of the distance to the nearest integer.
  E distance = wide - round_even(wide);
  E reflected = log(kPi / abs(sin(distance * kPi))) - positive;
  E magnitude = abs(wide);
  E finite = select(magnitude < 1e-300, -log(magnitude), select(reflect, reflected, positive));
  E result = finite.to(x.s.dtype);
  E pole = (x <= 0) & (floor(x) == x);
  result = select((x == 1) | (x == 2), 0.0, result);  // the zeros themselves
  return select(pole | (abs(x) == kInf), kInf, result);
}

E digamma(E x) { return x.is_f64() ? library(Prim::k_digamma, {x}) : exact_digamma(x); }

E exact_digamma(E x) {
  E wide = x.to(DType::kF64);
  E reflect = wide < 0;
  E positive = digamma_positive(select(reflect, 1 - wide, wide));
  E distance = wide - round_even(wide);
  E result = select(reflect, positive - kPi / tan(distance * kPi), positive).to(x.s.dtype);
  E nan = x.like(std::numeric_limits<double>::quiet_NaN());
  result = select((x < 0) & (floor(x) == x), nan, result);
  result = select(x == 0, copysign(x.like(kInf), -x), result);
  return select(x == kInf, kInf, result);
}

}  // namespace cdynamo::lowering::math
