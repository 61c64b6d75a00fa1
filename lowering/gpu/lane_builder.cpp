#include "lowering/gpu/lane_builder.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "graph/op.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;

Scalar LaneBuilder::rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) {
  auto* known = dyn_cast<Constant>(value(condition));
  if (known && known->isNullValue()) return common;
  if (known) return wrap(call_exact(prim, operands, count), common.dtype);
  if (collected_) {
    collected_->push_back(value(condition));
    return common;
  }
  const Operands kept(operands, operands + count);
  return wrap(
      branch(value(condition), {value(common)}, [&] { return std::vector{emit_rare(prim, kept)}; })[0],
      common.dtype);
}

std::vector<Value*> LaneBuilder::together(const std::vector<Operands>& points, const Emit& emit) {
  if (points.size() == 1) return {emit(points[0])};
  std::vector<Value*> common, conditions;
  collected_ = &conditions;
  for (const Operands& operands : points) common.push_back(emit(operands));
  collected_ = nullptr;
  if (conditions.empty()) return common;
  Value* any_rare = conditions[0];
  for (Value* condition : std::span(conditions).subspan(1)) any_rare = ir_.CreateOr(any_rare, condition);
  std::vector<Value*> results = branch(any_rare, common, [&] { return one_by_one(points, common, emit); });
  for (size_t i = 0; i < results.size(); ++i)
    if (const auto known = bounds_.find(common[i]); known != bounds_.end()) {
      const double bound = known->second;
      bounds_[results[i]] = bound;
    }
  return results;
}

// Each turn takes the first of the operands that differ from point to point, moves up the others, and puts its result behind them:
// after the last turn results stand in the operands' places, and no register is there for them alone.
std::vector<Value*> LaneBuilder::one_by_one(const std::vector<Operands>& points,
                                            const std::vector<Value*>& common, const Emit& emit) {
  const size_t count = points.size();
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* loop = BasicBlock::Create(context, "point", function);
  auto* done = BasicBlock::Create(context, "points", function);
  ir_.CreateBr(loop);
  ir_.SetInsertPoint(loop);
  using Queue = std::vector<PHINode*>;
  auto queue_of = [&](const std::function<Value*(size_t)>& first) {
    Queue queue;
    for (size_t i = 0; i < count; ++i) {
      queue.push_back(ir_.CreatePHI(first(i)->getType(), 2));
      queue.back()->addIncoming(first(i), before);
    }
    return queue;
  };
  PHINode* turn = ir_.CreatePHI(ir_.getInt32Ty(), 2);
  turn->addIncoming(ir_.getInt32(0), before);
  Operands operands = points[0];
  std::vector<Queue> queues;
  size_t of_results = SIZE_MAX;
  for (size_t k = 0; k < operands.size(); ++k) {
    auto value_at = [&](size_t i) { return value(points[i][k]); };
    bool differs = false;
    for (size_t i = 1; i < count; ++i) differs |= value_at(i) != value_at(0);
    if (!differs) continue;
    if (of_results == SIZE_MAX && value_at(0)->getType() == common[0]->getType()) of_results = queues.size();
    queues.push_back(queue_of(value_at));
    operands[k] = wrap(queues.back()[0], operands[k].dtype);
  }
  if (of_results == SIZE_MAX) {
    of_results = queues.size();
    queues.push_back(queue_of([&](size_t i) { return common[i]; }));
  }
  Value* made = emit(operands);
  Value* next = ir_.CreateAdd(turn, ir_.getInt32(1));
  BranchInst* again =
      ir_.CreateCondBr(ir_.CreateICmpULT(next, ir_.getInt32(static_cast<uint32_t>(count))), loop, done);
  MDNode* rolled = MDNode::get(context, MDString::get(context, "llvm.loop.unroll.disable"));
  MDNode* properties = MDNode::getDistinct(context, {nullptr, rolled});
  properties->replaceOperandWith(0, properties);
  again->setMetadata(LLVMContext::MD_loop, properties);
  BasicBlock* end = ir_.GetInsertBlock();
  turn->addIncoming(next, end);
  std::vector<Value*> results;
  for (const Queue& queue : queues)
    for (size_t i = 0; i < count; ++i) {
      const bool is_result = &queue == &queues[of_results];
      Value* last = is_result ? made : PoisonValue::get(queue[i]->getType());
      Value* moved = i + 1 < count ? queue[i + 1] : last;
      queue[i]->addIncoming(moved, end);
      if (is_result) results.push_back(moved);
    }
  ir_.SetInsertPoint(done);
  return results;
}

std::vector<Value*> LaneBuilder::branch(Value* condition, const std::vector<Value*>& otherwise,
                                        const std::function<std::vector<Value*>()>& inside) {
  LLVMContext& context = ir_.getContext();
  Function* function = ir_.GetInsertBlock()->getParent();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* slow = BasicBlock::Create(context, "rare", function);
  auto* join = BasicBlock::Create(context, "common", function);
  MDBuilder metadata(context);
  ir_.CreateCondBr(condition, slow, join, metadata.createBranchWeights(1, 100000));
  ir_.SetInsertPoint(slow);
  std::vector<Value*> results = inside();
  BasicBlock* after = ir_.GetInsertBlock();
  ir_.CreateBr(join);
  ir_.SetInsertPoint(join);
  for (size_t i = 0; i < results.size(); ++i) {
    PHINode* merged = ir_.CreatePHI(results[i]->getType(), 2);
    merged->addIncoming(otherwise[i], before);
    merged->addIncoming(results[i], after);
    results[i] = merged;
  }
  return results;
}

// A call costs what is around it registers, even where it is hardly ever made; many copies of long code cost time to assemble.
Value* LaneBuilder::emit_rare(Prim prim, const Operands& operands) {
  constexpr int kMostCopies = 8;
  const bool is_short = operands[0].dtype == DType::kF32 && (prim == Prim::k_sin || prim == Prim::k_cos);
  const int count = static_cast<int>(operands.size());
  if (is_short || exact_copies_++ < kMostCopies) return value(exact(prim, operands.data(), count));
  return call_exact(prim, operands.data(), count);
}

Scalar LaneBuilder::exact(Prim prim, const Scalar* operands, int count) {
  return prim == Prim::k_rem ? long_division(operands[0], operands[1])
                             : math::emit_exact(*this, prim, operands, count);
}

// A function of the module, made at its first call.
Value* LaneBuilder::call_exact(Prim prim, const Scalar* operands, int count) {
  llvm::Module* module = ir_.GetInsertBlock()->getModule();
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

// The bits of an integral number that is small, as the lowest of the sum with this one's.
constexpr float kMagic = 0x1.8p23F;

// MathBuilder's, without the conversion to an integer, which a GPU is slow at.
Scalar LaneBuilder::scale(Scalar x, Scalar n) {
  if (x.dtype != DType::kF32) return CodeBuilder::scale(x, n);
  Value* shifted = ir_.CreateBitCast(value(add(n, constant(kMagic, DType::kF32))), ir_.getInt32Ty());
  Value* k = ir_.CreateSub(shifted, ir_.getInt32(std::bit_cast<int32_t>(kMagic)));
  Value* half = ir_.CreateAShr(k, 1);
  auto power = [&](Value* exponent) {
    Value* bits = ir_.CreateShl(ir_.CreateAdd(exponent, ir_.getInt32(127)), 23);
    return wrap(ir_.CreateBitCast(bits, ir_.getFloatTy()), DType::kF32);
  };
  return mul(mul(x, power(half)), power(ir_.CreateSub(k, half)));
}

// e^x as the framework's kernels have it, within 2 ULP: 2^n for n within a normal number's range times the device's own 2^f, where f is
// what is left, and more than that where the result is 0, subnormal or infinite.
std::optional<Scalar> LaneBuilder::own(Prim prim, Scalar x) {
  if (prim != Prim::k_exp || x.dtype != DType::kF32) return std::nullopt;
  const DType f32 = DType::kF32;
  constexpr double kLog2E = 1.4426950216293335, kLog2ELow = 1.9251366722983221e-8, kRange = 252;
  if (bound(x) <= 2) {  // 2^n 2^f is the device's 2^x; it is given what the product's rounding lost
    constexpr double kLn2 = 0.69314718055994531;
    const Scalar product = mul(x, constant(kLog2E, f32));
    const Scalar lost = fma(x, constant(kLog2ELow, f32), fma(x, constant(kLog2E, f32), neg(product)));
    const Scalar power =
        wrap(ir_.CreateIntrinsic(Intrinsic::nvvm_ex2_approx_ftz_f, {}, {value(product)}), f32);
    return fma(power, mul(lost, constant(kLn2, f32)), power);
  }
  Value* part =
      ir_.CreateIntrinsic(Intrinsic::nvvm_saturate_f, {},
                          {value(fma(x, constant((kLog2E + kLog2ELow) / kRange, f32), constant(0.5, f32)))});
  // n + 127 in the lowest bits.
  const double magic = kMagic + 1;
  const Scalar shifted = fma(wrap(part, f32), constant(kRange, f32), constant(magic, f32));
  const Scalar minus_n = sub(constant(magic + kRange / 2, f32), shifted);
  const Scalar f = fma(x, constant(kLog2ELow, f32), fma(x, constant(kLog2E, f32), minus_n));
  Value* power = ir_.CreateIntrinsic(Intrinsic::nvvm_ex2_approx_ftz_f, {}, {value(f)});
  Value* bits = ir_.CreateShl(ir_.CreateBitCast(value(shifted), ir_.getInt32Ty()), 23);
  return mul(wrap(power, f32), wrap(ir_.CreateBitCast(bits, ir_.getFloatTy()), f32));
}

double LaneBuilder::bound(Scalar x) const {
  auto known = bounds_.find(value(x));
  return known == bounds_.end() ? CodeBuilder::bound(x) : known->second;
}

void LaneBuilder::note_bound(Scalar x, double bound) { bounds_[value(x)] = bound; }

Scalar LaneBuilder::constant_at(std::span<const double> table, Scalar index) {
  SmallVector<Constant*, 64> entries;
  for (double entry : table) entries.push_back(ConstantFP::get(ir_.getDoubleTy(), entry));
  auto* type = ArrayType::get(ir_.getDoubleTy(), entries.size());
  Constant* contents = ConstantArray::get(type, entries);
  llvm::Module* module = ir_.GetInsertBlock()->getModule();
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
  return shuffle(v, Intrinsic::nvvm_shfl_sync_bfly_i32, ir_.getInt32(mask), 31);
}

Value* LaneBuilder::from_below(Value* v, int by) {
  return shuffle(v, Intrinsic::nvvm_shfl_sync_up_i32, ir_.getInt32(by), 0);
}

Value* LaneBuilder::from_lane_at(Value* v, Value* lane) {
  return shuffle(v, Intrinsic::nvvm_shfl_sync_idx_i32, lane, 31);
}

// Word by word.
Value* LaneBuilder::shuffle(Value* v, Intrinsic::ID kind, Value* which, int clamp) {
  Type* type = v->getType();
  auto move = [&](Value* word) -> Value* {
    return ir_.CreateIntrinsic(kind, {}, {ir_.getInt32(-1), word, which, ir_.getInt32(clamp)});
  };
  const unsigned bits = type->getPrimitiveSizeInBits();
  auto* integer = ir_.getIntNTy(bits);
  Value* raw = ir_.CreateBitCast(v, integer);
  if (bits <= 32) {
    Value* word = move(ir_.CreateZExt(raw, ir_.getInt32Ty()));
    return ir_.CreateBitCast(ir_.CreateTrunc(word, integer), type);
  }
  Value* low = move(ir_.CreateTrunc(raw, ir_.getInt32Ty()));
  Value* high = move(ir_.CreateTrunc(ir_.CreateLShr(raw, 32), ir_.getInt32Ty()));
  Value* joined = ir_.CreateOr(ir_.CreateZExt(low, ir_.getInt64Ty()),
                               ir_.CreateShl(ir_.CreateZExt(high, ir_.getInt64Ty()), 32));
  return ir_.CreateBitCast(joined, type);
}

}  // namespace cdynamo::lowering::gpu
