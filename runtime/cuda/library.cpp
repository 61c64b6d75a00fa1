#include "runtime/cuda/library.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "runtime/abseil.h"
#include "runtime/cuda/cublas_lt.h"
#include "runtime/cuda/torch_memory.h"
#include "runtime/library/convert.h"
#include "runtime/library/random_layout.h"
#include "runtime/library/torch_shim.h"
#include "runtime/plan_step.h"

namespace cdynamo::runtime::cuda {
namespace {

bool refused(RunError* error, std::string_view what) {
  *error = {RunError::kRuntimeError, absl::StrCat("PyTorch refused ", absl_view(what), " on the GPU")};
  return false;
}

}  // namespace

bool library_matmul(const LibraryArgs& args, RunError* error) {
  // A batch of none is no batch of one, which is what a layout without a count says.
  if (count_elements(args.output()) == 0) return true;
  if (lt_matmul(args)) return true;
  if (Recording::current()) return refused(error, "to record a matrix product");
  const bool done = args.num_inputs > 2 ? torch_addmm(args) : torch_matmul(args);
  return done || refused(error, "a matrix product");
}

bool library_convolution(const LibraryArgs& args, RunError* error) {
  return torch_convolution(args) || refused(error, "a convolution");
}

bool library_convolution_weight_grad(const LibraryArgs& args, RunError* error) {
  return torch_convolution_weight_grad(args) || refused(error, "the gradient of a convolution");
}

bool library_attention(const LibraryArgs& args, RunError* error) {
  return torch_efficient_attention(args) || refused(error, "attention");
}

bool library_attention_backward(const LibraryArgs& args, RunError* error) {
  return torch_efficient_attention_backward(args) || refused(error, "the gradient of attention");
}

bool library_random(const LibraryArgs& args, RunError* error) {
  const TensorView& out = args.output();
  const std::vector<int64_t> strides = packed_strides(args, out);
  TensorView target = out;
  DeviceBlock memory;
  const bool moves = !has_strides(out, strides);
  if (moves) {
    memory = DeviceBlock(static_cast<size_t>(count_elements(out) * bytes(out.dtype)));
    if (!memory.data()) return out_of_memory(error);
    target.data = memory.data();
    target.strides = strides.data();
  }
  const auto* distribution = std::ranges::find(kDistributions, args.text, &Distribution::name);
  bool done = false;
  if (args.text == "dropout")
    done = torch_dropout_mask(target, args.numbers[0], static_cast<DType>(static_cast<int>(args.numbers[1])));
  else if (distribution != std::end(kDistributions))
    done = torch_random(*distribution, target, args.operands[0], args.operands[1], args.numbers);
  return (done && (!moves || torch_copy(target, out))) || refused(error, args.text);
}

}  // namespace cdynamo::runtime::cuda
