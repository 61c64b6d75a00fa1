// Emission: kernels -> machine code in this process.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

// Runs the work items [begin, end) of a kernel. buffers: one pointer for each kGlobal buffer of the kernel in
// order; symbols: values of the graph's size symbols; scratch: `scratch_bytes` private to the thread; error:
// set to non-zero codes by kCheckIndex (error[0] = a RunError::Kind, error[1] = the index, error[2] = the size; first one
// wins, others may be lost).
using KernelFn = void (*)(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                          void* scratch, int64_t* error);

struct CompiledKernel {
  KernelFn run = nullptr;
  // How many work items there are: product of `work`; each is one outer point, or one block of lanes of the
  // last outer axis.
  std::vector<Sym> work;
  Sym scratch_bytes;
  double cost_per_item = 1;  // rough nanoseconds, for the choice of threads
};

// Machine code of one graph; dropping the object frees it.
class CompiledModule {
 public:
  virtual ~CompiledModule() = default;
  std::vector<CompiledKernel> kernels;  // in the order given
  int kernels_compiled = 0;             // not counting duplicates and those from the disk cache
  int kernels_from_disk = 0;
};

struct EmitOptions {
  bool use_disk_cache = true;
  bool keep_text = false;  // fill the two below
  std::string* llvm_ir = nullptr;
  std::string* assembly = nullptr;
};

// Structurally equal kernels (buffers, symbols and source lines apart) are emitted once. `context` names the
// symbols.
std::unique_ptr<CompiledModule> emit_cpu(std::span<const Kernel> kernels, const graph::SymContext& context,
                                         const EmitOptions& options = {});

}  // namespace cdynamo::lowering
