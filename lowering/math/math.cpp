#include "lowering/math/math.h"

#include "graph/op.h"
#include "lowering/math/expression.h"

namespace cdynamo::lowering::math {
namespace {

struct Row {
  Prim prim;
  E (*one)(E);
  E (*two)(E, E);
};

// Complete by the test that emits every function.
const Row kFunctions[] = {
    {Prim::k_exp, exp, nullptr},       {Prim::k_exp2, exp2, nullptr},       {Prim::k_expm1, expm1, nullptr},
    {Prim::k_log, log, nullptr},       {Prim::k_log2, log2, nullptr},       {Prim::k_log10, log10, nullptr},
    {Prim::k_log1p, log1p, nullptr},   {Prim::k_sin, sin, nullptr},         {Prim::k_cos, cos, nullptr},
    {Prim::k_tan, tan, nullptr},       {Prim::k_asin, asin, nullptr},       {Prim::k_acos, acos, nullptr},
    {Prim::k_atan, atan, nullptr},     {Prim::k_atan2, nullptr, atan2},     {Prim::k_sinh, sinh, nullptr},
    {Prim::k_cosh, cosh, nullptr},     {Prim::k_tanh, tanh, nullptr},       {Prim::k_asinh, asinh, nullptr},
    {Prim::k_acosh, acosh, nullptr},   {Prim::k_atanh, atanh, nullptr},     {Prim::k_erf, erf, nullptr},
    {Prim::k_erfc, erfc, nullptr},     {Prim::k_pow, nullptr, pow},         {Prim::k_hypot, nullptr, hypot},
    {Prim::k_lgamma, lgamma, nullptr}, {Prim::k_digamma, digamma, nullptr},
};

}  // namespace

bool is_math(Prim prim) { return prim >= Prim::k_exp && prim <= Prim::k_digamma; }

Scalar emit_math(MathBuilder& b, Prim prim, const Scalar* operands, int count) {
  if (operands[0].dtype != DType::kF32 && operands[0].dtype != DType::kF64)
    throw graph::InternalError("a mathematical function of a type that is not float32 or float64");
  for (const Row& row : kFunctions) {
    if (row.prim != prim) continue;
    E x{&b, operands[0]};
    return row.one ? row.one(x).s : row.two(x, E{&b, operands[1]}).s;
  }
  throw graph::Unsupported("a mathematical function without code");
}

E rare(E condition, E common, Prim prim, std::initializer_list<E> operands) {
  Scalar scalars[2];
  int count = 0;
  for (const E& operand : operands) scalars[count++] = operand.s;
  return common.with(common.b->rare(condition.s, common.s, prim, scalars, count));
}

E library(Prim prim, std::initializer_list<E> operands) {
  E first = *operands.begin();
  return rare(first.with(first.b->constant_int(1, DType::kBool)), first, prim, operands);
}

Scalar MathBuilder::constant_at(std::span<const double> table, Scalar index) {
  Scalar result = constant(table[0], DType::kF64);
  for (size_t i = 1; i < table.size(); ++i)
    result = select(eq(index, constant_int(static_cast<int64_t>(i), index.dtype)),
                    constant(table[i], DType::kF64), result);
  return result;
}

namespace {

// 2^n, a normal number. Added to this one, n stands in the lowest bits with the exponent's bias: no conversion to an integer, which
// AVX2 does not have for float64.
E power_of_two(E n) {
  const bool f64 = n.is_f64();
  E biased = (n + (f64 ? 0x1.8p52 + 1023 : 0x1.8p23 + 127)).bits();
  return biased.with(n.b->shl(biased.s, biased.integer(f64 ? 52 : 23).s)).as_float();
}

}  // namespace

// In two steps, so that results between the least normal and the least subnormal number round once.
Scalar MathBuilder::scale(Scalar x, Scalar n) {
  E value{this, x}, exponent{this, n};
  E half = math::round_even(exponent * 0.5);
  return (value * power_of_two(half) * power_of_two(exponent - half)).s;
}

Scalar MathBuilder::scale_normal(Scalar x, Scalar n) { return (E{this, x} * power_of_two({this, n})).s; }

MathBuilder::Split MathBuilder::split(Scalar x) {
  E value{this, x};
  const bool f64 = value.is_f64();
  const int mantissa_bits = f64 ? 52 : 23;
  const double least_normal = f64 ? 0x1p-1022 : 0x1p-126;
  E subnormal = value < least_normal;
  E scaled = math::select(subnormal, value * (f64 ? 0x1p54 : 0x1p24), value);
  E bits = scaled.bits();
  E above = bits - value.like(0.75).bits();
  E exponent = bits.with(shr(above.s, bits.integer(mantissa_bits).s));
  E mantissa = (bits - bits.with(shl(exponent.s, bits.integer(mantissa_bits).s))).as_float();
  E n = exponent.to(x.dtype);
  n = math::select(subnormal, n - (f64 ? 54 : 24), n);
  return {mantissa.s, n.s};
}

}  // namespace cdynamo::lowering::math
