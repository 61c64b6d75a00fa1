// Reductions: an accumulator for each lane and unrolled copy, joined when the phase's loops are done.
#include <algorithm>

#include "graph/op.h"
#include "lowering/cpu/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

namespace {

constexpr int64_t kMostTerms = 64;  // of one float accumulator

}  // namespace

// float32 goes to float64, where neither a sum nor a product of four leaves the range that a float32 result
// could come from; what is in float64 already is scanned one by one.
int scan_lanes_limit(const Phase& phase) {
  constexpr int kOfProducts = 4;
  int limit = 0;
  for (const Stmt& stmt : phase.body) {
    if (stmt.kind == StmtKind::kStore)
      for (const Stmt& other : phase.body)
        if (other.kind == StmtKind::kLoad && other.buffer == stmt.buffer) return 0;
    if (stmt.kind != StmtKind::kScan) continue;
    const bool rounded = rounds(stmt, stmt.dtype);
    if (stmt.stepwise || (rounded && stmt.dtype == DType::kF64)) return 0;
    const bool product = rounded && class_of(*stmt.reduction) != ReductionClass::kAdds;
    limit = std::min(limit == 0 ? 64 : limit, product ? kOfProducts : 64);
  }
  return phase.sequential ? limit : 0;
}

// The deepest loop at which enough has come together.
KernelEmitter::Fold KernelEmitter::choose_fold() const {
  const Phase& phase = kernel_.phases[phase_];
  bool any = false;
  for (const Stmt& stmt : phase.body)
    any |= stmt.kind == StmtKind::kReduce && rounds(stmt, register_dtypes_.at(stmt.operands.at(0)));
  if (!any) return {};
  int64_t terms = 1;
  for (int depth = num_inner(); depth >= 1; --depth) {
    const Sym& extent = phase.inner[depth - 1];
    const Fold here{depth, std::max<int64_t>(1, kMostTerms / terms)};
    if (!extent.is_constant()) return here;
    int64_t trips = extent.constant();
    const VectorWidth& width = plan_.phases[phase_];
    if (vector_axis() == num_outer() + depth - 1) trips /= int64_t{width.lanes} * width.copies;
    if (trips > here.every) return here;
    terms *= std::max<int64_t>(1, trips);
  }
  return {};
}

// Makes the accumulators of the phase.
void KernelEmitter::begin_reductions() {
  accumulators_.clear();
  fold_ = choose_fold();
  const VectorWidth width = plan_.phases[phase_];
  const bool vector = has_vector_axis();
  const int lanes = vector ? width.lanes : 1;
  const int copies = !vector ? 1 : kernel_.lanes_outer ? position_.copies : width.copies;
  for (const Stmt& stmt : kernel_.phases[phase_].body) {
    if (stmt.kind != StmtKind::kReduce && stmt.kind != StmtKind::kScan) continue;
    DType dtype = register_dtypes_.at(stmt.operands.at(0));
    const bool rounded = rounds(stmt, dtype);
    if (rounded && stmt.kind == StmtKind::kScan && !stmt.stepwise) dtype = DType::kF64;
    Accumulator accumulator{&stmt, dtype, {}, {}, {}};
    for (int copy = 0; copy < copies; ++copy) {
      accumulator.values.push_back(new_alloca(builder_.type(dtype, lanes), "accumulator"));
      if (stmt.reduction->returns_index)
        accumulator.indices.push_back(new_alloca(builder_.type(DType::kI64, lanes), "best"));
      if (rounded && stmt.kind == StmtKind::kReduce && fold_.depth > 0)
        accumulator.totals.push_back(new_alloca(builder_.type(DType::kF64, lanes), "total"));
    }
    accumulators_.push_back(std::move(accumulator));
  }
}

const KernelEmitter::Accumulator& KernelEmitter::accumulator(const Stmt& stmt) const {
  for (const Accumulator& a : accumulators_)
    if (a.stmt == &stmt) return a;
  throw InternalError("emission: reduction without an accumulator");
}

// To the identity.
void KernelEmitter::reset(const Accumulator& accumulator, const std::vector<AllocaInst*>& slots,
                          DType dtype) {
  Scalar identity = accumulator.stmt->reduction->identity(builder_, dtype);
  for (AllocaInst* slot : slots) {
    auto* vector = dyn_cast<FixedVectorType>(slot->getAllocatedType());
    ir_.CreateStore(builder_.splat(VectorBuilder::value(identity), vector ? vector->getNumElements() : 1),
                    slot);
  }
}

// A reduction starts with the outermost loop, a scan with the innermost.
void KernelEmitter::begin_accumulation(int depth) {
  for (const Accumulator& a : accumulators_) {
    if (a.stmt->kind == StmtKind::kReduce ? depth > 1 : depth != num_inner()) continue;
    reset(a, a.values, a.dtype);
    reset(a, a.totals, DType::kF64);
    // Every other index precedes this one.
    for (AllocaInst* slot : a.indices)
      ir_.CreateStore(ConstantInt::get(slot->getAllocatedType(), INT64_MAX), slot);
  }
}

// Moves what has been accumulated on to the totals.
void KernelEmitter::fold() {
  for (const Accumulator& a : accumulators_) {
    for (size_t copy = 0; copy < a.totals.size(); ++copy)
      ir_.CreateStore(total(a, static_cast<int>(copy)), a.totals[copy]);
    if (!a.totals.empty()) reset(a, a.values, a.dtype);
  }
}

// The totals with what has been accumulated since they were.
Value* KernelEmitter::total(const Accumulator& a, int copy) {
  auto load = [&](AllocaInst* slot, DType dtype) {
    return VectorBuilder::wrap(ir_.CreateLoad(slot->getAllocatedType(), slot), dtype);
  };
  return VectorBuilder::value(
      a.stmt->reduction->combine(builder_, load(a.totals[copy], DType::kF64),
                                 builder_.cast(load(a.values[copy], a.dtype), DType::kF64)));
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

void KernelEmitter::combine(const Stmt& stmt, Accumulated next, Accumulated& best, bool in_any_order) {
  emit::combine(builder_, *stmt.reduction, register_dtypes_.at(stmt.operands.at(0)), next, best,
                in_any_order);
}

void KernelEmitter::emit_reduce(const Stmt& stmt, int copy) {
  const Accumulator& target = accumulator(stmt);
  AllocaInst* slot = target.values.at(copy);
  auto* type = slot->getAllocatedType();
  auto* vector = dyn_cast<FixedVectorType>(type);
  const int lanes = vector ? static_cast<int>(vector->getNumElements()) : 1;
  Value* old = ir_.CreateLoad(type, slot);
  Value* value = builder_.splat(register_value(stmt.operands.at(0), copy), lanes);
  Accumulated next{value, nullptr}, best{old, nullptr};
  Value* old_index = nullptr;
  if (stmt.reduction->returns_index) {
    next.index = builder_.splat(linear_inner_index(copy), lanes);
    old_index = best.index = ir_.CreateLoad(next.index->getType(), target.indices.at(copy));
  }
  combine(stmt, next, best, false);
  // With a vectorized outer axis the lanes that are not there accumulate what nobody reads.
  Value* mask = kernel_.lanes_outer ? nullptr : position_.mask;
  ir_.CreateStore(mask ? ir_.CreateSelect(mask, best.value, old) : best.value, slot);
  if (best.index)
    ir_.CreateStore(mask ? ir_.CreateSelect(mask, best.index, old_index) : best.index,
                    target.indices.at(copy));
}

// The first point of the innermost axis is taken as it is: the identity may differ from it in the sign of
// zero.
Value* KernelEmitter::emit_scan(const Stmt& stmt, int copy) {
  const Accumulator& target = accumulator(stmt);
  AllocaInst* slot = target.values.at(copy);
  const DType dtype = target.dtype, operand = register_dtypes_.at(stmt.operands.at(0));
  Value* old = ir_.CreateLoad(slot->getAllocatedType(), slot);
  const int lanes = VectorBuilder::lanes(old);
  Value* value = builder_.splat(register_value(stmt.operands.at(0), copy), lanes);
  value = VectorBuilder::value(builder_.cast(VectorBuilder::wrap(value, operand), dtype));
  const bool along = vector_axis() == num_outer() + num_inner() - 1;
  if (along) value = scan_lanes(stmt, value, dtype);
  auto join = [&](Value* before, Value* v) {
    Scalar joined =
        stmt.reduction->combine(builder_, VectorBuilder::wrap(before, dtype), VectorBuilder::wrap(v, dtype));
    if (stmt.stepwise && runtime::is_half(stmt.dtype)) joined = builder_.round_to(joined, stmt.dtype);
    Value* first = ir_.CreateICmpEQ(along ? position_.base : axes_.back(), ir_.getInt64(0));
    return ir_.CreateSelect(first, v, VectorBuilder::value(joined));
  };
  Value* result = join(old, value);
  // The last lane in all of them; made from the lanes' last, the chain from vector to vector is one operation.
  Value* last =
      along ? join(old, ir_.CreateShuffleVector(value, SmallVector<int, 64>(lanes, lanes - 1))) : result;
  ir_.CreateStore(last, slot);
  return VectorBuilder::value(builder_.cast(VectorBuilder::wrap(result, dtype), operand));
}

// The running reduction of the lanes of one vector, in steps of doubled reach.
Value* KernelEmitter::scan_lanes(const Stmt& stmt, Value* value, DType dtype) {
  const int lanes = VectorBuilder::lanes(value);
  for (int reach = 1; reach < lanes; reach *= 2) {
    SmallVector<int, 64> from;
    SmallVector<Constant*, 64> has;
    for (int lane = 0; lane < lanes; ++lane) {
      from.push_back(std::max(lane - reach, 0));
      has.push_back(ir_.getInt1(lane >= reach));
    }
    Scalar joined =
        stmt.reduction->combine(builder_, VectorBuilder::wrap(ir_.CreateShuffleVector(value, from), dtype),
                                VectorBuilder::wrap(value, dtype));
    value = ir_.CreateSelect(ConstantVector::get(has), VectorBuilder::value(joined), value);
  }
  return value;
}

// Joins copies pairwise, then lanes by halves. With a vectorized outer axis copies and lanes are different
// points and stay apart.
void KernelEmitter::end_reductions() {
  for (Accumulator& accumulator : accumulators_) {
    const Stmt& stmt = *accumulator.stmt;
    if (stmt.kind == StmtKind::kScan) continue;
    const bool indexed = stmt.reduction->returns_index;
    std::vector<Accumulated> found;
    for (size_t copy = 0; copy < accumulator.values.size(); ++copy) {
      AllocaInst* slot = accumulator.values[copy];
      Value* value = accumulator.totals.empty()
                         ? ir_.CreateLoad(slot->getAllocatedType(), slot)
                         : VectorBuilder::value(builder_.cast(
                               VectorBuilder::wrap(total(accumulator, static_cast<int>(copy)), DType::kF64),
                               accumulator.dtype));
      found.push_back({value, nullptr});
      if (indexed)
        found.back().index =
            ir_.CreateLoad(accumulator.indices[copy]->getAllocatedType(), accumulator.indices[copy]);
    }
    if (!kernel_.lanes_outer) {
      while (found.size() > 1) {
        size_t half = found.size() / 2;
        for (size_t i = 0; i < half; ++i) combine(stmt, found[i + half], found[i], true);
        found.resize(half);
      }
      for (int lanes = VectorBuilder::lanes(found[0].value); lanes > 1; lanes /= 2) {
        SmallVector<int, 64> low, high;
        for (int i = 0; i < lanes / 2; ++i) low.push_back(i), high.push_back(i + lanes / 2);
        auto half_of = [&](Value* v, ArrayRef<int> part) {
          Value* piece = ir_.CreateShuffleVector(v, part);
          return lanes == 2 ? ir_.CreateExtractElement(piece, uint64_t{0}) : piece;
        };
        const Accumulated upper{half_of(found[0].value, high),
                                indexed ? half_of(found[0].index, high) : nullptr};
        found[0].value = half_of(found[0].value, low);
        if (indexed) found[0].index = half_of(found[0].index, low);
        combine(stmt, upper, found[0], true);
      }
    }
    Registers& results = registers_[stmt.dst];
    results.clear();
    for (const Accumulated& best : found) results.push_back(indexed ? best.index : best.value);
    if (!indexed && runtime::compute_type(stmt.dtype) != register_dtypes_.at(stmt.operands.at(0)))
      throw InternalError("emission: a reduction's dtype differs from its operand's");
    if (!indexed && runtime::is_half(stmt.dtype))
      for (Value*& v : registers_[stmt.dst])
        v = VectorBuilder::value(builder_.round_to(VectorBuilder::wrap(v, DType::kF32), stmt.dtype));
  }
}

}  // namespace cdynamo::lowering::emit
