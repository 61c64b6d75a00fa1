#include "lowering/gpu/kernel_emitter.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "graph/op.h"

namespace cdynamo::lowering::gpu {

using namespace llvm;
using graph::InternalError;

namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

void collect_symbols(const Sym& sym, std::vector<int>& symbols) {
  if (sym.is_constant()) return;
  const graph::SymNode& node = *sym.node();
  if (node.kind == graph::SymKind::kSymbol &&
      std::find(symbols.begin(), symbols.end(), node.symbol) == symbols.end())
    symbols.push_back(node.symbol);
  for (const Sym& operand : node.operands) collect_symbols(operand, symbols);
}

}  // namespace

std::vector<int> symbols_of(const ScheduledKernel& kernel, const ThreadPlan& plan) {
  std::vector<int> symbols;
  auto add = [&](const Sym& sym) { collect_symbols(sym, symbols); };
  for (const Sym& extent : kernel.outer) add(extent);
  for (const Phase& phase : kernel.phases) {
    for (const Sym& extent : phase.inner) add(extent);
    for (const Stmt& stmt : phase.body) {
      add(stmt.size);
      add(stmt.index.offset);
      for (const IndexTerm& term : stmt.index.terms) add(term.stride);
    }
  }
  add(plan.global_scratch);
  for (const ScratchPlace& place : plan.scratch) add(place.offset);
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

bool checks_indices(const Kernel& kernel) {
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kCheckIndex) return true;
  return false;
}

KernelEmitter::KernelEmitter(llvm::Module& module, const ScheduledKernel& kernel, const ThreadPlan& plan)
    : module_(module),
      kernel_(kernel),
      plan_(plan),
      ir_(module.getContext()),
      builder_(ir_),
      size_(ir_, [this](int symbol) {
        auto at = std::find(symbols_.begin(), symbols_.end(), symbol);
        if (at == symbols_.end()) throw InternalError("emission: a size symbol that is no parameter");
        return symbol_values_[at - symbols_.begin()];
      }) {}

KernelCode KernelEmitter::emit(const std::string& name) {
  registers_.assign(kernel_.num_registers, {});
  spreads_.assign(kernel_.num_registers, Spread::kUniform);
  register_dtypes_.assign(kernel_.num_registers, DType::kF32);
  for (const Phase& phase : kernel_.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.dst >= 0) register_dtypes_.at(stmt.dst) = runtime::compute_type(stmt.dtype);
  index_type_ = plan_.narrow ? ir_.getInt32Ty() : ir_.getInt64Ty();
  join_offset_ = plan_.shared_scratch * plan_.outer_threads * plan_.outer_vector;
  emit_prologue(name);
  emit_points();
  for (const Phase& phase : kernel_.phases) emit_phase(phase);
  ir_.CreateBr(exit_);
  ir_.SetInsertPoint(exit_);
  ir_.CreateRetVoid();
  code_.shared_bytes = join_offset_;
  return code_;
}

void KernelEmitter::emit_prologue(const std::string& name) {
  LLVMContext& context = module_.getContext();
  symbols_ = symbols_of(kernel_, plan_);
  const bool takes_scratch = !(plan_.global_scratch == Sym()), takes_error = checks_indices(kernel_);
  std::vector<Type*> types;
  for (const KernelBuffer& buffer : kernel_.buffers)
    if (buffer.kind == BufferKind::kGlobal) types.push_back(ir_.getPtrTy(kGlobalSpace));
  types.insert(types.end(), symbols_.size(), ir_.getInt64Ty());
  types.insert(types.end(), static_cast<size_t>(takes_scratch) + takes_error, ir_.getPtrTy(kGlobalSpace));
  function_ = Function::Create(FunctionType::get(ir_.getVoidTy(), types, false), Function::ExternalLinkage,
                               name, module_);
  function_->setCallingConv(CallingConv::PTX_Kernel);
  function_->setDoesNotThrow();
  auto annotate = [&](const char* key, int value) {
    Metadata* operands[] = {ValueAsMetadata::get(function_), MDString::get(context, key),
                            ValueAsMetadata::get(ir_.getInt32(value))};
    module_.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(MDNode::get(context, operands));
  };
  annotate("kernel", 1);
  annotate("reqntidx", plan_.threads());
  annotate("reqntidy", 1);
  annotate("reqntidz", 1);
  if (plan_.resident_blocks > 0) annotate("minctasm", plan_.resident_blocks);
  entry_ = BasicBlock::Create(context, "entry", function_);
  auto* start = BasicBlock::Create(context, "start", function_);
  exit_ = BasicBlock::Create(context, "exit", function_);
  ir_.SetInsertPoint(entry_);
  ir_.CreateBr(start);
  size_.set_entry(entry_);
  int next = 0;
  for (const KernelBuffer& buffer : kernel_.buffers)
    pointers_.push_back(buffer.kind == BufferKind::kGlobal ? function_->getArg(next++) : nullptr);
  for (size_t i = 0; i < symbols_.size(); ++i) symbol_values_.push_back(function_->getArg(next++));
  if (takes_scratch) scratch_ = function_->getArg(next++);
  if (takes_error) error_ = function_->getArg(next++);
  shared_memory_ =
      new GlobalVariable(module_, ArrayType::get(ir_.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage,
                         nullptr, "shared_memory", nullptr, GlobalValue::NotThreadLocal, kSharedSpace);
  shared_memory_->setAlignment(Align(16));
  ir_.SetInsertPoint(start);
}

Value* KernelEmitter::to_i64(Value* index) {
  return index->getType()->isIntegerTy(64) ? index : ir_.CreateSExt(index, ir_.getInt64Ty());
}

Value* KernelEmitter::narrow_size(const Sym& sym) {
  Value* wide = size(sym);
  return plan_.narrow ? ir_.CreateTrunc(wide, index_type_) : wide;
}

// Row-major: one value an axis.
std::vector<Value*> KernelEmitter::split_point(Value* point, const std::vector<Sym>& extents) {
  std::vector<Value*> axes(extents.size());
  for (size_t axis = extents.size(); axis-- > 1;) {
    Value* extent = narrow_size(extents[axis]);
    axes[axis] = ir_.CreateURem(point, extent);
    point = ir_.CreateUDiv(point, extent);
  }
  if (!axes.empty()) axes[0] = point;
  return axes;
}

// The thread's outer points. A thread without one leaves, or, where others wait for it, does the last one's work again and
// stores nothing.
void KernelEmitter::emit_points() {
  Value* block = ir_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  thread_ = ir_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  const int major = plan_.lanes_outer ? plan_.outer_threads : plan_.inner_threads;
  Value* fast = plan_.threads() == major ? thread_ : ir_.CreateAnd(thread_, ir_.getInt32(major - 1));
  Value* slow = plan_.threads() == major
                    ? static_cast<Value*>(ir_.getInt32(0))
                    : ir_.CreateLShr(thread_, ir_.getInt32(__builtin_ctz(static_cast<unsigned>(major))));
  outer_thread_ = plan_.lanes_outer ? fast : slow;
  inner_thread_ = plan_.lanes_outer ? slow : fast;
  Value* wide_block = ir_.CreateZExt(block, index_type_);
  Value* unit = ir_.CreateAdd(ir_.CreateMul(wide_block, index_constant(plan_.outer_threads)),
                              ir_.CreateZExt(outer_thread_, index_type_));
  Value* point = ir_.CreateMul(unit, index_constant(plan_.outer_vector));
  const int64_t each = int64_t{plan_.outer_threads} * plan_.outer_vector;
  if (!(mod(plan_.points, Sym(each)) == Sym(0))) {
    Value* all = narrow_size(plan_.points);
    Value* here = ir_.CreateICmpULT(point, all);
    if (plan_.inner_threads == 1) {
      auto* work = BasicBlock::Create(module_.getContext(), "work", function_);
      ir_.CreateCondBr(here, work, exit_);
      ir_.SetInsertPoint(work);
    } else {
      alive_ = here;
      point = ir_.CreateSelect(here, point, ir_.CreateSub(all, index_constant(plan_.outer_vector)));
    }
  }
  outer_axes_.clear();
  for (Value* axis : split_point(point, kernel_.outer)) outer_axes_.push_back({axis});
  if (plan_.outer_vector > 1) {
    Value* first = outer_axes_.back()[0];
    for (int i = 1; i < plan_.outer_vector; ++i)
      outer_axes_.back().push_back(ir_.CreateAdd(first, index_constant(i), "", true, true));
  }
  if (scratch_) {
    // A part of it for each block, in which the rows of its points follow each other.
    Value* part = ir_.CreateMul(ir_.CreateZExt(block, ir_.getInt64Ty()), size(plan_.global_scratch));
    scratch_ = ir_.CreateGEP(ir_.getInt8Ty(), scratch_, part);
  }
}

void KernelEmitter::emit_phase(const Phase& phase) {
  phase_ = &phase;
  tile_ = {};
  find_spreads(phase);
  synchronize_before_stores(phase);
  begin_reductions(phase);
  if (phase.inner.empty())
    emit_once(phase);
  else if (plan_.in_order(phase))
    emit_in_order(phase);
  else
    emit_parallel(phase);
  if (&phase == &kernel_.phases.back() || plan_.inner_threads == 1) return;
  // What one thread wrote, another may read.
  for (const Stmt& stmt : phase.body)
    if (stmt.kind == StmtKind::kStore && plan_.scratch[stmt.buffer].where != ScratchPlace::kRegisters)
      return synchronize();
}

void KernelEmitter::synchronize() {
  read_.clear();
  if (!plan_.lanes_outer && plan_.inner_threads == kWarp)
    ir_.CreateIntrinsic(Intrinsic::nvvm_bar_warp_sync, {}, {ir_.getInt32(-1)});
  else
    ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {});
}

// What one thread is about to write, others have read.
void KernelEmitter::synchronize_before_stores(const Phase& phase) {
  if (plan_.inner_threads == 1) return;
  for (const Stmt& stmt : phase.body)
    if (stmt.kind == StmtKind::kStore && std::find(read_.begin(), read_.end(), stmt.buffer) != read_.end())
      return synchronize();
}

void KernelEmitter::find_spreads(const Phase& phase) {
  for (const Stmt& stmt : phase.body) {
    Spread spread = Spread::kUniform;
    auto join = [&](Spread other) { spread = std::max(spread, other); };
    auto join_axis = [&](int axis) {
      if (axis >= num_outer())
        join(Spread::kInner);
      else if (axis == num_outer() - 1 && plan_.outer_vector > 1)
        join(Spread::kOuter);
    };
    for (int reg : stmt.operands) join(spreads_[reg]);
    if (stmt.mask >= 0) join(spreads_[stmt.mask]);
    for (const IndexTerm& term : stmt.index.terms) {
      if (term.stride == Sym()) continue;
      if (term.axis >= 0) join_axis(term.axis);
      if (term.reg >= 0) join(spreads_[term.reg]);
    }
    if (stmt.kind == StmtKind::kAxis) join_axis(stmt.axis);
    if (stmt.buffer >= 0 && kernel_.buffers[stmt.buffer].kind == BufferKind::kRowScratch &&
        plan_.outer_vector > 1)
      join(Spread::kOuter);  // each point has a scratch of its own
    if (stmt.dst < 0) continue;
    spreads_[stmt.dst] = spread;
    if (stmt.kind == StmtKind::kReduce)
      spreads_[stmt.dst] = plan_.outer_vector > 1 ? Spread::kOuter : Spread::kUniform;
    if (stmt.kind == StmtKind::kScan) spreads_[stmt.dst] = Spread::kInner;
  }
}

int KernelEmitter::copies_of(Spread spread) const {
  switch (spread) {
    case Spread::kUniform: return 1;
    case Spread::kOuter: return plan_.outer_vector;
    case Spread::kInner:
      return tile_.tiles * (phase_->inner.empty() ? 1 : plan_.inner_vector) * plan_.outer_vector;
  }
  return 1;
}

// Without inner axes: all threads of a row compute, one stores.
void KernelEmitter::emit_once(const Phase& phase) {
  for (const Stmt& stmt : phase.body)
    if (stmt.kind != StmtKind::kStore) emit_statement(stmt, spreads_[stmt.dst]);
  synchronize_before_stores(phase);
  for (const Stmt& stmt : phase.body)
    if (stmt.kind == StmtKind::kStore)
      emit_statement(stmt, plan_.outer_vector > 1 ? Spread::kOuter : Spread::kUniform);
  end_reductions(false);
}

void KernelEmitter::emit_statements(const Phase& phase, bool inner) {
  for (const Stmt& stmt : phase.body) {
    const bool accumulates = stmt.kind == StmtKind::kReduce || stmt.kind == StmtKind::kScan;
    const bool inside = accumulates || stmt.kind == StmtKind::kStore ||
                        (stmt.dst >= 0 && spreads_[stmt.dst] == Spread::kInner);
    if (inside == inner) emit_statement(stmt, inside ? Spread::kInner : spreads_[stmt.dst]);
  }
}

// One point after the other, by the one thread that has the outer point.
void KernelEmitter::emit_in_order(const Phase& phase) {
  tile_.tiles = 1;
  tile_.axes.assign(phase.inner.size(), {nullptr});
  std::function<void(size_t)> nest = [&](size_t depth) {
    if (depth == phase.inner.size()) {
      for (const Stmt& stmt : phase.body) emit_statement(stmt, Spread::kInner);
      return;
    }
    if (depth + 1 == phase.inner.size()) restart_scans();
    emit_loop(index_constant(0), narrow_size(phase.inner[depth]), 1, "in_order", [&](Value* at) {
      tile_.axes[depth] = {at};
      nest(depth + 1);
    });
  };
  // Registers are defined inside of the loops: all of them vary.
  for (const Stmt& stmt : phase.body)
    if (stmt.dst >= 0 && stmt.kind != StmtKind::kReduce) spreads_[stmt.dst] = Spread::kInner;
  nest(0);
  end_reductions(true);
}

// Tiles of the inner points, whole ones as many at once as the plan says, what is left one by one.
void KernelEmitter::emit_parallel(const Phase& phase) {
  emit_statements(phase, false);
  synchronize_before_stores(phase);
  Sym row(1);
  for (const Sym& extent : phase.inner) row = row * extent;
  const int64_t tile = int64_t{plan_.inner_threads} * plan_.inner_vector;
  if (row == Sym()) {
    // No point: what is reduced keeps its identity.
  } else if (plan_.whole_row) {
    const bool whole = row.constant() % tile == 0;
    emit_tiles(phase, index_constant(0), plan_.tiles, whole);
  } else {
    const int64_t block = tile * plan_.tiles;
    const bool all_whole = mod(row, Sym(block)) == Sym(0);
    const Sym whole_blocks = floordiv(row, Sym(block)) * Sym(plan_.tiles);
    const Sym all_tiles = floordiv(row + Sym(tile - 1), Sym(tile));
    if (!(whole_blocks == Sym()))
      emit_loop(index_constant(0), narrow_size(whole_blocks), plan_.tiles, "tiles",
                [&](Value* at) { emit_tiles(phase, at, plan_.tiles, true); });
    if (!all_whole)
      emit_loop(narrow_size(whole_blocks), narrow_size(all_tiles), 1, "rest",
                [&](Value* at) { emit_tiles(phase, at, 1, mod(row, Sym(tile)) == Sym(0)); });
  }
  end_reductions(false);
}

void KernelEmitter::emit_tiles(const Phase& phase, Value* first_tile, int tiles, bool whole) {
  const int64_t tile = int64_t{plan_.inner_threads} * plan_.inner_vector;
  Sym row(1);
  for (const Sym& extent : phase.inner) row = row * extent;
  tile_ = {};
  tile_.tiles = tiles;
  tile_.axes.assign(phase.inner.size(), {});
  tile_.first = first_tile;
  Value* lane = ir_.CreateMul(ir_.CreateZExt(inner_thread_, index_type_), index_constant(plan_.inner_vector));
  Value* start = ir_.CreateAdd(ir_.CreateMul(first_tile, index_constant(tile)), lane);
  for (int t = 0; t < tiles; ++t) {
    Value* point = ir_.CreateAdd(start, index_constant(t * tile));
    Value* exists = nullptr;
    if (!whole && !(row.is_constant() && isa<ConstantInt>(first_tile) &&
                    (cast<ConstantInt>(first_tile)->getSExtValue() + t + 1) * tile <= row.constant())) {
      // A point that is not there stands for the last one, which is surely in memory.
      Value* all = narrow_size(row);
      exists = ir_.CreateICmpULT(point, all);
      point = ir_.CreateSelect(exists, point, ir_.CreateSub(all, index_constant(plan_.inner_vector)));
    }
    tile_.exists.push_back(exists);
    const std::vector<Value*> axes = split_point(point, phase.inner);
    for (size_t axis = 0; axis < axes.size(); ++axis)
      for (int i = 0; i < plan_.inner_vector; ++i)
        tile_.axes[axis].push_back(axis + 1 == axes.size() && i > 0
                                       ? ir_.CreateAdd(axes[axis], index_constant(i), "", true, true)
                                       : axes[axis]);
  }
  emit_statements(phase, true);
}

void KernelEmitter::emit_loop(Value* begin, Value* end, int64_t step, const char* name,
                              const std::function<void(Value*)>& body) {
  LLVMContext& context = module_.getContext();
  BasicBlock* before = ir_.GetInsertBlock();
  auto* head = BasicBlock::Create(context, name, function_);
  auto* inside = BasicBlock::Create(context, std::string(name) + "_body", function_);
  auto* done = BasicBlock::Create(context, std::string(name) + "_done", function_);
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  PHINode* at = ir_.CreatePHI(begin->getType(), 2, name);
  at->addIncoming(begin, before);
  ir_.CreateCondBr(ir_.CreateICmpSLT(at, end), inside, done);
  ir_.SetInsertPoint(inside);
  body(at);
  at->addIncoming(ir_.CreateAdd(at, ConstantInt::get(at->getType(), step), "", true, true),
                  ir_.GetInsertBlock());
  ir_.CreateBr(head);
  ir_.SetInsertPoint(done);
}

void KernelEmitter::emit_if(Value* condition, const std::function<void()>& body) {
  if (!condition) return body();
  auto* inside = BasicBlock::Create(module_.getContext(), "if", function_);
  auto* done = BasicBlock::Create(module_.getContext(), "endif", function_);
  ir_.CreateCondBr(condition, inside, done);
  ir_.SetInsertPoint(inside);
  body();
  ir_.CreateBr(done);
  ir_.SetInsertPoint(done);
}

}  // namespace cdynamo::lowering::gpu
