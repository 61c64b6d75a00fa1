#include "lowering/codegen/size_emitter.h"

#include "graph/op.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

Value* SizeEmitter::operator()(const graph::Sym& sym) {
  if (sym.is_constant()) return ir_.getInt64(sym.constant());
  for (const auto& [node, value] : known_)
    if (node == sym.node()) return value;
  const graph::SymNode& node = *sym.node();
  IRBuilder<>::InsertPointGuard guard(ir_);
  ir_.SetInsertPoint(entry_->getTerminator());
  Value* result = nullptr;
  if (node.kind == graph::SymKind::kSymbol) result = symbol_(node.symbol);
  for (const graph::Sym& operand : node.operands) {
    Value* value = (*this)(operand);
    ir_.SetInsertPoint(entry_->getTerminator());
    if (!result) {
      result = value;
      continue;
    }
    switch (node.kind) {
      case graph::SymKind::kAdd: result = ir_.CreateAdd(result, value); break;
      case graph::SymKind::kMul: result = ir_.CreateMul(result, value); break;
      case graph::SymKind::kMin: result = ir_.CreateBinaryIntrinsic(Intrinsic::smin, result, value); break;
      case graph::SymKind::kMax: result = ir_.CreateBinaryIntrinsic(Intrinsic::smax, result, value); break;
      case graph::SymKind::kFloorDiv:
      case graph::SymKind::kMod: {
        // Python's // and %: the remainder has the divisor's sign.
        Value *quotient = ir_.CreateSDiv(result, value), *remainder = ir_.CreateSRem(result, value);
        Value* nonzero = ir_.CreateICmpNE(remainder, ir_.getInt64(0));
        Value* differ = ir_.CreateICmpSLT(ir_.CreateXor(remainder, value), ir_.getInt64(0));
        Value* adjust = ir_.CreateAnd(nonzero, differ);
        result = node.kind == graph::SymKind::kFloorDiv
                     ? ir_.CreateSub(quotient, ir_.CreateZExt(adjust, ir_.getInt64Ty()))
                     : ir_.CreateAdd(remainder, ir_.CreateSelect(adjust, value, ir_.getInt64(0)));
        break;
      }
      default: throw InternalError("emission: unknown kind of size expression");
    }
  }
  known_.emplace_back(&node, result);
  return result;
}

}  // namespace cdynamo::lowering::emit
