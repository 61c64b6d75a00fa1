// Which nodes of a core graph become one kernel: greedy by bytes saved.
//
// Every node that is no view starts as a group of its own. A node joins the groups of its producers, largest
// operand first, if together they still make one kernel (build_kernels does not refuse) and no other step
// would have to run in between. Then groups that read the same memory are joined side by side. Cheap nodes
// whose operands are no larger than their result are computed again at each reader rather than stored.
#pragma once

#include <string>
#include <vector>

#include "lowering/fusion/kernel_builder.h"

namespace cdynamo::lowering {

// One step of the plan, in the order of execution.
struct Step {
  enum Kind : uint8_t { kKernels, kLibrary } kind = kKernels;
  std::vector<const Node*> nodes;
  std::vector<Kernel> kernels;  // kKernels
};

struct Steps {
  std::vector<Step> steps;
  std::vector<const Value*> output_owners;  // what assign_layouts returned
  std::vector<Temporary> temporaries;       // buffers kTemporary - index
};

// Assigns context.layouts: inputs and outputs where the caller has them, everything else contiguous. Returns
// for each graph output the value whose memory it is, or null where it has to be copied at the end.
std::vector<const Value*> assign_layouts(LoweringContext& context);

// A view of something in memory, as strides; none where it is not one.
bool resolve_view(const LoweringContext& context, const Value& value, BufferLayout* layout);

Steps fuse(LoweringContext& context, std::string* report);

}  // namespace cdynamo::lowering
