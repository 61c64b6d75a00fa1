#include "runtime/library/torch_shim.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "runtime/host/parallel.h"
#include "runtime/library/torch_handles.h"

namespace cdynamo::runtime {

using namespace torch_handles;

bool torch_convolution(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  if (!torch) return false;
  const int64_t rank = args.operands[0].rank - 2, *at = args.integers;
  TorchTensor input(*torch, args.operands[0]), weight(*torch, args.operands[1]);
  const TensorView& bias_view = args.operands[2];
  TorchTensor bias = bias_view.data ? TorchTensor(*torch, bias_view) : TorchTensor();
  Handle bias_handle = bias.get(), result = nullptr;
  if (!input.get() || !weight.get() || (bias_view.data && !bias_handle)) return false;
  if (torch->convolution(input.get(), weight.get(), bias_handle ? &bias_handle : nullptr, at, rank, at + rank,
                         rank, at + 2 * rank, rank, static_cast<int32_t>(at[4 * rank]), at + 3 * rank, rank,
                         at[4 * rank + 1], &result) != 0)
    return false;
  return deliver(*torch, TorchTensor(*torch, result), args);
}

bool torch_convolution_weight_grad(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  if (!torch || !torch->convolution_backward) return false;
  const int64_t rank = args.operands[0].rank - 2, *at = args.integers;
  const TensorView &windows_view = args.operands[0], &image_view = args.operands[1],
                   &weight_view = args.output();
  // Windows that are not all that there is room for are a transposed convolution's operand, and the image the gradient of its
  // result: the rest is output padding, of which there is less than a stride or a dilation.
  int64_t output_padding[3] = {0, 0, 0};
  bool transposed = false;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t stride = at[d], padding = at[rank + d], dilation = at[2 * rank + d];
    const int64_t room =
        image_view.sizes[d + 2] + 2 * padding - dilation * (weight_view.sizes[d + 2] - 1) - 1;
    output_padding[d] = room - (windows_view.sizes[d + 2] - 1) * stride;
    if (room < 0 || output_padding[d] < 0 || output_padding[d] >= std::max(stride, dilation)) return false;
    transposed |= room / stride + 1 != windows_view.sizes[d + 2];
  }
  if (!transposed) std::fill_n(output_padding, 3, int64_t{0});
  // Of the weight only the sizes are looked at.
  TorchTensor windows(*torch, windows_view), image(*torch, image_view), weight(*torch, weight_view);
  if (!windows.get() || !image.get() || !weight.get()) return false;
  const int32_t wanted[3] = {0, 1, 0};
  Handle results[3] = {};
  const Handle gradient = transposed ? image.get() : windows.get(),
               operand = transposed ? windows.get() : image.get();
  if (torch->convolution_backward(gradient, operand, weight.get(), nullptr, 0, at, rank, at + rank, rank,
                                  at + 2 * rank, rank, transposed, output_padding, rank, at[3 * rank], wanted,
                                  3, &results[0], &results[1], &results[2]) != 0)
    return false;
  TorchTensor first(*torch, results[0]), second(*torch, results[1]), third(*torch, results[2]);
  return deliver(*torch, std::move(second), args);
}

bool torch_matmul(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  const TensorView& out = args.output();
  if (!torch) return false;
  auto multiply = out.rank == 3 ? torch->bmm_out : torch->mm_out;
  if (!multiply) return false;
  TorchTensor a(*torch, args.operands[0]), b(*torch, args.operands[1]), c(*torch, out);
  return a.get() && b.get() && c.get() && multiply(c.get(), a.get(), b.get()) == 0;
}

bool torch_addmm(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  const TensorView& out = args.output();
  if (!torch) return false;
  auto multiply = out.rank == 3 ? torch->baddbmm_out : torch->addmm_out;
  if (!multiply) return false;
  TorchTensor a(*torch, args.operands[0]), b(*torch, args.operands[1]), addend(*torch, args.operands[2]),
      c(*torch, out);
  return a.get() && b.get() && addend.get() && c.get() &&
         multiply(c.get(), addend.get(), a.get(), b.get(), args.numbers[0], args.numbers[1]) == 0;
}

bool torch_attention(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  if (!torch || !torch->attention) return false;
  TorchTensor query(*torch, args.operands[0]), key(*torch, args.operands[1]), value(*torch, args.operands[2]);
  const TensorView& mask_view = args.operands[3];
  TorchTensor mask = mask_view.data ? TorchTensor(*torch, mask_view) : TorchTensor();
  if (!query.get() || !key.get() || !value.get() || (mask_view.data && !mask.get())) return false;
  Handle mask_handle = mask.get(), result = nullptr, logsumexp = nullptr;
  double scale = args.numbers[0];
  if (torch->attention(query.get(), key.get(), value.get(), 0.0, args.integers[0] != 0,
                       mask_handle ? &mask_handle : nullptr, &scale, &result, &logsumexp) != 0)
    return false;
  TorchTensor owner(*torch, result), second_owner(*torch, logsumexp);
  return copy_result(*torch, result, args.output());
}

bool torch_copy(const TensorView& from, const TensorView& to) {
  const bool is_cuda = from.device.type == DeviceType::kCUDA;
  const Shim* torch = shim(is_cuda ? from : to);
  if (!torch || !torch->copy) return false;
  TorchTensor source(*torch, from), target(*torch, to);
  return source.get() && target.get() && torch->copy(target.get(), source.get(), /*non_blocking=*/0) == 0;
}

bool torch_dropout_mask(const TensorView& out, double p, DType dtype) {
  const Shim* torch = shim(out);
  if (!torch || !torch->call_dispatcher || !torch->empty_strided) return false;
  TorchTensor target(*torch, out);
  // Of the input only the type and the layout count.
  Handle like = nullptr;
  if (!target.get() || torch->empty_strided(out.rank, out.sizes, out.strides, scalar_type(dtype),
                                            device_type(out.device), device_index(out.device), &like) != 0)
    return false;
  uint64_t stack[3] = {std::bit_cast<uint64_t>(like), std::bit_cast<uint64_t>(p), 0};
  if (torch->call_dispatcher("aten::native_dropout", "", stack) != 0) return false;
  TorchTensor dropped(*torch, std::bit_cast<Handle>(stack[0])), mask(*torch, std::bit_cast<Handle>(stack[1]));
  return torch->copy(target.get(), mask.get(), 1) == 0;
}

namespace {

// A function's arguments, which the dispatcher takes over, and then its result.
class Stack {
 public:
  void push(uint64_t word) { words_[count_++] = word; }
  void push(TorchTensor tensor) { push(std::bit_cast<uint64_t>(tensor.release())); }
  uint64_t* words() { return words_; }

 private:
  uint64_t words_[8] = {};
  int count_ = 0;
};

// The `i`-th of the tensors that lie along a view's first dim.
TensorView part_of(const TensorView& view, int i) {
  TensorView part = view;
  part.data = static_cast<char*>(view.data) + i * view.strides[0] * bytes(view.dtype);
  --part.rank, ++part.sizes, ++part.strides;
  return part;
}

// An optional generator on the stack, as the dispatcher takes it over: 0 for none, or a word of its own that holds a handle.
std::optional<uint64_t> generator_word(const Shim& torch, const TensorView& generator) {
  if (!generator.data) return 0;
  Handle copy = nullptr;
  if (!torch.new_generator || torch.new_generator(*static_cast<Handle*>(generator.data), &copy) != 0)
    return std::nullopt;
  return std::bit_cast<uint64_t>(new uint64_t(std::bit_cast<uint64_t>(copy)));
}

}  // namespace

bool torch_takes_generators() {
  return find_process_symbol("aoti_torch_call_dispatcher") &&
         find_process_symbol("torch_new_generator_handle");
}

bool torch_random(const Distribution& row, const TensorView& out, const TensorView& operand,
                  const TensorView& generator, const double* parameters) {
  const Shim* torch = shim(out);
  if (!torch || !torch->call_dispatcher) return false;
  std::vector<TorchTensor> tensors;
  if (row.form == Distribution::kFills) tensors.emplace_back(*torch, out);
  for (int i = 0; i < row.operands; ++i)
    tensors.emplace_back(*torch, row.operands == 1 ? operand : part_of(operand, i));
  if (row.form == Distribution::kOrders) tensors.emplace_back(*torch, out);
  for (const TorchTensor& tensor : tensors)
    if (!tensor.get()) return false;
  const std::optional<uint64_t> drawn_by = generator_word(*torch, generator);
  if (!drawn_by) return false;
  Stack stack;
  if (row.form == Distribution::kOrders) {
    stack.push(static_cast<uint64_t>(out.sizes[0]));
    stack.push(*drawn_by);
  }
  for (TorchTensor& tensor : tensors) stack.push(std::move(tensor));
  for (int i = 0; i < row.parameters; ++i)
    stack.push(row.integer ? static_cast<uint64_t>(static_cast<int64_t>(parameters[i]))
                           : std::bit_cast<uint64_t>(parameters[i]));
  if (row.form != Distribution::kOrders) stack.push(*drawn_by);
  if (torch->call_dispatcher(row.op, row.overload, stack.words()) != 0) return false;
  TorchTensor result(*torch, std::bit_cast<Handle>(stack.words()[0]));
  return row.form != Distribution::kGives || copy_result(*torch, result.get(), out);
}

}  // namespace cdynamo::runtime
