// A plan on a GPU: kernels and library calls go to the framework's current stream one after the other, nothing waits for
// them, and intermediates live in memory of the framework's allocator, which knows the stream.
#pragma once

#include <memory>

#include "runtime/cuda/driver.h"
#include "runtime/executable.h"
#include "runtime/plan.h"

namespace cdynamo::runtime::cuda {

// `device_index`: the framework's. Throws CudaError.
std::unique_ptr<Executable> make_cuda_executable(Plan plan, int device_index, const DeviceInfo& device);

}  // namespace cdynamo::runtime::cuda
