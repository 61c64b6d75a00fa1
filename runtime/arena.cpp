#include "runtime/arena.h"

#include <cstdlib>
#include <utility>

namespace cdynamo::runtime {
namespace {

constexpr size_t kAlignment = 64;
// Larger ones are the allocator's between calls: the framework's tensors live in them meanwhile.
constexpr size_t kLargestKept = size_t{256} << 10;

struct Block {
  char* data = nullptr;
  size_t capacity = 0;
};

// The blocks that a thread keeps between calls: a plan's arena, its scratch, a library call's. Nested calls
// (through the framework) find them taken and allocate their own.
struct KeptBlocks {
  static constexpr int kCount = 4;
  Block blocks[kCount];

  ~KeptBlocks() {
    for (Block& block : blocks) std::free(std::exchange(block.data, nullptr));
  }
  // The smallest that is large enough.
  Block take(size_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks)
      if (block.data && block.capacity >= bytes && (!best || block.capacity < best->capacity)) best = &block;
    return best ? std::exchange(*best, Block()) : Block();
  }
  // In an empty place, else in that of the smallest, which is freed.
  void give(Block block) {
    Block* place = &blocks[0];
    for (Block& other : blocks)
      if (!other.data || (place->data && other.capacity < place->capacity)) place = &other;
    if (place->data && place->capacity >= block.capacity) return std::free(block.data);
    std::free(place->data);
    *place = block;
  }
};
thread_local KeptBlocks kept;

}  // namespace

Arena::Arena(size_t bytes) {
  if (bytes == 0) return;
  const Block block = kept.take(bytes);
  data_ = block.data;
  capacity_ = block.capacity;
  if (data_) return;
  capacity_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  data_ = static_cast<char*>(std::aligned_alloc(kAlignment, capacity_));
}

Arena::~Arena() {
  if (!data_) return;
  if (capacity_ <= kLargestKept)
    kept.give({data_, capacity_});
  else
    std::free(data_);
}

}  // namespace cdynamo::runtime
