// Emission of one kernel of the loop IR as one LLVM function (a runtime::HostKernelFn).
//
// The function walks work items; for each it runs the phases. Two shapes, by ScheduledKernel::lanes_outer:
//
//   false: an item is one outer point; lanes run along the last inner axis of each phase
//            for item:  for phase:  for inner axes:  { unrolled full vectors; masked rest }
//   true:  an item is a block of `copies * lanes` points of the last outer axis
//            for run of items:  { full blocks; masked rest }, each:  for phase:  for inner axes: body
//
// A statement is emitted at the shallowest loop that its operands allow (its *depth*), so nothing needs
// hoisting afterwards. A register that varies along the vector axis has one vector for each unrolled copy,
// any other is a scalar.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "lowering/codegen/size_emitter.h"
#include "lowering/codegen/statement_code.h"
#include "lowering/cpu/emit.h"
#include "lowering/cpu/joints.h"
#include "lowering/cpu/vector_builder.h"
#include "runtime/host/jit.h"

namespace cdynamo::lowering::emit {

// Lanes of a vector, and how many copies of the body are in flight, for one phase (or, with lanes_outer, for all).
struct VectorWidth {
  int lanes = 1;
  int copies = 1;
};

// What emission decides before it emits; also what callers need to know of the work.
struct KernelPlan {
  std::vector<VectorWidth> phases;  // one a phase; equal with lanes_outer
  std::vector<Joints> joints;       // one a phase; with lanes_outer, one
  // An outer axis (not the last) along which some access is contiguous that is not so along the lanes: an
  // item is then a tile of `tile_rows` points of it by one block of lanes, so that each cache line is used
  // while it is there. -1: none.
  int tile_axis = -1;
  int tile_rows = 1;
  // Whole tiles are read by rows of the other layout and transposed in registers: one copy of the body for
  // each row.
  bool transposes = false;
  // The tile's axis has only as many points as this, next to each other in memory: the lanes' results are
  // interleaved. Blocks of lanes that are not full are masked.
  bool interleaves = false;
  std::vector<Sym> work;
  std::vector<Sym> scratch_offsets;  // bytes, one a kRowScratch buffer in order
  Sym scratch_bytes;
  double cost_per_item = 1;
};
KernelPlan plan_kernel(const ScheduledKernel& kernel, const graph::SymContext& context,
                       const runtime::HostTarget& host);

// How many lanes of a vector the scans of a sequential phase may have, log2(lanes) steps each, so that the order
// of operations does not show. 0: it is executed one point at a time.
int scan_lanes_limit(const Phase& phase);

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const ScheduledKernel& kernel, const KernelPlan& plan,
                const runtime::HostTarget& host);
  void emit(const std::string& name);

 private:
  using Registers = std::vector<llvm::Value*>;  // one entry a copy, or one where uniform

  // What is known of a statement before emission.
  struct Placement {
    int depth = 0;        // loops it needs: 0 = once per outer point, k = inside the k-th inner loop
    bool varies = false;  // along the vector axis
  };
  // The accumulators of one reduction or scan, one alloca a copy.
  struct Accumulator {
    const Stmt* stmt;
    DType dtype;                                     // of values: a scan's is as wide as totals
    std::vector<llvm::AllocaInst*> values, indices;  // indices: where the reduction returns one
    std::vector<llvm::AllocaInst*> totals;           // float64, where the reduction is folded
  };
  // Long sums and products in a float dtype are folded: every so many rounds of one loop, what has been
  // accumulated is moved on to totals in float64, so that errors do not grow with the length.
  struct Fold {
    int depth = 0;      // of the loop, from 1; 0: nothing is folded
    int64_t every = 1;  // rounds
  };
  // Where the vector loop stands.
  struct VectorPosition {
    llvm::Value* base = nullptr;  // i64: first lane of the first copy along the vector axis
    llvm::Value* mask = nullptr;  // lanes that exist, null: all
    int lanes = 1, copies = 1;
    int copy_axis = -1;  // the axis whose next points the copies are; -1: the vector axis, `lanes` further on
  };
  // An address: uniform part, and what each lane adds.
  struct Address {
    llvm::Value* pointer = nullptr;  // of lane 0 of the copy
    llvm::Value* lane_offsets =
        nullptr;  // <lanes x i64> elements, null where the lanes are uniform or adjacent
    enum Kind { kUniform, kContiguous, kReversed, kScattered } kind = kUniform;
    int64_t stride = 0;  // of scattered lanes, where it is known and nothing else scatters them
  };

  // kernel_emitter.cpp: functions and loops
  void emit_prologue(const std::string& name);
  void emit_items();
  void emit_outer_run(llvm::Value* first, llvm::Value* last);
  void emit_tile();
  void emit_phases();
  void emit_phase(int phase);
  void emit_depth(int depth);
  void emit_vector_loop();
  void emit_lanes(llvm::Value* begin, llvm::Value* end,
                  const std::function<void(const VectorPosition&)>& body);
  void emit_scalar_loop(int depth);
  void emit_loop(llvm::Value* begin, llvm::Value* end, int64_t step, bool at_least_once, const char* name,
                 const std::function<void(llvm::Value*)>& body);
  void emit_inner_loop(int depth, llvm::Value* begin, llvm::Value* end, int64_t step, bool at_least_once,
                       const char* name, const std::function<void(llvm::Value*)>& body);
  void emit_statements(int depth);
  void place_phase(int phase);
  llvm::Value* size(const Sym& sym) { return size_(sym); }
  llvm::Value* lane_mask(llvm::Value* base, llvm::Value* end, int lanes);

  // statements.cpp
  llvm::Value* index_value(const Index& index);
  void emit_statement(const Stmt& stmt, const Placement& placement);
  llvm::Value* emit_value(const Stmt& stmt, int copy);
  llvm::Value* compare_lanes(const Stmt& stmt, int copy);
  llvm::Value* emit_check_index(const Stmt& stmt, int copy);
  llvm::Value* axis_value(int axis, int copy);
  Scalar operand(const Stmt& stmt, int i, int copy);
  llvm::Value* register_value(int reg, int copy);
  llvm::Value* statement_mask(const Stmt& stmt, int copy, bool varies);

  // memory.cpp
  void advance_pointers(int depth);
  Address address(const Stmt& stmt, int copy);
  llvm::Value* emit_load(const Stmt& stmt, int copy);
  bool is_transposed(const Stmt& stmt) const;
  llvm::Value* transposed_row(const Stmt& stmt, int lane);
  void load_interleaved(const Stmt& stmt);
  void store_interleaved(const Stmt& stmt, Registers columns);
  llvm::Value* interleaved_mask();
  void load_transposed(const Stmt& stmt);
  void store_transposed(const Stmt& stmt);
  Registers transpose(Registers rows);
  void emit_store(const Stmt& stmt, int copy);
  llvm::Value* load_raw(const Address& address, llvm::Type* element, llvm::Value* mask, llvm::Value* other);
  llvm::Value* load_strided(const Address& address, llvm::Type* element, llvm::Value* mask);
  llvm::Value* from_storage(llvm::Value* raw, DType dtype);
  llvm::Value* to_storage(llvm::Value* value, DType buffer_dtype, DType register_dtype);

  // reductions.cpp
  Fold choose_fold() const;
  void begin_reductions();
  void begin_accumulation(int depth);  // before the loop at `depth` starts
  void fold();
  llvm::Value* total(const Accumulator& accumulator, int copy);
  void emit_reduce(const Stmt& stmt, int copy);
  llvm::Value* emit_scan(const Stmt& stmt, int copy);
  void end_reductions();
  llvm::Value* scan_lanes(const Stmt& stmt, llvm::Value* value, DType dtype);
  const Accumulator& accumulator(const Stmt& stmt) const;
  void reset(const Accumulator& accumulator, const std::vector<llvm::AllocaInst*>& slots, DType dtype);
  llvm::Value* linear_inner_index(int copy);
  void combine(const Stmt& stmt, Accumulated next, Accumulated& best, bool in_any_order);
  llvm::AllocaInst* new_alloca(llvm::Type* type, const char* name);

  // The axis along which lanes run; -1: this phase is executed one point at a time.
  int vector_axis() const {
    if (kernel_.lanes_outer) return num_outer() - 1;
    const Phase& phase = kernel_.phases[phase_];
    const bool in_order = phase.sequential && scan_lanes_limit(phase) == 0;
    return num_inner() == 0 || in_order ? -1 : num_outer() + num_inner() - 1;
  }
  bool has_vector_axis() const { return vector_axis() >= 0; }
  int num_outer() const { return static_cast<int>(kernel_.outer.size()); }
  int num_inner() const { return static_cast<int>(kernel_.phases[phase_].inner.size()); }
  // The depth at which the value of an axis is known.
  int axis_depth(int axis) const { return axis < num_outer() ? 0 : axis - num_outer() + 1; }

  llvm::Module& module_;
  const ScheduledKernel& kernel_;
  const KernelPlan& plan_;
  llvm::IRBuilder<> ir_;
  VectorBuilder builder_;
  SizeEmitter size_;

  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::Value *symbols_ = nullptr, *error_ = nullptr;
  std::vector<llvm::Value*> pointers_;  // one a buffer
  std::vector<llvm::Value*> axes_;      // value of each axis; the vector axis: see position_
  std::vector<Registers> registers_;
  // Vectors of consecutive indices, by the first.
  llvm::DenseMap<llvm::Value*, llvm::Value*> lane_bases_;
  std::vector<DType> register_dtypes_;  // as computed: never a half type
  std::vector<DType> register_halves_;  // the half type whose value it surely holds, else float32
  std::vector<bool> register_varies_;
  std::vector<int> register_depth_;

  // Of the loop of the lanes that is being emitted.
  const Joints* joints_ = nullptr;
  size_t piece_ = 0;

  // Of the phase that is being emitted.
  int phase_ = 0;
  int statement_ = 0;  // index in the phase's body
  std::vector<llvm::Value*>
      statement_pointers_;  // of each load and store: the part of its address that is known at this depth
  std::vector<Placement> placements_;
  std::vector<Accumulator> accumulators_;
  Fold fold_;
  Registers transposed_;  // of the load that is being emitted: one vector a copy
  VectorPosition position_;
};

}  // namespace cdynamo::lowering::emit
