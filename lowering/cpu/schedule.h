// How the CPU runs a kernel: its axes in the order of its loops, and the one along which the lanes of vectors run.
#pragma once

#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

struct VectorKernel : Kernel {
  // true: lanes run along the last outer axis (its loads and stores mostly have stride 1 there); false: along the last
  // inner axis of each phase.
  bool vectorize_outer = false;
};

VectorKernel schedule(const Kernel& kernel, const graph::SymContext& context);

// True where no one order of loops suits all of the kernel's reductions.
bool reduces_crosswise(const Kernel& kernel, const graph::SymContext& context);

std::string print(const VectorKernel& kernel);
// All that the code depends on beside the processor.
std::string serialize(const VectorKernel& kernel);

}  // namespace cdynamo::lowering
