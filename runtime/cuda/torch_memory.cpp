#include "runtime/cuda/torch_memory.h"

#include <utility>

#include "runtime/host/parallel.h"

namespace cdynamo::runtime::cuda {
namespace {

// torch/csrc/inductor/aoti_torch/c/shim.h
struct TorchCuda {
  int32_t (*get_current_stream)(int32_t device_index, void** stream) = nullptr;
  int32_t (*raw_alloc)(uint64_t bytes, void** data) = nullptr;
  int32_t (*raw_delete)(void* data) = nullptr;
};

template <typename F>
void bind(F& function, const char* name) {
  function = reinterpret_cast<F>(find_process_symbol(name));
}

const TorchCuda& torch_cuda() {
  static const TorchCuda* bound = [] {
    auto* table = new TorchCuda;
    bind(table->get_current_stream, "aoti_torch_get_current_cuda_stream");
    bind(table->raw_alloc, "aoti_torch_cuda_caching_allocator_raw_alloc");
    bind(table->raw_delete, "aoti_torch_cuda_caching_allocator_raw_delete");
    return table;
  }();
  if (!bound->get_current_stream || !bound->raw_alloc || !bound->raw_delete)
    throw CudaError(1, "this PyTorch does not export its CUDA stream and allocator");
  return *bound;
}

}  // namespace

Stream current_stream(int device_index) {
  void* stream = nullptr;
  if (torch_cuda().get_current_stream(device_index, &stream) != 0)
    throw CudaError(1, "PyTorch has no current stream for the device");
  return static_cast<Stream>(stream);
}

DeviceBlock::DeviceBlock(size_t bytes) {
  void* data = nullptr;
  if (bytes > 0 && torch_cuda().raw_alloc(bytes, &data) == 0) data_ = static_cast<char*>(data);
}

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

void DeviceBlock::free() {
  if (data_) torch_cuda().raw_delete(std::exchange(data_, nullptr));
}

}  // namespace cdynamo::runtime::cuda
