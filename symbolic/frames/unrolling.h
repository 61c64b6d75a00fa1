// What it costs to unroll the loops of a frame. A loop that grows without use is left to Python: it stops the capture
// before it, what stands before and after it is compiled.
//
//   frame.unrolling.turn(state, header);   // at each jump back to a loop's header; throws GraphBreak where it is too much
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbolic/capture/executor_state.h"

namespace cdynamo::symbolic {

class Unrolling {
 public:
  void turn(Executor::State& state, int header);

 private:
  // Counts of the capture when the loop's first turn ended.
  struct Entered {
    int header;
    int64_t turns, instructions, nodes, new_sizes;
  };
  void weigh(Executor::State& state, const Entered& loop) const;

  std::vector<Entered> loops_;  // those that the frame is in, outermost first
};

}  // namespace cdynamo::symbolic
