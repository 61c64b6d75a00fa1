#include "runtime/cuda/transfer.h"

#include <cstdlib>
#include <cstring>

#include "runtime/cuda/faults.h"
#include "runtime/cuda/torch_memory.h"
#include "runtime/library/convert.h"
#include "runtime/library/torch_shim.h"
#include "runtime/plan_step.h"

namespace cdynamo::runtime::cuda {
namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kStaged = 1024;  // bytes: numbers, mostly

bool is_host(Device device) { return device.type == DeviceType::kCPU; }

bool is_row_major(const TensorView& view) {
  int64_t expected = 1;
  for (int d = view.rank; d-- > 0;) {
    if (view.sizes[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.sizes[d];
  }
  return true;
}

class CudaMemory final : public DeviceMemory {
 public:
  void* allocate(Device device, int64_t bytes) const override {
    if (is_host(device))
      return std::aligned_alloc(kAlignment,
                                (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment);
    try {
      const CurrentContext current(device_info(device.index).context);
      return DeviceBlock(static_cast<size_t>(bytes)).release();
    } catch (const CudaError&) {
      return nullptr;
    }
  }

  void free(Device device, void* data) const override {
    if (is_host(device)) return std::free(data);
    DeviceBlock::adopt(data).free();
  }

  // A few numbers for a device go through memory of our own that is not pinned: the driver has read it when it returns, and
  // nothing waits for the device. For all else PyTorch knows what has to wait for what.
  bool copy(const TensorView& from, const TensorView& to, RunError* error) const override {
    const int64_t size = count_elements(from) * bytes(from.dtype);
    if (is_host(from.device) && !is_host(to.device) && size <= kStaged && is_row_major(from) &&
        is_row_major(to))
      return send(from.data, to, size, error);
    if (torch_copy(from, to)) return true;
    *error = {RunError::kRuntimeError, "PyTorch refused a copy between devices"};
    find_fault(is_host(from.device) ? to.device : from.device, error);
    return false;
  }

 private:
  // Whether it is that kernels before went wrong.
  static void find_fault(Device device, RunError* error) {
    if (is_host(device)) return;
    try {
      const CurrentContext current(device_info(device.index).context);
      check(find_driver()->stream_synchronize(current_stream(device.index)), "waiting for a device");
    } catch (const CudaError& failure) {
      *error = run_error(failure);
    }
  }

  static bool send(const void* data, const TensorView& to, int64_t size, RunError* error) {
    char staged[kStaged];
    std::memcpy(staged, data, static_cast<size_t>(size));
    try {
      const Driver& driver = *find_driver();
      const CurrentContext current(device_info(to.device.index).context);
      const Stream stream = current_stream(to.device.index);
      const void* from = staged;
      if (is_capturing(stream)) {
        // A copy that is recorded reads its memory at each replay: for ever.
        void* kept = nullptr;
        check(driver.mem_host_alloc(&kept, static_cast<size_t>(size), 0), "taking memory for numbers");
        from = std::memcpy(kept, staged, static_cast<size_t>(size));
      }
      check(driver.memcpy_to_device_async(reinterpret_cast<DevicePointer>(to.data), from,
                                          static_cast<size_t>(size), stream),
            "copying numbers to a device");
    } catch (const CudaError& failure) {
      *error = run_error(failure);
      return false;
    }
    return true;
  }
};

}  // namespace

const DeviceMemory& device_memory() {
  static const CudaMemory memory;
  return memory;
}

}  // namespace cdynamo::runtime::cuda
