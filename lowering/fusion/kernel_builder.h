// A group of nodes -> one kernel (two where a long reduction is split in blocks). Throws CannotFuse where the
// group does not make one: fusion tries, and keeps the nodes apart. A group of one node always succeeds.
#pragma once

#include <vector>

#include "lowering/fusion/element_emitter.h"

namespace cdynamo::lowering {

struct KernelSpec {
  std::vector<const Node*> members;  // nodes that are computed in the kernel, in the graph's order
  std::vector<const Value*> stores;  // what is written to memory: results of members, or views (copies)
};

// A buffer that lowering itself adds, for partial results: plan_buffer is kTemporary - index.
struct Temporary {
  DType dtype;
  Sym size;
};
inline constexpr int kTemporary = -2;

struct BuiltKernels {
  std::vector<Kernel> kernels;
  std::vector<Temporary> temporaries;
};

BuiltKernels build_kernels(const LoweringContext& context, const KernelSpec& spec);

// The Kernel of what was emitted (lowering/fusion/loop_nest.cpp). Throws CannotFuse where the target makes no one kernel of it.
Kernel finish_kernel(const LoweringContext& context, const LoopAxes& axes, ElementEmitter& emitter,
                     bool sequential = false);

// "fused_exp_sum_div"
std::string kernel_name(const std::vector<const Node*>& nodes);
Kernel named(Kernel kernel, const Node& node, const char* suffix = "");  // a kernel of this node alone
const std::unordered_set<const Node*>& no_members();

}  // namespace cdynamo::lowering
