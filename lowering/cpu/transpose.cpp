// Tiles whose memory is contiguous across the lanes: whole rows of the other layout are read or written, and
// transposed in registers.
#include <algorithm>
#include <numeric>

#include "lowering/cpu/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;

// An access without mask and registers that moves by one along the copies and by more along the lanes.
bool KernelEmitter::is_transposed(const Stmt& stmt) const {
  if (position_.copy_axis < 0 || stmt.mask >= 0) return false;
  bool across = false, along = false;
  for (const IndexTerm& term : stmt.index.terms) {
    if (term.reg >= 0 && !(term.stride == Sym(0))) return false;
    if (term.axis == position_.copy_axis) across = term.stride == Sym(1);
    if (term.axis != vector_axis()) continue;
    along = plan_.interleaves
                ? term.stride == Sym(position_.copies)
                : !(term.stride == Sym(0)) && !(term.stride == Sym(1)) && !(term.stride == Sym(-1));
  }
  return across && along;
}

// Where the contiguous points of one lane start.
Value* KernelEmitter::transposed_row(const Stmt& stmt, int lane) {
  Value* stride = nullptr;
  for (const IndexTerm& term : stmt.index.terms)
    if (term.axis == vector_axis()) stride = size(term.stride);
  Type* element = builder_.storage_type(kernel_.buffers[stmt.buffer].dtype);
  return ir_.CreateGEP(element, statement_pointers_[statement_], ir_.CreateMul(stride, ir_.getInt64(lane)));
}

// As many rounds of interleaving the first half of the vectors with the second as there are bits in their
// number.
KernelEmitter::Registers KernelEmitter::transpose(Registers rows) {
  const int count = static_cast<int>(rows.size());
  SmallVector<int, 64> low, high;
  for (int i = 0; i < count / 2; ++i) {
    low.push_back(i), low.push_back(count + i);
    high.push_back(count / 2 + i), high.push_back(count + count / 2 + i);
  }
  for (int round = 1; round < count; round *= 2) {
    Registers next(count);
    for (int i = 0; i < count / 2; ++i) {
      next[2 * i] = ir_.CreateShuffleVector(rows[i], rows[i + count / 2], low);
      next[2 * i + 1] = ir_.CreateShuffleVector(rows[i], rows[i + count / 2], high);
    }
    rows = std::move(next);
  }
  return rows;
}

// The copies of the first lane, of the second, and so on: one run of memory.
void KernelEmitter::load_interleaved(const Stmt& stmt) {
  const int lanes = position_.lanes, copies = position_.copies;
  const DType stored = kernel_.buffers[stmt.buffer].dtype;
  auto* type = FixedVectorType::get(builder_.storage_type(stored), lanes * copies);
  const Align align(runtime::bytes(stored));
  Value* pointer = statement_pointers_[statement_];
  Value* run = position_.mask ? static_cast<Value*>(ir_.CreateMaskedLoad(
                                    type, pointer, align, interleaved_mask(), Constant::getNullValue(type)))
                              : ir_.CreateAlignedLoad(type, pointer, align);
  transposed_.clear();
  for (int copy = 0; copy < copies; ++copy) {
    SmallVector<int, 64> picked;
    for (int lane = 0; lane < lanes; ++lane) picked.push_back(lane * copies + copy);
    transposed_.push_back(ir_.CreateShuffleVector(run, picked));
  }
}

void KernelEmitter::store_interleaved(const Stmt& stmt, Registers columns) {
  const int lanes = position_.lanes, copies = position_.copies;
  // Side by side, then each lane's together.
  while (columns.size() > 1) {
    const int length = VectorBuilder::lanes(columns[0]);
    SmallVector<int, 64> both(2 * length);
    std::iota(both.begin(), both.end(), 0);
    Registers joined;
    for (size_t i = 0; i < columns.size(); i += 2)
      joined.push_back(ir_.CreateShuffleVector(columns[i], columns[i + 1], both));
    columns = std::move(joined);
  }
  SmallVector<int, 64> order;
  for (int lane = 0; lane < lanes; ++lane)
    for (int copy = 0; copy < copies; ++copy) order.push_back(copy * lanes + lane);
  Value* run = ir_.CreateShuffleVector(columns[0], order);
  const Align align(runtime::bytes(kernel_.buffers[stmt.buffer].dtype));
  Value* pointer = statement_pointers_[statement_];
  if (position_.mask)
    ir_.CreateMaskedStore(run, pointer, align, interleaved_mask());
  else
    ir_.CreateAlignedStore(run, pointer, align);
}

// The mask of the lanes, each as often as there are copies.
Value* KernelEmitter::interleaved_mask() {
  SmallVector<int, 64> lanes;
  for (int i = 0; i < position_.lanes * position_.copies; ++i) lanes.push_back(i / position_.copies);
  return ir_.CreateShuffleVector(position_.mask, lanes);
}

void KernelEmitter::load_transposed(const Stmt& stmt) {
  const DType stored = kernel_.buffers[stmt.buffer].dtype;
  auto* type = FixedVectorType::get(builder_.storage_type(stored), position_.copies);
  if (plan_.interleaves) {
    load_interleaved(stmt);
  } else {
    Registers rows;
    for (int lane = 0; lane < position_.lanes; ++lane)
      rows.push_back(ir_.CreateAlignedLoad(type, transposed_row(stmt, lane), Align(runtime::bytes(stored))));
    transposed_ = transpose(std::move(rows));
  }
  for (Value*& value : transposed_) {
    Scalar loaded = VectorBuilder::wrap(from_storage(value, stored), runtime::compute_type(stored));
    value = VectorBuilder::value(
        runtime::compute_type(stmt.dtype) == loaded.dtype ? loaded : builder_.cast(loaded, stmt.dtype));
  }
}

void KernelEmitter::store_transposed(const Stmt& stmt) {
  const DType stored = kernel_.buffers[stmt.buffer].dtype;
  Registers columns;
  for (int copy = 0; copy < position_.copies; ++copy) {
    Scalar source = operand(stmt, 0, copy);
    columns.push_back(
        builder_.splat(to_storage(VectorBuilder::value(source), stored, source.dtype), position_.lanes));
  }
  if (plan_.interleaves) return store_interleaved(stmt, std::move(columns));
  Registers rows = transpose(std::move(columns));
  for (int lane = 0; lane < position_.lanes; ++lane)
    ir_.CreateAlignedStore(rows[lane], transposed_row(stmt, lane), Align(runtime::bytes(stored)));
}

}  // namespace cdynamo::lowering::emit
