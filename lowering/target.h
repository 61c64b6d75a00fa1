// A target: what lowering asks of the device that a graph is compiled for. It is chosen before anything is fused (target_of in
// lowering/compile.h); the rest of lowering (fusion, memory_plan, compile) is the same for all.
//
//   fusion    asks it whether a loop nest makes one kernel, and in how many blocks a long reduction is done
//   compile   hands it the kernels; it maps their axes to what the device has (vectors and threads of a CPU; blocks,
//             threads and lanes of a GPU) and gives code for each and how it is launched
//   the plan  takes from it what computes a library call, and what runs the whole
//
// lowering/cpu is one target; another is a folder beside it that implements this class, with what runs on the device in
// a folder of runtime/.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/pad_products.h"
#include "lowering/loops/loop_ir.h"
#include "runtime/plan.h"

namespace cdynamo::lowering {

// The code of one kernel and how it is launched; sizes are expressions of the graph's symbols.
struct CompiledKernel {
  const void* code = nullptr;  // runtime::Launch::code
  std::vector<Sym> grid;       // work items along each dim of the launch
  Sym scratch_bytes;           // private to whoever runs an item
  double cost_per_item = 1;    // rough nanoseconds
  runtime::BlockShape block;   // a GPU's
  // Other ways to run it, one of which may be faster: to be timed on the device (EmitOptions::offers_variants). The number of the
  // fastest, this one is 0, is then kept on disk under the key.
  std::vector<CompiledKernel> variants;
  std::string variants_key;
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
  bool offers_variants = false;
  bool keep_text = false;  // fill the three below
  std::string* loop_ir = nullptr;
  std::string* llvm_ir = nullptr;
  std::string* assembly = nullptr;
};

// A reduction that fusion thinks of doing in blocks: partial results of each, then a reduction of those.
struct ReductionShape {
  int64_t length = 1, results = 1;     // hints
  bool results_are_innermost = false;  // the last axis of the loops is one of the results'
  int64_t adjacent_results = 1;        // then: a hint of how many of them lie next to each other
};
struct ReductionBlocks {
  int64_t wanted = 0;  // 0: in one piece
  int64_t most = 0;
  bool by_block = false;  // the partial results of one block lie next to each other, not those of one result
};

class Target {
 public:
  virtual ~Target() = default;

  // Why the loop nest had better not be one kernel; null where it may be.
  virtual const char* obstacle(const Kernel& kernel, const graph::SymContext& context) const = 0;
  // Why several nodes had better not make this kernel, which some of them may be alone.
  virtual const char* fusion_obstacle(const Kernel&, const graph::SymContext&) const { return nullptr; }
  virtual ReductionBlocks reduction_blocks(const ReductionShape& shape) const = 0;
  // The same of a scan, which then reads its operand twice.
  virtual ReductionBlocks scan_blocks(const ReductionShape&) const { return {}; }

  // Whether a convolution, or the gradient of its weight, is faster in channels-last memory (graph/passes/channels_last.h).
  virtual bool gains_by_channels_last(const graph::Node& /*convolution*/) const { return false; }
  // Whether a product is faster of operands that are padded first (graph/passes/pad_products.h).
  virtual bool gains_by_padding(const graph::PaddedProduct& /*product*/) const { return false; }
  // Whether attention that is written out by hand is faster as one call of the framework's.
  virtual bool gains_by_attention(const graph::AttentionShape&) const { return false; }

  // Whether points of a scatter may write to the same element at the same time: the last wins, or with `adds` all are added. Other
  // scatters run in the order of their points.
  virtual bool scatters_in_any_order(DType, bool /*adds*/) const { return false; }

  // Structurally equal kernels (buffers, symbols and source lines apart) are emitted once. `context` names the symbols.
  virtual std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels,
                                               const graph::SymContext& context,
                                               const EmitOptions& options) const = 0;
  // For the kinds of which graph::is_library_call holds.
  virtual runtime::LibraryFn library(graph::CoreKind kind) const = 0;
  // Whether it brings the memory of its results, which would have to be copied otherwise.
  virtual bool brings_memory(graph::CoreKind) const { return false; }
  virtual std::unique_ptr<runtime::Executable> make_executable(runtime::Plan plan) const = 0;
};

}  // namespace cdynamo::lowering
