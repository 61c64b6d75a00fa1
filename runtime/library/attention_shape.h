// What attention and its gradient share: the sizes, and the mask as four dims.
#pragma once

#include "runtime/library/library.h"

namespace cdynamo::runtime {

struct AttentionShape {
  int64_t batch, heads, queries, keys, width, value_width;
  bool causal;
  double scale;

  AttentionShape(const TensorView& query, const TensorView& key, const TensorView& value,
                 const LibraryArgs& args)
      : batch(query.sizes[0]),
        heads(query.sizes[1]),
        queries(query.sizes[2]),
        keys(key.sizes[2]),
        width(query.sizes[3]),
        value_width(value.sizes[3]),
        causal(args.integers[0] != 0),
        scale(args.numbers[0]) {}
};

// The mask as four dims, whatever it broadcasts from: a dim of one element has a stride of 0.
struct FullMask {
  int64_t sizes[4] = {1, 1, 1, 1}, strides[4] = {0, 0, 0, 0};
  TensorView view;

  explicit FullMask(const TensorView& mask) : view(mask) {
    for (int d = 0; d < mask.rank && mask.rank <= 4; ++d) {
      sizes[4 - mask.rank + d] = mask.sizes[d];
      strides[4 - mask.rank + d] = mask.sizes[d] == 1 ? 0 : mask.strides[d];
    }
    view.sizes = sizes;
    view.strides = strides;
    view.rank = 4;
  }
};

}  // namespace cdynamo::runtime
