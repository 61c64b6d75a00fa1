#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

E erf_near_zero(E a) { return fma(a, polynomial(a * a, kErfF32, kErfF64), a); }

// erfc(a) in float64 for a >= 1/2: exp(-a^2) / a times a smooth function, the square in two parts.
E erfc_tail(E a) {
  a = at_most(a, 28.0);
  E square = a * a;
  E lost = fma(a, a, -square);
  Power power = exp_parts(-square);
  E t = (a - 1) / (a + 1);
  E smooth = polynomial(t, kErfcF64);
  E fraction = power.fraction * smooth / a;
  return scale(fma(-fraction, lost, fraction), power.n);
}

}  // namespace

E erf(E x) {
  E a = abs(x);
  E near = erf_near_zero(a);
  if (x.is_f64()) return copysign(select(a < 1, near, 1 - erfc_tail(at_least(a, 0.5))), x);
  // What is taken from 1 is less than a fifth: its power of two may be as much less exact.
  E clamped = at_most(a, 4.0);
  E exponent = clamped * polynomial(clamped, kErfTailF32);
  E n = round_even(exponent);
  E fraction = exponent - n;
  E far = 1 - scale_normal(fma(fraction, polynomial(fraction, kErfPowerF32), x.like(1)), n);
  return copysign(select(a < 0.92, near, far), x);
}

// float32 goes through float64: no range of float32 is then lost to cancellation or underflow.
E erfc(E x) {
  if (!x.is_f64()) return erfc(x.to(DType::kF64)).to(DType::kF32);
  E a = abs(x);
  E near = 1 - copysign(erf_near_zero(a), x);
  E tail = erfc_tail(at_least(a, 0.5));
  return select(a < 0.5, near, select(x < 0, 2 - tail, tail));
}

}  // namespace cdynamo::lowering::math
