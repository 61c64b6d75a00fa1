#include "lowering/cpu/kernel_emitter.h"

#include <algorithm>

#include "graph/op.h"

namespace cdynamo::lowering::emit {

using namespace llvm;
using graph::InternalError;

KernelEmitter::KernelEmitter(llvm::Module& module, const ScheduledKernel& kernel, const KernelPlan& plan,
                             const runtime::HostTarget& host)
    : module_(module),
      kernel_(kernel),
      plan_(plan),
      ir_(module.getContext()),
      builder_(ir_, host.has_avx512),
      size_(ir_, [this](int symbol) {
        Value* slot = ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), symbols_, symbol);
        return ir_.CreateLoad(ir_.getInt64Ty(), slot, "size");
      }) {}

void KernelEmitter::emit(const std::string& name) {
  registers_.assign(kernel_.num_registers, {});
  register_dtypes_.assign(kernel_.num_registers, DType::kF32);
  register_halves_.assign(kernel_.num_registers, DType::kF32);
  for (const Phase& phase : kernel_.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.dst >= 0) {
        register_dtypes_.at(stmt.dst) = runtime::compute_type(stmt.dtype);
        const bool rounds = stmt.kind == StmtKind::kOp || stmt.kind == StmtKind::kCast ||
                            stmt.kind == StmtKind::kPrim || stmt.kind == StmtKind::kLoad;
        if (rounds && runtime::is_half(stmt.dtype)) register_halves_.at(stmt.dst) = stmt.dtype;
      }
  register_varies_.assign(kernel_.num_registers, false);
  register_depth_.assign(kernel_.num_registers, 0);
  emit_prologue(name);
  emit_items();
  ir_.CreateRetVoid();
}

// Arguments, buffer pointers, and a first block into which sizes and allocas are put as they are needed.
void KernelEmitter::emit_prologue(const std::string& name) {
  LLVMContext& context = module_.getContext();
  Type *pointer = ir_.getPtrTy(), *i64 = ir_.getInt64Ty();
  auto* type = FunctionType::get(ir_.getVoidTy(), {pointer, pointer, i64, i64, pointer, pointer}, false);
  function_ = Function::Create(type, Function::ExternalLinkage, name, module_);
  function_->setDoesNotThrow();
  // Some processors are tuned to avoid 64-byte registers unless told; the width is chosen by HostTarget.
  std::string width = std::to_string(8 * runtime::host_target().vector_bytes);
  function_->addFnAttr("prefer-vector-width", width);
  function_->addFnAttr("min-legal-vector-width", width);
  entry_ = BasicBlock::Create(context, "entry", function_);
  size_.set_entry(entry_);
  auto* start = BasicBlock::Create(context, "start", function_);
  ir_.SetInsertPoint(entry_);
  Value* buffers = function_->getArg(0);
  symbols_ = function_->getArg(1);
  Value* scratch = function_->getArg(4);
  error_ = function_->getArg(5);
  ir_.CreateBr(start);
  ir_.SetInsertPoint(entry_->getTerminator());
  int global = 0, local = 0;
  for (const KernelBuffer& buffer : kernel_.buffers) {
    if (buffer.kind == BufferKind::kGlobal) {
      Value* slot = ir_.CreateConstInBoundsGEP1_64(pointer, buffers, global++);
      pointers_.push_back(ir_.CreateLoad(pointer, slot, "buffer"));
    } else {
      pointers_.push_back(
          ir_.CreateGEP(ir_.getInt8Ty(), scratch, size(plan_.scratch_offsets[local++]), "scratch"));
    }
  }
  ir_.SetInsertPoint(start);
}

AllocaInst* KernelEmitter::new_alloca(Type* type, const char* name) {
  IRBuilder<>::InsertPointGuard guard(ir_);
  ir_.SetInsertPoint(entry_, entry_->begin());
  return ir_.CreateAlloca(type, nullptr, name);
}

// for (i = begin; i < end; i += step) body(i). With `at_least_once` the test before the first iteration is
// left out.
void KernelEmitter::emit_loop(Value* begin, Value* end, int64_t step, bool at_least_once, const char* name,
                              const std::function<void(Value*)>& body) {
  LLVMContext& context = module_.getContext();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* loop = BasicBlock::Create(context, name, function_);
  auto* exit = BasicBlock::Create(context, std::string(name) + ".end", function_);
  if (at_least_once) {
    ir_.CreateBr(loop);
  } else {
    ir_.CreateCondBr(ir_.CreateICmpSLT(begin, end), loop, exit);
  }
  ir_.SetInsertPoint(loop);
  PHINode* i = ir_.CreatePHI(ir_.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  body(i);
  Value* next = ir_.CreateAdd(i, ir_.getInt64(step), "", /*NUW=*/true, /*NSW=*/true);
  i->addIncoming(next, ir_.GetInsertBlock());
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), loop, exit);
  ir_.SetInsertPoint(exit);
}

// A phase's loop at `depth` (from 1), in parts where reductions are folded there.
void KernelEmitter::emit_inner_loop(int depth, Value* begin, Value* end, int64_t step, bool at_least_once,
                                    const char* name, const std::function<void(Value*)>& body) {
  if (depth != fold_.depth) return emit_loop(begin, end, step, at_least_once, name, body);
  if (fold_.every == 1) {
    return emit_loop(begin, end, step, at_least_once, name, [&](Value* i) {
      body(i);
      fold();
    });
  }
  const int64_t part = step * fold_.every;
  emit_loop(begin, end, part, at_least_once, "part", [&](Value* first) {
    Value* next = ir_.CreateAdd(first, ir_.getInt64(part), "", /*NUW=*/true, /*NSW=*/true);
    emit_loop(first, ir_.CreateBinaryIntrinsic(Intrinsic::smin, next, end), step, true, name, body);
    fold();
  });
}

// Work items to runs along the last outer axis: the coordinates of the other axes are computed once a run.
void KernelEmitter::emit_items() {
  Value *begin = function_->getArg(2), *end = function_->getArg(3);
  axes_.assign(num_outer(), nullptr);
  if (num_outer() <= 1) return emit_outer_run(begin, end);
  LLVMContext& context = module_.getContext();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* head = BasicBlock::Create(context, "items", function_);
  auto* run = BasicBlock::Create(context, "run", function_);
  auto* done = BasicBlock::Create(context, "done", function_);
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  PHINode* item = ir_.CreatePHI(ir_.getInt64Ty(), 2, "item");
  item->addIncoming(begin, before);
  ir_.CreateCondBr(ir_.CreateICmpSLT(item, end), run, done);
  ir_.SetInsertPoint(run);
  Value* rest = item;
  for (int axis = num_outer() - 1; axis > 0; --axis) {
    Value* extent = size(plan_.work[axis]);
    axes_[axis] = ir_.CreateURem(rest, extent);
    rest = ir_.CreateUDiv(rest, extent);
  }
  axes_[0] = rest;
  Value* first = axes_.back();
  Value* length = ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateSub(end, item),
                                            ir_.CreateSub(size(plan_.work.back()), first));
  emit_outer_run(first, ir_.CreateAdd(first, length));
  item->addIncoming(ir_.CreateAdd(item, length), ir_.GetInsertBlock());
  ir_.CreateBr(head);
  ir_.SetInsertPoint(done);
}

// Items [first, last) of the last outer axis, the other outer coordinates being in `axes_`.
void KernelEmitter::emit_outer_run(Value* first, Value* last) {
  if (!kernel_.lanes_outer || num_outer() == 0) {
    position_ = {};  // phases with a vector axis set it in their innermost loop
    return emit_loop(first, last, 1, false, "outer", [&](Value* i) {
      if (num_outer() > 0) axes_[num_outer() - 1] = i;
      emit_phases();
    });
  }
  const VectorWidth width = plan_.phases.at(0);
  Value* block = ir_.getInt64(int64_t{width.lanes} * width.copies);
  Value* end =
      ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateMul(last, block), size(kernel_.outer.back()));
  emit_lanes(ir_.CreateMul(first, block), end, [&](const VectorPosition& position) {
    position_ = position;
    emit_tile();
  });
}

// The loop of the lanes [begin, end): in each piece (see Joints) whole blocks, then vectors of which the last may be masked.
void KernelEmitter::emit_lanes(Value* begin, Value* end,
                               const std::function<void(const VectorPosition&)>& body) {
  const bool is_outer = kernel_.lanes_outer;
  const size_t phase = is_outer ? 0 : phase_;
  const VectorWidth width = plan_.phases.at(phase);
  const Joints& joints = plan_.joints.at(phase);
  const Sym& extent = is_outer ? kernel_.outer.back() : kernel_.phases[phase].inner.back();
  const int64_t block = int64_t{width.lanes} * width.copies;
  const bool at_least_once = !is_outer && extent.is_constant() && joints.at.empty();
  const auto emit_blocks = [&](Value* first, Value* last) {
    const auto emit_block = [&](Value* base) { body({base, nullptr, width.lanes, width.copies}); };
    if (is_outer) return emit_loop(first, last, block, false, "blocks", emit_block);
    emit_inner_loop(num_inner(), first, last, block, at_least_once, "lanes", emit_block);
  };
  const auto emit_piece = [&](Value* first, Value* last) {
    Value* whole = ir_.CreateAdd(first, ir_.CreateAnd(ir_.CreateSub(last, first), ir_.getInt64(-block)));
    if (!extent.is_constant() || extent.constant() >= block) emit_blocks(first, whole);
    if (joints.divide(extent, block)) return;
    const bool whole_vectors = joints.divide(extent, width.lanes);
    emit_loop(whole, last, width.lanes, at_least_once, "rest", [&](Value* base) {
      body({base, whole_vectors ? nullptr : lane_mask(base, last, width.lanes), width.lanes, 1});
    });
  };
  joints_ = &joints;
  Value* first = begin;
  for (piece_ = 0; piece_ < joints.at.size(); ++piece_) {
    Value* joint = ir_.CreateBinaryIntrinsic(Intrinsic::smin, index_value(joints.at[piece_]), end);
    joint = ir_.CreateBinaryIntrinsic(Intrinsic::smax, joint, begin);
    emit_piece(first, joint);
    first = joint;
  }
  emit_piece(first, end);
  joints_ = nullptr;
}

// The phases for one block of lanes, at each row of its tile where there is one.
void KernelEmitter::emit_tile() {
  if (plan_.tile_axis < 0) return emit_phases();
  const VectorPosition position = position_;
  const Sym& extent = kernel_.outer[plan_.tile_axis];
  Value *tile = axes_[plan_.tile_axis], *rows = ir_.getInt64(plan_.tile_rows);
  Value* begin = ir_.CreateMul(tile, rows);
  Value* whole_end = ir_.CreateAdd(begin, rows);
  Value* end = ir_.CreateBinaryIntrinsic(Intrinsic::smin, whole_end, size(extent));
  auto by_rows = [&] {
    emit_loop(begin, end, 1, true, "tile", [&](Value* row) {
      axes_[plan_.tile_axis] = row;
      emit_phases();
    });
  };
  if (plan_.interleaves) {
    position_.copies = plan_.tile_rows;
    position_.copy_axis = plan_.tile_axis;
    axes_[plan_.tile_axis] = ir_.getInt64(0);
    emit_phases();
  } else if (plan_.transposes && !position.mask) {
    auto* whole = BasicBlock::Create(module_.getContext(), "whole_tile", function_);
    auto* part = BasicBlock::Create(module_.getContext(), "part_of_tile", function_);
    auto* done = BasicBlock::Create(module_.getContext(), "tile_done", function_);
    ir_.CreateCondBr(ir_.CreateICmpEQ(end, whole_end), whole, part);
    ir_.SetInsertPoint(whole);
    position_.copies = plan_.tile_rows;
    position_.copy_axis = plan_.tile_axis;
    axes_[plan_.tile_axis] = begin;
    emit_phases();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(part);
    position_ = position;
    by_rows();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
  } else {
    by_rows();
  }
  position_ = position;
  axes_[plan_.tile_axis] = tile;
}

Value* KernelEmitter::lane_mask(Value* base, Value* end, int lanes) {
  Value* left = ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateSub(end, base), ir_.getInt64(lanes));
  SmallVector<Constant*, 64> iota;
  for (int lane = 0; lane < lanes; ++lane) iota.push_back(ir_.getInt32(lane));
  Value* count = ir_.CreateTrunc(left, ir_.getInt32Ty());
  if (lanes == 1) return ir_.CreateICmpSLT(iota[0], count);
  return ir_.CreateICmpSLT(ConstantVector::get(iota), builder_.splat(count, lanes), "lanes");
}

void KernelEmitter::emit_phases() {
  for (int phase = 0; phase < static_cast<int>(kernel_.phases.size()); ++phase) emit_phase(phase);
}

void KernelEmitter::emit_phase(int phase) {
  phase_ = phase;
  axes_.resize(num_outer() + num_inner());
  place_phase(phase);
  begin_reductions();
  statement_pointers_.assign(kernel_.phases[phase].body.size(), nullptr);
  if (num_inner() == 0) begin_accumulation(0);
  emit_depth(0);
  end_reductions();
}

// How deep each statement has to be, and whether its value differs from lane to lane.
void KernelEmitter::place_phase(int phase) {
  const Phase& p = kernel_.phases[phase];
  placements_.clear();
  for (const Stmt& stmt : p.body) {
    Placement place;
    auto depends_on_register = [&](int reg) {
      place.depth = std::max(place.depth, register_depth_[reg]);
      place.varies = place.varies || register_varies_[reg];
    };
    auto depends_on_axis = [&](int axis) {
      place.depth = std::max(place.depth, axis_depth(axis));
      place.varies = place.varies || (has_vector_axis() && axis == vector_axis()) ||
                     (plan_.transposes && axis == plan_.tile_axis);
    };
    for (int reg : stmt.operands) depends_on_register(reg);
    if (stmt.mask >= 0) depends_on_register(stmt.mask);
    for (const IndexTerm& term : stmt.index.terms) {
      if (term.stride == Sym(0)) continue;
      if (term.axis >= 0) depends_on_axis(term.axis);
      if (term.reg >= 0) depends_on_register(term.reg);
    }
    if (stmt.kind == StmtKind::kAxis) depends_on_axis(stmt.axis);
    bool scratch = stmt.buffer >= 0 && kernel_.buffers[stmt.buffer].kind == BufferKind::kRowScratch;
    if (scratch && kernel_.lanes_outer && has_vector_axis()) place.varies = true;
    if (stmt.kind == StmtKind::kStore || stmt.kind == StmtKind::kReduce || stmt.kind == StmtKind::kScan) {
      place.depth = num_inner();
      place.varies = place.varies || has_vector_axis();
    }
    // What this phase writes, it may not read ahead of time.
    if (stmt.kind == StmtKind::kLoad) {
      for (const Stmt& other : p.body)
        if (other.kind == StmtKind::kStore && other.buffer == stmt.buffer) place.depth = num_inner();
    }
    placements_.push_back(place);
    if (stmt.dst >= 0) {
      bool reduced = stmt.kind == StmtKind::kReduce;
      register_depth_[stmt.dst] = reduced ? 0 : place.depth;
      register_varies_[stmt.dst] = reduced ? kernel_.lanes_outer && has_vector_axis() : place.varies;
    }
  }
}

void KernelEmitter::emit_depth(int depth) {
  advance_pointers(depth);
  emit_statements(depth);
  if (depth == num_inner()) return;
  begin_accumulation(depth + 1);
  if (vector_axis() == num_outer() + depth) {
    emit_vector_loop();
  } else {
    emit_scalar_loop(depth);
  }
}

void KernelEmitter::emit_scalar_loop(int depth) {
  // Windows and the like: few iterations, each of them short, are written out.
  constexpr int64_t kMaxUnrolledTrips = 8, kMaxUnrolledStatements = 64;
  const Phase& phase = kernel_.phases[phase_];
  const Sym& extent = phase.inner[depth];
  // Pointers move with the loops: what the inner loop added must not be seen by the next iteration.
  const std::vector<Value*> saved = statement_pointers_;
  auto body = [&](Value* i) {
    statement_pointers_ = saved;
    axes_[num_outer() + depth] = i;
    emit_depth(depth + 1);
  };
  int64_t statements = static_cast<int64_t>(phase.body.size()) * position_.copies;
  for (int d = 0; d < num_inner(); ++d)
    statements *= phase.inner[d].maybe_constant().value_or(kMaxUnrolledStatements + 1);
  if (extent.is_constant() && extent.constant() <= kMaxUnrolledTrips &&
      statements <= kMaxUnrolledStatements && fold_.depth != depth + 1) {
    for (int64_t i = 0; i < extent.constant(); ++i) body(ir_.getInt64(i));
  } else {
    emit_inner_loop(depth + 1, ir_.getInt64(0), size(extent), 1,
                    extent.is_constant() && extent.constant() > 0, "inner", body);
  }
  statement_pointers_ = saved;
}

// The innermost loop, along whose axis the lanes run: unrolled whole vectors, then masked ones.
void KernelEmitter::emit_vector_loop() {
  const Sym& extent = kernel_.phases[phase_].inner.back();
  emit_lanes(ir_.getInt64(0), size(extent), [&](const VectorPosition& position) {
    std::vector<Value*> saved = statement_pointers_;
    position_ = position;
    emit_depth(num_inner());
    statement_pointers_ = saved;
  });
  position_ = {};
}

void KernelEmitter::emit_statements(int depth) {
  const std::vector<Stmt>& body = kernel_.phases[phase_].body;
  for (size_t i = 0; i < body.size(); ++i) {
    if (placements_[i].depth != depth) continue;
    statement_ = static_cast<int>(i);
    emit_statement(body[i], placements_[i]);
  }
}

}  // namespace cdynamo::lowering::emit
