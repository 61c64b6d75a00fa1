#include "runtime/codegen/masked_memory.h"

#include <llvm/Analysis/InstSimplifyFolder.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

namespace cdynamo::runtime {
namespace {

using namespace llvm;

constexpr unsigned kRegister = 256, kHalf = 128;  // bits

struct Instructions {
  Intrinsic::ID load[2], store[2];  // of half a register, of a whole one
};

const Instructions& instructions_for(const Type* element) {
  static constexpr Instructions kFloats = {
      {Intrinsic::x86_avx_maskload_ps, Intrinsic::x86_avx_maskload_ps_256},
      {Intrinsic::x86_avx_maskstore_ps, Intrinsic::x86_avx_maskstore_ps_256}};
  static constexpr Instructions kDoubles = {
      {Intrinsic::x86_avx_maskload_pd, Intrinsic::x86_avx_maskload_pd_256},
      {Intrinsic::x86_avx_maskstore_pd, Intrinsic::x86_avx_maskstore_pd_256}};
  static constexpr Instructions kInts = {
      {Intrinsic::x86_avx2_maskload_d, Intrinsic::x86_avx2_maskload_d_256},
      {Intrinsic::x86_avx2_maskstore_d, Intrinsic::x86_avx2_maskstore_d_256}};
  static constexpr Instructions kLongs = {
      {Intrinsic::x86_avx2_maskload_q, Intrinsic::x86_avx2_maskload_q_256},
      {Intrinsic::x86_avx2_maskstore_q, Intrinsic::x86_avx2_maskstore_q_256}};
  if (element->isFloatingPointTy()) return element->isFloatTy() ? kFloats : kDoubles;
  return element->isIntegerTy(32) ? kInts : kLongs;
}

bool has_instruction(const Type* type) {
  const auto* vector = dyn_cast<FixedVectorType>(type);
  if (!vector) return false;
  const unsigned bits = vector->getScalarSizeInBits();
  return (bits == 32 || bits == 64) && bits * vector->getNumElements() % kHalf == 0;
}

class Access {
 public:
  // `type`: of the vector that is read or written.
  Access(IntrinsicInst& call, Type* type, Value* pointer, Value* mask)
      : ir_(call.getContext(), InstSimplifyFolder(call.getModule()->getDataLayout())),
        type_(cast<FixedVectorType>(type)),
        pointer_(pointer),
        mask_(mask) {
    ir_.SetInsertPoint(&call);
  }

  Value* load(Value* otherwise) {
    SmallVector<Value*, 4> parts;
    for_each_part([&](const Instructions& calls, Value* pointer, Value* mask, FixedVectorType* type,
                      unsigned) {
      if (is_on(mask))
        parts.push_back(ir_.CreateAlignedLoad(type, pointer, element_align()));
      else if (is_off(mask))
        parts.push_back(Constant::getNullValue(type));
      else
        parts.push_back(ir_.CreateIntrinsic(calls.load[is_whole(type)], {}, {pointer, signs(mask, type)}));
    });
    Value* loaded = concatenateVectors(ir_, parts);
    const auto* constant = dyn_cast<Constant>(otherwise);
    return constant && constant->isNullValue() ? loaded : ir_.CreateSelect(mask_, loaded, otherwise);
  }

  void store(Value* value) {
    for_each_part(
        [&](const Instructions& calls, Value* pointer, Value* mask, FixedVectorType* type, unsigned first) {
          if (is_off(mask)) return;
          Value* part = part_of(value, first, type->getNumElements());
          if (is_on(mask))
            ir_.CreateAlignedStore(part, pointer, element_align());
          else
            ir_.CreateIntrinsic(calls.store[is_whole(type)], {}, {pointer, signs(mask, type), part});
        });
  }

 private:
  static bool is_on(const Value* mask) {
    return isa<Constant>(mask) && cast<Constant>(mask)->isAllOnesValue();
  }
  static bool is_off(const Value* mask) { return isa<Constant>(mask) && cast<Constant>(mask)->isNullValue(); }
  static bool is_whole(const FixedVectorType* type) {
    return type->getScalarSizeInBits() * type->getNumElements() == kRegister;
  }
  Align element_align() const { return Align(type_->getScalarSizeInBits() / 8); }

  template <typename F>
  void for_each_part(F&& each) {
    Type* element = type_->getElementType();
    const unsigned bits = element->getScalarSizeInBits(), lanes = type_->getNumElements();
    for (unsigned first = 0, count = 0; first < lanes; first += count) {
      count = (lanes - first) * bits >= kRegister ? kRegister / bits : kHalf / bits;
      each(instructions_for(element), ir_.CreateConstGEP1_64(element, pointer_, first),
           part_of(mask_, first, count), FixedVectorType::get(element, count), first);
    }
  }

  // The lanes [first, first + count). A mask's constant parts are found: what is on or off there needs no mask.
  Value* part_of(Value* vector, unsigned first, unsigned count) {
    if (auto* operation = dyn_cast<BinaryOperator>(vector);
        operation && operation->getType()->isIntOrIntVectorTy(1))
      return ir_.CreateBinOp(operation->getOpcode(), part_of(operation->getOperand(0), first, count),
                             part_of(operation->getOperand(1), first, count));
    return ir_.CreateShuffleVector(vector, createSequentialMask(first, count, 0));
  }

  // The mask as the instruction has it.
  Value* signs(Value* mask, const FixedVectorType* type) {
    return ir_.CreateSExt(
        mask, FixedVectorType::get(ir_.getIntNTy(type->getScalarSizeInBits()), type->getNumElements()));
  }

  IRBuilder<InstSimplifyFolder> ir_;
  FixedVectorType* type_;
  Value *pointer_, *mask_;
};

void take_load_apart(IntrinsicInst& call) {
  if (!has_instruction(call.getType())) return;
  Access access(call, call.getType(), call.getArgOperand(0), call.getArgOperand(2));
  call.replaceAllUsesWith(access.load(call.getArgOperand(3)));
  call.eraseFromParent();
}

void take_store_apart(IntrinsicInst& call) {
  Value* value = call.getArgOperand(0);
  if (!has_instruction(value->getType())) return;
  Access(call, value->getType(), call.getArgOperand(1), call.getArgOperand(3)).store(value);
  call.eraseFromParent();
}

}  // namespace

void take_masked_memory_apart(Module& module, const TargetMachine& machine) {
  const MCSubtargetInfo& target = *machine.getMCSubtargetInfo();
  if (!machine.getTargetTriple().isX86() || !target.checkFeatures("+avx2") ||
      target.checkFeatures("+avx512vl"))
    return;
  SmallVector<IntrinsicInst*, 32> calls;
  for (Function& function : module)
    for (BasicBlock& block : function)
      for (Instruction& instruction : block)
        if (auto* call = dyn_cast<IntrinsicInst>(&instruction)) calls.push_back(call);
  for (IntrinsicInst* call : calls) {
    if (call->getIntrinsicID() == Intrinsic::masked_load)
      take_load_apart(*call);
    else if (call->getIntrinsicID() == Intrinsic::masked_store)
      take_store_apart(*call);
  }
}

}  // namespace cdynamo::runtime
