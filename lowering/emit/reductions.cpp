// Reductions: an accumulator for each lane and unrolled copy, joined when the phase's loops are done.
#include <algorithm>

#include "graph/op.h"
#include "lowering/emit/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

// Whether each inner loop has accumulators of its own, as the loop IR asks for. Not worth it for a short
// innermost loop.
bool KernelEmitter::cascades() const {
  const Sym& innermost = kernel_.phases[phase_].inner.back();
  return num_inner() >= 2 && (!innermost.is_constant() || innermost.constant() > 64);
}

// Makes the accumulators of the phase: for each reduction one set a depth that accumulates.
void KernelEmitter::begin_reductions() {
  accumulators_.clear();
  const Shape shape = plan_.phases[phase_];
  const bool vector = has_vector_axis();
  const int lanes = vector ? shape.lanes : 1;
  const int copies = !vector ? 1 : kernel_.vectorize_outer ? position_.copies : shape.copies;
  for (const Stmt& stmt : kernel_.phases[phase_].body) {
    if (stmt.kind != StmtKind::kReduce && stmt.kind != StmtKind::kScan) continue;
    const DType dtype = register_dtypes_.at(stmt.operands.at(0));
    const int depths = num_inner() > 0 && stmt.kind == StmtKind::kReduce && cascades() ? num_inner() : 1;
    for (int k = 0; k < depths; ++k) {
      Accumulator accumulator{&stmt, num_inner() - k, {}, {}};
      for (int copy = 0; copy < copies; ++copy) {
        accumulator.values.push_back(new_alloca(builder_.type(dtype, lanes), "accumulator"));
        if (stmt.reduction->returns_index)
          accumulator.indices.push_back(new_alloca(builder_.type(DType::kI64, lanes), "best"));
      }
      accumulators_.push_back(std::move(accumulator));
    }
  }
}

KernelEmitter::Accumulator* KernelEmitter::accumulator(const Stmt& stmt, int depth) {
  for (Accumulator& a : accumulators_)
    if (a.stmt == &stmt && a.depth == depth) return &a;
  return nullptr;
}

// To the identity, and an index that every other one precedes.
void KernelEmitter::reset(const Accumulator& accumulator) {
  const Stmt& stmt = *accumulator.stmt;
  Scalar identity = stmt.reduction->identity(builder_, register_dtypes_.at(stmt.operands.at(0)));
  for (AllocaInst* slot : accumulator.values) {
    auto* vector = dyn_cast<FixedVectorType>(slot->getAllocatedType());
    ir_.CreateStore(builder_.splat(VectorBuilder::value(identity), vector ? vector->getNumElements() : 1),
                    slot);
  }
  for (AllocaInst* slot : accumulator.indices)
    ir_.CreateStore(ConstantInt::get(slot->getAllocatedType(), INT64_MAX), slot);
}

// A reduction without a cascade starts with the outermost loop, a scan with the innermost.
void KernelEmitter::begin_accumulation(int depth) {
  for (const Accumulator& a : accumulators_) {
    const bool alone = a.stmt->kind == StmtKind::kReduce && accumulator(*a.stmt, 1) == nullptr;
    if (alone ? depth <= 1 : depth == a.depth) reset(a);
  }
}

void KernelEmitter::end_accumulation(int depth) {
  for (Accumulator& inner : accumulators_) {
    Accumulator* outer = inner.depth == depth ? accumulator(*inner.stmt, depth - 1) : nullptr;
    if (!outer) continue;
    for (size_t copy = 0; copy < inner.values.size(); ++copy) {
      auto load = [&](AllocaInst* slot) { return ir_.CreateLoad(slot->getAllocatedType(), slot); };
      const bool indexed = inner.stmt->reduction->returns_index;
      Value *best = load(outer->values[copy]), *best_index = indexed ? load(outer->indices[copy]) : nullptr;
      Value* index = indexed ? load(inner.indices[copy]) : nullptr;
      combine(*inner.stmt, load(inner.values[copy]), index, best, best_index, false);
      ir_.CreateStore(best, outer->values[copy]);
      if (indexed) ir_.CreateStore(best_index, outer->indices[copy]);
    }
  }
}

// The row-major position among the phase's inner axes.
Value* KernelEmitter::linear_inner_index(int copy) {
  Value* index = ir_.getInt64(0);
  for (int i = 0; i < num_inner(); ++i) {
    Value* axis = axis_value(num_outer() + i, copy);
    int lanes = std::max(VectorBuilder::lanes(axis), VectorBuilder::lanes(index));
    Value* extent = size(kernel_.phases[phase_].inner[i]);
    index = ir_.CreateAdd(builder_.splat(ir_.CreateMul(index, extent), lanes), builder_.splat(axis, lanes));
  }
  return index;
}

// (best, best_index) = combine((best, best_index), (value, index)). An index follows its value; among equal
// values the lowest wins, for which `value` need only be compared where it may have come earlier.
void KernelEmitter::combine(const Stmt& stmt, Value* value, Value* index, Value*& best, Value*& best_index,
                            bool lower_index_wins) {
  DType dtype = register_dtypes_.at(stmt.operands.at(0));
  Value* joined = VectorBuilder::value(
      stmt.reduction->combine(builder_, VectorBuilder::wrap(best, dtype), VectorBuilder::wrap(value, dtype)));
  if (stmt.reduction->returns_index) {
    bool f = runtime::is_float(dtype);
    auto same = [&](Value* a, Value* b) {
      if (!f) return ir_.CreateICmpEQ(a, b);
      return ir_.CreateOr(ir_.CreateFCmpOEQ(a, b),
                          ir_.CreateAnd(ir_.CreateFCmpUNO(a, a), ir_.CreateFCmpUNO(b, b)));
    };
    Value* take = ir_.CreateNot(same(joined, best));
    Value* earlier = ir_.CreateICmpSLT(index, best_index);
    if (lower_index_wins) {
      take = ir_.CreateOr(take, ir_.CreateAnd(same(value, best), earlier));
    } else {
      // The identity itself may be the winning value: the first element is always taken.
      Value* none = ConstantInt::get(best_index->getType(), INT64_MAX);
      take = ir_.CreateOr(take, ir_.CreateICmpEQ(best_index, none));
    }
    best_index = ir_.CreateSelect(take, index, best_index);
  }
  best = joined;
}

void KernelEmitter::emit_reduce(const Stmt& stmt, int copy) {
  Accumulator* target = accumulator(stmt, num_inner());
  if (!target) throw InternalError("emission: reduction without an accumulator");
  AllocaInst* slot = target->values.at(copy);
  auto* type = slot->getAllocatedType();
  auto* vector = dyn_cast<FixedVectorType>(type);
  const int lanes = vector ? static_cast<int>(vector->getNumElements()) : 1;
  Value* old = ir_.CreateLoad(type, slot);
  Value* value = builder_.splat(register_value(stmt.operands.at(0), copy), lanes);
  Value *best = old, *index = nullptr, *old_index = nullptr, *best_index = nullptr;
  if (stmt.reduction->returns_index) {
    index = builder_.splat(linear_inner_index(copy), lanes);
    old_index = best_index = ir_.CreateLoad(index->getType(), target->indices.at(copy));
  }
  combine(stmt, value, index, best, best_index, false);
  // With a vectorized outer axis the lanes that are not there accumulate what nobody reads.
  Value* mask = kernel_.vectorize_outer ? nullptr : position_.mask;
  ir_.CreateStore(mask ? ir_.CreateSelect(mask, best, old) : best, slot);
  if (best_index)
    ir_.CreateStore(mask ? ir_.CreateSelect(mask, best_index, old_index) : best_index,
                    target->indices.at(copy));
}

// The first point of the innermost axis is taken as it is: the identity may differ from it in the sign of
// zero.
Value* KernelEmitter::emit_scan(const Stmt& stmt, int copy) {
  AllocaInst* slot = accumulator(stmt, num_inner())->values.at(copy);
  const DType dtype = register_dtypes_.at(stmt.operands.at(0));
  Value* old = ir_.CreateLoad(slot->getAllocatedType(), slot);
  const int lanes = VectorBuilder::lanes(old);
  Value* value = builder_.splat(register_value(stmt.operands.at(0), copy), lanes);
  Scalar joined =
      stmt.reduction->combine(builder_, VectorBuilder::wrap(old, dtype), VectorBuilder::wrap(value, dtype));
  Value* first = ir_.CreateICmpEQ(axes_.back(), ir_.getInt64(0));
  Value* result = ir_.CreateSelect(first, value, VectorBuilder::value(joined));
  ir_.CreateStore(result, slot);
  return result;
}

// Joins copies pairwise, then lanes by halves. With a vectorized outer axis copies and lanes are different
// points and stay apart.
void KernelEmitter::end_reductions() {
  for (Accumulator& accumulator : accumulators_) {
    const Stmt& stmt = *accumulator.stmt;
    // Of a cascade, the outermost has it all.
    const int outermost = num_inner() > 0 && cascades() ? 1 : num_inner();
    if (stmt.kind == StmtKind::kScan || accumulator.depth != outermost) continue;
    const bool indexed = stmt.reduction->returns_index;
    Registers values, indices;
    for (size_t copy = 0; copy < accumulator.values.size(); ++copy) {
      values.push_back(
          ir_.CreateLoad(accumulator.values[copy]->getAllocatedType(), accumulator.values[copy]));
      indices.push_back(
          indexed ? ir_.CreateLoad(accumulator.indices[copy]->getAllocatedType(), accumulator.indices[copy])
                  : nullptr);
    }
    if (!kernel_.vectorize_outer) {
      while (values.size() > 1) {
        size_t half = values.size() / 2;
        for (size_t i = 0; i < half; ++i)
          combine(stmt, values[i + half], indices[i + half], values[i], indices[i], true);
        values.resize(half), indices.resize(half);
      }
      for (int lanes = VectorBuilder::lanes(values[0]); lanes > 1; lanes /= 2) {
        SmallVector<int, 64> low, high;
        for (int i = 0; i < lanes / 2; ++i) low.push_back(i), high.push_back(i + lanes / 2);
        auto half_of = [&](Value* v, ArrayRef<int> part) {
          Value* piece = ir_.CreateShuffleVector(v, part);
          return lanes == 2 ? ir_.CreateExtractElement(piece, uint64_t{0}) : piece;
        };
        Value *upper = half_of(values[0], high), *upper_index = indexed ? half_of(indices[0], high) : nullptr;
        values[0] = half_of(values[0], low);
        if (indexed) indices[0] = half_of(indices[0], low);
        combine(stmt, upper, upper_index, values[0], indices[0], true);
      }
    }
    registers_[stmt.dst] = indexed ? indices : values;
    if (!indexed && runtime::compute_type(stmt.dtype) != register_dtypes_.at(stmt.operands.at(0)))
      throw InternalError("emission: a reduction's dtype differs from its operand's");
    if (!indexed && runtime::is_half(stmt.dtype))
      for (Value*& v : registers_[stmt.dst])
        v = VectorBuilder::value(builder_.round_to(VectorBuilder::wrap(v, DType::kF32), stmt.dtype));
  }
}

}  // namespace cdynamo::lowering::emit
