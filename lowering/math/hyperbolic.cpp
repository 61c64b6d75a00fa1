#include <limits>

#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

// e^a / 2 for a >= 0, which is finite a little longer than e^a.
E half_exp(E a) {
  Power power = exp_parts(at_most(a, a.is_f64() ? 711.0 : 90.0));
  return scale(power.fraction, power.n - 1);
}

E odd_polynomial(E a, std::span<const double> f32, std::span<const double> f64) {
  E t = a * a;
  return fma(a * t, polynomial(t, f32, f64), a);
}

}  // namespace

E sinh(E x) {
  E a = abs(x);
  E half = half_exp(a);
  E big = half - 0.25 / half;
  return copysign(select(a < 1, odd_polynomial(a, kSinhF32, kSinhF64), big), x);
}

E cosh(E x) {
  E half = half_exp(abs(x));
  return half + 0.25 / half;
}

E tanh(E x) {
  E a = abs(x);
  // 1 - 2 / (e^2a + 1), which is 1 long before the exponential overflows.
  Power power = exp_parts(at_most(a, x.is_f64() ? 22.0 : 10.0) * 2);
  E big = 1 - 2 / (scale_normal(power.fraction, power.n) + 1);
  return copysign(select(a < 0.625, odd_polynomial(a, kTanhF32, kTanhF64), big), x);
}

// float32 is computed in float64, where no care is needed; float64 is C's.

E asinh(E x) {
  if (x.is_f64()) return library(Prim::k_asinh, {x});
  E a = abs(x).to(DType::kF64);
  E square = a * a;
  E result = log1p(a + square / (sqrt(square + 1) + 1)).to(DType::kF32);
  return copysign(select(abs(x) == kInf, kInf, result), x);
}

E acosh(E x) {
  if (x.is_f64()) return library(Prim::k_acosh, {x});
  E t = x.to(DType::kF64) - 1;
  E result = log1p(t + sqrt(t * (t + 2))).to(DType::kF32);
  return select(x < 1, std::numeric_limits<double>::quiet_NaN(), result);
}

E atanh(E x) {
  if (x.is_f64()) return library(Prim::k_atanh, {x});
  E a = abs(x).to(DType::kF64);
  E result = (log1p(a * 2 / (1 - a)) * 0.5).to(DType::kF32);
  return copysign(result, x);
}

}  // namespace cdynamo::lowering::math
