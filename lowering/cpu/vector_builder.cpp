#include "lowering/cpu/vector_builder.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cmath>

#include "graph/op.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

int VectorBuilder::lanes(Value* value) {
  auto* vector = dyn_cast<FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

Type* VectorBuilder::type(DType dtype, int lanes) {
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

Type* VectorBuilder::storage_type(DType dtype, int lanes) {
  Type* element = dtype == DType::kBool     ? ir_.getInt8Ty()
                  : runtime::is_half(dtype) ? ir_.getInt16Ty()
                                            : type(dtype);
  return lanes == 1 ? element : FixedVectorType::get(element, lanes);
}

Value* VectorBuilder::splat(Value* value, int count) {
  if (count == 1 || lanes(value) == count) return value;
  if (lanes(value) != 1) throw InternalError("emission: lane counts differ");
  return ir_.CreateVectorSplat(count, value);
}

Value* VectorBuilder::any(Value* condition) {
  return lanes(condition) == 1 ? condition : ir_.CreateOrReduce(condition);
}

Scalar VectorBuilder::constant(double value, DType dtype) {
  DType compute = runtime::compute_type(dtype);
  if (runtime::is_float(compute)) return wrap(ConstantFP::get(type(compute), value), compute);
  return constant_int(dtype == DType::kBool ? value != 0 : static_cast<int64_t>(value), dtype);
}

Scalar VectorBuilder::constant_int(int64_t value, DType dtype) {
  if (runtime::is_float(dtype)) return constant(static_cast<double>(value), dtype);
  if (dtype == DType::kBool) value = value != 0;
  return wrap(ConstantInt::get(type(dtype), static_cast<uint64_t>(value), true), dtype);
}

Scalar VectorBuilder::select(Scalar condition, Scalar yes, Scalar no) {
  Value *c = value(condition), *y = value(yes), *n = value(no);
  int count = std::max({lanes(c), lanes(y), lanes(n)});
  // A uniform condition stays an i1: it selects whole vectors.
  if (lanes(c) > 1) c = splat(c, count);
  return wrap(ir_.CreateSelect(c, splat(y, count), splat(n, count)), yes.dtype);
}

Scalar VectorBuilder::bitcast(Scalar s, DType dtype) {
  return wrap(ir_.CreateBitCast(value(s), type(dtype, lanes(value(s)))), dtype);
}

// The least integer for NaN and for what is out of range, as x86 has it: LLVM's own instruction is undefined there, and
// what it folds is another number.
Value* VectorBuilder::to_integer(Value* v, DType dtype) {
  Type* result = type(dtype, lanes(v));
  const unsigned bits = result->getScalarSizeInBits();
  Value* limit = ConstantFP::get(v->getType(), std::ldexp(1.0, static_cast<int>(bits) - 1));
  Value* fits = ir_.CreateFCmpOLT(ir_.CreateUnaryIntrinsic(Intrinsic::fabs, v), limit);
  Constant* least = ConstantInt::get(result, APInt::getSignedMinValue(bits));
  return ir_.CreateSelect(fits, ir_.CreateFreeze(ir_.CreateFPToSI(v, result)), least);
}

// C's conversion. Out-of-range floats go through int32 for narrower types, as x86's scalar conversions do.
Scalar VectorBuilder::cast(Scalar s, DType to) {
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
        v = ir_.CreateTrunc(to_integer(v, runtime::bytes(target) < 4 ? DType::kI32 : target), result);
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

Value* VectorBuilder::widen_half(Value* bits, DType half) {
  int count = lanes(bits);
  if (half == DType::kF16) {
    Type* f16 =
        count == 1 ? ir_.getHalfTy() : static_cast<Type*>(FixedVectorType::get(ir_.getHalfTy(), count));
    return ir_.CreateFPExt(ir_.CreateBitCast(bits, f16), type(DType::kF32, count));
  }
  Value* wide = ir_.CreateShl(ir_.CreateZExt(bits, type(DType::kI32, count)), 16);
  return ir_.CreateBitCast(wide, type(DType::kF32, count));
}

Value* VectorBuilder::upper_half(Value* v) {
  Value* bits = ir_.CreateBitCast(v, type(DType::kI32, lanes(v)));
  return ir_.CreateTrunc(ir_.CreateLShr(bits, 16), storage_type(DType::kBF16, lanes(v)));
}

Value* VectorBuilder::narrow_half(Value* v, DType half, bool short_nans) {
  int count = lanes(v);
  Type* i16 = storage_type(half, count);
  if (half == DType::kF16) {
    Type* f16 =
        count == 1 ? ir_.getHalfTy() : static_cast<Type*>(FixedVectorType::get(ir_.getHalfTy(), count));
    return ir_.CreateBitCast(ir_.CreateFPTrunc(v, f16), i16);
  }
  // In integers: the bfloat16 instructions of AVX-512 flush subnormal numbers.
  Type* i32 = type(DType::kI32, count);
  Value* u = ir_.CreateBitCast(v, i32);
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(u, 16), ConstantInt::get(i32, 1));
  Value* rounded = ir_.CreateAdd(u, ir_.CreateAdd(odd, ConstantInt::get(i32, 0x7fff)));
  // Rounding could carry a NaN's last bits into its exponent.
  if (!short_nans)
    rounded = ir_.CreateSelect(ir_.CreateFCmpUNO(v, v), ConstantInt::get(i32, 0x7fc00000), rounded);
  return ir_.CreateTrunc(ir_.CreateLShr(rounded, 16), i16);
}

Scalar VectorBuilder::round_to(Scalar s, DType half, bool short_nans) {
  Value* v = value(s);
  int count = lanes(v);
  if (half == DType::kF16) return wrap(widen_half(narrow_half(v, half), half), DType::kF32);
  Type* i32 = type(DType::kI32, count);
  Value* bits = ir_.CreateShl(ir_.CreateZExt(narrow_half(v, half, short_nans), i32), 16);
  return wrap(ir_.CreateBitCast(bits, type(DType::kF32, count)), DType::kF32);
}

// Memory of the function for vectors on their way to C.
Value* VectorBuilder::spill_slot(Type* type, int which) {
  auto [it, is_new] = spill_slots_.try_emplace({type, which}, nullptr);
  if (is_new) {
    IRBuilder<>::InsertPointGuard guard(ir_);
    BasicBlock& entry = ir_.GetInsertBlock()->getParent()->getEntryBlock();
    ir_.SetInsertPoint(&entry, entry.begin());
    it->second = ir_.CreateAlloca(type, nullptr, "lanes");
  }
  return it->second;
}

// C's function of the lanes where `mask` holds, `common` in the others: one call of a helper that loops over
// them.
Value* VectorBuilder::call_lanes(const math::LibmEntry& entry, DType dtype, Value* common, Value* mask,
                                 ArrayRef<Value*> operands) {
  const bool f64 = dtype == DType::kF64;
  const int width = lanes(common);
  Module* module = ir_.GetInsertBlock()->getModule();
  Type *element = type(dtype), *pointer = ir_.getPtrTy(), *i64 = ir_.getInt64Ty();
  SmallVector<Type*, 2> arguments(operands.size(), element);
  auto* scalar_type = FunctionType::get(element, arguments, false);
  FunctionCallee scalar = module->getOrInsertFunction(f64 ? entry.name_f64 : entry.name_f32, scalar_type);
  if (width == 1) return ir_.CreateCall(scalar, operands);
  auto* helper_type =
      FunctionType::get(ir_.getVoidTy(), {pointer, pointer, pointer, i64, i64, pointer}, false);
  FunctionCallee helper = module->getOrInsertFunction(
      math::lanes_helper_name(f64, static_cast<int>(operands.size())), helper_type);
  Value* result = spill_slot(common->getType(), 0);
  ir_.CreateStore(common, result);
  Value* inputs[2] = {Constant::getNullValue(pointer), Constant::getNullValue(pointer)};
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs[i] = spill_slot(common->getType(), static_cast<int>(i) + 1);
    ir_.CreateStore(splat(operands[i], width), inputs[i]);
  }
  Value* bits = ir_.CreateZExt(ir_.CreateBitCast(splat(mask, width), ir_.getIntNTy(width)), i64);
  ir_.CreateCall(helper, {result, inputs[0], inputs[1], bits, ir_.getInt64(width), scalar.getCallee()});
  return ir_.CreateLoad(common->getType(), result);
}

// A branch around the call, so that the common way pays one test.
Scalar VectorBuilder::rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) {
  const math::LibmEntry* entry = math::find_libm(prim);
  if (!entry) throw InternalError("emission: no library function for a rare case");
  Value* mask = value(condition);
  auto* known = dyn_cast<Constant>(mask);
  if (known && known->isNullValue()) return common;
  int width = std::max(lanes(mask), lanes(value(common)));
  SmallVector<Value*, 2> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(value(operands[i]));
    width = std::max(width, lanes(values.back()));
  }
  Value* yes = splat(value(common), width);
  if (known && known->isAllOnesValue())
    return wrap(call_lanes(*entry, common.dtype, yes, mask, values), common.dtype);
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* slow = BasicBlock::Create(context, "rare", function);
  auto* join = BasicBlock::Create(context, "common", function);
  MDBuilder metadata(context);
  ir_.CreateCondBr(any(mask), slow, join, metadata.createBranchWeights(1, 100000));
  ir_.SetInsertPoint(slow);
  Value* exact = call_lanes(*entry, common.dtype, yes, mask, values);
  ir_.CreateBr(join);
  ir_.SetInsertPoint(join);
  PHINode* merged = ir_.CreatePHI(yes->getType(), 2);
  merged->addIncoming(yes, before);
  merged->addIncoming(exact, slow);
  return wrap(merged, common.dtype);
}

// Applies a function of whole 64-byte registers to vectors of several; the operands have the same lanes.
template <typename F>
Value* VectorBuilder::by_register(ArrayRef<Value*> operands, int register_lanes, const F& function) {
  const int count = lanes(operands[0]);
  if (count == register_lanes) return function(operands);
  SmallVector<Value*, 4> parts;
  for (int start = 0; start < count; start += register_lanes) {
    SmallVector<int, 16> picked;
    for (int lane = 0; lane < register_lanes; ++lane) picked.push_back(start + lane);
    SmallVector<Value*, 2> pieces;
    for (Value* operand : operands) pieces.push_back(ir_.CreateShuffleVector(operand, picked));
    parts.push_back(function(pieces));
  }
  return concatenateVectors(ir_, parts);
}

// AVX-512 scales by a power of two, and takes a number apart, in one instruction each.
Scalar VectorBuilder::scale(Scalar x, Scalar n) {
  Value *v = value(x), *e = value(n);
  const int count = std::max(lanes(v), lanes(e)), full = 64 / runtime::bytes(x.dtype);
  if (!has_avx512_ || count % full != 0) return MathBuilder::scale(x, n);
  auto id = x.dtype == DType::kF64 ? Intrinsic::x86_avx512_mask_scalef_pd_512
                                   : Intrinsic::x86_avx512_mask_scalef_ps_512;
  Value* result =
      by_register({splat(v, count), splat(e, count)}, full, [&](ArrayRef<Value*> operands) -> Value* {
        Value* all = Constant::getAllOnesValue(ir_.getIntNTy(full));
        return ir_.CreateIntrinsic(id, {}, {operands[0], operands[1], operands[0], all, ir_.getInt32(4)});
      });
  return wrap(result, x.dtype);
}

math::MathBuilder::Split VectorBuilder::split(Scalar x) {
  Value* v = value(x);
  const int count = lanes(v), full = 64 / runtime::bytes(x.dtype);
  if (!has_avx512_ || count % full != 0) return MathBuilder::split(x);
  bool f64 = x.dtype == DType::kF64;
  auto getmant = f64 ? Intrinsic::x86_avx512_mask_getmant_pd_512 : Intrinsic::x86_avx512_mask_getmant_ps_512;
  auto getexp = f64 ? Intrinsic::x86_avx512_mask_getexp_pd_512 : Intrinsic::x86_avx512_mask_getexp_ps_512;
  Value* all = Constant::getAllOnesValue(ir_.getIntNTy(full));
  auto exponent = [&](ArrayRef<Value*> operands) -> Value* {
    return ir_.CreateIntrinsic(getexp, {}, {operands[0], operands[0], all, ir_.getInt32(4)});
  };
  // Interval 3 is [0.75, 1.5), sign of the source. The exponent follows from the mantissa: getexp(x) -
  // getexp(m).
  Value* m = by_register({v}, full, [&](ArrayRef<Value*> operands) -> Value* {
    return ir_.CreateIntrinsic(getmant, {},
                               {operands[0], ir_.getInt32(3), operands[0], all, ir_.getInt32(4)});
  });
  return {wrap(m, x.dtype),
          wrap(ir_.CreateFSub(by_register({v}, full, exponent), by_register({m}, full, exponent)), x.dtype)};
}

}  // namespace cdynamo::lowering::emit
