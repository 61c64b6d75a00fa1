#include "lowering/codegen/code_builder.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "graph/op.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

int CodeBuilder::lanes(Value* value) {
  auto* vector = dyn_cast<FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

Type* CodeBuilder::type(DType dtype, int lanes) {
  Type* element = nullptr;
  switch (dtype) {
    case DType::kBool: element = ir_.getInt1Ty(); break;
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: element = ir_.getFloatTy(); break;
    case DType::kF64: element = ir_.getDoubleTy(); break;
    default: element = ir_.getIntNTy(8 * runtime::bytes(dtype));
  }
  return lanes == 1 ? element : FixedVectorType::get(element, lanes);
}

Type* CodeBuilder::storage_type(DType dtype, int lanes) {
  Type* element = dtype == DType::kBool     ? ir_.getInt8Ty()
                  : runtime::is_half(dtype) ? ir_.getInt16Ty()
                                            : type(dtype);
  return lanes == 1 ? element : FixedVectorType::get(element, lanes);
}

Value* CodeBuilder::splat(Value* value, int count) {
  if (count == 1 || lanes(value) == count) return value;
  if (lanes(value) != 1) throw InternalError("emission: lane counts differ");
  return ir_.CreateVectorSplat(count, value);
}

Value* CodeBuilder::any(Value* condition) {
  return lanes(condition) == 1 ? condition : ir_.CreateOrReduce(condition);
}

Scalar CodeBuilder::constant(double value, DType dtype) {
  DType compute = runtime::compute_type(dtype);
  if (runtime::is_float(compute)) return wrap(ConstantFP::get(type(compute), value), compute);
  return constant_int(dtype == DType::kBool ? value != 0 : static_cast<int64_t>(value), dtype);
}

Scalar CodeBuilder::constant_int(int64_t value, DType dtype) {
  if (runtime::is_float(dtype)) return constant(static_cast<double>(value), dtype);
  if (dtype == DType::kBool) value = value != 0;
  return wrap(ConstantInt::get(type(dtype), static_cast<uint64_t>(value), true), dtype);
}

Scalar CodeBuilder::select(Scalar condition, Scalar yes, Scalar no) {
  Value *c = value(condition), *y = value(yes), *n = value(no);
  int count = std::max({lanes(c), lanes(y), lanes(n)});
  // A uniform condition stays an i1: it selects whole vectors.
  if (lanes(c) > 1) c = splat(c, count);
  Value* result = ir_.CreateSelect(c, splat(y, count), splat(n, count));
  const HalfBits* known = half_bits(y) ? half_bits(y) : half_bits(n);
  if (!known || isa<Constant>(result)) return wrap(result, yes.dtype);
  const DType half = known->half;
  if (Value* y_bits = exact_bits(y, half), *n_bits = exact_bits(n, half); y_bits && n_bits)
    half_bits_[result] = {half, ir_.CreateSelect(c, splat(y_bits, count), splat(n_bits, count))};
  return wrap(result, yes.dtype);
}

Scalar CodeBuilder::bitcast(Scalar s, DType dtype) {
  return wrap(ir_.CreateBitCast(value(s), type(dtype, lanes(value(s)))), dtype);
}

// The upper half of uint64 is the lower one, moved; what is narrower is part of a signed integer.
Value* CodeBuilder::to_any_integer(Value* v, DType dtype) {
  Type* result = type(dtype, lanes(v));
  if (dtype != DType::kU64) {
    const DType wide = runtime::bytes(dtype) < 4 ? DType::kI32 : dtype == DType::kU32 ? DType::kI64 : dtype;
    return ir_.CreateTrunc(to_integer(v, wide), result);
  }
  Constant* half = ConstantFP::get(v->getType(), 0x1p63);
  Value* is_upper = ir_.CreateFCmpOGE(v, half);
  Value* moved = to_integer(ir_.CreateSelect(is_upper, ir_.CreateFSub(v, half), v), DType::kI64);
  Constant* top = ConstantInt::get(result, uint64_t{1} << 63);
  return ir_.CreateSelect(is_upper, ir_.CreateXor(moved, top), moved);
}

// C's conversion. Out-of-range floats go through int32 for narrower types, as scalar conversions do.
Scalar CodeBuilder::cast(Scalar s, DType to) {
  DType from = s.dtype, target = runtime::compute_type(to);
  Value* v = value(s);
  int count = lanes(v);
  if (from != target) {
    Type* result = type(target, count);
    bool from_signed = from != DType::kBool && runtime::info(from).is_signed;
    if (target == DType::kBool) {
      Constant* zero = Constant::getNullValue(v->getType());
      v = runtime::is_float(from) ? ir_.CreateFCmpUNE(v, zero) : ir_.CreateICmpNE(v, zero);
    } else if (runtime::is_float(from)) {
      if (runtime::is_float(target)) {
        v = ir_.CreateFPCast(v, result);
      } else {
        v = to_any_integer(v, target);
      }
    } else if (runtime::is_float(target)) {
      v = from_signed ? ir_.CreateSIToFP(v, result) : ir_.CreateUIToFP(v, result);
    } else {
      v = ir_.CreateIntCast(v, result, from_signed);
    }
  }
  Scalar out = wrap(v, target);
  return runtime::is_half(to) ? round_to(out, to) : out;
}

Value* CodeBuilder::widen_half(Value* bits, DType half) {
  const int count = lanes(bits);
  Value* wide;
  if (half == DType::kF16) {
    Type* f16 =
        count == 1 ? ir_.getHalfTy() : static_cast<Type*>(FixedVectorType::get(ir_.getHalfTy(), count));
    wide = ir_.CreateFPExt(ir_.CreateBitCast(bits, f16), type(DType::kF32, count));
  } else {
    Value* word = ir_.CreateShl(ir_.CreateZExt(bits, type(DType::kI32, count)), 16);
    wide = ir_.CreateBitCast(word, type(DType::kF32, count));
  }
  if (!isa<Constant>(wide)) half_bits_[wide] = {half, bits};
  return wide;
}

const CodeBuilder::HalfBits* CodeBuilder::half_bits(Value* wide) const {
  const auto found = half_bits_.find(wide);
  return found == half_bits_.end() ? nullptr : &found->second;
}

Value* CodeBuilder::exact_bits(Value* wide, DType half) {
  if (const HalfBits* known = half_bits(wide)) return known->half == half ? known->bits : nullptr;
  if (!isa<Constant>(wide)) {
    Value* splatted = getSplatValue(wide);
    Value* bits = splatted ? exact_bits(splatted, half) : nullptr;
    return bits ? splat(bits, lanes(wide)) : nullptr;
  }
  Value* bits = half == DType::kF16 ? truncate(wide, ir_.getHalfTy()) : round_to_bfloat16(wide, false);
  return widen_half(bits, half) == wide ? bits : nullptr;
}

Value* CodeBuilder::narrow_half(Value* v, DType half, bool short_nans) {
  if (Value* bits = exact_bits(v, half)) return bits;
  return half == DType::kF16 ? truncate(v, ir_.getHalfTy()) : round_to_bfloat16(v, short_nans);
}

Value* CodeBuilder::truncate(Value* v, Type* half) {
  const int count = lanes(v);
  Type* narrow = count == 1 ? half : FixedVectorType::get(half, count);
  return ir_.CreateBitCast(ir_.CreateFPTrunc(v, narrow), storage_type(DType::kF16, count));
}

// In integers: the bfloat16 instructions of AVX-512 flush subnormal numbers.
Value* CodeBuilder::round_to_bfloat16(Value* v, bool short_nans) {
  const int count = lanes(v);
  Type *i16 = storage_type(DType::kBF16, count), *i32 = type(DType::kI32, count);
  Value* u = ir_.CreateBitCast(v, i32);
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(u, 16), ConstantInt::get(i32, 1));
  Value* rounded = ir_.CreateAdd(u, ir_.CreateAdd(odd, ConstantInt::get(i32, 0x7fff)));
  // Rounding could carry a NaN's last bits into its exponent.
  if (!short_nans)
    rounded = ir_.CreateSelect(ir_.CreateFCmpUNO(v, v), ConstantInt::get(i32, 0x7fc00000), rounded);
  return ir_.CreateTrunc(ir_.CreateLShr(rounded, 16), i16);
}

Scalar CodeBuilder::round_to(Scalar s, DType half, bool short_nans) {
  return wrap(widen_half(narrow_half(value(s), half, short_nans), half), DType::kF32);
}

}  // namespace cdynamo::lowering::emit
