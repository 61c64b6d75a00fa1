#include "lowering/emit/vector_builder.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>

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
  Type* element = dtype == DType::kBool ? ir_.getInt8Ty() : runtime::is_half(dtype) ? ir_.getInt16Ty() : type(dtype);
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
        DType step = runtime::bytes(target) < 4 ? DType::kI32 : target;
        v = ir_.CreateFPToSI(v, type(step, count));
        v = ir_.CreateTrunc(v, result);
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
    Type* f16 = count == 1 ? ir_.getHalfTy() : static_cast<Type*>(FixedVectorType::get(ir_.getHalfTy(), count));
    return ir_.CreateFPExt(ir_.CreateBitCast(bits, f16), type(DType::kF32, count));
  }
  Value* wide = ir_.CreateShl(ir_.CreateZExt(bits, type(DType::kI32, count)), 16);
  return ir_.CreateBitCast(wide, type(DType::kF32, count));
}

Value* VectorBuilder::narrow_half(Value* v, DType half) {
  int count = lanes(v);
  Type* i16 = storage_type(half, count);
  if (half == DType::kF16) {
    Type* f16 = count == 1 ? ir_.getHalfTy() : static_cast<Type*>(FixedVectorType::get(ir_.getHalfTy(), count));
    return ir_.CreateBitCast(ir_.CreateFPTrunc(v, f16), i16);
  }
  // In integers: the bfloat16 instructions of AVX-512 flush subnormal numbers.
  Type* i32 = type(DType::kI32, count);
  Value* u = ir_.CreateBitCast(v, i32);
  Value* odd = ir_.CreateAnd(ir_.CreateLShr(u, 16), ConstantInt::get(i32, 1));
  Value* rounded = ir_.CreateAdd(u, ir_.CreateAdd(odd, ConstantInt::get(i32, 0x7fff)));
  Value* nan = ir_.CreateFCmpUNO(v, v);
  Value* kept = ir_.CreateSelect(nan, ConstantInt::get(i32, 0x7fc00000), rounded);
  return ir_.CreateTrunc(ir_.CreateLShr(kept, 16), i16);
}

Scalar VectorBuilder::round_to(Scalar s, DType half) {
  Value* v = value(s);
  int count = lanes(v);
  if (half == DType::kF16) return wrap(widen_half(narrow_half(v, half), half), DType::kF32);
  Type* i32 = type(DType::kI32, count);
  Value* bits = ir_.CreateShl(ir_.CreateZExt(narrow_half(v, half), i32), 16);
  return wrap(ir_.CreateBitCast(bits, type(DType::kF32, count)), DType::kF32);
}

// One call a lane: the generic way for what has no vector code.
Value* VectorBuilder::call_lanes(const char* name, Value* const* operands, int count) {
  int width = 1;
  for (int i = 0; i < count; ++i) width = std::max(width, lanes(operands[i]));
  Type* element = operands[0]->getType()->getScalarType();
  Module* module = ir_.GetInsertBlock()->getModule();
  SmallVector<Type*, 2> types(count, element);
  FunctionCallee callee = module->getOrInsertFunction(name, FunctionType::get(element, types, false));
  if (auto* function = dyn_cast<Function>(callee.getCallee())) {
    function->setDoesNotThrow();
    function->setDoesNotAccessMemory();
    function->setWillReturn();
  }
  Value* result = width == 1 ? nullptr : PoisonValue::get(FixedVectorType::get(element, width));
  for (int lane = 0; lane < width; ++lane) {
    SmallVector<Value*, 2> arguments;
    for (int i = 0; i < count; ++i)
      arguments.push_back(lanes(operands[i]) == 1 ? operands[i] : ir_.CreateExtractElement(operands[i], lane));
    Value* one = ir_.CreateCall(callee, arguments);
    if (width == 1) return one;
    result = ir_.CreateInsertElement(result, one, lane);
  }
  return result;
}

Scalar VectorBuilder::libm_lanes(Prim prim, const Scalar* operands, int count) {
  const math::LibmEntry* entry = math::find_libm(prim);
  if (!entry) throw graph::Unsupported("no scalar code for a primitive function");
  Value* values[2] = {};
  for (int i = 0; i < count; ++i) values[i] = value(operands[i]);
  const char* name = operands[0].dtype == DType::kF64 ? entry->name_f64 : entry->name_f32;
  return wrap(call_lanes(name, values, count), operands[0].dtype);
}

// A branch around a loop over the lanes, so that the common way pays one test.
Scalar VectorBuilder::rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) {
  const math::LibmEntry* entry = math::find_libm(prim);
  if (!entry) throw InternalError("emission: no library function for a rare case");
  Value* mask = value(condition);
  if (auto* constant = dyn_cast<Constant>(mask); constant && constant->isNullValue()) return common;
  int width = std::max(lanes(mask), lanes(value(common)));
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* slow = BasicBlock::Create(context, "rare", function);
  auto* join = BasicBlock::Create(context, "common", function);
  MDBuilder metadata(context);
  Value* yes = splat(value(common), width);
  Value* any_lane = any(mask);
  ir_.CreateCondBr(any_lane, slow, join, metadata.createBranchWeights(1, 100000));

  // The loop: for each lane, result[lane] = condition[lane] ? f(operand[lane]) : result[lane].
  ir_.SetInsertPoint(slow);
  const char* name = operands[0].dtype == DType::kF64 ? entry->name_f64 : entry->name_f32;
  Value* slow_result = nullptr;
  BasicBlock* slow_end = slow;
  if (width == 1) {
    Value* values[2] = {};
    for (int i = 0; i < count; ++i) values[i] = value(operands[i]);
    slow_result = call_lanes(name, values, count);
  } else {
    auto* loop = BasicBlock::Create(context, "rare.lane", function, join);
    auto* done = BasicBlock::Create(context, "rare.done", function, join);
    ir_.CreateBr(loop);
    ir_.SetInsertPoint(loop);
    PHINode* lane = ir_.CreatePHI(ir_.getInt32Ty(), 2);
    PHINode* result = ir_.CreatePHI(yes->getType(), 2);
    Value* arguments[2] = {};
    for (int i = 0; i < count; ++i) {
      Value* operand = value(operands[i]);
      arguments[i] = lanes(operand) == 1 ? operand : ir_.CreateExtractElement(operand, lane);
    }
    Value* exact = call_lanes(name, arguments, count);
    Value* wanted = ir_.CreateExtractElement(splat(mask, width), lane);
    Value* old = ir_.CreateExtractElement(result, lane);
    Value* next_result = ir_.CreateInsertElement(result, ir_.CreateSelect(wanted, exact, old), lane);
    Value* next = ir_.CreateAdd(lane, ir_.getInt32(1));
    lane->addIncoming(ir_.getInt32(0), slow);
    lane->addIncoming(next, loop);
    result->addIncoming(yes, slow);
    result->addIncoming(next_result, loop);
    ir_.CreateCondBr(ir_.CreateICmpULT(next, ir_.getInt32(width)), loop, done);
    ir_.SetInsertPoint(done);
    slow_result = next_result;
    slow_end = done;
  }
  ir_.CreateBr(join);
  ir_.SetInsertPoint(join);
  PHINode* merged = ir_.CreatePHI(yes->getType(), 2);
  merged->addIncoming(yes, before);
  merged->addIncoming(slow_result, slow_end);
  return wrap(merged, common.dtype);
}

// AVX-512 scales by a power of two, and takes a number apart, in one instruction each.
Scalar VectorBuilder::scale(Scalar x, Scalar n) {
  Value *v = value(x), *e = value(n);
  int count = std::max(lanes(v), lanes(e));
  bool full = count * runtime::bytes(x.dtype) == 64;
  if (!has_avx512_ || !full) return MathBuilder::scale(x, n);
  auto id = x.dtype == DType::kF64 ? Intrinsic::x86_avx512_mask_scalef_pd_512 : Intrinsic::x86_avx512_mask_scalef_ps_512;
  Type* mask = ir_.getIntNTy(count);
  v = splat(v, count), e = splat(e, count);
  return wrap(ir_.CreateIntrinsic(id, {}, {v, e, v, Constant::getAllOnesValue(mask), ir_.getInt32(4)}), x.dtype);
}

math::MathBuilder::Split VectorBuilder::split(Scalar x) {
  Value* v = value(x);
  int count = lanes(v);
  if (!has_avx512_ || count * runtime::bytes(x.dtype) != 64) return MathBuilder::split(x);
  bool f64 = x.dtype == DType::kF64;
  auto getmant = f64 ? Intrinsic::x86_avx512_mask_getmant_pd_512 : Intrinsic::x86_avx512_mask_getmant_ps_512;
  auto getexp = f64 ? Intrinsic::x86_avx512_mask_getexp_pd_512 : Intrinsic::x86_avx512_mask_getexp_ps_512;
  Value* all = Constant::getAllOnesValue(ir_.getIntNTy(count));
  // Interval 3 is [0.75, 1.5), sign of the source. The exponent follows from the mantissa: getexp(x) - getexp(m).
  Value* m = ir_.CreateIntrinsic(getmant, {}, {v, ir_.getInt32(3), v, all, ir_.getInt32(4)});
  Value* ex = ir_.CreateIntrinsic(getexp, {}, {v, v, all, ir_.getInt32(4)});
  Value* em = ir_.CreateIntrinsic(getexp, {}, {m, m, all, ir_.getInt32(4)});
  return {wrap(m, x.dtype), wrap(ir_.CreateFSub(ex, em), x.dtype)};
}

}  // namespace cdynamo::lowering::emit
