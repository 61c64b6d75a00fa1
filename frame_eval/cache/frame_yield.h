// FrameYield: what the pieces of one function between its graph breaks compute, against what the breaks cost. A function that has broken
// in many places and computed little is left to Python from the next call on; what it calls is captured on its own.
#pragma once

#include <cstdint>

#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

// What a call of a piece gains over Python: microseconds, roughly.
double gain_of(const symbolic::CaptureResult& piece);
// And what it costs: its guards, results and frames.
double cost_of(const symbolic::CaptureResult& piece);

class FrameYield {
 public:
  // A piece was compiled: what it computes, and whether it ends in a graph break.
  void add(const symbolic::CaptureResult& piece);
  // A piece has run: that of a loop's turn does so once for each turn.
  void ran(double gain, double cost);
  bool is_loss() const;

 private:
  int breaks_ = 0;
  double balance_ = 0;            // microseconds of all calls
  double gained_ = 0, cost_ = 0;  // microseconds a call, roughly
};

// How many entries calls have found not to fit before one did, or none: where that costs more than what fits gains, the function is left to
// Python.
class Searches {
 public:
  void found(size_t misses, double gain);
  bool are_loss() const { return balance_ < kMuch; }

 private:
  static constexpr double kMuch = -200;
  double balance_ = 0;  // microseconds of all calls
};

// Calls of a function that Python runs, under the hook, and in which nothing that was compiled has run: after many in a row its calls
// run without the hook, but for one of as many, which looks again.
class QuietCalls {
 public:
  // `activity`: how often the owner has run or compiled something, before and after a call.
  void note(int64_t before, int64_t after) { in_a_row_ = before == after ? in_a_row_ + 1 : 0; }
  // Whether the next call is to run without the hook.
  bool passes() { return in_a_row_ >= kMany && ++passed_ % kMany != 0; }

 private:
  static constexpr int kMany = 64;
  int in_a_row_ = 0;
  unsigned passed_ = 0;
};

}  // namespace cdynamo::frame_eval
