#include "graph/time_budget.h"

#include <ctime>

namespace cdynamo::graph {
namespace {
thread_local TimeBudget* innermost = nullptr;
}  // namespace

int64_t processor_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TimeExceeded::TimeExceeded() : Unsupported("compiling it takes longer than config.compile_seconds allows") {}

TimeBudget::TimeBudget(double seconds)
    : start_(processor_nanoseconds()), limit_(static_cast<int64_t>(seconds * 1e9)), outer_(innermost) {
  innermost = this;
}

TimeBudget::~TimeBudget() { innermost = outer_; }

TimeBudget* TimeBudget::current() { return innermost; }

bool TimeBudget::exceeded(double part) {
  if (!innermost) return false;
  const int64_t spent = processor_nanoseconds() - innermost->start_ + innermost->charged_;
  return static_cast<double>(spent) > part * static_cast<double>(innermost->limit_);
}

void TimeBudget::check() {
  if (exceeded()) throw TimeExceeded();
}

}  // namespace cdynamo::graph
