#include "runtime/library/torch_shim.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"

namespace cdynamo::runtime {
namespace {

// torch/csrc/inductor/aoti_torch/c/shim.h and generated/c_shim_cpu.h (2.11 to 2.13).
using Handle = void*;
using Status = int32_t;

struct Shim {
  Status (*create_tensor_from_blob)(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                                    int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                    Handle* result, int32_t layout, const uint8_t* opaque,
                                    int64_t opaque_size) = nullptr;
  Status (*delete_tensor)(Handle) = nullptr;
  Status (*get_data_ptr)(Handle, void**) = nullptr;
  Status (*get_sizes)(Handle, int64_t**) = nullptr;
  Status (*get_strides)(Handle, int64_t**) = nullptr;
  Status (*get_dim)(Handle, int64_t*) = nullptr;
  Status (*convolution)(Handle input, Handle weight, Handle* bias, const int64_t* stride, int64_t,
                        const int64_t* padding, int64_t, const int64_t* dilation, int64_t, int32_t transposed,
                        const int64_t* output_padding, int64_t, int64_t groups, Handle* result) = nullptr;
  Status (*convolution_backward)(Handle grad, Handle input, Handle weight, const int64_t** bias_sizes,
                                 int64_t, const int64_t* stride, int64_t, const int64_t* padding, int64_t,
                                 const int64_t* dilation, int64_t, int32_t transposed,
                                 const int64_t* output_padding, int64_t, int64_t groups,
                                 const int32_t* output_mask, int64_t, Handle* input_grad, Handle* weight_grad,
                                 Handle* bias_grad) = nullptr;
  Status (*mm_out)(Handle out, Handle self, Handle mat2) = nullptr;
  Status (*bmm_out)(Handle out, Handle self, Handle mat2) = nullptr;
  Status (*addmm_out)(Handle out, Handle self, Handle mat1, Handle mat2, double beta, double alpha) = nullptr;
  Status (*baddbmm_out)(Handle out, Handle self, Handle batch1, Handle batch2, double beta,
                        double alpha) = nullptr;
  Status (*attention)(Handle query, Handle key, Handle value, double dropout, int32_t is_causal, Handle* mask,
                      double* scale, Handle* result, Handle* logsumexp) = nullptr;
  Status (*efficient_attention)(Handle query, Handle key, Handle value, Handle* bias,
                                int32_t compute_logsumexp, double dropout, int32_t is_causal, double* scale,
                                Handle* result, Handle* logsumexp, Handle* seed, Handle* offset) = nullptr;
  Status (*efficient_attention_backward)(Handle grad, Handle query, Handle key, Handle value, Handle* bias,
                                         Handle out, Handle* query_starts, Handle* key_starts,
                                         int64_t longest_query, int64_t longest_key, Handle logsumexp,
                                         double dropout, Handle seed, Handle offset, int64_t mask_kind,
                                         int32_t bias_requires_grad, double* scale, int64_t* key_splits,
                                         int64_t* window, int32_t shared_storage, Handle* query_grad,
                                         Handle* key_grad, Handle* value_grad, Handle* bias_grad) = nullptr;
  Status (*copy)(Handle self, Handle from, int32_t non_blocking) = nullptr;
  Status (*reinterpret)(Handle self, int64_t rank, const int64_t* sizes, const int64_t* strides,
                        int64_t offset, Handle* result) = nullptr;
  Status (*empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                          int32_t device_type, int32_t device_index, Handle* result) = nullptr;
  // The dispatcher takes over the tensors on the stack, and leaves a new handle for the result.
  Status (*call_dispatcher)(const char* op, const char* overload, uint64_t* stack) = nullptr;
  bool complete() const {
    return create_tensor_from_blob && delete_tensor && get_data_ptr && get_sizes && get_strides && get_dim &&
           convolution;
  }
};

template <typename F>
void bind(F& function, const std::string& name) {
  function = reinterpret_cast<F>(find_process_symbol(name.c_str()));
}

Shim bind_shim(DeviceType device) {
  const std::string own = device == DeviceType::kCPU ? "aoti_torch_cpu_" : "aoti_torch_cuda_";
  Shim result;
  bind(result.create_tensor_from_blob, "aoti_torch_create_tensor_from_blob_v2");
  bind(result.delete_tensor, "aoti_torch_delete_tensor_object");
  bind(result.get_data_ptr, "aoti_torch_get_data_ptr");
  bind(result.get_sizes, "aoti_torch_get_sizes");
  bind(result.get_strides, "aoti_torch_get_strides");
  bind(result.get_dim, "aoti_torch_get_dim");
  bind(result.convolution, own + "convolution");
  bind(result.convolution_backward, own + "convolution_backward");
  bind(result.mm_out, own + "mm_out");
  bind(result.bmm_out, own + "bmm_out");
  bind(result.addmm_out, own + "addmm_out");
  bind(result.baddbmm_out, own + "baddbmm_out");
  if (device == DeviceType::kCPU)
    bind(result.attention, "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu");
  if (device == DeviceType::kCUDA) {
    bind(result.efficient_attention, "aoti_torch_cuda__scaled_dot_product_efficient_attention");
    bind(result.efficient_attention_backward, "aoti_torch_cuda__efficient_attention_backward");
  }
  bind(result.copy, "aoti_torch_copy_");
  bind(result.reinterpret, "aoti_torch__reinterpret_tensor");
  bind(result.empty_strided, "aoti_torch_empty_strided");
  bind(result.call_dispatcher, "aoti_torch_call_dispatcher");
  return result;
}

// Null while PyTorch is not in the process; it may come later.
const Shim* shim(const TensorView& operand) {
  const bool cuda = operand.device.type == DeviceType::kCUDA;
  if (!find_process_symbol(cuda ? "aoti_torch_cuda_convolution" : "aoti_torch_cpu_convolution"))
    return nullptr;
  static const Shim cpu_bound = bind_shim(DeviceType::kCPU);
  if (!cuda) return cpu_bound.complete() ? &cpu_bound : nullptr;
  static const Shim cuda_bound = bind_shim(DeviceType::kCUDA);
  return cuda_bound.complete() && cuda_bound.copy ? &cuda_bound : nullptr;
}

// c10::ScalarType by DType.
constexpr int32_t kTorchTypes[kNumDTypes] = {11, 0, 1, 2, 3, 4, 5, 15, 6, 7};

// As c10 counts them; the CPU has no index.
int32_t device_type(Device device) { return device.type == DeviceType::kCUDA ? 1 : 0; }
int32_t device_index(Device device) { return device.type == DeviceType::kCUDA ? device.index : -1; }

class TorchTensor {
 public:
  TorchTensor() = default;
  TorchTensor(const Shim& torch, const TensorView& view) : torch_(&torch) {
    const bool is_empty = std::find(view.sizes, view.sizes + view.rank, 0) != view.sizes + view.rank;
    if (is_empty && torch.empty_strided) {  // there is no memory that it could be over
      if (torch.empty_strided(view.rank, view.sizes, view.strides, kTorchTypes[static_cast<int>(view.dtype)],
                              device_type(view.device), device_index(view.device), &handle_) != 0)
        handle_ = nullptr;
      return;
    }
    if (torch.create_tensor_from_blob(view.data, view.rank, view.sizes, view.strides, 0,
                                      kTorchTypes[static_cast<int>(view.dtype)], device_type(view.device),
                                      device_index(view.device), &handle_, 0, nullptr, 0) != 0)
      handle_ = nullptr;
  }
  TorchTensor(const Shim& torch, Handle handle) : torch_(&torch), handle_(handle) {}
  TorchTensor(TorchTensor&& other) noexcept : torch_(other.torch_), handle_(other.release()) {}
  TorchTensor& operator=(TorchTensor&& other) noexcept {
    std::swap(torch_, other.torch_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~TorchTensor() {
    if (handle_) torch_->delete_tensor(handle_);
  }
  Handle get() const { return handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  const Shim* torch_ = nullptr;
  Handle handle_ = nullptr;
};

// Copies a fresh tensor of PyTorch's into planned memory.
bool copy_result(const Shim& torch, Handle result, const TensorView& output) {
  if (output.device.type == DeviceType::kCUDA) {
    TorchTensor to(torch, output);
    return to.get() && torch.copy(to.get(), result, 1) == 0;
  }
  TensorView view{.rank = output.rank, .dtype = output.dtype};
  int64_t *sizes = nullptr, *strides = nullptr, rank = 0;
  if (torch.get_data_ptr(result, &view.data) || torch.get_dim(result, &rank) ||
      torch.get_sizes(result, &sizes) || torch.get_strides(result, &strides))
    return false;
  if (rank != output.rank || std::memcmp(sizes, output.sizes, sizeof(int64_t) * rank) != 0) return false;
  view.sizes = sizes;
  view.strides = strides;
  bool same_strides = true;
  for (int d = 0; d < output.rank; ++d)
    same_strides &= output.sizes[d] == 1 || strides[d] == output.strides[d];
  int64_t span = 1;
  for (int d = 0; d < output.rank; ++d) span += (output.sizes[d] - 1) * output.strides[d];
  if (same_strides && span == count_elements(output)) {
    const int64_t size = span * bytes(output.dtype);
    parallel_for(size, 1 << 18, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(output.data) + begin, static_cast<char*>(view.data) + begin,
                  end - begin);
    });
  } else if (output.dtype == DType::kF64 || is_integer(output.dtype)) {
    std::vector<double> values(span);
    values.resize(count_elements(output));
    read_dense(view, values.data());
    write_dense(output, values.data());
  } else {
    std::vector<float> values(count_elements(output));
    read_dense(view, values.data());
    write_dense(output, values.data());
  }
  return true;
}

void free_tensor(void* handle) {
  static const auto free =
      reinterpret_cast<Status (*)(Handle)>(find_process_symbol("aoti_torch_delete_tensor_object"));
  free(handle);
}

// `exactly`: along dims of one element too.
bool has_layout(const Shim& torch, Handle tensor, const TensorView& wanted, bool exactly) {
  int64_t *sizes = nullptr, *strides = nullptr, rank = 0;
  if (torch.get_dim(tensor, &rank) || torch.get_sizes(tensor, &sizes) ||
      torch.get_strides(tensor, &strides) || rank != wanted.rank)
    return false;
  for (int d = 0; d < wanted.rank; ++d)
    if (sizes[d] != wanted.sizes[d] || ((exactly || sizes[d] != 1) && strides[d] != wanted.strides[d]))
      return false;
  return true;
}

// A fresh tensor; null where PyTorch refuses.
TorchTensor empty_like(const Shim& torch, const TensorView& view) {
  Handle handle = nullptr;
  if (!torch.empty_strided ||
      torch.empty_strided(view.rank, view.sizes, view.strides, kTorchTypes[static_cast<int>(view.dtype)],
                          device_type(view.device), device_index(view.device), &handle) != 0)
    return {};
  return {torch, handle};
}

// The same memory with the view's sizes and strides; null where PyTorch refuses.
TorchTensor reinterpreted(const Shim& torch, const TorchTensor& tensor, int64_t rank, const int64_t* sizes,
                          const int64_t* strides) {
  Handle handle = nullptr;
  if (!torch.reinterpret || torch.reinterpret(tensor.get(), rank, sizes, strides, 0, &handle) != 0) return {};
  return {torch, handle};
}

// A fresh tensor of PyTorch's as the call's `i`-th result: as it is where the call brings its memory, else copied into what is
// planned.
bool deliver(const Shim& torch, TorchTensor result, const LibraryArgs& args, int i = 0) {
  const TensorView& output = args.output(i);
  if (!args.brings(i)) return copy_result(torch, result.get(), output);
  if (!has_layout(torch, result.get(), output, true) && has_layout(torch, result.get(), output, false)) {
    result = reinterpreted(torch, result, output.rank, output.sizes, output.strides);
    if (!result.get()) return false;
  }
  if (!has_layout(torch, result.get(), output, true)) {
    TorchTensor copy = empty_like(torch, output);
    if (!copy.get() || torch.copy(copy.get(), result.get(), 1) != 0) return false;
    result = std::move(copy);
  }
  void* data = nullptr;
  if (torch.get_data_ptr(result.get(), &data) != 0) return false;
  *args.brings(i) = BroughtMemory(data, result.release(), BroughtMemory::kHandle, free_tensor);
  return true;
}

}  // namespace

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

namespace {

// (B, H, L, E) as its kernels have it, (B, L, H, E), without a copy where numbers of a head follow each other.
struct Heads {
  Heads(const Shim& torch, const TensorView& view) {
    const int64_t sizes[4] = {view.sizes[0], view.sizes[2], view.sizes[1], view.sizes[3]},
                  strides[4] = {view.strides[0], view.strides[2], view.strides[1], view.strides[3]};
    TensorView turned = view;
    turned.sizes = sizes;
    turned.strides = strides;
    tensor = TorchTensor(torch, turned);
    if (strides[3] == 1 || !tensor.get()) return;
    const int64_t dense[4] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    turned.strides = dense;
    TorchTensor copy = empty_like(torch, turned);
    if (copy.get() && torch.copy(copy.get(), tensor.get(), 1) == 0) tensor = std::move(copy);
  }
  Handle get() const { return tensor.get(); }
  // Back to (B, H, L, E).
  static TorchTensor result(const Shim& torch, TorchTensor turned) {
    int64_t *sizes = nullptr, *strides = nullptr;
    if (!turned.get() || torch.get_sizes(turned.get(), &sizes) || torch.get_strides(turned.get(), &strides))
      return {};
    const int64_t to_sizes[4] = {sizes[0], sizes[2], sizes[1], sizes[3]},
                  to_strides[4] = {strides[0], strides[2], strides[1], strides[3]};
    return reinterpreted(torch, turned, 4, to_sizes, to_strides);
  }
  TorchTensor tensor;
};

}  // namespace

bool torch_efficient_attention(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  if (!torch || !torch->efficient_attention || args.operands[3].data) return false;
  // The function turns its operands itself.
  Heads query(*torch, args.operands[0]), key(*torch, args.operands[1]), value(*torch, args.operands[2]);
  TorchTensor turned[3] = {Heads::result(*torch, std::move(query.tensor)),
                           Heads::result(*torch, std::move(key.tensor)),
                           Heads::result(*torch, std::move(value.tensor))};
  if (!turned[0].get() || !turned[1].get() || !turned[2].get()) return false;
  const TensorView& rows = args.output(1);
  double scale = args.numbers[0];
  Handle results[4] = {};
  if (torch->efficient_attention(turned[0].get(), turned[1].get(), turned[2].get(), nullptr,
                                 rows.data || args.brings(1), 0.0, args.integers[0] != 0, &scale, &results[0],
                                 &results[1], &results[2], &results[3]) != 0)
    return false;
  TorchTensor out(*torch, results[0]), logsumexp(*torch, results[1]), seed(*torch, results[2]),
      offset(*torch, results[3]);
  if ((rows.data || args.brings(1)) && !deliver(*torch, std::move(logsumexp), args, 1)) return false;
  return deliver(*torch, std::move(out), args, 0);
}

bool torch_efficient_attention_backward(const LibraryArgs& args) {
  const TensorView* operands = args.operands;  // gradient, query, key, value, mask, output, log-sum-exp
  const Shim* torch = shim(operands[0]);
  if (!torch || !torch->efficient_attention_backward || operands[4].data) return false;
  Heads grad(*torch, operands[0]), query(*torch, operands[1]), key(*torch, operands[2]),
      value(*torch, operands[3]), out(*torch, operands[5]);
  TorchTensor logsumexp(*torch, operands[6]);
  // State of random numbers, which nothing reads without dropout.
  const TensorView number{.rank = 0, .dtype = DType::kI64, .device = operands[0].device};
  TorchTensor state = empty_like(*torch, number);
  if (!grad.get() || !query.get() || !key.get() || !value.get() || !out.get() || !logsumexp.get() ||
      !state.get())
    return false;
  constexpr int64_t kNoMask = 0, kCausal = 1;  // sdp::CustomMaskType
  double scale = args.numbers[0];
  Handle results[4] = {};
  if (torch->efficient_attention_backward(
          grad.get(), query.get(), key.get(), value.get(), nullptr, out.get(), nullptr, nullptr,
          operands[1].sizes[2], operands[2].sizes[2], logsumexp.get(), 0.0, state.get(), state.get(),
          args.integers[0] != 0 ? kCausal : kNoMask, 0, &scale, nullptr, nullptr, 0, &results[0], &results[1],
          &results[2], &results[3]) != 0)
    return false;
  TorchTensor owners[4];
  for (int i = 0; i < 4; ++i) owners[i] = TorchTensor(*torch, results[i]);
  for (int i = 0; i < 3; ++i) {
    if (!args.output(i).data && !args.brings(i)) continue;
    TorchTensor gradient = Heads::result(*torch, std::move(owners[i]));
    if (!gradient.get() || !deliver(*torch, std::move(gradient), args, i)) return false;
  }
  return true;
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
  if (!target.get() ||
      torch->empty_strided(out.rank, out.sizes, out.strides, kTorchTypes[static_cast<int>(dtype)],
                           device_type(out.device), device_index(out.device), &like) != 0)
    return false;
  uint64_t stack[3] = {std::bit_cast<uint64_t>(like), std::bit_cast<uint64_t>(p), 0};
  if (torch->call_dispatcher("aten::native_dropout", "", stack) != 0) return false;
  TorchTensor dropped(*torch, std::bit_cast<Handle>(stack[0])), mask(*torch, std::bit_cast<Handle>(stack[1]));
  return torch->copy(target.get(), mask.get(), 1) == 0;
}

bool torch_random(const Distribution& row, const TensorView& out, const TensorView& probabilities,
                  const double* parameters) {
  const Shim* torch = shim(out);
  if (!torch || !torch->call_dispatcher) return false;
  TorchTensor target(*torch, out);
  TorchTensor chances = row.probabilities ? TorchTensor(*torch, probabilities) : TorchTensor();
  if (!target.get() || (row.probabilities && !chances.get())) return false;
  uint64_t stack[4] = {}, *top = stack;  // what is left 0: no generator
  *top++ = std::bit_cast<uint64_t>(target.release());
  if (row.probabilities) *top++ = std::bit_cast<uint64_t>(chances.release());
  for (int i = 0; i < row.parameters; ++i)
    *top++ = row.integer ? static_cast<uint64_t>(static_cast<int64_t>(parameters[i]))
                         : std::bit_cast<uint64_t>(parameters[i]);
  if (torch->call_dispatcher(row.op, row.overload, stack) != 0) return false;
  TorchTensor result(*torch, std::bit_cast<Handle>(stack[0]));
  return true;
}

}  // namespace cdynamo::runtime
