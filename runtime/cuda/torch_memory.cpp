#include "runtime/cuda/torch_memory.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
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

thread_local Recording* current_recording = nullptr;

// NVIDIA's libraries read this as they start, and use TF32 nowhere then.
bool tf32_is_switched_off() {
  static const bool off = [] {
    const char* setting = std::getenv("NVIDIA_TF32_OVERRIDE");
    return setting && std::string_view(setting) == "0";
  }();
  return off;
}

}  // namespace

ContextFlag::ContextFlag(const char* symbol) {
  bind(context_, "_ZN2at13globalContextEv");
  bind(ask_, symbol);
}

bool framework_is_deterministic() {
  return ContextFlag("_ZNK2at7Context23deterministicAlgorithmsEv").is_set(/*otherwise=*/true);
}

bool products_use_tf32() {
  static const ContextFlag flag("_ZNK2at7Context15allowTF32CuBLASEv");
  return flag.is_set(false) && !tf32_is_switched_off();
}

bool may_use_efficient_attention() {
  static const ContextFlag flag("_ZNK2at7Context26userEnabledMemEfficientSDPEv");
  return flag.is_set(false);
}

bool convolutions_use_tf32() {
  using GlobalContext = void* (*)();
  using Allows = bool (*)(const void*, std::optional<int>);
  GlobalContext context = nullptr;
  Allows allows = nullptr;
  bind(context, "_ZN2at13globalContextEv");
  bind(allows, "_ZNK2at7Context14allowTF32CuDNNESt8optionalINS_9Float32OpEE");
  constexpr int kConvolution = 1;  // at::Float32Op
  return context && allows && allows(context(), kConvolution) && !tf32_is_switched_off();
}

Recording* Recording::current() { return current_recording; }

Recording::Recording(Stream recorded_on, Stream replayed_on)
    : stream_(recorded_on), blocks_([&]() -> std::vector<Block>& {
        static auto* blocks = new std::map<Stream, std::vector<Block>>;
        return (*blocks)[replayed_on];
      }()) {
  current_recording = this;
}
Recording::~Recording() { current_recording = nullptr; }

// Blocks that were given back serve again: launches run one after the other.
char* Recording::take(size_t bytes) {
  for (Block& block : blocks_)
    if (!block.taken && block.bytes >= bytes) {
      block.taken = true;
      return block.memory.data();
    }
  current_recording = nullptr;
  Block block{DeviceBlock(bytes), bytes, true};
  current_recording = this;
  char* data = block.memory.data();
  if (data) blocks_.push_back(std::move(block));
  return data;
}

void Recording::give_back(const char* data) {
  for (Block& block : blocks_)
    if (block.memory.data() == data) block.taken = false;
}

Stream current_stream(int device_index) {
  if (current_recording) return current_recording->stream();
  void* stream = nullptr;
  if (torch_cuda().get_current_stream(device_index, &stream) != 0)
    throw CudaError(1, "PyTorch has no current stream for the device");
  return static_cast<Stream>(stream);
}

DeviceBlock::DeviceBlock(size_t bytes) : recording_(current_recording) {
  if (recording_) {
    if (bytes > 0) data_ = recording_->take(bytes);
    return;
  }
  void* data = nullptr;
  if (bytes > 0 && torch_cuda().raw_alloc(bytes, &data) == 0) data_ = static_cast<char*>(data);
}

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(recording_, other.recording_);
  return *this;
}

void DeviceBlock::free() {
  if (data_ && recording_) return recording_->give_back(std::exchange(data_, nullptr));
  if (data_) torch_cuda().raw_delete(std::exchange(data_, nullptr));
}

}  // namespace cdynamo::runtime::cuda
