// The last step of fusion: a Kernel of the statements that were emitted, if the target makes one kernel of them.
#include "lowering/fusion/kernel_builder.h"
#include "lowering/target.h"

namespace cdynamo::lowering {

Kernel finish_kernel(const LoweringContext& context, const LoopAxes& axes, ElementEmitter& emitter,
                     bool sequential) {
  Kernel kernel;
  kernel.buffers = emitter.buffers;
  kernel.num_registers = emitter.num_registers();
  // Outer axes first; those of one point go.
  std::vector<int> number(axes.extents.size(), -1);
  std::vector<Sym> inner;
  int next = 0;
  for (const bool rows : {false, true})
    for (int axis : axes.of(rows)) {
      if (axes.extents[axis] == Sym(1)) continue;
      number[axis] = next++;
      (rows ? inner : kernel.outer).push_back(axes.extents[axis]);
    }
  for (ElementEmitter::Section& section : emitter.sections) {
    if (section.body.empty()) continue;
    Phase phase;
    if (section.row) phase.inner = inner;
    phase.sequential = section.row && sequential;
    phase.body = std::move(section.body);
    for (Stmt& stmt : phase.body) renumber_axes(stmt, number);
    kernel.phases.push_back(std::move(phase));
  }
  if (const char* obstacle = context.target.obstacle(kernel, context.sym)) throw CannotFuse{obstacle};
  return kernel;
}

}  // namespace cdynamo::lowering
