#include "symbolic/interop/stack_limit.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>

namespace cdynamo::symbolic {

namespace {

// The address below which the stack is low; 0: not known.
uintptr_t low_mark() {
  // What a compile takes, and what is kept of a large stack. A thread with less than that runs plain Python.
  constexpr size_t kLeast = size_t{1} << 17, kReserve = size_t{1} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) + std::clamp(size / 4, kLeast, kReserve) : 0;
}

}  // namespace

bool stack_is_low() {
  static thread_local const uintptr_t mark = low_mark();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < mark;
}

}  // namespace cdynamo::symbolic
