// exp, exp2, expm1: x = n ln 2 + r, a polynomial in r, times 2^n.
#include "lowering/math/coefficients.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
// ln 2 in two parts, the first rounded to the type.
constexpr double kLn2HighF32 = 0.6931471824645996, kLn2LowF32 = -1.904654299957768e-09;
constexpr double kLn2HighF64 = 0.6931471805599453, kLn2LowF64 = 2.3190468138462996e-17;

struct Reduced {
  E n, r;
};

Reduced reduce(E x) {
  E n = round_even(x * kLog2E);
  E r = fma(n, x.pick(-kLn2HighF32, -kLn2HighF64), x);
  return {n, fma(n, x.pick(-kLn2LowF32, -kLn2LowF64), r)};
}

// Beyond these the result is 0 or infinity, which `scale` makes of the limit itself.
E clamp(E x) {
  const bool f64 = x.is_f64();
  return at_least(at_most(x, f64 ? 710 : 89), f64 ? -746 : -104);
}

}  // namespace

Power exp_parts(E x) {
  auto [n, r] = reduce(x);
  E p = polynomial(r, kExpF32, kExpF64);
  return {fma(r * r, p, r) + 1, n};
}

E exp(E x) {
  if (const auto own = x.b->own(Prim::k_exp, x.s)) return x.with(*own);
  Power power = exp_parts(clamp(x));
  return scale(power.fraction, power.n);
}

E exp2(E x) {
  const bool f64 = x.is_f64();
  x = at_least(at_most(x, f64 ? 1025 : 129), f64 ? -1076 : -151);
  E n = round_even(x);
  E fraction = x - n;
  // The rounding of ln 2 itself counts, of its product with the fraction only the part that `high` loses.
  E high = fraction * x.pick(kLn2HighF32, kLn2HighF64);
  E low = fma(fraction, x.pick(kLn2HighF32, kLn2HighF64), -high);
  low = fma(fraction, x.pick(kLn2LowF32, kLn2LowF64), low);
  E p = polynomial(high, kExpF32, kExpF64);
  return scale((fma(high * high, p, low) + high) + 1, n);
}

E expm1(E x) {
  E original = x;
  x = clamp(x);
  auto [n, r] = reduce(x);
  E q = fma(r * r, polynomial(r, kExpm1F32, kExpm1F64), r);
  // With 2^(n-1), since 2^n overflows before the result does.
  E half = scale(x.like(0.5), n);
  E result = fma(q, half, half - 0.5) * 2;
  return select(abs(original) < original.pick(0x1p-25, 0x1p-54), original, result);
}

}  // namespace cdynamo::lowering::math
