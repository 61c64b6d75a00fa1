// The plan of a compiled graph: its steps and the memory they run in, as lowering makes it and each device carries it out.
//
// All sizes are numbers of one table of expressions over the size symbols: evaluated once where they are
// constants, at the start of each call otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executable.h"
#include "runtime/library/library.h"

namespace cdynamo::runtime {

using SizeId = int;  // index in Plan::sizes

struct PlanBuffer {
  // kFromLibrary: in memory that the library call which computes it brings.
  enum Where : uint8_t { kInput, kOutput, kArena, kFromLibrary } where = kArena;
  int index = 0;       // kInput, kOutput
  SizeId offset = -1;  // kArena: bytes from the arena's start, a multiple of 64
  SizeId bytes = -1;   // kArena
};

struct PlanOperand {
  int buffer = -1;  // -1: absent (an optional operand)
  DType dtype = DType::kF32;
  SizeId offset = -1;  // elements
  std::vector<SizeId> sizes, strides;
};

// What a GPU has to know beside the number of blocks.
struct BlockShape {
  int threads = 0;           // a block
  int64_t shared_bytes = 0;  // a block
  std::vector<int> symbols;  // that the kernel is given after its buffers, in this order
  bool takes_scratch = false, takes_error = false;  // pointers after these
};

// How a kernel is run, as a description that each device carries out in its own way: the host calls a HostKernelFn for
// shares of the work items, on several threads; a GPU launches a grid of blocks. Beside its buffers (PlanStep::buffers) a
// kernel is given the values of the graph's size symbols and, where it may fail, a slot for three error codes.
struct Launch {
  const void* code = nullptr;  // what the device's loader gave: a HostKernelFn, a CUfunction
  SizeId items = -1;           // work items, which are independent of each other
  SizeId scratch_bytes = -1;   // memory private to whoever runs an item (a GPU: to a block)
  double cost_per_item = 1;    // nanoseconds
  bool may_fail = false;       // checks indices
  BlockShape block;            // a GPU's
};

struct PlanStep {
  std::string name;
  std::string origin;        // where the program asks for it: "model.py:12, model.py:14"; empty: not known
  std::vector<int> buffers;  // kernel: the pointers it takes; library: those of its operands
  bool barrier_before =
      false;      // kernel: reads or overwrites what kernels since the last barrier wrote or read
  Launch launch;  // kernel steps
  // Other ways to launch it, which are timed at the first call (max-autotune): the number of the fastest, `launch` is 0, is kept on
  // disk under the key. `overwritten`: of `buffers`, those of the arena that it reads and writes.
  std::vector<Launch> variants;
  std::string variants_key;
  std::vector<int> overwritten;
  // Library steps.
  LibraryFn library = nullptr;
  std::vector<PlanOperand> operands;  // inputs, then outputs
  int num_inputs = 0;
  // By output: it is the whole of its buffer, whose memory the call may bring (kFromLibrary, kOutput); empty: it brings none.
  std::vector<char> brings;
  std::vector<SizeId> integers;
  std::vector<double> numbers;
  std::string text;
  int user_call = -1;
};

struct Plan {
  std::vector<SizeExpr> sizes;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  SizeId arena_bytes = -1;     // -1: no arena
  std::shared_ptr<void> code;  // keeps the machine code alive
  // A GPU records launches that come again with the same addresses and sizes, and replays them at once (reduce-overhead).
  bool replays_launches = false;
  // Of a library's algorithms those that its heuristics name are timed at the first call (max-autotune).
  bool times_algorithms = false;
  // Each step by itself and waited for, so that its errors name it (CDYNAMO_DEBUG=1).
  bool debugs = false;
};

}  // namespace cdynamo::runtime
