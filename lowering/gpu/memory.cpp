// Addresses, loads and stores.
#include <algorithm>
#include <optional>

#include "graph/op.h"
#include "lowering/gpu/kernel_emitter.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;
using graph::InternalError;

namespace {

bool is_scratch(const ScheduledKernel& kernel, int buffer) {
  return kernel.buffers[buffer].kind == BufferKind::kRowScratch;
}

bool same_read(const Stmt& a, const Stmt& b) {
  if (a.buffer != b.buffer || !(a.index.offset == b.index.offset) ||
      a.index.terms.size() != b.index.terms.size() || a.mask >= 0 || b.mask >= 0 ||
      runtime::compute_type(a.dtype) != runtime::compute_type(b.dtype))
    return false;
  for (size_t i = 0; i < a.index.terms.size(); ++i) {
    const IndexTerm &x = a.index.terms[i], &y = b.index.terms[i];
    if (x.axis != y.axis || x.reg >= 0 || y.reg >= 0 || !(x.stride == y.stride)) return false;
  }
  return true;
}

}  // namespace

// Whether `count` copies along `axis` lie next to each other, the first at a multiple of `count`.
bool KernelEmitter::adjacent(const Stmt& stmt, int axis, int count) const {
  if (!is_multiple(stmt.index.offset, count)) return false;
  Sym along;
  for (const IndexTerm& term : stmt.index.terms) {
    if (term.axis == axis)
      along = along + term.stride;
    else if (term.reg >= 0 && spreads_[term.reg] != Spread::kUniform &&
             !(spreads_[term.reg] == Spread::kOuter && axis >= num_outer()))
      return false;
    else if (!is_multiple(term.stride, count))
      return false;
  }
  return along == Sym(1);
}

// Copies that one instruction reads or writes; each by itself where they are not next to each other.
std::vector<KernelEmitter::Access> KernelEmitter::accesses(const Stmt& stmt, Spread spread) const {
  const int copies = copies_of(spread);
  const bool by_inner = plan_.inner_vector > 1 && spread == Spread::kInner;
  const int group = by_inner ? plan_.inner_vector : plan_.outer_vector;
  const int axis = by_inner ? num_outer() + static_cast<int>(phase_->inner.size()) - 1 : num_outer() - 1;
  // Masks that differ from copy to copy take accesses apart; so does a scratch of each outer point.
  const bool masked = stmt.mask >= 0 && spreads_[stmt.mask] == Spread::kInner;
  const bool masked_outer = stmt.mask >= 0 && spreads_[stmt.mask] == Spread::kOuter && !by_inner;
  const bool apart = masked || masked_outer || (is_scratch(kernel_, stmt.buffer) && !by_inner);
  std::vector<Access> result;
  if (group > 1 && copies % group == 0 && !apart && adjacent(stmt, axis, group)) {
    const int bytes = runtime::bytes(kernel_.buffers[stmt.buffer].dtype);
    const int each = std::min(group, 16 / bytes);
    for (int first = 0; first < copies; first += each) result.push_back({first, each});
    return result;
  }
  for (int copy = 0; copy < copies; ++copy) result.push_back({copy, 1});
  return result;
}

// In elements, as an i64.
Value* KernelEmitter::element_offset(const Stmt& stmt, int copy) {
  Value* offset = size(stmt.index.offset);
  for (const IndexTerm& term : stmt.index.terms) {
    if (term.stride == Sym()) continue;
    Value* at = to_i64(term.axis >= 0 ? axis_value(term.axis, copy) : register_value(term.reg, copy));
    offset = ir_.CreateAdd(offset, ir_.CreateMul(at, size(term.stride)));
  }
  return offset;
}

Value* KernelEmitter::address(const Stmt& stmt, int copy) {
  Type* element = builder_.storage_type(kernel_.buffers[stmt.buffer].dtype);
  Value* offset = element_offset(stmt, copy);
  if (!is_scratch(kernel_, stmt.buffer)) return ir_.CreateGEP(element, pointers_[stmt.buffer], offset);
  const ScratchPlace& place = plan_.scratch[stmt.buffer];
  // The row of this outer point.
  Value* row = ir_.CreateAdd(ir_.CreateMul(outer_thread_, ir_.getInt32(plan_.outer_vector)),
                             ir_.getInt32(outer_of(copy)));
  if (place.where == ScratchPlace::kShared) {
    Value* base = ir_.CreateAdd(ir_.CreateMul(row, ir_.getInt32(static_cast<int32_t>(plan_.shared_scratch))),
                                ir_.getInt32(static_cast<int32_t>(place.offset.constant())));
    return ir_.CreateGEP(element, ir_.CreateGEP(ir_.getInt8Ty(), shared_memory_, base), offset);
  }
  const int64_t rows = int64_t{plan_.outer_threads} * plan_.outer_vector;
  Value* row_bytes = size(floordiv(plan_.global_scratch, Sym(rows)));
  Value* base =
      ir_.CreateAdd(ir_.CreateMul(ir_.CreateZExt(row, ir_.getInt64Ty()), row_bytes), size(place.offset));
  return ir_.CreateGEP(element, ir_.CreateGEP(ir_.getInt8Ty(), scratch_, base), offset);
}

// Whether the buffer's first byte is at a multiple: what callers give may begin anywhere.
Value* KernelEmitter::aligned(int buffer, int64_t bytes) {
  for (const auto& [key, value] : alignments_)
    if (key == std::pair(buffer, bytes)) return value;
  IRBuilder<>::InsertPointGuard guard(ir_);
  ir_.SetInsertPoint(entry_->getTerminator());
  Value* number = ir_.CreatePtrToInt(pointers_[buffer], ir_.getInt64Ty());
  Value* result = ir_.CreateICmpEQ(ir_.CreateAnd(number, ir_.getInt64(bytes - 1)), ir_.getInt64(0));
  alignments_.push_back({{buffer, bytes}, result});
  return result;
}

Value* KernelEmitter::from_storage(Value* raw, DType dtype) {
  if (dtype == DType::kBool) return ir_.CreateICmpNE(raw, Constant::getNullValue(raw->getType()));
  return runtime::is_half(dtype) ? builder_.widen_half(raw, dtype) : raw;
}

Value* KernelEmitter::to_storage(Value* value, DType buffer_dtype, DType register_dtype) {
  Scalar scalar = LaneBuilder::wrap(value, register_dtype);
  if (runtime::is_half(buffer_dtype)) {
    Value* wide = LaneBuilder::value(builder_.cast(scalar, DType::kF32));
    return builder_.narrow_half(wide, buffer_dtype);
  }
  value = LaneBuilder::value(builder_.cast(scalar, buffer_dtype));
  return buffer_dtype == DType::kBool ? ir_.CreateZExt(value, ir_.getInt8Ty()) : value;
}

// What was read or written before at the same points.
const KernelEmitter::Registers* KernelEmitter::kept(const Stmt& stmt) const {
  for (const Kept& kept : kept_)
    if (same_read(*kept.access, stmt)) return &kept.values;
  return nullptr;
}

void KernelEmitter::emit_load(const Stmt& stmt, Spread spread) {
  const bool row = plan_.whole_row && spread == Spread::kInner && !phase_->inner.empty();
  if (row)
    if (const Registers* values = kept(stmt)) {
      registers_[stmt.dst] = *values;
      return;
    }
  Registers values;
  for (const Access& access : accesses(stmt, spread))
    for (Value* value : load(stmt, access)) values.push_back(value);
  const bool read_only = !kernel_.buffers[stmt.buffer].written;
  if (!read_only) read_.push_back(stmt.buffer);
  if (row && read_only && stmt.mask < 0) kept_.push_back({&stmt, values});
  registers_[stmt.dst] = std::move(values);
}

KernelEmitter::Registers KernelEmitter::load(const Stmt& stmt, const Access& access) {
  const KernelBuffer& buffer = kernel_.buffers[stmt.buffer];
  const int bytes = runtime::bytes(buffer.dtype), width = access.count * bytes;
  Type* element = builder_.storage_type(buffer.dtype);
  // Words: PTX's vectors have at most four elements.
  Type* words = access.count == 1 ? element
                : width <= 4      ? static_cast<Type*>(ir_.getIntNTy(8 * width))
                : bytes == 8      ? static_cast<Type*>(FixedVectorType::get(element, access.count))
                                  : FixedVectorType::get(ir_.getInt32Ty(), width / 4);
  auto invariant = [&](LoadInst* load) {
    if (!buffer.written && buffer.kind == BufferKind::kGlobal)
      load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(module_.getContext(), {}));
    return load;
  };
  auto element_at = [&](Value* loaded, int i) -> Value* {
    if (access.count == 1) return loaded;
    Value* elements = ir_.CreateBitCast(loaded, FixedVectorType::get(element, access.count));
    return ir_.CreateExtractElement(elements, uint64_t(i));
  };
  // The raw elements, however they are read.
  auto read = [&]() -> Registers {
    Value* pointer = address(stmt, access.first);
    Registers raw;
    if (access.count == 1) {
      raw.push_back(invariant(ir_.CreateAlignedLoad(element, pointer, Align(bytes))));
      return raw;
    }
    auto wide = [&] {
      Value* loaded = invariant(ir_.CreateAlignedLoad(words, pointer, Align(width)));
      Registers result;
      for (int i = 0; i < access.count; ++i) result.push_back(element_at(loaded, i));
      return result;
    };
    if (buffer.kind != BufferKind::kGlobal) return wide();
    auto* vector = BasicBlock::Create(module_.getContext(), "vector", function_);
    auto* single = BasicBlock::Create(module_.getContext(), "single", function_);
    auto* done = BasicBlock::Create(module_.getContext(), "loaded", function_);
    ir_.CreateCondBr(aligned(stmt.buffer, width), vector, single);
    ir_.SetInsertPoint(vector);
    const Registers whole = wide();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(single);
    Registers parts;
    for (int i = 0; i < access.count; ++i)
      parts.push_back(invariant(
          ir_.CreateAlignedLoad(element, ir_.CreateConstGEP1_64(element, pointer, i), Align(bytes))));
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
    for (int i = 0; i < access.count; ++i) {
      PHINode* merged = ir_.CreatePHI(element, 2);
      merged->addIncoming(whole[i], vector);
      merged->addIncoming(parts[i], single);
      raw.push_back(merged);
    }
    return raw;
  };
  Registers raw;
  if (stmt.mask < 0) {
    raw = read();
  } else {
    // Where the mask says no, memory is not touched.
    Value* mask = register_value(stmt.mask, access.first);
    BasicBlock* before = ir_.GetInsertBlock();
    auto* inside = BasicBlock::Create(module_.getContext(), "masked", function_);
    auto* done = BasicBlock::Create(module_.getContext(), "unmasked", function_);
    ir_.CreateCondBr(mask, inside, done);
    ir_.SetInsertPoint(inside);
    const Registers found = read();
    BasicBlock* after = ir_.GetInsertBlock();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
    for (Value* value : found) {
      PHINode* merged = ir_.CreatePHI(value->getType(), 2);
      merged->addIncoming(Constant::getNullValue(value->getType()), before);
      merged->addIncoming(value, after);
      raw.push_back(merged);
    }
  }
  Registers values;
  for (int i = 0; i < access.count; ++i) {
    Value* value = from_storage(raw[i], buffer.dtype);
    const DType dtype = runtime::compute_type(buffer.dtype);
    if (runtime::compute_type(stmt.dtype) != dtype) {
      value = LaneBuilder::value(builder_.cast(LaneBuilder::wrap(value, dtype), stmt.dtype));
    }
    if (stmt.mask >= 0) {
      Scalar other = runtime::is_float(stmt.dtype)
                         ? builder_.constant(stmt.value, stmt.dtype)
                         : builder_.constant_int(static_cast<int64_t>(stmt.value), stmt.dtype);
      const Scalar mask = LaneBuilder::wrap(register_value(stmt.mask, access.first + i), DType::kBool);
      value = LaneBuilder::value(builder_.select(mask, LaneBuilder::wrap(value, other.dtype), other));
    }
    values.push_back(value);
  }
  return values;
}

void KernelEmitter::emit_store(const Stmt& stmt, Spread spread) {
  const int reg = stmt.operands.at(0);
  const int copies = copies_of(spread);
  Registers values;
  for (int copy = 0; copy < copies; ++copy) values.push_back(register_value(reg, copy));
  const KernelBuffer& buffer = kernel_.buffers[stmt.buffer];
  if (is_scratch(kernel_, stmt.buffer) && plan_.scratch[stmt.buffer].where == ScratchPlace::kRegisters) {
    // As it would come back from memory.
    for (Value*& value : values)
      value = from_storage(to_storage(value, buffer.dtype, register_dtypes_[reg]), buffer.dtype);
    kept_.push_back({&stmt, std::move(values)});
    return;
  }
  for (Value*& value : values) value = to_storage(value, buffer.dtype, register_dtypes_[reg]);
  for (const Access& access : accesses(stmt, spread))
    store(stmt, access,
          Registers(values.begin() + access.first, values.begin() + access.first + access.count));
}

void KernelEmitter::store(const Stmt& stmt, const Access& access, const Registers& values) {
  const KernelBuffer& buffer = kernel_.buffers[stmt.buffer];
  const int bytes = runtime::bytes(buffer.dtype), width = access.count * bytes;
  Type* element = builder_.storage_type(buffer.dtype);
  Value* condition = exists(access.first, !phase_->inner.empty());
  // Where there are no inner points, one thread of the row writes.
  if (phase_->inner.empty() && plan_.inner_threads > 1) {
    Value* first = ir_.CreateICmpEQ(inner_thread_, ir_.getInt32(0));
    condition = condition ? ir_.CreateAnd(condition, first) : first;
  }
  if (stmt.mask >= 0) {
    Value* mask = register_value(stmt.mask, access.first);
    condition = condition ? ir_.CreateAnd(condition, mask) : mask;
  }
  emit_if(condition, [&] {
    Value* pointer = address(stmt, access.first);
    auto singly = [&] {
      for (int i = 0; i < access.count; ++i) {
        Value* at = ir_.CreateConstGEP1_64(element, pointer, i);
        if (stmt.adds)
          ir_.CreateAtomicRMW(element->isFloatingPointTy() ? AtomicRMWInst::FAdd : AtomicRMWInst::Add, at,
                              values[i], Align(bytes), AtomicOrdering::Monotonic);
        else
          ir_.CreateAlignedStore(values[i], at, Align(bytes));
      }
    };
    if (access.count == 1 || stmt.adds) return singly();
    auto wide = [&] {
      auto* type = FixedVectorType::get(element, access.count);
      Value* vector = PoisonValue::get(type);
      for (int i = 0; i < access.count; ++i) vector = ir_.CreateInsertElement(vector, values[i], uint64_t(i));
      Type* words = width <= 4   ? static_cast<Type*>(ir_.getIntNTy(8 * width))
                    : bytes == 8 ? static_cast<Type*>(type)
                                 : FixedVectorType::get(ir_.getInt32Ty(), width / 4);
      ir_.CreateAlignedStore(ir_.CreateBitCast(vector, words), pointer, Align(width));
    };
    if (buffer.kind != BufferKind::kGlobal) return wide();
    auto* whole = BasicBlock::Create(module_.getContext(), "vector", function_);
    auto* single = BasicBlock::Create(module_.getContext(), "single", function_);
    auto* done = BasicBlock::Create(module_.getContext(), "stored", function_);
    ir_.CreateCondBr(aligned(stmt.buffer, width), whole, single);
    ir_.SetInsertPoint(whole);
    wide();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(single);
    singly();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
  });
}

}  // namespace cdynamo::lowering::gpu
