// Launches that come again with the same addresses and sizes, recorded as a CUDA graph and replayed with one call of the driver.
//
// A recording is used only where every pointer and size is what it was, so nothing is copied to fixed addresses and no result is
// overwritten that a program still holds: the framework's allocator gives the same addresses again once they are free, and in a loop
// that is soon. Other calls are launched one by one, as without recordings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/torch_memory.h"

namespace cdynamo::runtime::cuda {

// The recordings of one sequence of launches.
class ReplayedLaunches {
 public:
  ReplayedLaunches();
  ~ReplayedLaunches();
  // Launches on `stream` what `launch` launches on the current one, given that `key` holds all that it depends on, the stream too. `launch` is called
  // at most twice, and is false or throws CudaError where it fails. False: it failed. `remark` is filled in where launches turn out
  // not to be recordable.
  bool run(std::span<const uint64_t> key, Stream stream, const std::function<bool()>& launch,
           std::string* remark);

 private:
  struct Entry;
  Entry* find(std::span<const uint64_t> key);
  bool is_repeated(std::span<const uint64_t> key);
  std::unique_ptr<Entry> record(std::span<const uint64_t> key, Stream stream,
                                const std::function<bool()>& launch, std::string* remark);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;  // the one used last comes first
  std::vector<size_t> seen_;                     // hashes of the last keys
  int recorded_ = 0, replayed_ = 0;
  bool given_up_ = false;
};

}  // namespace cdynamo::runtime::cuda
