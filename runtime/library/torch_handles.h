// Tensors of PyTorch's C interface (AOTInductor's shim), and its functions, found in the process at first use. Internal to
// runtime/library.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/library/library.h"

namespace cdynamo::runtime::torch_handles {

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
  Status (*sdpa_efficient_backward)(Handle grad, Handle query, Handle key, Handle value, Handle bias,
                                    Handle out, Handle logsumexp, Handle seed, Handle offset, double dropout,
                                    const int32_t* wanted, int64_t num_wanted, int32_t is_causal,
                                    double* scale, Handle* query_grad, Handle* key_grad, Handle* value_grad,
                                    Handle* bias_grad) = nullptr;
  Status (*sdpa_flash)(Handle query, Handle key, Handle value, double dropout, int32_t is_causal,
                       int32_t debug_mask, double* scale, Handle* result, Handle* logsumexp,
                       Handle* query_starts, Handle* key_starts, int64_t* longest_query, int64_t* longest_key,
                       Handle* random_state, Handle* unused, Handle* mask) = nullptr;
  Status (*sdpa_flash_backward)(Handle grad, Handle query, Handle key, Handle value, Handle out,
                                Handle logsumexp, Handle query_starts, Handle key_starts,
                                int64_t longest_query, int64_t longest_key, double dropout, int32_t is_causal,
                                Handle random_state, Handle unused, double* scale, Handle* query_grad,
                                Handle* key_grad, Handle* value_grad) = nullptr;
  Status (*undefined_tensor)(Handle* result) = nullptr;
  Status (*copy)(Handle self, Handle from, int32_t non_blocking) = nullptr;
  Status (*reinterpret)(Handle self, int64_t rank, const int64_t* sizes, const int64_t* strides,
                        int64_t offset, Handle* result) = nullptr;
  Status (*empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                          int32_t device_type, int32_t device_index, Handle* result) = nullptr;
  // The dispatcher takes over the tensors on the stack, and leaves a new handle for the result.
  Status (*call_dispatcher)(const char* op, const char* overload, uint64_t* stack) = nullptr;
  Status (*new_generator)(Handle generator, Handle* result) = nullptr;
  bool complete() const {
    return create_tensor_from_blob && delete_tensor && get_data_ptr && get_sizes && get_strides && get_dim &&
           convolution;
  }
};

// Null while PyTorch is not in the process; it may come later.
const Shim* shim(const TensorView& operand);

class TorchTensor {
 public:
  TorchTensor() = default;
  // Over the view's memory.
  TorchTensor(const Shim& torch, const TensorView& view);
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
bool copy_result(const Shim& torch, Handle result, const TensorView& output);
// A fresh tensor; null where PyTorch refuses.
TorchTensor empty_like(const Shim& torch, const TensorView& view);
// The same memory with the view's sizes and strides; null where PyTorch refuses.
TorchTensor reinterpreted(const Shim& torch, const TorchTensor& tensor, int64_t rank, const int64_t* sizes,
                          const int64_t* strides);
// A fresh tensor of PyTorch's as the call's `i`-th result: as it is where the call brings its memory, else copied into what is
// planned.
bool deliver(const Shim& torch, TorchTensor result, const LibraryArgs& args, int i = 0);

// c10::ScalarType of a DType; device type and index as c10 counts them.
int32_t scalar_type(DType dtype);
int32_t device_type(Device device);
int32_t device_index(Device device);

}  // namespace cdynamo::runtime::torch_handles
