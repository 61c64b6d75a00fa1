// What tiles.inc uses of the standard library: included before a file's target pragma, so that nothing shared
// is compiled for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/gemm/kernels.h"

#define CDYNAMO_INLINE_LAMBDA __attribute__((always_inline))

namespace cdynamo::runtime {

// A thread's packing memory, kept between products.
template <typename T>
class AlignedBuffer {
 public:
  static AlignedBuffer& of_thread() {
    static thread_local AlignedBuffer buffer;
    return buffer;
  }
  ~AlignedBuffer() {
    std::free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }
  T* take(int64_t count) {
    if (count > capacity_) {
      std::free(data_);
      capacity_ = (count + 1023) / 1024 * 1024;
      data_ = static_cast<T*>(std::aligned_alloc(64, capacity_ * sizeof(T)));
      if (!data_) {
        capacity_ = 0;
        throw std::bad_alloc();
      }
    }
    return data_;
  }

 private:
  T* data_ = nullptr;
  int64_t capacity_ = 0;
};

}  // namespace cdynamo::runtime
