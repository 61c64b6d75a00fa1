#include "runtime/library/torch_handles.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"

namespace cdynamo::runtime::torch_handles {
namespace {

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
    bind(result.sdpa_efficient_backward, "aoti_torch_cuda__scaled_dot_product_efficient_attention_backward");
    bind(result.sdpa_flash, "aoti_torch_cuda__scaled_dot_product_flash_attention");
    bind(result.sdpa_flash_backward, "aoti_torch_cuda__scaled_dot_product_flash_attention_backward");
    bind(result.undefined_tensor, "aoti_torch_new_uninitialized_tensor");
  }
  bind(result.copy, "aoti_torch_copy_");
  bind(result.reinterpret, "aoti_torch__reinterpret_tensor");
  bind(result.empty_strided, "aoti_torch_empty_strided");
  bind(result.call_dispatcher, "aoti_torch_call_dispatcher");
  bind(result.new_generator, "torch_new_generator_handle");
  return result;
}

template <DeviceType device>
const Shim& bound_shim() {
  static const Shim bound = bind_shim(device);
  return bound;
}

// c10::ScalarType by DType.
constexpr int32_t kTorchTypes[kNumDTypes] = {11, 0, 1, 2, 3, 4, 5, 15, 6, 7, 27, 28, 29};

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

}  // namespace

const Shim* shim(const TensorView& operand) {
  const bool cuda = operand.device.type == DeviceType::kCUDA;
  static std::atomic<const Shim*> known[2] = {};
  if (const Shim* found = known[cuda].load(std::memory_order_acquire)) return found;
  if (!find_process_symbol(cuda ? "aoti_torch_cuda_convolution" : "aoti_torch_cpu_convolution"))
    return nullptr;
  const Shim& bound = cuda ? bound_shim<DeviceType::kCUDA>() : bound_shim<DeviceType::kCPU>();
  if (!bound.complete() || (cuda && !bound.copy)) return nullptr;
  known[cuda].store(&bound, std::memory_order_release);
  return &bound;
}

int32_t scalar_type(DType dtype) { return kTorchTypes[static_cast<int>(dtype)]; }
// As c10 counts them; the CPU has no index.
int32_t device_type(Device device) { return device.type == DeviceType::kCUDA ? 1 : 0; }
int32_t device_index(Device device) { return device.type == DeviceType::kCUDA ? device.index : -1; }

TorchTensor::TorchTensor(const Shim& torch, const TensorView& view) : torch_(&torch) {
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

TorchTensor empty_like(const Shim& torch, const TensorView& view) {
  Handle handle = nullptr;
  if (!torch.empty_strided ||
      torch.empty_strided(view.rank, view.sizes, view.strides, kTorchTypes[static_cast<int>(view.dtype)],
                          device_type(view.device), device_index(view.device), &handle) != 0)
    return {};
  return {torch, handle};
}

TorchTensor reinterpreted(const Shim& torch, const TorchTensor& tensor, int64_t rank, const int64_t* sizes,
                          const int64_t* strides) {
  Handle handle = nullptr;
  if (!torch.reinterpret || torch.reinterpret(tensor.get(), rank, sizes, strides, 0, &handle) != 0) return {};
  return {torch, handle};
}

bool deliver(const Shim& torch, TorchTensor result, const LibraryArgs& args, int i) {
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

}  // namespace cdynamo::runtime::torch_handles
