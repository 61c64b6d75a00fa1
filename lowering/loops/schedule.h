// The first of what every target decides: a kernel's axes in the order of its loops, collapsed where nothing tells them apart,
// and the one along which lanes run (of vectors on a CPU; threads next to each other on a GPU).
#pragma once

#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

struct ScheduledKernel : Kernel {
  // true: lanes run along the last outer axis (its loads and stores mostly have stride 1 there); false: along the last
  // inner axis of each phase.
  bool lanes_outer = false;
};

// What the device's lanes are like.
struct LaneStyle {
  int64_t few;  // fewer points than this do not fill them
  bool tiles =
      false;  // axes are split where rows are read and columns written, for lanes that transpose in registers
  // Or so that threads next to each other have as many points as this next to each other in both: what they read and write
  // together are whole pieces of memory.
  int64_t shares_pieces_of = 0;
};

ScheduledKernel schedule(const Kernel& kernel, const graph::SymContext& context, LaneStyle style);

// True where no one order of loops suits all of the kernel's reductions.
bool reduces_crosswise(const Kernel& kernel, const graph::SymContext& context, LaneStyle style);
// True where rows of three dims and more are read or written along memory, and across it too: a kernel of its own had better
// turn the values around.
bool turns_rows(const Kernel& kernel, const graph::SymContext& context, LaneStyle style);

std::string print(const ScheduledKernel& kernel);
// All that the code depends on beside the processor.
std::string serialize(const ScheduledKernel& kernel);

}  // namespace cdynamo::lowering
