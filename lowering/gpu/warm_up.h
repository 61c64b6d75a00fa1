// What the first kernel on a GPU would wait for: the driver's assembler, which takes 10 ms to start, and LLVM's code generator
// for GPUs, whose code comes from the disk on a machine that has not run it yet. Threads begin with both while the program is
// still captured.
#pragma once

namespace cdynamo::lowering {

// For the framework's device `index`; the first call of a process does it, others nothing. Does not fail: what could not be
// readied fails again, with its error, where it is used.
void warm_up_gpu(int index);

// Waits for what is still running, as a process must before it ends. Also done where the process forks.
void finish_warm_up();

}  // namespace cdynamo::lowering
