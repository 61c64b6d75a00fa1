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

// LLVM 19 loses the sign operation where it merges "is NaN" with "is above 0": max(|x|, 0) became that of x.
Value* VectorBuilder::opaque(Value* value) {
  return ir_.CreateUnaryIntrinsic(Intrinsic::arithmetic_fence, value);
}

// One minps or maxps has the choice of b; LLVM would join the two conditions, and compare twice. With a number they become one.
Value* VectorBuilder::extremum(bool min, Value* a, Value* b) {
  if (isa<Constant>(a) || isa<Constant>(b)) return CodeBuilder::extremum(min, a, b);
  Value* better = min ? ir_.CreateFCmpOLT(a, b) : ir_.CreateFCmpOGT(a, b);
  return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, opaque(ir_.CreateSelect(better, a, b)));
}

// x86 has no vector division of integers: up to 32 bits it is done in float64, where the quotient of two int32 truncates
// to the exact result.
Value* VectorBuilder::integer_divide(Prim prim, DType dtype, Value* a, Value* b) {
  if (runtime::bytes(dtype) == 8 || isa<Constant>(b)) return CodeBuilder::integer_divide(prim, dtype, a, b);
  const int count = lanes(a);
  const bool is_signed = dtype != DType::kBool && runtime::info(dtype).is_signed;
  Type *t = type(dtype, count), *f64 = type(DType::kF64, count);
  Constant* zero = Constant::getNullValue(t);
  Value* b_is_zero = ir_.CreateICmpEQ(b, zero);
  auto widen = [&](Value* v) { return is_signed ? ir_.CreateSIToFP(v, f64) : ir_.CreateUIToFP(v, f64); };
  Value* divisor = ir_.CreateSelect(b_is_zero, ConstantFP::get(f64, 1.0), widen(b));
  // The least int32 over -1 is 2^31, which fits the wider conversion and wraps in the truncation.
  Value* exact = ir_.CreateFDiv(widen(a), divisor);
  Type* step = type(runtime::bytes(dtype) < 4 ? DType::kI32 : DType::kI64, count);
  Value* quotient = ir_.CreateTrunc(ir_.CreateFPToSI(exact, step), t);
  if (prim == Prim::k_div) return ir_.CreateSelect(b_is_zero, zero, quotient);
  Value* remainder = ir_.CreateSub(a, ir_.CreateMul(quotient, b));
  return ir_.CreateSelect(b_is_zero, zero, remainder);
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
  llvm::Module* module = ir_.GetInsertBlock()->getModule();
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
std::optional<Scalar> VectorBuilder::scale_at_once(Scalar x, Scalar n) {
  Value *v = value(x), *e = value(n);
  const int count = std::max(lanes(v), lanes(e)), full = 64 / runtime::bytes(x.dtype);
  if (!has_avx512_ || count % full != 0) return {};
  auto id = x.dtype == DType::kF64 ? Intrinsic::x86_avx512_mask_scalef_pd_512
                                   : Intrinsic::x86_avx512_mask_scalef_ps_512;
  Value* result =
      by_register({splat(v, count), splat(e, count)}, full, [&](ArrayRef<Value*> operands) -> Value* {
        Value* all = Constant::getAllOnesValue(ir_.getIntNTy(full));
        return ir_.CreateIntrinsic(id, {}, {operands[0], operands[1], operands[0], all, ir_.getInt32(4)});
      });
  return wrap(result, x.dtype);
}

Scalar VectorBuilder::scale(Scalar x, Scalar n) {
  const std::optional<Scalar> scaled = scale_at_once(x, n);
  return scaled ? *scaled : MathBuilder::scale(x, n);
}

Scalar VectorBuilder::scale_normal(Scalar x, Scalar n) {
  const std::optional<Scalar> scaled = scale_at_once(x, n);
  return scaled ? *scaled : MathBuilder::scale_normal(x, n);
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
