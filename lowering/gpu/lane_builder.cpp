#include "lowering/gpu/lane_builder.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <limits>

#include "graph/op.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;

Scalar LaneBuilder::rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) {
  auto* known = dyn_cast<Constant>(value(condition));
  if (known && known->isNullValue()) return common;
  if (known) return wrap(call_exact(prim, operands, count), common.dtype);
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* slow = BasicBlock::Create(context, "rare", function);
  auto* join = BasicBlock::Create(context, "common", function);
  MDBuilder metadata(context);
  ir_.CreateCondBr(value(condition), slow, join, metadata.createBranchWeights(1, 100000));
  ir_.SetInsertPoint(slow);
  // A call costs what is around it registers, even where it is hardly ever made; many copies cost time to assemble.
  constexpr int kMostCopies = 8;
  Value* slow_result =
      exact_copies_++ < kMostCopies ? value(exact(prim, operands, count)) : call_exact(prim, operands, count);
  BasicBlock* after = ir_.GetInsertBlock();
  ir_.CreateBr(join);
  ir_.SetInsertPoint(join);
  PHINode* merged = ir_.CreatePHI(slow_result->getType(), 2);
  merged->addIncoming(value(common), before);
  merged->addIncoming(slow_result, after);
  return wrap(merged, common.dtype);
}

Scalar LaneBuilder::exact(Prim prim, const Scalar* operands, int count) {
  return prim == Prim::k_rem ? long_division(operands[0], operands[1])
                             : math::emit_exact(*this, prim, operands, count);
}

// A function of the module, made at its first call.
Value* LaneBuilder::call_exact(Prim prim, const Scalar* operands, int count) {
  Module* module = ir_.GetInsertBlock()->getModule();
  const DType dtype = operands[0].dtype;
  const std::string name =
      "exact_" + std::to_string(static_cast<int>(prim)) + (dtype == DType::kF64 ? "_f64" : "_f32");
  Function* function = module->getFunction(name);
  if (!function) {
    SmallVector<Type*, 2> types(count, type(dtype));
    function = Function::Create(FunctionType::get(type(dtype), types, false), GlobalValue::InternalLinkage,
                                name, module);
    function->addFnAttr(Attribute::NoInline);
    function->setDoesNotThrow();
    IRBuilder<> ir(BasicBlock::Create(ir_.getContext(), "entry", function));
    LaneBuilder inside(ir);
    SmallVector<Scalar, 2> arguments;
    for (Argument& argument : function->args()) arguments.push_back(wrap(&argument, dtype));
    ir.CreateRet(value(inside.exact(prim, arguments.data(), count)));
  }
  SmallVector<Value*, 2> arguments;
  for (int i = 0; i < count; ++i) arguments.push_back(value(operands[i]));
  return ir_.CreateCall(function, arguments);
}

// fmod, in float64, as one divides by hand: the divisor times a power of two is subtracted while it fits, exactly.
Scalar LaneBuilder::long_division(Scalar a, Scalar b) {
  const DType dtype = a.dtype, f64 = DType::kF64;
  const Scalar x = cast(a, f64), divisor = abs(cast(b, f64)), zero = constant(0, f64);
  const Scalar infinity = constant(std::numeric_limits<double>::infinity(), f64);
  const Scalar magnitude = abs(x);
  const Scalar regular = bit_and(bit_and(lt(magnitude, infinity), lt(divisor, infinity)), gt(divisor, zero));
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* head = BasicBlock::Create(context, "divide", function);
  auto* step = BasicBlock::Create(context, "subtract", function);
  auto* done = BasicBlock::Create(context, "divided", function);
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  PHINode* rest = ir_.CreatePHI(ir_.getDoubleTy(), 2, "rest");
  rest->addIncoming(value(magnitude), before);
  const Scalar r = wrap(rest, f64);
  ir_.CreateCondBr(value(bit_and(regular, ge(r, divisor))), step, done);
  ir_.SetInsertPoint(step);
  const Scalar n = sub(split(r).exponent, split(divisor).exponent);
  // In two steps: a power of two by itself may be beyond what there is.
  const Scalar below = max(sub(n, constant(1, f64)), zero), half = floor(mul(below, constant(0.5, f64)));
  const Scalar part = scale(scale(divisor, half), sub(below, half));
  const Scalar fits = select(ge(sub(r, part), part), add(part, part), part);
  rest->addIncoming(value(sub(r, fits)), ir_.GetInsertBlock());
  ir_.CreateBr(head);
  ir_.SetInsertPoint(done);
  // By an infinity nothing is subtracted; of an infinity, by zero or with a NaN there is no remainder.
  const Scalar none =
      bit_or(ne(x, x), bit_or(eq(magnitude, infinity), bit_or(eq(divisor, zero), ne(divisor, divisor))));
  const Scalar result = select(none, constant(std::numeric_limits<double>::quiet_NaN(), f64), copysign(r, x));
  return cast(result, dtype);
}

Scalar LaneBuilder::constant_at(std::span<const double> table, Scalar index) {
  SmallVector<Constant*, 64> entries;
  for (double entry : table) entries.push_back(ConstantFP::get(ir_.getDoubleTy(), entry));
  auto* type = ArrayType::get(ir_.getDoubleTy(), entries.size());
  Constant* contents = ConstantArray::get(type, entries);
  Module* module = ir_.GetInsertBlock()->getModule();
  GlobalVariable* memory = nullptr;
  for (GlobalVariable& other : module->globals())
    if (other.hasInitializer() && other.getInitializer() == contents) memory = &other;
  constexpr unsigned kConstantSpace = 4;
  if (!memory)
    memory = new GlobalVariable(*module, type, true, GlobalValue::InternalLinkage, contents, "table", nullptr,
                                GlobalValue::NotThreadLocal, kConstantSpace);
  Value* at = ir_.CreateGEP(type, memory, {ir_.getInt32(0), value(index)});
  return wrap(ir_.CreateLoad(ir_.getDoubleTy(), at), DType::kF64);
}

// As the device converts, and so the framework's kernels: to the nearest that there is, NaN to 0 (in 64 bits, to the
// least). LLVM's own instruction is undefined out of range.
Value* LaneBuilder::to_integer(Value* v, DType dtype) {
  const bool wide = runtime::bytes(dtype) == 8, f64 = v->getType()->isDoubleTy();
  auto id = f64 ? (wide ? Intrinsic::nvvm_d2ll_rz : Intrinsic::nvvm_d2i_rz)
                : (wide ? Intrinsic::nvvm_f2ll_rz : Intrinsic::nvvm_f2i_rz);
  return ir_.CreateIntrinsic(id, {}, {v});
}

// A copy that LLVM does not see through; the assembler does. (LLVM's fence for floats is not for registers that PTX has.)
Value* LaneBuilder::opaque(Value* v) {
  const bool f64 = v->getType()->isDoubleTy();
  auto* type = FunctionType::get(v->getType(), {v->getType()}, false);
  return ir_.CreateCall(
      InlineAsm::get(type, f64 ? "mov.f64 $0, $1;" : "mov.f32 $0, $1;", f64 ? "=d,d" : "=f,f",
                     /*hasSideEffects=*/false),
      {v});
}

Value* LaneBuilder::from_lane(Value* v, int mask) {
  Type* type = v->getType();
  auto shuffle = [&](Value* word) -> Value* {
    return ir_.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                               {ir_.getInt32(-1), word, ir_.getInt32(mask), ir_.getInt32(31)});
  };
  const unsigned bits = type->getPrimitiveSizeInBits();
  auto* integer = ir_.getIntNTy(bits);
  Value* raw = ir_.CreateBitCast(v, integer);
  if (bits <= 32) {
    Value* word = shuffle(ir_.CreateZExt(raw, ir_.getInt32Ty()));
    return ir_.CreateBitCast(ir_.CreateTrunc(word, integer), type);
  }
  Value* low = shuffle(ir_.CreateTrunc(raw, ir_.getInt32Ty()));
  Value* high = shuffle(ir_.CreateTrunc(ir_.CreateLShr(raw, 32), ir_.getInt32Ty()));
  Value* joined = ir_.CreateOr(ir_.CreateZExt(low, ir_.getInt64Ty()),
                               ir_.CreateShl(ir_.CreateZExt(high, ir_.getInt64Ty()), 32));
  return ir_.CreateBitCast(joined, type);
}

}  // namespace cdynamo::lowering::gpu
