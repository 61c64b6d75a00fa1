// Statements other than memory accesses and reductions.
#include <llvm/IR/MDBuilder.h>

#include "graph/op.h"
#include "lowering/gpu/kernel_emitter.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;
using graph::InternalError;

void KernelEmitter::emit_statement(const Stmt& stmt, Spread spread) {
  switch (stmt.kind) {
    case StmtKind::kLoad: return emit_load(stmt, spread);
    case StmtKind::kStore: return emit_store(stmt, spread);
    case StmtKind::kReduce: return emit_reduce(stmt);
    case StmtKind::kScan:
      if (!plan_.in_order(*phase_)) return emit_scan_of_tiles(stmt);
      break;
    default: break;
  }
  const int copies = copies_of(spread);
  Registers results;
  if (stmt.kind == StmtKind::kPrim || stmt.kind == StmtKind::kOp) {
    std::vector<LaneBuilder::Operands> points;
    for (int copy = 0; copy < copies; ++copy) points.push_back(operands_of(stmt, copy));
    results = builder_.together(points, [&](const LaneBuilder::Operands& operands) {
      return emit::emit_scalar_statement(builder_, stmt, operands);
    });
  } else {
    for (int copy = 0; copy < copies; ++copy) results.push_back(emit_value(stmt, copy));
  }
  registers_[stmt.dst] = std::move(results);
}

Value* KernelEmitter::emit_value(const Stmt& stmt, int copy) {
  switch (stmt.kind) {
    case StmtKind::kAxis: return to_i64(axis_value(stmt.axis, copy));
    case StmtKind::kSize: return size(stmt.size);
    case StmtKind::kCheckIndex: return emit_check_index(stmt, copy);
    case StmtKind::kScan: return emit_scan(stmt, copy);
    default: return emit::emit_scalar_statement(builder_, stmt, operands_of(stmt, copy));
  }
}

LaneBuilder::Operands KernelEmitter::operands_of(const Stmt& stmt, int copy) {
  LaneBuilder::Operands operands;
  for (size_t i = 0; i < stmt.operands.size(); ++i)
    operands.push_back(operand(stmt, static_cast<int>(i), copy));
  return operands;
}

Scalar KernelEmitter::operand(const Stmt& stmt, int i, int copy) {
  const int reg = stmt.operands.at(i);
  return LaneBuilder::wrap(register_value(reg, copy), register_dtypes_.at(reg));
}

Value* KernelEmitter::register_value(int reg, int copy) {
  const Registers& copies = registers_.at(reg);
  if (copies.empty()) throw InternalError("emission: register read before it is defined");
  if (copies.size() == 1) return copies[0];
  return copies.at(spreads_[reg] == Spread::kOuter ? outer_of(copy) : copy);
}

Value* KernelEmitter::axis_value(int axis, int copy) {
  if (axis >= num_outer()) {
    const Registers& values = tile_.axes.at(axis - num_outer());
    return values.size() == 1 ? values[0] : values.at(inner_of(copy));
  }
  const Registers& values = outer_axes_.at(axis);
  return values.size() == 1 ? values[0] : values.at(outer_of(copy));
}

Value* KernelEmitter::exists(int copy, bool inner) {
  Value* tile = nullptr;
  if (inner && !tile_.exists.empty()) tile = tile_.exists.at(inner_of(copy) / plan_.inner_vector);
  if (!tile || !alive_) return tile ? tile : alive_;
  return ir_.CreateAnd(tile, alive_);
}

// A bad index is noted, and its thread leaves: nothing is read or written with it.
Value* KernelEmitter::emit_check_index(const Stmt& stmt, int copy) {
  Value* index = register_value(stmt.operands.at(0), copy);
  Value *extent = size(stmt.size), *zero = ir_.getInt64(0);
  Value* wrapped = ir_.CreateSelect(ir_.CreateICmpSLT(index, zero), ir_.CreateAdd(index, extent), index);
  Value* bad = ir_.CreateICmpUGE(wrapped, extent);
  Value* wanted = exists(copy, true);
  if (stmt.mask >= 0) {
    Value* mask = register_value(stmt.mask, copy);
    wanted = wanted ? ir_.CreateAnd(wanted, mask) : mask;
  }
  if (wanted) bad = ir_.CreateAnd(bad, wanted);
  auto* fail = BasicBlock::Create(module_.getContext(), "index_error", function_);
  auto* good = BasicBlock::Create(module_.getContext(), "index_ok", function_);
  MDBuilder metadata(module_.getContext());
  ir_.CreateCondBr(bad, fail, good, metadata.createBranchWeights(1, 100000));
  ir_.SetInsertPoint(fail);
  Type* i64 = ir_.getInt64Ty();
  auto note = [&](Value* code, int place) {
    ir_.CreateAlignedStore(code, ir_.CreateConstGEP1_64(i64, error_, place), Align(8), /*isVolatile=*/true);
  };
  note(index, 1);
  note(extent, 2);
  note(ir_.getInt64(stmt.int_value), 0);
  ir_.CreateRetVoid();
  ir_.SetInsertPoint(good);
  return wanted ? ir_.CreateSelect(wanted, wrapped, zero) : wrapped;
}

}  // namespace cdynamo::lowering::gpu
