// Where random numbers fall: a generator fills memory from its first element to its last, so which number belongs to which element
// follows from the layout of eager's tensor, whatever the plan makes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/library/library.h"

namespace cdynamo::runtime {

// The strides of memory without gaps, its dims in the order that the integers say; none: row-major.
inline std::vector<int64_t> packed_strides(const LibraryArgs& args, const TensorView& view) {
  std::vector<int64_t> strides(view.rank);
  const bool ordered = args.num_integers > 0;
  for (int64_t i = view.rank, step = 1; i-- > 0;) {
    const int64_t dim = ordered ? args.integers[i] : i;
    strides[dim] = step;
    step *= view.sizes[dim];
  }
  return strides;
}

inline bool has_strides(const TensorView& view, const std::vector<int64_t>& strides) {
  for (int d = 0; d < view.rank; ++d)
    if (view.sizes[d] != 1 && view.strides[d] != strides[d]) return false;
  return true;
}

}  // namespace cdynamo::runtime
