#include "runtime/arena.h"

#include <cstdlib>
#include <utility>

namespace cdynamo::runtime {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLargestKept = size_t{64} << 20;

// The block that a thread keeps between calls. A nested call (through the framework) finds it taken and allocates its own.
struct KeptBlock {
  char* data = nullptr;
  size_t capacity = 0;
  ~KeptBlock() {
    std::free(data);
    data = nullptr;
  }
};
thread_local KeptBlock kept;

}  // namespace

Arena::Arena(size_t bytes) {
  if (bytes == 0) return;
  if (kept.data && kept.capacity >= bytes) {
    data_ = std::exchange(kept.data, nullptr);
    capacity_ = std::exchange(kept.capacity, 0);
    return;
  }
  capacity_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  data_ = static_cast<char*>(std::aligned_alloc(kAlignment, capacity_));
}

Arena::~Arena() {
  if (!data_) return;
  if (capacity_ <= kLargestKept && capacity_ >= kept.capacity) {
    std::free(kept.data);
    kept.data = data_;
    kept.capacity = capacity_;
  } else {
    std::free(data_);
  }
}

}  // namespace cdynamo::runtime
