// What a failure of the driver's means for the call in which it is found.
#pragma once

#include "runtime/cuda/driver.h"
#include "runtime/executable.h"

namespace cdynamo::runtime::cuda {

// Whether a kernel went wrong, so that the device's context can run nothing any more.
bool is_fault(Result result);

// `named`: the message says which kernel it was; else it says how to find out.
RunError run_error(const CudaError& failure, bool named = false);

}  // namespace cdynamo::runtime::cuda
