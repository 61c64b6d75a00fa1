// Memory for the length of a call: a plan's intermediates, a kernel's scratch, a library call's copies. Each
// thread keeps a few blocks, so that a warm call allocates nothing: pages that come fresh from the system cost more
// than most kernels that write to them.
#pragma once

#include <cstddef>

namespace cdynamo::runtime {

class Arena {
 public:
  explicit Arena(size_t bytes);  // 64-byte aligned; data() is null where memory ran out
  ~Arena();
  Arena(const Arena&) = delete;
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  size_t capacity_ = 0;
};

// While one lives, the thread's large blocks are the allocator's between calls, those kept until now included: for
// steps whose peak of memory matters, where the framework's tensors live in them meanwhile.
class FrugalArenas {
 public:
  explicit FrugalArenas(bool frugal);
  ~FrugalArenas();
  FrugalArenas(const FrugalArenas&) = delete;

 private:
  const bool frugal_;
};

}  // namespace cdynamo::runtime
