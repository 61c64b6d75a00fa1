// PyTorch's own operators through its stable C interface (AOTInductor's shim), found in the process at first
// use.
#pragma once

#include "runtime/library/library.h"

namespace cdynamo::runtime {

// True where PyTorch did it; false where it is absent or refused, and nothing was written.
bool torch_addmm(const LibraryArgs& args);
bool torch_convolution(const LibraryArgs& args);
bool torch_convolution_weight_grad(const LibraryArgs& args);
bool torch_matmul(const LibraryArgs& args);  // of matrices or batches of them
bool torch_attention(const LibraryArgs& args);
// A GPU's, of operands as library_attention and library_attention_backward have them; without a mask.
bool torch_efficient_attention(const LibraryArgs& args);
bool torch_efficient_attention_backward(const LibraryArgs& args);
bool torch_copy(const TensorView& from, const TensorView& to);  // also from one device to another

// The distributions of core.random, each an in-place operator of PyTorch.
struct Distribution {
  const char *name, *op, *overload;
  int parameters;      // numbers that it takes
  bool integer;        // they are integers
  bool probabilities;  // it takes a tensor instead
};
inline constexpr Distribution kDistributions[] = {
    {"uniform", "aten::uniform_", "", 2, false, false},
    {"normal", "aten::normal_", "", 2, false, false},
    {"bernoulli", "aten::bernoulli_", "float", 1, false, false},
    {"bernoulli_tensor", "aten::bernoulli_", "Tensor", 0, false, true},
    {"integers", "aten::random_", "to", 1, true, false},
    {"exponential", "aten::exponential_", "", 1, false, false},
};
// What a GPU's dropout keeps of a tensor like `out`, but of `dtype`: a bool.
bool torch_dropout_mask(const TensorView& out, double p, DType dtype);
bool torch_random(const Distribution& row, const TensorView& out, const TensorView& probabilities,
                  const double* parameters);

}  // namespace cdynamo::runtime
