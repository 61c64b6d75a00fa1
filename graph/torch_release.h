// The release of PyTorch that is in the process: what eager gives at the corners of a function differs between them.
#pragma once

#include <compare>

namespace cdynamo::graph {

struct TorchRelease {
  long major = 0, minor = 0;  // 2, 13
  auto operator<=>(const TorchRelease&) const = default;
};

namespace detail {
inline TorchRelease torch_release{2, 15};
}  // namespace detail

// The newest that cdynamo knows where there is none.
inline TorchRelease torch_release() { return detail::torch_release; }
// Before the first graph is made.
inline void set_torch_release(TorchRelease release) { detail::torch_release = release; }

}  // namespace cdynamo::graph
