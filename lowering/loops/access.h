// What an element of a node's result reads: for each operand the index, and the conditions under which it is
// read at all. This is the meaning of the views and indexing operators of graph/core.h, stated once.
#pragma once

#include <vector>

#include "lowering/loops/index_map.h"
#include "lowering/loops/lowering_context.h"

namespace cdynamo::lowering {

// low <= index < high, and index is a multiple of `multiple_of`.
struct Condition {
  Index index;
  Sym low, high;
  int64_t multiple_of = 1;
};

struct Access {
  const Value* operand = nullptr;
  std::vector<Index> index;
  std::vector<Condition> where;  // empty: always
};

struct AccessScope {
  const LoweringContext& context;
  const std::vector<Sym>& extents;  // of the loop axes
  IndexEmitter* emitter;            // null: indices must be affine
};

// The reads of node's element at `index`, in this meaning:
//   views: one access; where its conditions fail the result is the node's fill value
//   kConcat, kSliceScatter, kDiagonalScatter: the first access whose conditions hold is the result; the last
//   has none kPointwise, kCast: every operand, at the same index kGather, kIndex: the index tensors only; the
//   indirect read is the caller's
std::vector<Access> accesses(const Node& node, const std::vector<Index>& index, const AccessScope& scope);

// Index of the reduction's operand: `index` for the dims kept, `reduced` for the others, in order.
std::vector<Index> reduction_operand_index(const Node& node, const std::vector<Index>& index,
                                           const std::vector<Index>& reduced);
std::vector<Sym> reduced_sizes(const Node& node);

// The fill value of a pad or window.
double fill_value(const Node& node);

}  // namespace cdynamo::lowering
