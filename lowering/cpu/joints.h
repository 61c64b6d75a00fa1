// Where a kernel changes what it does along its lanes: concatenated values meet, padding ends, a triangle's diagonal is
// crossed. The loop of the lanes is cut at these joints; in each piece the comparisons that told the two sides apart are
// constants, so that what they masked is a plain access or none at all.
//
//   r2 = lt(i1, 512);  r3 = load b0[i1] where r2;  r4 = load b1[i1 - 512] where not r2;  store select(r2, r3, r4)
//
// is a copy of b0 up to the joint at 512, and one of b1 from there on.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "lowering/loops/loop_ir.h"
#include "lowering/loops/schedule.h"

namespace cdynamo::lowering::emit {

struct Joints {
  // The first point of each piece but the first, in an order that holds for all sizes; they may lie before the loop or behind it,
  // and move along the axes of the loops around.
  std::vector<Index> at;
  struct Comparison {
    size_t joint;
    bool before;  // its value in the pieces before the joint; behind it the other one
  };
  std::unordered_map<int, Comparison> comparisons;  // by register

  // What the register holds in a piece; none where that is not known.
  std::optional<bool> value_in(size_t piece, int reg) const;
  // Every piece of `extent` lanes is surely made of blocks of this size.
  bool divide(const Sym& extent, int64_t block) const;
};

// Of the loop of the lanes of `phase`, or (with lanes_outer) of the one around all phases.
Joints find_joints(const ScheduledKernel& kernel, int phase, const graph::SymContext& context);

}  // namespace cdynamo::lowering::emit
