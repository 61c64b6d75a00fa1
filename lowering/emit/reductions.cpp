// Reductions: an accumulator for each lane and unrolled copy, joined when the phase's loops are done.
#include <algorithm>

#include "graph/op.h"
#include "lowering/emit/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

// Accumulators start at the identity, at the head of the phase.
void KernelEmitter::begin_reductions() {
  accumulators_.clear();
  const Shape shape = plan_.phases[phase_];
  const bool vector = has_vector_axis();
  const int lanes = vector ? shape.lanes : 1;
  const int copies = !vector ? 1 : kernel_.vectorize_outer ? position_.copies : shape.copies;
  for (const Stmt& stmt : kernel_.phases[phase_].body) {
    if (stmt.kind != StmtKind::kReduce) continue;
    Accumulator accumulator{&stmt, {}, {}};
    DType dtype = register_dtypes_.at(stmt.operands.at(0));
    Scalar identity = stmt.reduction->identity(builder_, dtype);
    for (int copy = 0; copy < copies; ++copy) {
      accumulator.values.push_back(new_alloca(builder_.type(dtype, lanes), "accumulator"));
      ir_.CreateStore(builder_.splat(VectorBuilder::value(identity), lanes), accumulator.values.back());
      if (!stmt.reduction->returns_index) continue;
      // No element seen yet: an index that every other one precedes.
      accumulator.indices.push_back(new_alloca(builder_.type(DType::kI64, lanes), "best"));
      ir_.CreateStore(builder_.splat(ir_.getInt64(INT64_MAX), lanes), accumulator.indices.back());
    }
    accumulators_.push_back(std::move(accumulator));
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

// (best, best_index) = combine((best, best_index), (value, index)). An index follows its value; among equal values the lowest wins,
// for which `value` need only be compared where it may have come earlier.
void KernelEmitter::combine(const Stmt& stmt, Value* value, Value* index, Value*& best, Value*& best_index,
                            bool lower_index_wins) {
  DType dtype = register_dtypes_.at(stmt.operands.at(0));
  Value* joined = VectorBuilder::value(
      stmt.reduction->combine(builder_, VectorBuilder::wrap(best, dtype), VectorBuilder::wrap(value, dtype)));
  if (stmt.reduction->returns_index) {
    bool f = runtime::is_float(dtype);
    auto same = [&](Value* a, Value* b) {
      if (!f) return ir_.CreateICmpEQ(a, b);
      return ir_.CreateOr(ir_.CreateFCmpOEQ(a, b), ir_.CreateAnd(ir_.CreateFCmpUNO(a, a), ir_.CreateFCmpUNO(b, b)));
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
  for (Accumulator& accumulator : accumulators_) {
    if (accumulator.stmt != &stmt) continue;
    AllocaInst* slot = accumulator.values.at(copy);
    auto* type = slot->getAllocatedType();
    auto* vector = dyn_cast<FixedVectorType>(type);
    const int lanes = vector ? static_cast<int>(vector->getNumElements()) : 1;
    Value* old = ir_.CreateLoad(type, slot);
    Value* value = builder_.splat(register_value(stmt.operands.at(0), copy), lanes);
    Value *best = old, *index = nullptr, *old_index = nullptr, *best_index = nullptr;
    if (stmt.reduction->returns_index) {
      index = builder_.splat(linear_inner_index(copy), lanes);
      old_index = best_index = ir_.CreateLoad(index->getType(), accumulator.indices.at(copy));
    }
    combine(stmt, value, index, best, best_index, false);
    // With a vectorized outer axis the lanes that are not there accumulate what nobody reads.
    Value* mask = kernel_.vectorize_outer ? nullptr : position_.mask;
    if (stmt.mask >= 0) {
      Value* own = builder_.splat(register_value(stmt.mask, copy), lanes);
      mask = mask ? ir_.CreateAnd(mask, own) : own;
    }
    ir_.CreateStore(mask ? ir_.CreateSelect(mask, best, old) : best, slot);
    if (best_index)
      ir_.CreateStore(mask ? ir_.CreateSelect(mask, best_index, old_index) : best_index, accumulator.indices.at(copy));
    return;
  }
  throw InternalError("emission: reduction without an accumulator");
}

// Joins copies pairwise, then lanes by halves. With a vectorized outer axis copies and lanes are different points and stay apart.
void KernelEmitter::end_reductions() {
  for (Accumulator& accumulator : accumulators_) {
    const Stmt& stmt = *accumulator.stmt;
    const bool indexed = stmt.reduction->returns_index;
    Registers values, indices;
    for (size_t copy = 0; copy < accumulator.values.size(); ++copy) {
      values.push_back(ir_.CreateLoad(accumulator.values[copy]->getAllocatedType(), accumulator.values[copy]));
      indices.push_back(indexed ? ir_.CreateLoad(accumulator.indices[copy]->getAllocatedType(), accumulator.indices[copy])
                                : nullptr);
    }
    if (!kernel_.vectorize_outer || num_outer() == 0) {
      while (values.size() > 1) {
        size_t half = values.size() / 2;
        for (size_t i = 0; i < half; ++i) combine(stmt, values[i + half], indices[i + half], values[i], indices[i], true);
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
