// Memory of the host and of CUDA devices, and copies between them.
#pragma once

#include "runtime/parts_executable.h"

namespace cdynamo::runtime::cuda {

const DeviceMemory& device_memory();

}  // namespace cdynamo::runtime::cuda
