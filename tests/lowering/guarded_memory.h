// Memory that ends where pages begin that nobody may touch: what reads or writes past the end ends the process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace cdynamo::lowering::testing {

class GuardedMemory {
 public:
  // `size` is a multiple of the elements' size, to which the memory is aligned.
  explicit GuardedMemory(size_t size, char content = 0) : size_(size) {
    const size_t page = sysconf(_SC_PAGESIZE), guard = 256 * page, span = (size + page - 1) / page * page;
    mapped_ = span + guard;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    char* const end = static_cast<char*>(base_) + span;
    if (mprotect(end, guard, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = end - size;
    if (content) std::fill(begin(), this->end(), content);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_(other.mapped_),
        size_(other.size_),
        data_(other.data_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory() {
    if (base_) munmap(base_, mapped_);
  }
  char* data() const { return data_; }
  char* begin() const { return data_; }
  char* end() const { return data_ + size_; }

 private:
  void* base_ = nullptr;
  size_t mapped_ = 0, size_ = 0;
  char* data_ = nullptr;
};

}  // namespace cdynamo::lowering::testing
