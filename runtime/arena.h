// Memory for the length of a call: a plan's intermediates, a kernel's scratch, a library call's copies. Each
// thread keeps a few blocks, so that a warm call allocates nothing; large ones go back to the system.
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

}  // namespace cdynamo::runtime
