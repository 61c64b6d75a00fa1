// Writes the statements that compute elements of values, for one kernel: from a value and the index at which
// it is wanted, down through views, pointwise nodes and reductions of the kernel to loads of what lies in
// memory.
//
// Statements go to sections: for each level of reduction one executed once per outer point (S) and one per
// row element (F):
//   S0 F0 S1 F1 ...     F0 computes the first reductions, S1 uses them, F1 the row elements that depend on
//   them ...
// A statement that depends on no row axis goes to S by itself.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lowering/loops/access.h"

namespace cdynamo::lowering {

// What a kernel of several nodes may compute again of its own values because they are read at several places: operations,
// less than what storing and loading them would cost. Without a bound, each step of a chain of stencils would multiply them.
constexpr int kMostRepeated = 256;  // at most, whatever the kernel's length
inline CannotFuse too_much_repeated() { return {"too much would be computed again"}; }

struct LoopAxes {
  std::vector<Sym> extents;
  std::vector<char> is_row;  // by axis: inner (row) or outer
  bool may_cut = true;       // the caller answers SplitAxis
  bool has_rows() const { return std::find(is_row.begin(), is_row.end(), 1) != is_row.end(); }
  std::vector<int> of(bool row) const;
};

class ElementEmitter : public IndexEmitter {
 public:
  ElementEmitter(const LoweringContext& context, const LoopAxes& axes,
                 const std::unordered_set<const Node*>& members)
      : context_(context), axes_(axes), members_(members) {}

  // The node is computed here when asked for: a member of the kernel or one that is repeated anywhere.
  bool computed_here(const Value& value) const;
  // Level at which a value can be computed: after how many reductions of the kernel.
  int level_of(const Value& value);

  void set_level(int level) { level_ = level; }
  // Elements of row-level values that cost much may only be computed once each; set for kernels of several
  // nodes.
  void forbid_repetition() { may_repeat_ = false; }
  // Throws CannotFuse where too much was emitted for values that had been computed before, at another index or under
  // another mask.
  void refuse_repeated_statements() const;
  // Where conditions hold for the whole element (a padded row): statements on rows are masked by it.
  void set_row_mask(const Condition& condition);

  int element(const Value& value, const std::vector<Index>& index, int mask = -1);
  void store(const Value& value, const std::vector<Index>& index);
  void store_to(int buffer, DType dtype, const Index& at, int reg, int mask = -1);
  int load_from(int buffer, DType dtype, const Index& at, int mask = -1);
  // Accumulates `node` over the row axes and makes its result an element of later levels. Returns the
  // accumulator's register.
  int reduce(const Node& node, const std::vector<Index>& operand_index);
  int reduce_register(const Node& node, int operand);
  // The register, or what leaves the reduction's accumulator as it is where the mask is false.
  int or_identity(const graph::ReductionDef& reduction, int reg, int mask, DType accumulator);
  void finish_reduction(const Node& node, const std::vector<Index>& index, int accumulator);

  int plan_buffer(int id, DType dtype, const Sym& size, bool written);
  int emit(Stmt stmt);
  int emit_here(Stmt stmt, bool row);
  int constant(int64_t value);
  int index_register(const Index& index);
  struct Proof {
    bool low, high, multiple;
  };
  Proof prove(const Condition& condition) const;
  int condition(const Condition& condition);
  // The register of what set_row_mask was given; -1: it holds everywhere, or there is none.
  int row_mask();
  bool is_inside(const Index& at, int mask) const;
  int all_of(int mask_a, int mask_b);
  int check_index(int reg, const Sym& size, int mask, int error);
  int cast(int reg, DType dtype);
  bool may_cut_axes() const override { return axes_.may_cut; }
  int div_mod(const Index& index, const std::optional<Sym>& divisor,
              const std::optional<Sym>& modulus) override;
  Index memory_index(const BufferLayout& layout, const std::vector<Index>& index) const;
  AccessScope scope() { return {context_, axes_.extents, this}; }
  DType dtype_of(int reg) const { return dtypes_[reg]; }

  struct Section {
    bool row = false;
    std::vector<Stmt> body;
  };
  std::vector<Section> sections;
  std::vector<KernelBuffer> buffers;
  int num_registers() const { return static_cast<int>(dtypes_.size()); }

 private:
  struct Known {
    std::vector<Index> index;
    int mask, reg, section;
    int stored_buffer = -1;  // also in this buffer (row scratch, or the plan's), at stored_at
    Index stored_at;
  };

  bool visible(const Known& known) const { return known.section % 2 == 0 || known.section == 2 * level_ + 1; }
  bool on_row(const Stmt& stmt) const;
  Known* find(const Value& value, const std::vector<Index>& index, int mask);
  int remember(const Value& value, const std::vector<Index>& index, int mask, int reg);
  bool is_repeated(const Value& value, const std::vector<Index>& index, int mask);
  int reload(const Value& value, Known& known);
  bool worth_keeping(const Value& value);
  int cone_cost(const Value& value, int depth);
  int compute(const Node& node, const Value& value, const std::vector<Index>& index, int mask);
  int pointwise(const Node& node, const std::vector<Index>& index, int mask);
  int view(const Node& node, const std::vector<Index>& index, int mask);
  int choose(const Node& node, const std::vector<Index>& index, int mask);
  int indirect(const Node& node, const std::vector<Index>& index, int mask);
  int full(const Node& node);
  int size_register(const Sym& size);
  void refuse_repetition(const Node& node, const std::vector<Index>& index);
  int number(DType dtype, double value);
  Index scratch_index() const;

  const LoweringContext& context_;
  const LoopAxes& axes_;
  const std::unordered_set<const Node*>& members_;
  bool may_repeat_ = true;
  bool repeating_ = false;       // inside of a value that was computed before
  int repeated_statements_ = 0;  // operations emitted for such values
  int level_ = 0;
  std::optional<Condition> row_condition_;
  int row_mask_ = -1, row_mask_level_ = -1;            // its register, and where that is visible
  std::vector<DType> dtypes_;                          // by register
  std::vector<int> sections_of_;                       // by register
  std::unordered_map<int, std::vector<Known>> known_;  // by value id
  std::vector<std::pair<Index, Known>> known_indices_;
  std::unordered_map<int, int> levels_;
  std::unordered_map<int, int> buffer_of_;  // plan buffer id -> kernel buffer
};

}  // namespace cdynamo::lowering
