// The part of libtorch that tensor_access reaches: symbols found with dlsym, and facts found by probing.
// Internal to symbolic/; what others call is in tensor_access.h.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/types.h"

namespace cdynamo::symbolic::torch_access {

// An at::Tensor: one pointer to a TensorImpl.
using TensorHandle = void*;

struct SizeSpan {
  const int64_t* data;
  size_t size;
};
// What at::detail functions return: through memory, as C++ does for a class with a destructor. It is handed
// on to THPVariable_Wrap(TensorBase&&), which leaves nothing behind to release.
struct OwnedTensor {
  void* impl;
  OwnedTensor(const OwnedTensor&) = delete;
  ~OwnedTensor() {}
};

// torch::autograd::Edge, a place in autograd's graph: returned and passed through memory. Whoever is given one moves from it and leaves
// nothing to release.
struct GradientEdge {
  alignas(8) unsigned char content[32];
  GradientEdge(const GradientEdge&) = delete;
  ~GradientEdge() {}
};

// std::optional<c10::SymInt>, which is passed by address.
struct OptionalSize {
  int64_t value;
  bool has_value;
};

// std::optional<c10::MemoryFormat>, which is passed by value.
struct OptionalFormat {
  int8_t format;
  bool has_value;
};

// std::optional<c10::Device>, which is passed by value.
struct OptionalDevice {
  int8_t type, index;
  bool has_value;
};

// std::optional of a pair of c10::SafePyObject, which is returned through memory.
struct SavedTensorHooks {
  PyObject* pack;
  void* interpreter_of_pack;
  PyObject* unpack;
  void* interpreter_of_unpack;
  bool has_value;
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  ~SavedTensorHooks() {
    if (!has_value) return;
    Py_XDECREF(pack);
    Py_XDECREF(unpack);
  }
};

struct DispatchKeyState {
  uint64_t included, excluded;
};

struct Api {
  // AOTInductor's C shim; each returns 0 on success.
  int32_t (*get_data_ptr)(TensorHandle, void**);
  int32_t (*get_dim)(TensorHandle, int64_t*);
  int32_t (*get_sizes)(TensorHandle, int64_t**);
  int32_t (*get_strides)(TensorHandle, int64_t**);
  int32_t (*get_dtype)(TensorHandle, int32_t*);
  int32_t (*get_device_type)(TensorHandle, int32_t*);
  int32_t (*get_device_index)(TensorHandle, int32_t*);
  int32_t (*get_storage_offset)(TensorHandle, int64_t*);
  int32_t (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, TensorHandle*);
  int32_t (*delete_tensor)(TensorHandle);
  // C++ symbols.
  PyObject* (*wrap)(const void* tensor);    // THPVariable_Wrap
  bool (*requires_grad)(const void* impl);  // c10::TensorImpl::requires_grad
  bool (*grad_mode)();
  bool (*inference_mode)();
  int8_t (*default_dtype)();
  void* (*global_context)();
  bool (*deterministic)(const void* context);
  bool (*deterministic_warn_only)(const void* context);
  int64_t (*function_mode_count)();
  int32_t (*function_disabled)();
  // Optional, together: a shorter way to a new CPU tensor. at::detail::empty_strided_cpu and
  // THPVariable_Wrap(TensorBase&&).
  OwnedTensor (*empty_strided_cpu)(SizeSpan, SizeSpan, int8_t, bool) = nullptr;
  OwnedTensor (*empty_cpu)(SizeSpan, int8_t, bool, OptionalFormat) = nullptr;  // the shortest, if contiguous
  // Optional, once there has been a tensor of a GPU: the same of one, at::detail::empty_strided_cuda.
  OwnedTensor (*empty_strided_cuda)(SizeSpan, SizeSpan, int8_t, OptionalDevice) = nullptr;
  PyObject* (*wrap_moved)(OwnedTensor&) = nullptr;
  // Optional: at::_ops::as_strided::call. A SymInt that is a plain number has the number's bits.
  OwnedTensor (*as_strided)(const void* tensor, SizeSpan, SizeSpan, const OptionalSize*) = nullptr;

  // Optional, together: torch::autograd::impl's.
  GradientEdge (*gradient_edge)(const void* tensor) = nullptr;
  void (*set_gradient_edge)(const void* tensor, GradientEdge&) = nullptr;
  // Optional, together (from 2.13 on): torch::autograd::impl::grad_fn_unsafe, null for a leaf, and Node::task_should_compute_output.
  const void* (*node_behind)(const void* tensor) = nullptr;
  bool (*engine_goes_along)(const void* node, size_t edge) = nullptr;

  // Optional: a tensor over memory that somebody else owns (aoti_torch_create_tensor_from_blob_v2).
  int32_t (*tensor_from_memory)(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                                int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                TensorHandle* result, int32_t layout, const uint8_t* opaque,
                                int64_t opaque_size) = nullptr;

  // Optional, together: at::autocast's state, by c10::DeviceType.
  bool (*autocast_enabled)(int8_t device) = nullptr;
  void (*set_autocast_enabled)(int8_t device, bool) = nullptr;
  int8_t (*autocast_dtype)(int8_t device) = nullptr;
  bool (*autocast_cache)() = nullptr;
  int8_t (*current_device)() = nullptr;  // c10::cuda's, where there are several

  // Optional, together: at::NamesMode.
  bool (*names_enabled)() = nullptr;
  void (*set_names_enabled)(bool) = nullptr;

  // Optional, together: at::SavedTensorDefaultHooks'.
  SavedTensorHooks (*saved_tensor_hooks)(bool even_when_tracing) = nullptr;
  bool (*saved_tensor_hooks_enabled)() = nullptr;

  void* context = nullptr;  // at::globalContext()
  void* libc10 = nullptr;
  PyTypeObject* tensor_type = nullptr;
  PyTypeObject* parameter_type = nullptr;
  PyObject* dtypes[runtime::kNumDTypes] = {};
  int key_set_offset = -1;            // of the dispatch keys in a TensorImpl, found by probing
  uint64_t plain_keys = 0;            // dispatch keys of a plain strided CPU tensor,
  uint64_t inference_keys = 0;        // and of one made under inference mode
  DispatchKeyState inference_mask{};  // how inference mode changes the thread's dispatch keys
  // The same of tensors of a GPU, once there has been one: 0 before.
  uint64_t cuda_keys = 0, cuda_inference_keys = 0;
  // By kCpu and kCuda: the bit of DispatchKeyState::excluded that is set while autocast of that device is on; 0: unknown.
  std::array<uint64_t, 2> autocast_keys{};

  uint64_t names_key = 0;  // excluded while dimensions' names are not looked at; 0: unknown
};

inline constexpr int8_t kCpu = 0, kCuda = 1;  // c10::DeviceType

// Null where torch is not loaded, or is one whose layout does not answer as expected.
extern const Api* known_api;  // null: not looked for yet, or not there
const Api* find_api();
inline const Api* api() { return known_api ? known_api : find_api(); }
// torch.Tensor as soon as it exists, also where api() is null.
PyTypeObject* tensor_type();

inline constexpr int kScalarTypes[runtime::kNumDTypes] = {11, 0, 1, 2,  3,  4, 5,
                                                          15, 6, 7, 27, 28, 29};  // c10::ScalarType by DType
// Finds Api::cuda_keys, when a tensor of a GPU is first met. False where that is none that cdynamo knows.
bool probe_cuda();
bool dtype_of_scalar_type(int scalar_type, runtime::DType* dtype);

inline TensorHandle handle(PyObject* tensor) { return reinterpret_cast<char*>(tensor) + sizeof(PyObject); }
inline const char* impl(PyObject* tensor) { return *reinterpret_cast<const char**>(handle(tensor)); }
inline uint64_t key_set(const Api& api, PyObject* tensor) {
  return *reinterpret_cast<const uint64_t*>(impl(tensor) + api.key_set_offset);
}
// This thread's dispatch keys, changed against the defaults.
DispatchKeyState thread_keys(const Api& api);

}  // namespace cdynamo::symbolic::torch_access
