// How a GPU runs a kernel: what a block is, and which points its threads have.
//
//   outer   threads next to each other have outer points next to each other (`outer_vector` of them each), and the points of
//           the inner axes are shared out among `inner_threads` rows of such threads:
//             thread = inner * outer_threads + outer
//   inner   a row of `inner_threads` threads has one outer point, and its threads next to each other have inner points next
//           to each other (`inner_vector` of them each):
//             thread = outer * inner_threads + inner
//
// The inner points of a row are walked in tiles of inner_threads * inner_vector, `tiles` of them in flight. Where those are all
// (`whole_row`), each thread keeps in registers what later phases read again.
//
// A scan whose loop has no other order than that of its running values (`scans`) is walked in tiles too, in which the points of a
// thread follow each other.
#pragma once

#include <vector>

#include "lowering/loops/schedule.h"
#include "lowering/target.h"

namespace cdynamo::lowering::gpu {

// What a kernel is compiled for; known without a device, so that code for each can be made anywhere.
struct Architecture {
  int compute_capability = 80;  // 90 for 9.0
  int processors = 108;
  int64_t shared_bytes_per_block = 99 << 10;
  std::string cpu() const;       // LLVM's name: "sm_80"; the nearest below of those that it knows
  std::string features() const;  // the PTX version
};

constexpr int kWarp = 32;
inline bool is_multiple(const graph::Sym& sym, int64_t of) {
  return mod(sym, graph::Sym(of)) == graph::Sym(0);
}
constexpr LaneStyle kThreads{.few = kWarp, .shares_pieces_of = 16};

// Where a row scratch lies.
struct ScratchPlace {
  enum Where { kRegisters, kShared, kGlobal } where = kGlobal;
  Sym offset;  // bytes from the start of a row's shared or a block's global memory
};

struct ThreadPlan {
  bool lanes_outer = true;
  int outer_threads = 1, inner_threads = 1;
  int outer_vector = 1, inner_vector = 1;
  int tiles = 1;
  bool whole_row = false;
  bool scans = false;
  bool narrow = false;  // indices fit 32 bits
  // Blocks that a processor is to have room for: what limits the registers of a thread. 0: the assembler decides.
  int resident_blocks = 0;
  Sym points;  // of the outer axes
  Sym blocks;
  std::vector<ScratchPlace> scratch;  // one a buffer of the kernel; global ones are ignored
  int64_t shared_scratch = 0;         // bytes a row
  Sym global_scratch;                 // bytes a block
  int threads() const { return outer_threads * inner_threads; }
  // Whether one thread walks the phase's points one after the other.
  bool in_order(const Phase& phase) const { return phase.sequential && !scans; }
};

// Whether the device adds to memory in one step.
bool adds_atomically(DType dtype);

// In how many blocks a reduction is done.
ReductionBlocks reduction_blocks(const ReductionShape& shape, const Architecture& architecture);
ReductionBlocks scan_blocks(const ReductionShape& shape, const Architecture& architecture);

// A plan beside the one that is thought best: powers of two.
struct Variation {
  int threads = 0;    // by which a block's threads, or those that share a row, are more
  int in_flight = 0;  // by which the points that a thread has at once are more
};

ThreadPlan plan_threads(const ScheduledKernel& kernel, const graph::SymContext& context,
                        const Architecture& architecture, Variation variation = {});

// The plan that is thought best, and others of which one may be faster: none for kernels of fewer points.
std::vector<ThreadPlan> plan_variants(const ScheduledKernel& kernel, const graph::SymContext& context,
                                      const Architecture& architecture, int64_t fewest_points = 1 << 16);

}  // namespace cdynamo::lowering::gpu
