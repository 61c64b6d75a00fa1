// Formulas over MathBuilder that read like formulas: E is a value with its builder.
//
//   E square_plus_one(E x) { return fma(x, x, x.like(1)); }
#pragma once

#include <initializer_list>
#include <limits>
#include <span>

#include "lowering/math/math.h"

namespace cdynamo::lowering::math {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct E {
  MathBuilder* b = nullptr;
  Scalar s;

  bool is_f64() const { return s.dtype == DType::kF64; }
  E like(double value) const { return {b, b->constant(value, s.dtype)}; }
  E with(Scalar scalar) const { return {b, scalar}; }
  // One of two constants by the dtype.
  E pick(double f32, double f64) const { return like(is_f64() ? f64 : f32); }
  DType int_type() const { return is_f64() ? DType::kI64 : DType::kI32; }
  E bits() const { return with(b->bitcast(s, int_type())); }
  E as_float() const { return with(b->bitcast(s, s.dtype == DType::kI64 ? DType::kF64 : DType::kF32)); }
  E integer(int64_t value) const { return with(b->constant_int(value, s.dtype)); }
  E to(DType dtype) const { return with(b->cast(s, dtype)); }
};

#define CDYNAMO_BINARY(op, name)                                         \
  inline E operator op(E x, E y) { return x.with(x.b->name(x.s, y.s)); } \
  inline E operator op(E x, double y) { return x op x.like(y); }         \
  inline E operator op(double x, E y) { return y.like(x) op y; }
CDYNAMO_BINARY(+, add)
CDYNAMO_BINARY(-, sub)
CDYNAMO_BINARY(*, mul)
CDYNAMO_BINARY(/, div)
CDYNAMO_BINARY(<, lt)
CDYNAMO_BINARY(<=, le)
CDYNAMO_BINARY(>, gt)
CDYNAMO_BINARY(>=, ge)
CDYNAMO_BINARY(==, eq)
CDYNAMO_BINARY(!=, ne)
#undef CDYNAMO_BINARY
inline E operator-(E x) { return x.with(x.b->neg(x.s)); }
inline E operator&(E x, E y) { return x.with(x.b->bit_and(x.s, y.s)); }
inline E operator|(E x, E y) { return x.with(x.b->bit_or(x.s, y.s)); }
inline E operator^(E x, E y) { return x.with(x.b->bit_xor(x.s, y.s)); }
inline E operator!(E x) { return x.with(x.b->bit_not(x.s)); }
inline E fma(E x, E y, E z) { return x.with(x.b->fma(x.s, y.s, z.s)); }
inline E fma(E x, E y, double z) { return fma(x, y, x.like(z)); }
inline E fma(E x, double y, E z) { return fma(x, x.like(y), z); }
inline E fma(E x, double y, double z) { return fma(x, x.like(y), x.like(z)); }
inline E abs(E x) { return x.with(x.b->abs(x.s)); }
inline E sqrt(E x) { return x.with(x.b->sqrt(x.s)); }
inline E floor(E x) { return x.with(x.b->floor(x.s)); }
inline E trunc(E x) { return x.with(x.b->trunc(x.s)); }
inline E round_even(E x) { return x.with(x.b->round_even(x.s)); }
inline E copysign(E x, E y) { return x.with(x.b->copysign(x.s, y.s)); }
inline E select(E condition, E yes, E no) { return yes.with(yes.b->select(condition.s, yes.s, no.s)); }
inline E select(E condition, double yes, E no) { return select(condition, no.like(yes), no); }
inline E select(E condition, E yes, double no) { return select(condition, yes, yes.like(no)); }
inline E scale(E x, E n) { return x.with(x.b->scale(x.s, n.s)); }
inline E scale_normal(E x, E n) { return x.with(x.b->scale_normal(x.s, n.s)); }
// The lesser and the greater; where `x` is NaN, `x`.
inline E at_most(E x, double limit) { return select(x.like(limit) < x, x.like(limit), x); }
inline E at_least(E x, double limit) { return select(x.like(limit) > x, x.like(limit), x); }

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule: short code; the iterations of the loop around it overlap.
inline E polynomial(E x, std::span<const double> c) {
  E result = x.like(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) result = fma(result, x, c[i]);
  return result;
}
inline E polynomial(E x, std::span<const double> f32, std::span<const double> f64) {
  return polynomial(x, x.is_f64() ? f64 : f32);
}

// The functions, by their names in C. Each is in the file of its family.
E exp(E), exp2(E), expm1(E);                                // exp.cpp
E log(E), log2(E), log10(E), log1p(E);                      // log.cpp
E sin(E), cos(E), tan(E);                                   // trig.cpp
E asin(E), acos(E), atan(E), atan2(E, E);                   // inverse_trig.cpp
E sinh(E), cosh(E), tanh(E), asinh(E), acosh(E), atanh(E);  // hyperbolic.cpp
E erf(E), erfc(E);                                          // erf.cpp
E pow(E, E), hypot(E, E);                                   // pow.cpp
E lgamma(E), digamma(E);                                    // gamma.cpp

// Parts that families share.
struct Power {
  E fraction, n;
};  // fraction * 2^n
Power exp_parts(E x);  // e^x, for x in exp's finite range
struct LogParts {
  E f, rest, n;
};  // log(x) = f + rest + n ln 2, f exact
LogParts log_parts(E x);    // for positive finite x
LogParts log1p_parts(E x);  // of 1 + x > 0
// For arguments of any size (sine and cosine: not below 1), without C's functions.
E exact_sin(E), exact_cos(E), exact_tan(E);  // trig.cpp
E exact_lgamma(E), exact_digamma(E);         // gamma.cpp, of float64
// C's function for every lane.
E library(Prim prim, std::initializer_list<E> operands);
E rare(E condition, E common, Prim prim, std::initializer_list<E> operands);

}  // namespace cdynamo::lowering::math
