#include "runtime/cuda/cuda_executable.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/cuda/torch_memory.h"
#include "runtime/plan_step.h"

namespace cdynamo::runtime::cuda {
namespace {

constexpr int64_t kLargestArena = int64_t{1} << 46;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
constexpr int kMostParameters = 48;

// Memory of the host that kernels write an error to. It is looked at when the next call begins: nothing waits for a kernel.
class ErrorSlot {
 public:
  explicit ErrorSlot(const DeviceInfo& device) {
    const CurrentContext current(device.context);
    void* host = nullptr;
    constexpr unsigned kPortable = 1, kMapped = 2;
    check(find_driver()->mem_host_alloc(&host, 64, kPortable | kMapped), "taking memory for kernels' errors");
    codes_ = static_cast<int64_t*>(host);
    std::fill_n(codes_, 3, int64_t{0});
    check(find_driver()->mem_host_get_device_pointer(&address_, host, 0),
          "mapping memory for kernels' errors");
  }
  DevicePointer address() const { return address_; }
  // The codes that were written since the last time.
  bool take(int64_t* codes) {
    std::atomic_ref<int64_t> kind(codes_[0]);
    if (kind.load(std::memory_order_acquire) == 0) return false;
    std::copy_n(codes_, 3, codes);
    kind.store(0);
    return true;
  }

 private:
  int64_t* codes_ = nullptr;  // for ever: kernels that are under way write to it
  DevicePointer address_ = 0;
};

ErrorSlot& error_slot(const DeviceInfo& device) {
  static auto* slot = new ErrorSlot(device);  // portable: one for all devices
  return *slot;
}

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(Plan plan, int device_index, const DeviceInfo& device)
      : plan_(std::move(plan)), device_index_(device_index), device_(device), driver_(*find_driver()) {
    is_static_ = std::all_of(plan_.sizes.begin(), plan_.sizes.end(),
                             [](const SizeExpr& size) { return size.is_constant(); });
    for (const SizeExpr& size : plan_.sizes) static_sizes_.push_back(size.constant);
    std::vector<int> segment_of(plan_.steps.size());
    for (size_t i = 0; i < segment_of.size(); ++i) segment_of[i] = static_cast<int>(i);
    lives_ = find_lives(plan_, segment_of);
    for (const PlanStep& step : plan_.steps) may_fail_ |= step.launch.block.takes_error;
    if (may_fail_) error_slot(device);
    // The host's part is microseconds, but what the framework does in its calls may wait for the device.
    takes_long =
        std::ranges::any_of(plan_.steps, [](const PlanStep& step) { return step.library != nullptr; });
  }

  bool run(const Call& call, RunError* error) override {
    try {
      const CurrentContext current(device_.context);
      return run_steps(call, error);
    } catch (const CudaError& failure) {
      *error = {failure.code == kOutOfMemory ? RunError::kMemoryError : RunError::kRuntimeError,
                failure.message};
      return false;
    }
  }

 private:
  bool run_steps(const Call& call, RunError* error) const {
    int64_t codes[3];
    if (may_fail_ && error_slot(device_).take(codes)) {
      index_error(codes, error);
      error->message += " (in an earlier call of a compiled function: kernels on a GPU run on by themselves)";
      error->of_earlier_call = true;
      return false;
    }
    absl::InlinedVector<int64_t, 128> dynamic_sizes;
    const int64_t* sizes = static_sizes_.data();
    if (!is_static_) {
      for (const SizeExpr& size : plan_.sizes) dynamic_sizes.push_back(size.evaluate(call.symbols));
      sizes = dynamic_sizes.data();
    }
    const int64_t arena_bytes = plan_.arena_bytes < 0 ? 0 : sizes[plan_.arena_bytes];
    if (arena_bytes < 0 || arena_bytes > kLargestArena) return out_of_memory(error);
    const DeviceBlock arena(static_cast<size_t>(arena_bytes));
    if (arena_bytes > 0 && !arena.data()) return out_of_memory(error);
    absl::InlinedVector<void*, 96> pointers(plan_.buffers.size());
    for (size_t i = 0; i < pointers.size(); ++i)
      pointers[i] = pointer(plan_.buffers[i], call, sizes, arena.data());
    const Stream stream = current_stream(device_index_);
    const Device device{DeviceType::kCUDA, static_cast<int8_t>(device_index_)};
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (call.memory)
        for (int buffer : lives_[i].first_writes) {
          pointers[buffer] = call.memory->allocate(call.memory->context, plan_.buffers[buffer].index);
          if (!pointers[buffer]) return out_of_memory(error);
        }
      if (step.library) {
        if (!run_library_step(step, device, sizes, pointers.data(), call.library, error)) return false;
      } else if (!launch(step, sizes, call.symbols, pointers.data(), stream, error)) {
        return false;
      }
      if (call.memory)
        for (int buffer : lives_[i].last_reads)
          call.memory->release(call.memory->context, plan_.buffers[buffer].index);
    }
    return true;
  }

  void* pointer(const PlanBuffer& buffer, const Call& call, const int64_t* sizes, char* arena) const {
    void* data = nullptr;
    switch (buffer.where) {
      case PlanBuffer::kInput: data = call.inputs[buffer.index].data; break;
      case PlanBuffer::kOutput: data = call.memory ? nullptr : call.outputs[buffer.index]; break;
      case PlanBuffer::kArena: data = arena ? arena + sizes[buffer.offset] : nullptr; break;
    }
    return data ? data : reinterpret_cast<void*>(device_.nothing);
  }

  bool launch(const PlanStep& step, const int64_t* sizes, const int64_t* symbols, void* const* pointers,
              Stream stream, RunError* error) const {
    const BlockShape& block = step.launch.block;
    const int64_t blocks = sizes[step.launch.items];
    if (blocks <= 0) return true;
    if (blocks > kMostBlocks) {
      *error = {RunError::kRuntimeError, "a kernel over more points than a GPU has blocks"};
      return false;
    }
    DeviceBlock scratch;
    if (block.takes_scratch) {
      scratch = DeviceBlock(static_cast<size_t>(sizes[step.launch.scratch_bytes] * blocks));
      if (!scratch.data()) return out_of_memory(error);
    }
    absl::InlinedVector<uint64_t, kMostParameters> values;
    for (int buffer : step.buffers) values.push_back(reinterpret_cast<uint64_t>(pointers[buffer]));
    for (int symbol : block.symbols) values.push_back(static_cast<uint64_t>(symbols[symbol]));
    if (block.takes_scratch) values.push_back(reinterpret_cast<uint64_t>(scratch.data()));
    if (block.takes_error) values.push_back(error_slot(device_).address());
    absl::InlinedVector<void*, kMostParameters> parameters;
    for (uint64_t& value : values) parameters.push_back(&value);
    const auto function = static_cast<Function>(const_cast<void*>(step.launch.code));
    check(driver_.launch_kernel(
              function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(block.threads), 1, 1,
              static_cast<unsigned>(block.shared_bytes), stream, parameters.data(), nullptr),
          "launching a kernel");
    return true;
  }

  const Plan plan_;
  const int device_index_;
  const DeviceInfo& device_;
  const Driver& driver_;
  bool is_static_ = false, may_fail_ = false;
  std::vector<int64_t> static_sizes_;
  std::vector<StepLives> lives_;  // of each step
};

}  // namespace

std::unique_ptr<Executable> make_cuda_executable(Plan plan, int device_index, const DeviceInfo& device) {
  return std::make_unique<CudaExecutable>(std::move(plan), device_index, device);
}

}  // namespace cdynamo::runtime::cuda
