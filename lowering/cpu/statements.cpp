// Statements other than memory accesses and reductions.
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "graph/op.h"
#include "lowering/cpu/kernel_emitter.h"
#include "lowering/loops/kernel_hash.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

void KernelEmitter::emit_statement(const Stmt& stmt, const Placement& placement) {
  // A statement at a depth without the vector loop is executed once, whatever the copies of the loop inside.
  int copies = placement.varies ? position_.copies : 1;
  Registers results;
  for (int copy = 0; copy < copies; ++copy) {
    if (stmt.kind == StmtKind::kStore) {
      if (stmt.adds) throw graph::InternalError("emission: a CPU stores in order");
      emit_store(stmt, copy);
    } else if (stmt.kind == StmtKind::kReduce) {
      emit_reduce(stmt, copy);
    } else {
      results.push_back(emit_value(stmt, copy));
    }
  }
  if (!results.empty()) registers_[stmt.dst] = std::move(results);
}

Value* KernelEmitter::emit_value(const Stmt& stmt, int copy) {
  if (const std::optional<bool> known = joints_ ? joints_->value_in(piece_, stmt.dst) : std::nullopt)
    return ir_.getInt1(*known);
  switch (stmt.kind) {
    case StmtKind::kLoad: return emit_load(stmt, copy);
    case StmtKind::kAxis: return axis_value(stmt.axis, copy);
    case StmtKind::kSize: return size(stmt.size);
    case StmtKind::kCheckIndex: return emit_check_index(stmt, copy);
    case StmtKind::kScan: return emit_scan(stmt, copy);
    default: break;
  }
  if (Value* compared = compare_lanes(stmt, copy)) return compared;
  std::vector<Scalar> operands;
  for (size_t i = 0; i < stmt.operands.size(); ++i)
    operands.push_back(operand(stmt, static_cast<int>(i), copy));
  // An addition or the like passes its operands' NaNs on, or makes one without payload.
  constexpr int kSimple = 2;
  auto has_short_nans = [&](int reg) {
    auto* number = dyn_cast<ConstantFP>(register_value(reg, copy));
    return register_halves_.at(reg) == DType::kBF16 || (number && !number->isNaN());
  };
  const bool short_nans = stmt.kind == StmtKind::kOp && stmt.dtype == DType::kBF16 &&
                          statement_cost(stmt, kernel_) <= kSimple &&
                          std::all_of(stmt.operands.begin(), stmt.operands.end(), has_short_nans);
  Value* result = emit_scalar_statement(builder_, stmt, operands, short_nans);
  if (stmt.kind == StmtKind::kPrim && stmt.prim == graph::Prim::k_add && operands.size() == 2)
    for (int i : {0, 1})
      if (Value* base = lane_bases_.lookup(register_value(stmt.operands[i], copy)),
          *added = register_value(stmt.operands[1 - i], copy);
          base && VectorBuilder::lanes(added) == 1)
        lane_bases_[result] = ir_.CreateAdd(base, added);
  return result;
}

// A comparison of consecutive indices with one number, as a comparison of the lanes' numbers: these have 32 bits, and in
// registers of 256 bits those of 64 take several instructions each. Null: it is none.
Value* KernelEmitter::compare_lanes(const Stmt& stmt, int copy) {
  if (stmt.kind != StmtKind::kPrim || stmt.operands.size() != 2) return nullptr;
  CmpInst::Predicate predicate;
  switch (stmt.prim) {
    case graph::Prim::k_lt: predicate = CmpInst::ICMP_SLT; break;
    case graph::Prim::k_le: predicate = CmpInst::ICMP_SLE; break;
    case graph::Prim::k_gt: predicate = CmpInst::ICMP_SGT; break;
    case graph::Prim::k_ge: predicate = CmpInst::ICMP_SGE; break;
    default: return nullptr;
  }
  Value* indices = register_value(stmt.operands[0], copy);
  Value* limit = register_value(stmt.operands[1], copy);
  Value* base = lane_bases_.lookup(indices);
  if (!base || VectorBuilder::lanes(limit) != 1) return nullptr;
  constexpr int64_t kFar = int64_t{1} << 30;
  Value* lane = ir_.CreateSub(limit, base);
  lane = ir_.CreateBinaryIntrinsic(Intrinsic::smin, lane, ir_.getInt64(kFar));
  lane = ir_.CreateBinaryIntrinsic(Intrinsic::smax, lane, ir_.getInt64(-kFar));
  const int lanes = VectorBuilder::lanes(indices);
  SmallVector<Constant*, 64> iota;
  for (int i = 0; i < lanes; ++i) iota.push_back(ir_.getInt32(i));
  return ir_.CreateICmp(predicate, ConstantVector::get(iota),
                        builder_.splat(ir_.CreateTrunc(lane, ir_.getInt32Ty()), lanes));
}

// Of axes of loops around the one that is being emitted.
Value* KernelEmitter::index_value(const Index& index) {
  Value* sum = size(index.offset);
  for (const IndexTerm& term : index.terms)
    sum = ir_.CreateAdd(sum, ir_.CreateMul(axes_.at(term.axis), size(term.stride)));
  return sum;
}

Scalar KernelEmitter::operand(const Stmt& stmt, int i, int copy) {
  int reg = stmt.operands.at(i);
  return VectorBuilder::wrap(register_value(reg, copy), register_dtypes_.at(reg));
}

Value* KernelEmitter::register_value(int reg, int copy) {
  const Registers& copies = registers_.at(reg);
  if (copies.empty()) throw InternalError("emission: register read before it is defined");
  return copies.size() == 1 ? copies[0] : copies.at(copy);
}

Value* KernelEmitter::axis_value(int axis, int copy) {
  if (axis == position_.copy_axis) return ir_.CreateAdd(axes_.at(axis), ir_.getInt64(copy));
  if (!has_vector_axis() || axis != vector_axis()) return axes_.at(axis);
  const int lanes = position_.lanes;
  const int64_t ahead = position_.copy_axis < 0 ? int64_t{copy} * lanes : 0;
  Value* base = ir_.CreateAdd(position_.base, ir_.getInt64(ahead));
  if (lanes == 1) return base;
  SmallVector<Constant*, 64> iota;
  for (int lane = 0; lane < lanes; ++lane) iota.push_back(ir_.getInt64(lane));
  Value* indices = ir_.CreateAdd(builder_.splat(base, lanes), ConstantVector::get(iota));
  lane_bases_[indices] = base;
  return indices;
}

// The statement's own mask and, where the access varies along the lanes, the mask of those that exist; null:
// no mask.
Value* KernelEmitter::statement_mask(const Stmt& stmt, int copy, bool varies) {
  Value* mask = stmt.mask >= 0 ? register_value(stmt.mask, copy) : nullptr;
  if (mask && VectorBuilder::lanes(mask) > 1) varies = true;
  if (!varies || !position_.mask) return mask;
  if (!mask) return position_.mask;
  return ir_.CreateAnd(builder_.splat(mask, position_.lanes), position_.mask);
}

// A bad index ends the call of the kernel: nothing is read or written with it.
Value* KernelEmitter::emit_check_index(const Stmt& stmt, int copy) {
  Value* index = register_value(stmt.operands.at(0), copy);
  const int lanes = VectorBuilder::lanes(index);
  Value* extent = builder_.splat(size(stmt.size), lanes);
  Value* zero = Constant::getNullValue(index->getType());
  Value* wrapped = ir_.CreateSelect(ir_.CreateICmpSLT(index, zero), ir_.CreateAdd(index, extent), index);
  Value* bad = ir_.CreateICmpUGE(wrapped, extent);
  Value* mask = statement_mask(stmt, copy, lanes > 1);
  if (mask) {
    int width = std::max(lanes, VectorBuilder::lanes(mask));
    bad = ir_.CreateAnd(builder_.splat(bad, width), builder_.splat(mask, width));
  }
  auto* fail = BasicBlock::Create(module_.getContext(), "index_error", function_);
  auto* good = BasicBlock::Create(module_.getContext(), "index_ok", function_);
  MDBuilder metadata(module_.getContext());
  ir_.CreateCondBr(builder_.any(bad), fail, good, metadata.createBranchWeights(1, 100000));
  ir_.SetInsertPoint(fail);
  Value* culprit = index;
  if (lanes > 1) {
    Value* bits = ir_.CreateBitCast(builder_.splat(bad, lanes), ir_.getIntNTy(lanes));
    Value* first = ir_.CreateBinaryIntrinsic(Intrinsic::cttz, bits, ir_.getFalse());
    culprit = ir_.CreateExtractElement(index, ir_.CreateZExtOrTrunc(first, ir_.getInt32Ty()));
  }
  Type* i64 = ir_.getInt64Ty();
  ir_.CreateStore(culprit, ir_.CreateConstGEP1_64(i64, error_, 1));
  ir_.CreateStore(size(stmt.size), ir_.CreateConstGEP1_64(i64, error_, 2));
  ir_.CreateStore(ir_.getInt64(stmt.int_value), error_);
  ir_.CreateRetVoid();
  ir_.SetInsertPoint(good);
  // Lanes that are not there hold anything; their accesses are masked, and index 0 is as good as any.
  return mask ? ir_.CreateSelect(builder_.splat(mask, lanes), wrapped, zero) : wrapped;
}

}  // namespace cdynamo::lowering::emit
