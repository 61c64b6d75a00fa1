// Reductions: an accumulator for each point that a thread has at once, joined within the thread, then among the lanes of a
// warp by shuffles, then among the warps of a row through shared memory. All threads of a row end up with the result.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "graph/op.h"
#include "lowering/gpu/kernel_emitter.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;
using emit::Accumulated;
using graph::InternalError;

AllocaInst* KernelEmitter::new_alloca(Type* type, const char* name) {
  IRBuilder<>::InsertPointGuard guard(ir_);
  ir_.SetInsertPoint(entry_, entry_->begin());
  return ir_.CreateAlloca(type, nullptr, name);
}

void KernelEmitter::begin_reductions(const Phase& phase) {
  accumulators_.clear();
  const bool parallel = !phase.inner.empty() && !plan_.in_order(phase);
  const int tiles = parallel ? plan_.tiles * plan_.inner_vector : 1;
  for (const Stmt& stmt : phase.body) {
    if (stmt.kind != StmtKind::kReduce && stmt.kind != StmtKind::kScan) continue;
    DType dtype = register_dtypes_.at(stmt.operands.at(0));
    if (stmt.kind == StmtKind::kScan && emit::rounds(stmt, dtype) && !stmt.stepwise) dtype = DType::kF64;
    Accumulator accumulator{&stmt, dtype, {}, {}, -1};
    for (int copy = 0; copy < tiles * plan_.outer_vector; ++copy) {
      accumulator.values.push_back(new_alloca(builder_.type(dtype), "accumulator"));
      accumulator.indices.push_back(stmt.reduction->returns_index ? new_alloca(ir_.getInt64Ty(), "best")
                                                                  : nullptr);
      reset(accumulator, accumulator.values.back(), accumulator.indices.back());
      if (stmt.kind == StmtKind::kScan && parallel)
        ir_.CreateStore(scan_identity(accumulator), accumulator.values.back());
    }
    accumulators_.push_back(std::move(accumulator));
  }
}

// To the identity; every other index precedes this one.
void KernelEmitter::reset(const Accumulator& accumulator, AllocaInst* slot, AllocaInst* index) {
  ir_.CreateStore(LaneBuilder::value(accumulator.stmt->reduction->identity(builder_, accumulator.dtype)),
                  slot);
  if (index) ir_.CreateStore(ir_.getInt64(INT64_MAX), index);
}

KernelEmitter::Accumulator& KernelEmitter::accumulator(const Stmt& stmt) {
  for (Accumulator& a : accumulators_)
    if (a.stmt == &stmt) return a;
  throw InternalError("emission: reduction without an accumulator");
}

// The row-major position among the phase's inner axes.
Value* KernelEmitter::linear_inner_index(int copy) {
  Value* index = ir_.getInt64(0);
  for (size_t i = 0; i < phase_->inner.size(); ++i) {
    Value* axis = to_i64(axis_value(num_outer() + static_cast<int>(i), copy));
    index = ir_.CreateAdd(ir_.CreateMul(index, size(phase_->inner[i])), axis);
  }
  return index;
}

void KernelEmitter::emit_reduce(const Stmt& stmt) {
  Accumulator& target = accumulator(stmt);
  for (int copy = 0; copy < copies_of(Spread::kInner); ++copy) {
    AllocaInst *slot = target.values.at(copy), *index_slot = target.indices.at(copy);
    const Accumulated old{ir_.CreateLoad(slot->getAllocatedType(), slot),
                          index_slot ? ir_.CreateLoad(ir_.getInt64Ty(), index_slot) : nullptr};
    Accumulated best = old;
    const Accumulated next{register_value(stmt.operands.at(0), copy),
                           index_slot ? linear_inner_index(copy) : nullptr};
    emit::combine(builder_, *stmt.reduction, target.dtype, next, best, false);
    Value* tile = tile_.exists.empty() ? nullptr : tile_.exists.at(inner_of(copy) / plan_.inner_vector);
    ir_.CreateStore(tile ? ir_.CreateSelect(tile, best.value, old.value) : best.value, slot);
    if (index_slot)
      ir_.CreateStore(tile ? ir_.CreateSelect(tile, best.index, old.index) : best.index, index_slot);
  }
}

// Shared memory at `offset`, an address.
Value* KernelEmitter::shared(int64_t offset) {
  return ir_.CreateConstGEP1_64(ir_.getInt8Ty(), shared_memory_, offset);
}

void KernelEmitter::join_lanes(const Accumulator& accumulator, Accumulated& best) {
  for (int mask = std::min(plan_.inner_threads, kWarp) / 2; mask > 0; mask /= 2) {
    const Accumulated other{builder_.from_lane(best.value, mask),
                            best.index ? builder_.from_lane(best.index, mask) : nullptr};
    emit::combine(builder_, *accumulator.stmt->reduction, accumulator.dtype, other, best, true);
  }
}

// bests[a][o]: of accumulator a, outer point o. One barrier for all of them.
void KernelEmitter::join_warps(std::vector<std::vector<Accumulated>>& bests) {
  const bool columns = plan_.lanes_outer;
  // Columns: one value an inner thread, side by side by outer threads. Rows: one a warp, from its first lane.
  const int parts = columns ? plan_.inner_threads : plan_.inner_threads / kWarp;
  const int lanes = columns ? plan_.outer_threads : 1;
  Value* part = columns ? inner_thread_ : ir_.CreateLShr(inner_thread_, ir_.getInt32(5));
  Value* lane = columns ? outer_thread_ : static_cast<Value*>(ir_.getInt32(0));
  struct Slot {
    Value* values;
    Type* type;
  };
  auto place = [&](Type* type) {
    const int64_t bytes = std::max<int64_t>(1, type->getPrimitiveSizeInBits() / 8);
    join_offset_ = (join_offset_ + 15) / 16 * 16;
    Value* at = shared(join_offset_);
    join_offset_ += bytes * parts * lanes;
    return Slot{at, type};
  };
  auto element = [&](const Slot& slot, Value* p) {
    Value* at = ir_.CreateAdd(ir_.CreateMul(p, ir_.getInt32(lanes)), lane);
    return ir_.CreateGEP(slot.type, slot.values, at);
  };
  auto storage = [&](Value* value) {
    return value->getType()->isIntegerTy(1) ? ir_.CreateZExt(value, ir_.getInt8Ty()) : value;
  };
  std::vector<std::vector<std::pair<Slot, Slot>>> slots(bests.size());
  auto write = [&] {
    for (size_t a = 0; a < bests.size(); ++a)
      for (const Accumulated& best : bests[a]) {
        Value* value = storage(best.value);
        Slot slot = place(value->getType()), index_slot{};
        ir_.CreateStore(value, element(slot, part));
        if (best.index) {
          index_slot = place(ir_.getInt64Ty());
          ir_.CreateStore(best.index, element(index_slot, part));
        }
        slots[a].push_back({slot, index_slot});
      }
  };
  if (columns)
    write();
  else
    emit_if(ir_.CreateICmpEQ(ir_.CreateAnd(inner_thread_, ir_.getInt32(kWarp - 1)), ir_.getInt32(0)), write);
  ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {});
  for (size_t a = 0; a < bests.size(); ++a) {
    const Accumulator& accumulator = accumulators_[a];
    for (size_t o = 0; o < bests[a].size(); ++o) {
      const auto& [slot, index_slot] = slots[a][o];
      auto read = [&](Value* p) {
        Value* value = ir_.CreateLoad(slot.type, element(slot, p));
        if (accumulator.dtype == DType::kBool) value = ir_.CreateTrunc(value, ir_.getInt1Ty());
        return Accumulated{
            value, bests[a][o].index ? ir_.CreateLoad(ir_.getInt64Ty(), element(index_slot, p)) : nullptr};
      };
      Accumulated best;
      if (columns) {
        best = read(ir_.getInt32(0));
        for (int p = 1; p < parts; ++p)
          emit::combine(builder_, *accumulator.stmt->reduction, accumulator.dtype, read(ir_.getInt32(p)),
                        best, true);
      } else {
        // Each lane takes one warp's part.
        best = read(ir_.CreateAnd(inner_thread_, ir_.getInt32(parts - 1)));
        for (int mask = parts / 2; mask > 0; mask /= 2) {
          const Accumulated other{builder_.from_lane(best.value, mask),
                                  best.index ? builder_.from_lane(best.index, mask) : nullptr};
          emit::combine(builder_, *accumulator.stmt->reduction, accumulator.dtype, other, best, true);
        }
      }
      bests[a][o] = best;
    }
  }
}

void KernelEmitter::end_reductions(bool in_order) {
  std::erase_if(accumulators_, [](const Accumulator& a) { return a.stmt->kind == StmtKind::kScan; });
  if (accumulators_.empty()) return;
  std::vector<std::vector<Accumulated>> bests;
  for (const Accumulator& a : accumulators_) {
    // Pairwise, so that the error of a sum grows with the logarithm of the copies.
    std::vector<Accumulated> found;
    for (size_t copy = 0; copy < a.values.size(); ++copy)
      found.push_back({ir_.CreateLoad(a.values[copy]->getAllocatedType(), a.values[copy]),
                       a.indices[copy] ? ir_.CreateLoad(ir_.getInt64Ty(), a.indices[copy]) : nullptr});
    const size_t outer = static_cast<size_t>(plan_.outer_vector);
    while (found.size() > outer) {
      const size_t groups = found.size() / outer, half = (groups + 1) / 2;
      for (size_t g = half; g < groups; ++g)
        for (size_t o = 0; o < outer; ++o)
          emit::combine(builder_, *a.stmt->reduction, a.dtype, found[g * outer + o],
                        found[(g - half) * outer + o], true);
      found.resize(half * outer);
    }
    bests.push_back(std::move(found));
  }
  const bool shared_out = !in_order && !phase_->inner.empty() && plan_.inner_threads > 1;
  if (shared_out && !plan_.lanes_outer)
    for (size_t a = 0; a < bests.size(); ++a)
      for (Accumulated& best : bests[a]) join_lanes(accumulators_[a], best);
  if (shared_out && (plan_.lanes_outer || plan_.inner_threads > kWarp)) join_warps(bests);
  for (size_t a = 0; a < bests.size(); ++a) {
    const Stmt& stmt = *accumulators_[a].stmt;
    Registers results;
    for (const Accumulated& best : bests[a]) {
      Value* value = best.index ? best.index : best.value;
      if (!best.index && runtime::is_half(stmt.dtype))
        value = LaneBuilder::value(builder_.round_to(LaneBuilder::wrap(value, DType::kF32), stmt.dtype));
      results.push_back(value);
    }
    registers_[stmt.dst] = std::move(results);
  }
}

}  // namespace cdynamo::lowering::gpu
