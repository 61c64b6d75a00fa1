// Addresses, loads and stores.
#include <algorithm>

#include "graph/op.h"
#include "lowering/cpu/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

namespace {

bool is_scratch(const ScheduledKernel& kernel, int buffer) {
  return kernel.buffers[buffer].kind == BufferKind::kRowScratch;
}

}  // namespace

// Adds to each access's pointer what becomes known at `depth`: the terms of its axes, but for lanes and
// registers.
void KernelEmitter::advance_pointers(int depth) {
  const std::vector<Stmt>& body = kernel_.phases[phase_].body;
  for (size_t s = 0; s < body.size(); ++s) {
    const Stmt& stmt = body[s];
    if (stmt.buffer < 0) continue;
    Value* offset = depth == 0 ? size(stmt.index.offset) : ir_.getInt64(0);
    for (const IndexTerm& term : stmt.index.terms) {
      if (term.axis < 0 || term.stride == Sym(0) || axis_depth(term.axis) != depth) continue;
      bool lanes = has_vector_axis() && term.axis == vector_axis();
      Value* axis = lanes ? position_.base : axes_[term.axis];
      offset = ir_.CreateAdd(offset, ir_.CreateMul(axis, size(term.stride)));
    }
    // A row scratch of a vectorized outer axis holds its rows interleaved: element e of lane l is at e *
    // block + l.
    if (is_scratch(kernel_, stmt.buffer) && kernel_.lanes_outer) {
      const VectorWidth width = plan_.phases[phase_];
      offset = ir_.CreateMul(offset, ir_.getInt64(int64_t{width.lanes} * width.copies));
    }
    Type* element = builder_.storage_type(kernel_.buffers[stmt.buffer].dtype);
    Value* base = depth == 0 ? pointers_[stmt.buffer] : statement_pointers_[s];
    auto* constant = dyn_cast<ConstantInt>(offset);
    statement_pointers_[s] = constant && constant->isZero() ? base : ir_.CreateGEP(element, base, offset);
  }
}

KernelEmitter::Address KernelEmitter::address(const Stmt& stmt, int copy) {
  Address out;
  Type* element = builder_.storage_type(kernel_.buffers[stmt.buffer].dtype);
  Type* i64 = ir_.getInt64Ty();
  const int lanes = position_.lanes;
  Value* uniform = nullptr;
  Value* scattered = nullptr;  // <lanes x i64>
  Value *lane_stride = nullptr, *copy_stride = nullptr;
  for (const IndexTerm& term : stmt.index.terms) {
    if (term.stride == Sym(0)) continue;
    if (term.reg >= 0) {
      Value* part = ir_.CreateMul(
          register_value(term.reg, copy),
          builder_.splat(size(term.stride), VectorBuilder::lanes(register_value(term.reg, copy))));
      Value*& sum = VectorBuilder::lanes(part) > 1 ? scattered : uniform;
      sum = sum ? ir_.CreateAdd(sum, part) : part;
    } else if (has_vector_axis() && term.axis == vector_axis()) {
      lane_stride = size(term.stride);
    } else if (term.axis == position_.copy_axis) {
      copy_stride = size(term.stride);
    }
  }
  bool scratch_lanes = is_scratch(kernel_, stmt.buffer) && kernel_.lanes_outer;
  if (scratch_lanes) lane_stride = ir_.getInt64(1);
  out.pointer = uniform ? ir_.CreateGEP(element, statement_pointers_[statement_], uniform)
                        : statement_pointers_[statement_];
  auto* stride = dyn_cast_or_null<ConstantInt>(lane_stride);
  if (position_.copy_axis < 0 && lane_stride) copy_stride = ir_.CreateMul(lane_stride, ir_.getInt64(lanes));
  if (copy_stride && copy > 0)
    out.pointer = ir_.CreateGEP(element, out.pointer, ir_.CreateMul(copy_stride, ir_.getInt64(copy)));
  if (!lane_stride && !scattered) return out;
  if (lanes == 1 && !scattered) return out;
  if (!scattered && stride && stride->getSExtValue() == 1) {
    out.kind = Address::kContiguous;
  } else if (!scattered && stride && stride->getSExtValue() == -1) {
    out.kind = Address::kReversed;
  } else {
    out.kind = Address::kScattered;
    out.lane_offsets = scattered;
    if (!scattered && stride) out.stride = stride->getSExtValue();
    if (lane_stride) {
      SmallVector<Constant*, 64> iota;
      for (int lane = 0; lane < lanes; ++lane) iota.push_back(ConstantInt::get(i64, lane));
      Value* part = ir_.CreateMul(ConstantVector::get(iota), builder_.splat(lane_stride, lanes));
      out.lane_offsets = scattered ? ir_.CreateAdd(scattered, part) : part;
    }
  }
  return out;
}

// `mask` is null, an i1, or a vector of them; `other` is what inactive lanes get.
Value* KernelEmitter::load_raw(const Address& address, Type* element, Value* mask, Value* other) {
  const int lanes = position_.lanes;
  const Align align(element->getScalarSizeInBits() / 8);
  if (address.kind == Address::kUniform) {
    if (!mask) return ir_.CreateAlignedLoad(element, address.pointer, align);
    // No lane may touch memory when the mask says no: a branch.
    Value* wanted = builder_.any(mask);
    BasicBlock* before = ir_.GetInsertBlock();
    auto* load = BasicBlock::Create(module_.getContext(), "load", function_);
    auto* join = BasicBlock::Create(module_.getContext(), "loaded", function_);
    ir_.CreateCondBr(wanted, load, join);
    ir_.SetInsertPoint(load);
    Value* value = ir_.CreateAlignedLoad(element, address.pointer, align);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(join);
    PHINode* merged = ir_.CreatePHI(element, 2);
    merged->addIncoming(other, before);
    merged->addIncoming(value, load);
    if (VectorBuilder::lanes(mask) == 1) return merged;
    return ir_.CreateSelect(mask, builder_.splat(merged, lanes), builder_.splat(other, lanes));
  }
  auto* type = FixedVectorType::get(element, lanes);
  Value* everywhere = mask ? builder_.splat(mask, lanes) : nullptr;
  Value* rest = builder_.splat(other, lanes);
  if (address.kind == Address::kContiguous) {
    if (!everywhere) return ir_.CreateAlignedLoad(type, address.pointer, align);
    return ir_.CreateMaskedLoad(type, address.pointer, align, everywhere, rest);
  }
  if (address.kind == Address::kReversed) {
    Value* last = ir_.CreateConstGEP1_64(element, address.pointer, -(lanes - 1));
    Value* reversed = everywhere
                          ? ir_.CreateMaskedLoad(type, last, align, ir_.CreateVectorReverse(everywhere), rest)
                          : static_cast<Value*>(ir_.CreateAlignedLoad(type, last, align));
    return ir_.CreateVectorReverse(reversed);
  }
  constexpr int64_t kLargestStep = 4;
  if (address.stride >= 2 && address.stride <= kLargestStep) {
    Value* loaded = load_strided(address, element, everywhere);
    return everywhere ? ir_.CreateSelect(everywhere, loaded, rest) : loaded;
  }
  Value* pointers = ir_.CreateGEP(element, address.pointer, address.lane_offsets);
  if (!everywhere) everywhere = Constant::getAllOnesValue(FixedVectorType::get(ir_.getInt1Ty(), lanes));
  return ir_.CreateMaskedGather(type, pointers, align, everywhere, rest);
}

// Lanes a few elements apart: all that lies between the first and the last is loaded, vector by vector, and
// the lanes are picked out of it, which is many times faster than a gather. The last vector ends with the
// last lane, so that nothing behind it is touched.
Value* KernelEmitter::load_strided(const Address& address, Type* element, Value* mask) {
  const int lanes = position_.lanes, stride = static_cast<int>(address.stride);
  const Align align(element->getScalarSizeInBits() / 8);
  auto* type = FixedVectorType::get(element, lanes);
  Value* result = PoisonValue::get(type);
  for (int part = 0; part < stride; ++part) {
    const int first = part < stride - 1 ? part * lanes : (lanes - 1) * stride - lanes + 1;
    // Which lane each loaded element is (`lanes`: none), and where in (result, part) each lane is.
    SmallVector<int, 64> wanted(lanes, lanes), picked;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool here = std::min(lane * stride / lanes, stride - 1) == part;
      picked.push_back(here ? lanes + lane * stride - first : lane);
      if (here) wanted[lane * stride - first] = lane;
    }
    Value* pointer = ir_.CreateConstGEP1_64(element, address.pointer, first);
    Value* loaded;
    if (mask) {
      Value* some = ir_.CreateShuffleVector(mask, Constant::getNullValue(mask->getType()), wanted);
      loaded = ir_.CreateMaskedLoad(type, pointer, align, some, Constant::getNullValue(type));
    } else {
      loaded = ir_.CreateAlignedLoad(type, pointer, align);
    }
    result = ir_.CreateShuffleVector(result, loaded, picked);
  }
  return result;
}

Value* KernelEmitter::from_storage(Value* raw, DType dtype) {
  if (dtype == DType::kBool) return ir_.CreateICmpNE(raw, Constant::getNullValue(raw->getType()));
  return runtime::is_half(dtype) ? builder_.widen_half(raw, dtype) : raw;
}

Value* KernelEmitter::to_storage(Value* value, DType buffer_dtype, DType register_dtype) {
  if (register_dtype != runtime::compute_type(buffer_dtype))
    value = VectorBuilder::value(builder_.cast(VectorBuilder::wrap(value, register_dtype), buffer_dtype));
  if (buffer_dtype == DType::kBool)
    return ir_.CreateZExt(value, builder_.storage_type(buffer_dtype, VectorBuilder::lanes(value)));
  return runtime::is_half(buffer_dtype) ? builder_.narrow_half(value, buffer_dtype) : value;
}

Value* KernelEmitter::emit_load(const Stmt& stmt, int copy) {
  DType stored = kernel_.buffers[stmt.buffer].dtype;
  if (is_transposed(stmt)) {
    if (copy == 0) load_transposed(stmt);
    return transposed_.at(copy);
  }
  Type* element = builder_.storage_type(stored);
  Address where = address(stmt, copy);
  Value* mask = statement_mask(stmt, copy, where.kind != Address::kUniform);
  // What masked lanes read: `other` in the form in which it would be stored.
  Scalar other = builder_.constant(stmt.value, stored);
  if (!runtime::is_float(stored) && stmt.value == 0) other = builder_.constant_int(stmt.int_value, stored);
  Value* other_raw = to_storage(VectorBuilder::value(other), stored, other.dtype);
  Scalar loaded = VectorBuilder::wrap(from_storage(load_raw(where, element, mask, other_raw), stored),
                                      runtime::compute_type(stored));
  if (runtime::compute_type(stmt.dtype) != loaded.dtype) loaded = builder_.cast(loaded, stmt.dtype);
  return VectorBuilder::value(loaded);
}

void KernelEmitter::emit_store(const Stmt& stmt, int copy) {
  if (is_transposed(stmt)) {
    if (copy == 0) store_transposed(stmt);
    return;
  }
  DType stored = kernel_.buffers[stmt.buffer].dtype;
  Type* element = builder_.storage_type(stored);
  const Align align(element->getScalarSizeInBits() / 8);
  const int lanes = position_.lanes;
  Scalar source = operand(stmt, 0, copy);
  Value* value = to_storage(VectorBuilder::value(source), stored, source.dtype);
  Address where = address(stmt, copy);
  Value* mask = statement_mask(stmt, copy, true);
  if (where.kind == Address::kUniform) {
    // Without a vector axis, or where it has one point only: the first lane.
    if (VectorBuilder::lanes(value) > 1) value = ir_.CreateExtractElement(value, uint64_t{0});
    if (mask && VectorBuilder::lanes(mask) > 1) mask = ir_.CreateExtractElement(mask, uint64_t{0});
    if (!mask) {
      ir_.CreateAlignedStore(value, where.pointer, align);
      return;
    }
    auto* store = BasicBlock::Create(module_.getContext(), "store", function_);
    auto* join = BasicBlock::Create(module_.getContext(), "stored", function_);
    ir_.CreateCondBr(mask, store, join);
    ir_.SetInsertPoint(store);
    ir_.CreateAlignedStore(value, where.pointer, align);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(join);
    return;
  }
  value = builder_.splat(value, lanes);
  Value* everywhere = mask ? builder_.splat(mask, lanes) : nullptr;
  if (where.kind == Address::kContiguous) {
    if (everywhere) {
      ir_.CreateMaskedStore(value, where.pointer, align, everywhere);
    } else {
      ir_.CreateAlignedStore(value, where.pointer, align);
    }
    return;
  }
  if (where.kind == Address::kReversed) {
    Value* last = ir_.CreateConstGEP1_64(element, where.pointer, -(lanes - 1));
    Value* reversed = ir_.CreateVectorReverse(value);
    if (everywhere) {
      ir_.CreateMaskedStore(reversed, last, align, ir_.CreateVectorReverse(everywhere));
    } else {
      ir_.CreateAlignedStore(reversed, last, align);
    }
    return;
  }
  Value* pointers = ir_.CreateGEP(element, where.pointer, where.lane_offsets);
  if (!everywhere) everywhere = Constant::getAllOnesValue(FixedVectorType::get(ir_.getInt1Ty(), lanes));
  ir_.CreateMaskedScatter(value, pointers, align, everywhere);
}

}  // namespace cdynamo::lowering::emit
