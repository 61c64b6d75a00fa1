#include "runtime/cuda/faults.h"

#include <algorithm>
#include <array>

namespace cdynamo::runtime::cuda {
namespace {

// CUDA_ERROR_ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, ASSERT, HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS,
// INVALID_ADDRESS_SPACE, INVALID_PC, LAUNCH_FAILED
constexpr std::array kFaults = {700, 702, 710, 714, 715, 716, 717, 718, 719};

}  // namespace

bool is_fault(Result result) { return std::ranges::find(kFaults, result) != kFaults.end(); }

RunError run_error(const CudaError& failure, bool named) {
  RunError error{failure.code == kOutOfMemory ? RunError::kDeviceMemoryError : RunError::kRuntimeError,
                 failure.message};
  if (!is_fault(failure.code)) return error;
  // Python could do no better: it would fail as well.
  error.of_earlier_call = true;
  if (!named)
    error.message +=
        "; some kernel before this went wrong: with CDYNAMO_DEBUG=1 each is waited for, and the error names "
        "it and its line";
  return error;
}

}  // namespace cdynamo::runtime::cuda
