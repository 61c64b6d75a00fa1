// The primitives of graph/prims.def as LLVM instructions.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "graph/op.h"
#include "lowering/codegen/code_builder.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

Scalar CodeBuilder::prim(Prim prim, const Scalar* operands, int count) {
  if (math::is_math(prim)) return math::emit_math(*this, prim, operands, count);
  Value* values[3] = {};
  int width = 1;
  for (int i = 0; i < count; ++i) width = std::max(width, lanes(value(operands[i])));
  for (int i = 0; i < count; ++i) values[i] = splat(value(operands[i]), width);
  DType dtype = operands[0].dtype;
  for (int i = 1; i < count; ++i)
    if (operands[i].dtype != dtype) throw InternalError("emission: operands of a primitive differ in dtype");
  bool comparison = prim >= Prim::k_eq && prim <= Prim::k_ge;
  Value* result = nullptr;
  if (prim == Prim::k_fma) {
    result = ir_.CreateIntrinsic(Intrinsic::fma, {values[0]->getType()}, {values[0], values[1], values[2]});
  } else {
    result = count == 1 ? unary(prim, dtype, values[0]) : binary(prim, dtype, values[0], values[1]);
  }
  return wrap(result, comparison ? DType::kBool : dtype);
}

Value* CodeBuilder::unary(Prim prim, DType dtype, Value* a) {
  bool f = runtime::is_float(dtype);
  auto intrinsic = [&](Intrinsic::ID id) { return f ? ir_.CreateUnaryIntrinsic(id, a) : a; };
  switch (prim) {
    case Prim::k_neg: return f ? ir_.CreateFNeg(a) : ir_.CreateNeg(a);
    case Prim::k_abs:
      if (f) return opaque(ir_.CreateUnaryIntrinsic(Intrinsic::fabs, a));
      if (!runtime::info(dtype).is_signed) return a;
      return ir_.CreateBinaryIntrinsic(Intrinsic::abs, a, ir_.getFalse());
    case Prim::k_bit_not: return ir_.CreateNot(a);
    case Prim::k_sqrt: return ir_.CreateUnaryIntrinsic(Intrinsic::sqrt, a);
    case Prim::k_floor: return intrinsic(Intrinsic::floor);
    case Prim::k_ceil: return intrinsic(Intrinsic::ceil);
    case Prim::k_trunc: return intrinsic(Intrinsic::trunc);
    case Prim::k_round_even: return intrinsic(Intrinsic::roundeven);
    default: throw InternalError("emission: unknown unary primitive");
  }
}

namespace {

CmpInst::Predicate predicate(Prim prim, bool is_float, bool is_signed) {
  struct Row {
    Prim prim;
    CmpInst::Predicate f, s, u;
  };
  static const Row rows[] = {
      {Prim::k_eq, CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ},
      {Prim::k_ne, CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE},
      {Prim::k_lt, CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT},
      {Prim::k_le, CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE},
      {Prim::k_gt, CmpInst::FCMP_OGT, CmpInst::ICMP_SGT, CmpInst::ICMP_UGT},
      {Prim::k_ge, CmpInst::FCMP_OGE, CmpInst::ICMP_SGE, CmpInst::ICMP_UGE},
  };
  for (const Row& row : rows)
    if (row.prim == prim) return is_float ? row.f : is_signed ? row.s : row.u;
  throw InternalError("emission: not a comparison");
}

}  // namespace

Value* CodeBuilder::binary(Prim prim, DType dtype, Value* a, Value* b) {
  bool f = runtime::is_float(dtype), is_signed = dtype != DType::kBool && runtime::info(dtype).is_signed;
  switch (prim) {
    case Prim::k_add: return f ? ir_.CreateFAdd(a, b) : ir_.CreateAdd(a, b);
    case Prim::k_sub: return f ? ir_.CreateFSub(a, b) : ir_.CreateSub(a, b);
    case Prim::k_mul: return f ? ir_.CreateFMul(a, b) : ir_.CreateMul(a, b);
    case Prim::k_div: return f ? ir_.CreateFDiv(a, b) : integer_divide(prim, dtype, a, b);
    case Prim::k_rem: return f ? float_remainder(dtype, a, b) : integer_divide(prim, dtype, a, b);
    case Prim::k_min:
    case Prim::k_max: {
      bool min = prim == Prim::k_min;
      if (!f) {
        auto id = min ? (is_signed ? Intrinsic::smin : Intrinsic::umin)
                      : (is_signed ? Intrinsic::smax : Intrinsic::umax);
        return ir_.CreateBinaryIntrinsic(id, a, b);
      }
      return extremum(min, a, b);
    }
    case Prim::k_eq:
    case Prim::k_ne:
    case Prim::k_lt:
    case Prim::k_le:
    case Prim::k_gt:
    case Prim::k_ge: return ir_.CreateCmp(predicate(prim, f, is_signed), a, b);
    case Prim::k_bit_and: return ir_.CreateAnd(a, b);
    case Prim::k_bit_or: return ir_.CreateOr(a, b);
    case Prim::k_bit_xor: return ir_.CreateXor(a, b);
    case Prim::k_shl: return ir_.CreateShl(a, b);
    case Prim::k_shr: return is_signed ? ir_.CreateAShr(a, b) : ir_.CreateLShr(a, b);
    case Prim::k_copysign: return opaque(ir_.CreateBinaryIntrinsic(Intrinsic::copysign, a, b));
    default: throw InternalError("emission: unknown binary primitive");
  }
}

// b where the comparison does not hold, so where either is NaN; what remains is a NaN in a.
Value* CodeBuilder::extremum(bool min, Value* a, Value* b) {
  Value* better = min ? ir_.CreateFCmpOLT(a, b) : ir_.CreateFCmpOGT(a, b);
  return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, ir_.CreateSelect(better, a, b));
}

Value* CodeBuilder::integer_divide(Prim prim, DType dtype, Value* a, Value* b) {
  const bool is_signed = dtype != DType::kBool && runtime::info(dtype).is_signed;
  Type* t = type(dtype, lanes(a));
  Constant *zero = Constant::getNullValue(t), *one = ConstantInt::get(t, 1);
  Value* b_is_zero = ir_.CreateICmpEQ(b, zero);
  Value* b_is_minus_one = is_signed ? ir_.CreateICmpEQ(b, Constant::getAllOnesValue(t)) : nullptr;
  Value* unsafe = is_signed ? ir_.CreateOr(b_is_zero, b_is_minus_one) : b_is_zero;
  Value* safe = ir_.CreateSelect(unsafe, one, b);
  Value* quotient = is_signed ? ir_.CreateSDiv(a, safe) : ir_.CreateUDiv(a, safe);
  if (is_signed) quotient = ir_.CreateSelect(b_is_minus_one, ir_.CreateNeg(a), quotient);
  if (prim == Prim::k_div) return ir_.CreateSelect(b_is_zero, zero, quotient);
  Value* remainder = ir_.CreateSub(a, ir_.CreateMul(quotient, b));
  return ir_.CreateSelect(b_is_zero, zero, remainder);
}

// fmod. While |a / b| is small, trunc(a / b) is off by at most one and a - q*b is exact in one fma; the rest
// is C's.
Value* CodeBuilder::float_remainder(DType dtype, Value* a, Value* b) {
  Type* t = a->getType();
  Value* ratio = ir_.CreateFDiv(a, b);
  Value* q = ir_.CreateUnaryIntrinsic(Intrinsic::trunc, ratio);
  Value* magnitude_b = ir_.CreateUnaryIntrinsic(Intrinsic::fabs, b);
  Value* r = ir_.CreateIntrinsic(Intrinsic::fma, {t}, {ir_.CreateFNeg(q), b, a});
  // A quotient rounded up to the next integer leaves a remainder of the wrong sign.
  Value* signed_b = ir_.CreateBinaryIntrinsic(Intrinsic::copysign, magnitude_b, a);
  Constant* zero = Constant::getNullValue(t);
  Value* wrong = ir_.CreateFCmpOLT(
      ir_.CreateFMul(r, ir_.CreateBinaryIntrinsic(Intrinsic::copysign, ConstantFP::get(t, 1.0), a)), zero);
  r = ir_.CreateSelect(wrong, ir_.CreateFAdd(r, signed_b), r);
  r = ir_.CreateBinaryIntrinsic(Intrinsic::copysign, r, a);
  // Quotients that may not be exact, and everything with an infinity, NaN, zero or tiny divisor.
  double limit = dtype == DType::kF64 ? 4503599627370496.0 : 4194304.0;
  double tiny = dtype == DType::kF64 ? 1e-290 : 1e-30;
  Value* ok = ir_.CreateAnd(
      ir_.CreateFCmpOLT(ir_.CreateUnaryIntrinsic(Intrinsic::fabs, ratio), ConstantFP::get(t, limit)),
      ir_.CreateAnd(ir_.CreateFCmpOGT(magnitude_b, ConstantFP::get(t, tiny)),
                    ir_.CreateFCmpOLT(magnitude_b, ConstantFP::getInfinity(t))));
  Scalar operands[] = {wrap(a, dtype), wrap(b, dtype)};
  return value(rare(wrap(ir_.CreateNot(ok), DType::kBool), wrap(r, dtype), Prim::k_rem, operands, 2));
}

}  // namespace cdynamo::lowering::emit
