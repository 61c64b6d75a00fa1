// Emission of one kernel of the loop IR as one entry of an LLVM module for NVPTX. Parameters of the entry: a pointer for each
// of the kernel's global buffers, the size symbols that it uses (i64, symbols_of), a pointer to the global scratch
// where it needs any, and a pointer to the error slot where it checks indices.
//
// A register has one value, or one for each point that a thread has at once: `outer_vector` of them where it varies with the
// outer points only, `copies` where it varies with the inner ones. Copies are numbered tile by tile, inner point by inner
// point, outer point by outer point.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "lowering/codegen/size_emitter.h"
#include "lowering/codegen/statement_code.h"
#include "lowering/gpu/lane_builder.h"
#include "lowering/gpu/thread_plan.h"

namespace cdynamo::lowering::gpu {

// What is known of the code once it has been emitted.
struct KernelCode {
  int64_t shared_bytes = 0;  // a block
};

// The size symbols that a kernel is given, in order; whether it is given an error slot.
std::vector<int> symbols_of(const ScheduledKernel& kernel, const ThreadPlan& plan);
bool checks_indices(const Kernel& kernel);

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const ScheduledKernel& kernel, const ThreadPlan& plan);
  KernelCode emit(const std::string& name);

 private:
  using Registers = std::vector<llvm::Value*>;
  // How far a value varies.
  enum class Spread : uint8_t { kUniform, kOuter, kInner };
  // The points of the inner axes that a thread has at the moment.
  struct Tile {
    int tiles = 1;                     // in flight
    llvm::Value* first = nullptr;      // the number of the first of them in the row
    std::vector<Registers> axes;       // of each inner axis: one value, or one for each tile and inner point
    std::vector<llvm::Value*> exists;  // one a tile; null: all points of it do
    llvm::Value* guard = nullptr;      // beside these; null: none
  };
  struct Accumulator {
    const Stmt* stmt;
    DType dtype;
    std::vector<llvm::AllocaInst*> values, indices;  // one a copy
    int64_t shared_offset = -1;                      // kScan: its part of shared memory
  };
  // A run of copies that one access reads or writes.
  struct Access {
    int first = 0, count = 1;
  };

  // kernel_emitter.cpp: the function, its points and loops
  void emit_prologue(const std::string& name);
  void emit_points();
  void emit_phase(const Phase& phase);
  void emit_once(const Phase& phase);
  void emit_in_order(const Phase& phase);
  void emit_parallel(const Phase& phase);
  void emit_tiles(const Phase& phase, llvm::Value* first_tile, int tiles, bool whole);
  void emit_statements(const Phase& phase, bool inner);
  void emit_loop(llvm::Value* begin, llvm::Value* end, int64_t step, const char* name,
                 const std::function<void(llvm::Value*)>& body);
  void emit_if(llvm::Value* condition, const std::function<void()>& body);
  void find_spreads(const Phase& phase);
  void synchronize();
  void synchronize_before_stores(const Phase& phase);
  std::vector<llvm::Value*> split_point(llvm::Value* point, const std::vector<Sym>& extents);
  llvm::Value* size(const Sym& sym) { return size_(sym); }  // i64
  llvm::Value* narrow_size(const Sym& sym);                 // of the indices' type
  llvm::Value* index_constant(int64_t value) { return llvm::ConstantInt::get(index_type_, value, true); }
  llvm::Value* to_i64(llvm::Value* index);

  // statements.cpp
  void emit_statement(const Stmt& stmt, Spread spread);
  llvm::Value* emit_value(const Stmt& stmt, int copy);
  llvm::Value* emit_check_index(const Stmt& stmt, int copy);
  llvm::Value* axis_value(int axis, int copy);
  llvm::Value* register_value(int reg, int copy);
  Scalar operand(const Stmt& stmt, int i, int copy);
  LaneBuilder::Operands operands_of(const Stmt& stmt, int copy);
  int copies_of(Spread spread) const;
  int outer_of(int copy) const { return copy % plan_.outer_vector; }
  int inner_of(int copy) const { return copy / plan_.outer_vector; }
  // Whether a copy's point is one of the kernel's; null: surely.
  llvm::Value* exists(int copy, bool inner);

  // memory.cpp
  void emit_load(const Stmt& stmt, Spread spread);
  void emit_store(const Stmt& stmt, Spread spread);
  std::vector<Access> accesses(const Stmt& stmt, Spread spread) const;
  bool adjacent(const Stmt& stmt, int axis, int count) const;
  llvm::Value* address(const Stmt& stmt, int copy);
  llvm::Value* element_offset(const Stmt& stmt, int copy);
  llvm::Value* aligned(int buffer, int64_t bytes);
  Registers load(const Stmt& stmt, const Access& access);
  void store(const Stmt& stmt, const Access& access, const Registers& values);
  llvm::Value* from_storage(llvm::Value* raw, DType dtype);
  llvm::Value* to_storage(llvm::Value* value, DType buffer_dtype, DType register_dtype);
  const Registers* kept(const Stmt& stmt) const;

  // reductions.cpp
  void begin_reductions(const Phase& phase);
  void reset(const Accumulator& accumulator, llvm::AllocaInst* slot, llvm::AllocaInst* index);
  void emit_reduce(const Stmt& stmt);
  void end_reductions(bool in_order);
  void join_lanes(const Accumulator& accumulator, emit::Accumulated& best);
  void join_warps(std::vector<std::vector<emit::Accumulated>>& bests);
  Accumulator& accumulator(const Stmt& stmt);
  llvm::Value* join(const Accumulator& accumulator, llvm::Value* earlier, llvm::Value* later);
  llvm::Value* linear_inner_index(int copy);
  llvm::AllocaInst* new_alloca(llvm::Type* type, const char* name);
  llvm::Value* shared(int64_t offset);

  // scans.cpp
  llvm::Value* emit_scan(const Stmt& stmt, int copy);
  void restart_scans();
  void emit_scan_of_tiles(const Stmt& stmt);
  llvm::Value* scan_identity(const Accumulator& accumulator);
  llvm::Value* scan_warp(const Accumulator& accumulator, llvm::Value* value, int lanes);
  struct Prefix {
    llvm::Value *before, *all;  // of the threads of a row before this one, of all of them
  };
  Prefix scan_threads(Accumulator& accumulator, llvm::Value* value, llvm::Value* tile);
  Prefix scan_rows(Accumulator& accumulator, llvm::Value* value, llvm::Value* tile);
  llvm::Value* scan_slots(Accumulator& accumulator, int64_t count, llvm::Value* tile);

  int num_outer() const { return static_cast<int>(kernel_.outer.size()); }

  llvm::Module& module_;
  const ScheduledKernel& kernel_;
  const ThreadPlan& plan_;
  llvm::IRBuilder<> ir_;
  LaneBuilder builder_;
  emit::SizeEmitter size_;
  KernelCode code_;
  std::vector<int> symbols_;

  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::BasicBlock* exit_ = nullptr;
  llvm::Type* index_type_ = nullptr;
  std::vector<llvm::Value*> pointers_;  // one a buffer
  std::vector<llvm::Value*> symbol_values_;
  llvm::Value *error_ = nullptr, *scratch_ = nullptr;
  llvm::GlobalVariable* shared_memory_ = nullptr;
  llvm::Value *thread_ = nullptr, *inner_thread_ = nullptr, *outer_thread_ = nullptr;  // i32
  llvm::Value* alive_ = nullptr;  // null: every thread is
  std::vector<Registers> outer_axes_;
  std::vector<Registers> registers_;
  std::vector<Spread> spreads_;
  std::vector<DType> register_dtypes_;  // as computed: never a half type
  std::vector<std::pair<std::pair<int, int64_t>, llvm::Value*>> alignments_;

  // Of the phase that is being emitted.
  const Phase* phase_ = nullptr;
  Tile tile_;
  std::vector<Accumulator> accumulators_;
  // Values of a row that stay in registers: of loads, by what they read; of scratch, by what was written.
  struct Kept {
    const Stmt* access;
    Registers values;
  };
  std::vector<Kept> kept_;
  std::vector<int> read_;  // buffers that are written and were read since threads last waited for each other
  int64_t join_offset_ = 0;  // shared memory that joins have taken
};

}  // namespace cdynamo::lowering::gpu
