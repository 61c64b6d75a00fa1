#include "runtime/host/arena.h"

#include <cstdlib>
#include <utility>

namespace cdynamo::runtime {
namespace {

constexpr size_t kAlignment = 64;
// What a thread keeps between calls: altogether, and of one block where memory is scarce.
constexpr size_t kMostKept = size_t{64} << 20, kLargestKeptFrugally = size_t{256} << 10;

struct Block {
  char* data = nullptr;
  size_t capacity = 0;
};

// The blocks that a thread keeps between calls: a plan's arena, its scratch, a library call's. Nested calls
// (through the framework) find them taken and allocate their own.
struct KeptBlocks {
  static constexpr int kCount = 4;
  Block blocks[kCount];
  int frugal = 0;

  ~KeptBlocks() { drop_above(0); }
  void drop(Block& block) {
    std::free(std::exchange(block.data, nullptr));
    block.capacity = 0;
  }
  void drop_above(size_t bytes) {
    for (Block& block : blocks)
      if (block.capacity > bytes) drop(block);
  }
  // The smallest that is large enough.
  Block take(size_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks)
      if (block.data && block.capacity >= bytes && (!best || block.capacity < best->capacity)) best = &block;
    return best ? std::exchange(*best, Block()) : Block();
  }
  // In an empty place, else in that of the smallest, which is freed, as is what would be too much with it.
  void give(Block block) {
    if (block.capacity > (frugal ? kLargestKeptFrugally : kMostKept)) return std::free(block.data);
    Block* place = &blocks[0];
    size_t kept = block.capacity;
    for (Block& other : blocks) {
      kept += other.capacity;
      if (!other.data || (place->data && other.capacity < place->capacity)) place = &other;
    }
    if (place->data && place->capacity >= block.capacity) return std::free(block.data);
    kept -= place->capacity;
    drop(*place);
    for (Block& other : blocks)
      if (kept > kMostKept) {
        kept -= other.capacity;
        drop(other);
      }
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
  if (data_) kept.give({data_, capacity_});
}

FrugalArenas::FrugalArenas(bool frugal) : frugal_(frugal) {
  if (!frugal_) return;
  ++kept.frugal;
  kept.drop_above(kLargestKeptFrugally);
}

FrugalArenas::~FrugalArenas() {
  if (frugal_) --kept.frugal;
}

}  // namespace cdynamo::runtime
