// Library calls on a GPU, by the framework's own kernels on its current stream. Operands are as runtime/library/library.h has
// them.
#pragma once

#include "runtime/library/library.h"

namespace cdynamo::runtime::cuda {

bool library_matmul(const LibraryArgs& args, RunError* error);
bool library_convolution(const LibraryArgs& args, RunError* error);
bool library_convolution_weight_grad(const LibraryArgs& args, RunError* error);
bool library_attention(const LibraryArgs& args, RunError* error);
bool library_attention_backward(const LibraryArgs& args, RunError* error);
bool library_random(const LibraryArgs& args, RunError* error);

}  // namespace cdynamo::runtime::cuda
