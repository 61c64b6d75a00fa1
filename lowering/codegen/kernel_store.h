// From kernels to loaded code: what is equal is compiled once, and what exists is looked up (in this process, on disk).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lowering/target.h"

namespace cdynamo::lowering::emit {

// One kernel of a graph, as its target compiles it.
struct KernelSource {
  std::string key;  // all that the code depends on; equal keys are one kernel
  int device = 0;   // what is loaded on one is no code of another
  // The code as it is kept on disk. Called on any thread.
  std::function<std::string(std::string* llvm_ir, std::string* assembly)> compile;
  // Loads it; throws runtime::JitError where it does not fit this process (then it is compiled anew).
  std::function<std::shared_ptr<void>(const std::string& object)> load;
};

// What was loaded for each source, in order.
std::vector<std::shared_ptr<void>> obtain_kernels(const std::vector<KernelSource>& sources,
                                                  const EmitOptions& options, CompiledModule& counts);

// Tells this build of the emitters from others: the file they were loaded from.
const std::string& emitter_version();

}  // namespace cdynamo::lowering::emit
