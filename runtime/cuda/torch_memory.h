// The framework's stream and its caching allocator, found in the process at first use.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/cuda/driver.h"

namespace cdynamo::runtime::cuda {

class Recording;

// A setting of the framework that a member function of at::Context, by its mangled name, answers.
class ContextFlag {
 public:
  explicit ContextFlag(const char* symbol);
  bool is_set(bool otherwise) const { return context_ && ask_ ? ask_(context_()) : otherwise; }

 private:
  void* (*context_)() = nullptr;
  bool (*ask_)(const void*) = nullptr;
};

// torch.use_deterministic_algorithms
bool framework_is_deterministic();

// torch.backends.cudnn.allow_tf32
bool convolutions_use_tf32();

// torch.backends.cuda.matmul.allow_tf32
bool products_use_tf32();

// torch.backends.cuda.enable_mem_efficient_sdp
bool may_use_efficient_attention();

// The framework's current stream of a device, or that of the thread's recording; throws CudaError where it has none.
Stream current_stream(int device_index);

// Memory of the current device, for use on its current stream; freed memory may be taken again by what comes later on that
// stream. data() is null where nothing was asked for or memory ran out. During a recording it is the recording's.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  explicit DeviceBlock(size_t bytes);
  ~DeviceBlock() { free(); }
  DeviceBlock(DeviceBlock&& other) noexcept : data_(other.data_), recording_(other.recording_) {
    other.data_ = nullptr;
  }
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
  friend class Recording;
  char* data_ = nullptr;
  Recording* recording_ = nullptr;
};

// While one is entered, what the thread launches goes to a stream that records it, and the memory that this takes for itself is that
// of all recordings which are replayed on the same stream, one after the other: what is replayed finds it where it was. One thread
// records at a time.
class Recording {
 public:
  Recording(Stream recorded_on, Stream replayed_on);
  ~Recording();
  Recording(const Recording&) = delete;
  static Recording* current();  // the thread's; null: none
  Stream stream() const { return stream_; }
  char* take(size_t bytes);
  void give_back(const char* data);

 private:
  struct Block {
    DeviceBlock memory;
    size_t bytes = 0;
    bool taken = false;
  };
  Stream stream_;
  std::vector<Block>& blocks_;
};

}  // namespace cdynamo::runtime::cuda
