// PyTorch's own operators through its stable C interface (AOTInductor's shim), found in the process at first
// use.
#pragma once

#include "runtime/library/library.h"

namespace cdynamo::runtime {

// True where PyTorch did it; false where it is absent or refused, and nothing was written.
bool torch_convolution(const LibraryArgs& args);
bool torch_convolution_weight_grad(const LibraryArgs& args);
bool torch_matmul(const LibraryArgs& args);  // of matrices or batches of them
bool torch_attention(const LibraryArgs& args);

}  // namespace cdynamo::runtime
