// The framework's stream and its caching allocator, found in the process at first use.
#pragma once

#include <cstddef>
#include <utility>

#include "runtime/cuda/driver.h"

namespace cdynamo::runtime::cuda {

// The framework's current stream of a device; throws CudaError where it has none.
Stream current_stream(int device_index);

// Memory of the current device, for use on its current stream; freed memory may be taken again by what comes later on that
// stream. data() is null where nothing was asked for or memory ran out.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  explicit DeviceBlock(size_t bytes);
  ~DeviceBlock() { free(); }
  DeviceBlock(DeviceBlock&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;
  char* data() const { return data_; }
  // The memory is the caller's until it is adopted again.
  char* release() { return std::exchange(data_, nullptr); }
  static DeviceBlock adopt(void* data) {
    DeviceBlock block;
    block.data_ = static_cast<char*>(data);
    return block;
  }
  void free();

 private:
  char* data_ = nullptr;
};

}  // namespace cdynamo::runtime::cuda
