// Tiles whose memory is contiguous across the lanes: whole rows of the other layout are read or written, and
// transposed in registers.
#include <algorithm>

#include "lowering/emit/kernel_emitter.h"

namespace cdynamo::lowering::emit {

using namespace llvm;

// An access without mask and registers that moves by one along the copies and by more along the lanes.
bool KernelEmitter::is_transposed(const Stmt& stmt) const {
  if (position_.copy_axis < 0 || stmt.mask >= 0) return false;
  bool across = false, along = false;
  for (const IndexTerm& term : stmt.index.terms) {
    if (term.reg >= 0 && !(term.stride == Sym(0))) return false;
    if (term.axis == position_.copy_axis) across = term.stride == Sym(1);
    if (term.axis == vector_axis())
      along = !(term.stride == Sym(0)) && !(term.stride == Sym(1)) && !(term.stride == Sym(-1));
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

void KernelEmitter::load_transposed(const Stmt& stmt) {
  const DType stored = kernel_.buffers[stmt.buffer].dtype;
  auto* type = FixedVectorType::get(builder_.storage_type(stored), position_.copies);
  Registers rows;
  for (int lane = 0; lane < position_.lanes; ++lane)
    rows.push_back(ir_.CreateAlignedLoad(type, transposed_row(stmt, lane), Align(runtime::bytes(stored))));
  transposed_ = transpose(std::move(rows));
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
  Registers rows = transpose(std::move(columns));
  for (int lane = 0; lane < position_.lanes; ++lane)
    ir_.CreateAlignedStore(rows[lane], transposed_row(stmt, lane), Align(runtime::bytes(stored)));
}

}  // namespace cdynamo::lowering::emit
