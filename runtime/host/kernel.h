// The form of a kernel's machine code on the host.
#pragma once

#include <cstdint>

namespace cdynamo::runtime {

// Runs the work items [begin, end) of a kernel. buffers: one pointer for each of the kernel's buffers in order; symbols:
// values of the graph's size symbols; scratch: memory private to the thread; error: three codes, set where an index is
// out of range (error[0] = a RunError::Kind, error[1] = the index, error[2] = the size; the first one wins, others may be
// lost).
using HostKernelFn = void (*)(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                              void* scratch, int64_t* error);

// Launch::code of the host.
inline HostKernelFn host_kernel(const void* code) {
  return reinterpret_cast<HostKernelFn>(reinterpret_cast<uintptr_t>(code));
}

}  // namespace cdynamo::runtime
