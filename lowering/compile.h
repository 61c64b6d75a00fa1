// The entry of lowering: a core graph in, something that runs on buffers out.
//
//   CompileResult compiled = compile(core_graph, options);
//   compiled.executable->run(call);
#pragma once

#include <memory>
#include <string>

#include "graph/graph.h"
#include "graph/passes.h"
#include "runtime/executable.h"

namespace cdynamo::lowering {

struct CompileOptions {
  bool use_disk_cache = true;
  bool keep_text = false;  // LLVM IR and assembly into the report
  bool replays_launches = false, times_algorithms = false, debugs = false;  // runtime::Plan
};

struct CompileReport {
  int kernels = 0;  // fused kernels in the plan, duplicates included
  int kernels_compiled = 0, kernels_from_disk = 0, library_calls = 0;
  std::string fusion;  // what was fused with what, and why not more
  std::string loop_ir, llvm_ir, assembly, plan;
  void add(const CompileReport& other);  // counts summed, texts one after the other
};

// Every output of a core graph is fresh: the caller gives a buffer for each, with the sizes and strides of
// its type. Mutations are written to the inputs' memory after all reads of it. Throws graph::Unsupported,
// graph::InternalError.
std::unique_ptr<runtime::Executable> compile(const graph::Graph& core, const CompileOptions& options,
                                             CompileReport* report);

// The target of a device. Throws graph::Unsupported where there is none.
class Target;
const Target& target_of(runtime::Device device);
// Tests run what is for the CPU on another target whose memory is the host's; null: on the CPU's own.
void replace_cpu_target(const Target* target);

// As graph::Gains: what the target of the convolution's device says.
bool gains_by_channels_last(const graph::Node& convolution);
// As graph::GainsByAttention.
bool gains_by_attention(const graph::AttentionShape& shape);

// compile for a given target: the tests' has an interpreter of kernels for emission.
std::unique_ptr<runtime::Executable> compile_for(const Target& target, const graph::Graph& core,
                                                 const CompileOptions& options, CompileReport* report);

}  // namespace cdynamo::lowering
