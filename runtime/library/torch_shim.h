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

// The distributions of core.random, each an operator of PyTorch.
struct Distribution {
  enum Form {
    kFills,
    kGives,
    kOrders
  };  // writes to a tensor; gives a fresh one; orders the numbers below a size
  const char *name, *op, *overload;
  int parameters;    // numbers that it takes
  bool integer;      // they are integers
  int operands = 0;  // tensors that it takes: where there are two, they are the halves of one
  Form form = kFills;
};
inline constexpr Distribution kDistributions[] = {
    {"uniform", "aten::uniform_", "", 2, false},
    {"normal", "aten::normal_", "", 2, false},
    {"bernoulli", "aten::bernoulli_", "float", 1, false},
    {"bernoulli_tensor", "aten::bernoulli_", "Tensor", 0, false, 1},
    {"integers", "aten::random_", "to", 1, true},
    {"any_number", "aten::random_", "", 0, true},
    {"exponential", "aten::exponential_", "", 1, false},
    {"cauchy", "aten::cauchy_", "", 2, false},
    {"log_normal", "aten::log_normal_", "", 2, false},
    {"geometric", "aten::geometric_", "", 1, false},
    {"poisson", "aten::poisson", "", 0, false, 1, Distribution::kGives},
    {"standard_gamma", "aten::_standard_gamma", "", 0, false, 1, Distribution::kGives},
    {"dirichlet", "aten::_sample_dirichlet", "", 0, false, 1, Distribution::kGives},
    {"binomial", "aten::binomial", "", 0, false, 2, Distribution::kGives},
    {"multinomial", "aten::multinomial", "", 2, true, 1, Distribution::kGives},
    {"permutation", "aten::randperm", "generator_out", 0, true, 0, Distribution::kOrders},
};
// What a GPU's dropout keeps of a tensor like `out`, but of `dtype`: a bool.
bool torch_dropout_mask(const TensorView& out, double p, DType dtype);
// `generator`: a number, the handle of the program's generator (AtenGeneratorHandle); absent: the framework's own.
bool torch_random(const Distribution& row, const TensorView& out, const TensorView& operand,
                  const TensorView& generator, const double* parameters);
// PyTorch's interface takes generators (2.13 and later).
bool torch_takes_generators();

}  // namespace cdynamo::runtime
