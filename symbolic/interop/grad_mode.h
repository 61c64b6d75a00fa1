// PyTorch's grad mode of this thread: what is computed has a history, or none.
#pragma once

namespace cdynamo::symbolic {

bool grad_mode_is_enabled();

// Grad mode is on, or off, for as long as this lives.
class WithGradMode {
 public:
  explicit WithGradMode(bool enabled = true);
  ~WithGradMode();
  WithGradMode(const WithGradMode&) = delete;
  WithGradMode& operator=(const WithGradMode&) = delete;
  bool failed() const { return failed_; }  // with a Python error set

 private:
  bool enabled_, changed_ = false, failed_ = false;
};

}  // namespace cdynamo::symbolic
