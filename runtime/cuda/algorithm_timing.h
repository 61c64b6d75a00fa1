// Which of several ways to launch the same work takes the device least time.
#pragma once

#include "absl/functional/function_ref.h"
#include "runtime/cuda/driver.h"

namespace cdynamo::runtime::cuda {

// While one lives that is `on`, the thread's library calls time their algorithms (mode="max-autotune").
class TimedAlgorithms {
 public:
  explicit TimedAlgorithms(bool on);
  ~TimedAlgorithms();
  TimedAlgorithms(const TimedAlgorithms&) = delete;
  static bool are_on();  // in this thread

 private:
  bool before_;
};

// The index of the fastest of `count`; -1 where none can be launched. Each is launched some times on the stream, which is waited for.
// `launch` is false where a way is none. Throws CudaError.
int find_fastest(Stream stream, int count, absl::FunctionRef<bool(int)> launch);

}  // namespace cdynamo::runtime::cuda
