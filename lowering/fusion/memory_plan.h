// Where each buffer of the plan lives: the caller's inputs and outputs, or one arena a call in which buffers
// whose lives do not overlap share bytes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lowering/fusion/fusion.h"
#include "runtime/plan_executable.h"

namespace cdynamo::lowering {

// What the steps use: buffers by their ids (values' ids, temporaries, copies).
struct BufferUse {
  DType dtype;
  Sym bytes;
  int first_step = -1, last_step = -1;  // in the order of execution
};

struct ArenaPlan {
  std::map<int, Sym> offsets;  // by buffer id: bytes
  Sym bytes;
  std::string text;  // for the report
};

// `uses`: of the buffers that live in the arena. Lives are whole steps; offsets are multiples of 64.
ArenaPlan plan_arena(const LoweringContext& context, const std::map<int, BufferUse>& uses);

// The memory of some buffers: bytes of the arena, the caller's inputs (any two may overlap), buffers with memory of their
// own. Of many buffers, what they share is found without comparing each with each.
class MemorySet {
 public:
  void add_input() { inputs_ = true; }
  void add_own(int id) { own_.insert(id); }
  // Bytes of the arena; not constant: any of them.
  void add_arena(const Sym& offset, const Sym& bytes);
  bool meets(const MemorySet& other) const;
  void merge(const MemorySet& other);

 private:
  bool meets_arena_of(const MemorySet& other) const;
  bool has_arena() const { return any_of_arena_ || !arena_.empty(); }
  void add_range(int64_t begin, int64_t end);

  bool inputs_ = false, any_of_arena_ = false;
  std::set<int> own_;
  std::map<int64_t, int64_t> arena_;  // begin to end of ranges that do not touch
};

// Sym -> SizeId of a plan, equal expressions once.
class SizeTable {
 public:
  runtime::SizeId add(const Sym& size);
  std::vector<runtime::SizeExpr> take() { return std::move(sizes_); }

 private:
  std::vector<runtime::SizeExpr> sizes_;
  std::map<std::pair<const graph::SymNode*, int64_t>, runtime::SizeId> known_;
};
runtime::SizeExpr size_expr(const Sym& size);

}  // namespace cdynamo::lowering
