// What `rare` stands for where there are no functions of C's.
#include <limits>

#include "graph/op.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

constexpr double kLn2 = 0.6931471805599453;
constexpr double kHuge = 1e9;  // whose square plus one is the square

// Of an infinity or a NaN: the other cases are pow's own.
E exact_pow(E x, E y) {
  E a = abs(x);
  E half_y = y * 0.5;
  E odd = (floor(y) == y) & (floor(half_y) != half_y) & (abs(y) < kInf);
  E grows = (a > 1) & (y > 0), shrinks_inverse = (a < 1) & (y < 0);
  E result = select(grows | shrinks_inverse, x.like(kInf), x.like(0));
  result = select((x == -kInf) & odd, -result, result);
  result = select((a == 1) & (abs(y) == kInf), 1.0, result);
  result = select((x != x) | (y != y), kNaN, result);
  return select((y == 0) | (x == 1), 1.0, result);
}

// Squares that would overflow or vanish: of both divided by the greater one's power of two.
E exact_hypot(E x, E y) {
  E a = abs(x), b = abs(y);
  E greater = select(b > a, b, a), lesser = select(b > a, a, b);
  E exponent = greater.with(greater.b->split(greater.s).exponent);
  E u = scale(greater, -exponent), v = scale(lesser, -exponent);
  E result = scale(sqrt(fma(u, u, v * v)), exponent);
  result = select(greater == 0, greater, result);
  result = select((x != x) | (y != y), kNaN, result);
  return select((a == kInf) | (b == kInf), kInf, result);
}

E exact_asinh(E x) {
  E a = abs(x), square = a * a;
  E result = select(a > kHuge, log(a) + kLn2, log1p(a + square / (sqrt(square + 1) + 1)));
  return copysign(result, x);
}

E exact_acosh(E x) {
  E t = x - 1;
  E result = select(x > kHuge, log(x) + kLn2, log1p(t + sqrt(t * (t + 2))));
  return select(x < 1, kNaN, result);
}

E exact_atanh(E x) {
  E a = abs(x);
  return copysign(log1p(a * 2 / (1 - a)) * 0.5, x);
}

}  // namespace

Scalar emit_exact(MathBuilder& b, Prim prim, const Scalar* operands, int count) {
  const E x{&b, operands[0]}, y{&b, operands[count - 1]};
  switch (prim) {
    case Prim::k_sin: return exact_sin(x).s;
    case Prim::k_cos: return exact_cos(x).s;
    case Prim::k_tan: return exact_tan(x).s;
    case Prim::k_pow: return exact_pow(x, y).s;
    case Prim::k_hypot: return exact_hypot(x, y).s;
    case Prim::k_asinh: return exact_asinh(x).s;
    case Prim::k_acosh: return exact_acosh(x).s;
    case Prim::k_atanh: return exact_atanh(x).s;
    case Prim::k_lgamma: return exact_lgamma(x).s;
    case Prim::k_digamma: return exact_digamma(x).s;
    default: throw graph::InternalError("a rare case of a function that has none");
  }
}

}  // namespace cdynamo::lowering::math
