// Kernels on a device: PTX in, functions that can be launched out. The assembler is the driver's own; what it gives (a
// cubin) can be kept and loaded again.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda/driver.h"

namespace cdynamo::runtime::cuda {

// The cubin of PTX text for a device. Throws CudaError with the assembler's complaint.
std::string assemble(std::string_view ptx, const DeviceInfo& device);

// A kernel loaded on one device; dropping it unloads it. Nothing of it may run by then: modules of entries that are dropped
// are kept until the device has finished (module_unload waits by itself).
class LoadedKernel {
 public:
  // `shared_bytes`: of dynamic shared memory that launches will ask for. Throws CudaError.
  LoadedKernel(std::string_view cubin, const char* name, const DeviceInfo& device, int64_t shared_bytes);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  Function function() const { return function_; }

 private:
  const DeviceInfo& device_;
  Module module_ = nullptr;
  Function function_ = nullptr;
};

}  // namespace cdynamo::runtime::cuda
