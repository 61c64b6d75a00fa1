// Running values. In order: one thread walks the row. In tiles: the points of a thread follow each other, and are joined first;
// then the threads of a warp by shuffles, and the warps of a row, or the threads that share rows across, through shared memory.
// What the tiles before came to is carried along by every thread.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "graph/op.h"
#include "lowering/gpu/kernel_emitter.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;

void KernelEmitter::restart_scans() {
  for (const Accumulator& a : accumulators_)
    if (a.stmt->kind == StmtKind::kScan)
      for (size_t copy = 0; copy < a.values.size(); ++copy) reset(a, a.values[copy], a.indices[copy]);
}

// The first point of the innermost axis is taken as it is: the identity may differ from it in the sign of zero.
Value* KernelEmitter::emit_scan(const Stmt& stmt, int copy) {
  Accumulator& target = accumulator(stmt);
  AllocaInst* slot = target.values.at(copy);
  const DType operand_dtype = register_dtypes_.at(stmt.operands.at(0));
  const Scalar old = LaneBuilder::wrap(ir_.CreateLoad(slot->getAllocatedType(), slot), target.dtype);
  const Scalar next = builder_.cast(operand(stmt, 0, copy), target.dtype);
  Value* joined = LaneBuilder::value(stmt.reduction->combine(builder_, old, next));
  Value* first = ir_.CreateICmpEQ(tile_.axes.back()[0], index_constant(0));
  Value* result = ir_.CreateSelect(first, LaneBuilder::value(next), joined);
  if (stmt.stepwise && runtime::is_half(stmt.dtype))
    result = LaneBuilder::value(builder_.round_to(LaneBuilder::wrap(result, target.dtype), stmt.dtype));
  ir_.CreateStore(result, slot);
  return LaneBuilder::value(builder_.cast(LaneBuilder::wrap(result, target.dtype), operand_dtype));
}

// What leaves every value as it is; of a sum that is -0, as 0 + -0 is 0.
Value* KernelEmitter::scan_identity(const Accumulator& accumulator) {
  const graph::ReductionDef& reduction = *accumulator.stmt->reduction;
  if (runtime::is_float(accumulator.dtype) && emit::class_of(reduction) == emit::ReductionClass::kAdds)
    return LaneBuilder::value(builder_.constant(-0.0, accumulator.dtype));
  return LaneBuilder::value(reduction.identity(builder_, accumulator.dtype));
}

Value* KernelEmitter::join(const Accumulator& accumulator, Value* earlier, Value* later) {
  return LaneBuilder::value(accumulator.stmt->reduction->combine(
      builder_, LaneBuilder::wrap(earlier, accumulator.dtype), LaneBuilder::wrap(later, accumulator.dtype)));
}

// Of this lane and those before it; of a warp's first `lanes`.
Value* KernelEmitter::scan_warp(const Accumulator& accumulator, Value* value, int lanes) {
  Value* lane = ir_.CreateAnd(inner_thread_, ir_.getInt32(kWarp - 1));
  for (int by = 1; by < lanes; by *= 2) {
    Value* joined = join(accumulator, builder_.from_below(value, by), value);
    value = ir_.CreateSelect(ir_.CreateICmpUGE(lane, ir_.getInt32(by)), joined, value);
  }
  return value;
}

// Shared memory for `count` values of a tile. Two tiles take turns, so that a barrier a tile is enough: who writes to one
// knows that all have read it, as they have met at the other.
Value* KernelEmitter::scan_slots(Accumulator& accumulator, int64_t count, Value* tile) {
  const int64_t bytes = std::max<int64_t>(1, builder_.type(accumulator.dtype)->getPrimitiveSizeInBits() / 8);
  int64_t& offset = accumulator.shared_offset;
  if (offset < 0) {
    offset = (join_offset_ + 15) / 16 * 16;
    join_offset_ = offset + 2 * count * bytes;
  }
  Value* turn = ir_.CreateAnd(tile, ConstantInt::get(tile->getType(), 1));
  return ir_.CreateGEP(ir_.getInt8Ty(), shared(offset),
                       ir_.CreateMul(turn, ConstantInt::get(tile->getType(), count * bytes)));
}

// Threads next to each other have neighbouring points of one row.
KernelEmitter::Prefix KernelEmitter::scan_threads(Accumulator& accumulator, Value* value, Value* tile) {
  Value* lane = ir_.CreateAnd(inner_thread_, ir_.getInt32(kWarp - 1));
  Value* up_to = scan_warp(accumulator, value, kWarp);
  Value* first = ir_.CreateICmpEQ(lane, ir_.getInt32(0));
  Value* identity = scan_identity(accumulator);
  Value* before = ir_.CreateSelect(first, identity, builder_.from_below(up_to, 1));
  const int warps = plan_.inner_threads / kWarp;
  if (warps == 1) return {before, builder_.from_lane_at(up_to, ir_.getInt32(kWarp - 1))};
  Value* warp = ir_.CreateLShr(inner_thread_, ir_.getInt32(5));
  Type* stored = accumulator.dtype == DType::kBool ? ir_.getInt8Ty() : builder_.type(accumulator.dtype);
  Value* slots = scan_slots(accumulator, warps, tile);
  emit_if(ir_.CreateICmpEQ(lane, ir_.getInt32(kWarp - 1)), [&] {
    Value* kept = accumulator.dtype == DType::kBool ? ir_.CreateZExt(up_to, stored) : up_to;
    ir_.CreateStore(kept, ir_.CreateGEP(stored, slots, warp));
  });
  ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {});
  // Each lane takes one warp's.
  Value* others =
      ir_.CreateLoad(stored, ir_.CreateGEP(stored, slots, ir_.CreateAnd(lane, ir_.getInt32(warps - 1))));
  if (accumulator.dtype == DType::kBool) others = ir_.CreateTrunc(others, ir_.getInt1Ty());
  Value* by_warp = scan_warp(accumulator, others, warps);
  Value* warps_before = builder_.from_lane_at(
      by_warp, ir_.CreateAnd(ir_.CreateSub(warp, ir_.getInt32(1)), ir_.getInt32(kWarp - 1)));
  warps_before = ir_.CreateSelect(ir_.CreateICmpEQ(warp, ir_.getInt32(0)), identity, warps_before);
  return {join(accumulator, warps_before, before), builder_.from_lane_at(by_warp, ir_.getInt32(warps - 1))};
}

// Threads next to each other have rows next to each other; `inner_threads` of them share one.
KernelEmitter::Prefix KernelEmitter::scan_rows(Accumulator& accumulator, Value* value, Value* tile) {
  Value* before = scan_identity(accumulator);
  if (plan_.inner_threads == 1) return {before, value};
  Type* stored = accumulator.dtype == DType::kBool ? ir_.getInt8Ty() : builder_.type(accumulator.dtype);
  Value* slots = scan_slots(accumulator, plan_.threads(), tile);
  Value* kept = accumulator.dtype == DType::kBool ? ir_.CreateZExt(value, stored) : value;
  ir_.CreateStore(kept, ir_.CreateGEP(stored, slots, thread_));
  ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {});
  Value* all = nullptr;
  for (int thread = 0; thread < plan_.inner_threads; ++thread) {
    Value* at = ir_.CreateAdd(outer_thread_, ir_.getInt32(thread * plan_.outer_threads));
    Value* part = ir_.CreateLoad(stored, ir_.CreateGEP(stored, slots, at));
    if (accumulator.dtype == DType::kBool) part = ir_.CreateTrunc(part, ir_.getInt1Ty());
    all = all ? join(accumulator, all, part) : part;
    if (thread + 1 < plan_.inner_threads)
      before = ir_.CreateSelect(ir_.CreateICmpUGT(inner_thread_, ir_.getInt32(thread)), all, before);
  }
  return {before, all};
}

void KernelEmitter::emit_scan_of_tiles(const Stmt& stmt) {
  Accumulator& target = accumulator(stmt);
  AllocaInst* carried = target.values.at(0);
  const DType operand_dtype = register_dtypes_.at(stmt.operands.at(0));
  Value* identity = scan_identity(target);
  Registers results;
  for (int t = 0; t < tile_.tiles; ++t) {
    Registers up_to;
    for (int i = 0; i < plan_.inner_vector; ++i) {
      const int copy = t * plan_.inner_vector + i;
      Value* value = LaneBuilder::value(builder_.cast(operand(stmt, 0, copy), target.dtype));
      if (tile_.exists[t]) value = ir_.CreateSelect(tile_.exists[t], value, identity);
      up_to.push_back(i == 0 ? value : join(target, up_to.back(), value));
    }
    Value* tile = ir_.CreateAdd(tile_.first, index_constant(t));
    const Prefix threads =
        plan_.lanes_outer ? scan_rows(target, up_to.back(), tile) : scan_threads(target, up_to.back(), tile);
    Value* tiles = ir_.CreateLoad(carried->getAllocatedType(), carried);
    Value* before = join(target, tiles, threads.before);
    for (Value* value : up_to)
      results.push_back(LaneBuilder::value(
          builder_.cast(LaneBuilder::wrap(join(target, before, value), target.dtype), operand_dtype)));
    ir_.CreateStore(join(target, tiles, threads.all), carried);
  }
  registers_[stmt.dst] = std::move(results);
}

}  // namespace cdynamo::lowering::gpu
