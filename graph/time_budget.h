// The processor time that compiling one function may take (cdynamo.config.compile_seconds).
//
//   TimeBudget budget(30);      // this thread's, until the object goes
//   TimeBudget::check();        // in loops over nodes, kernels: throws TimeExceeded when the time is spent
//
// Processor time and not the clock's: a busy machine compiles the same functions as an idle one.
#pragma once

#include <atomic>
#include <cstdint>

#include "graph/op.h"

namespace cdynamo::graph {

struct TimeExceeded : Unsupported {
  TimeExceeded();
};

class TimeBudget {
 public:
  explicit TimeBudget(double seconds);
  ~TimeBudget();
  TimeBudget(const TimeBudget&) = delete;

  // The innermost budget of this thread; null: none, what it does may take any time.
  static TimeBudget* current();
  // True when `part` of the current budget is spent.
  static bool exceeded(double part = 1);
  static void check();

  // What another thread has worked for this budget, and whether that leaves anything.
  void charge(int64_t nanoseconds) { charged_ += nanoseconds; }
  bool spent_by_others() const { return charged_ > limit_; }

 private:
  int64_t start_, limit_;
  std::atomic<int64_t> charged_{0};
  TimeBudget* outer_;
};

// Of this thread.
int64_t processor_nanoseconds();

}  // namespace cdynamo::graph
