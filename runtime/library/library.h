// Library calls: what a plan does not compute with its own kernels. Functions of the framework are found in
// the process at first use, never linked; without one there is a portable way.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "runtime/executable.h"

namespace cdynamo::runtime {

struct LibraryArgs {
  const TensorView* operands = nullptr;  // inputs, then outputs; data null: an absent operand
  int num_inputs = 0, num_operands = 0;
  const int64_t* integers = nullptr;  // attributes, in the order each function documents
  int num_integers = 0;
  const double* numbers = nullptr;
  std::string_view text;
  int user_call = -1;
  LibraryCallbacks* callbacks = nullptr;
  // By output: where the call puts the memory that it brings for it, which then has none of its own. Null: the output's is given.
  BroughtMemory* const* brought = nullptr;
  BroughtMemory* brings(int i = 0) const { return brought ? brought[i] : nullptr; }
  const TensorView& output(int i = 0) const { return operands[num_inputs + i]; }
};

using LibraryFn = bool (*)(const LibraryArgs& args, RunError* error);

// (M,K) x (K,N) -> (M,N), or with a leading batch dim on all three. Any strides; any dtype but bool. With a third operand, of the
// result's sizes and of a floating type (on the CPU a half type): beta times that and alpha times the product, rounded once; numbers: beta, alpha.
bool library_matmul(const LibraryArgs& args, RunError* error);

// input (N,C,..), weight, bias or absent -> output. integers: stride, padding, dilation and output padding of each
// spatial dim, then transposed (0/1) and groups.
bool library_convolution(const LibraryArgs& args, RunError* error);

// The gradient of a convolution's weight. windows (N,O,..), image (N,C,..) -> weight. integers: stride,
// padding and dilation of each spatial dim, then groups.
bool library_convolution_weight_grad(const LibraryArgs& args, RunError* error);

// query, key, value (B,H,L,E), additive mask or absent -> output, and unless it is absent the log-sum-exp of each row of scores
// (B,H,L). integers: is_causal. numbers: scale.
bool library_attention(const LibraryArgs& args, RunError* error);
// gradient of the output, query, key, value, mask or absent, output, log-sum-exp -> gradients of query, key, value, each of which
// may be absent. integers, numbers: as above.
bool library_attention_backward(const LibraryArgs& args, RunError* error);

// Random numbers from the framework's generator, or the program's: probabilities or absent, its handle or absent -> output. text: the distribution
// (torch_shim.h lists them), or "dropout", the mask of a GPU's. numbers: its two parameters, or the probability and the DType of what is dropped. integers: the dims in the order of eager's memory, or none.
bool library_random(const LibraryArgs& args, RunError* error);

// The framework's own operator `user_call`, through LibraryCallbacks.
bool library_callback(const LibraryArgs& args, RunError* error);

}  // namespace cdynamo::runtime
