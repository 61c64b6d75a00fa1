// Matrix products by cuBLASLt, the copy that the framework has loaded: found in the process at first use, never linked. A
// product is prepared once (its layouts, the library's choice of an algorithm) and kept; a call after that costs a few
// microseconds of host time.
#pragma once

#include "runtime/library/library.h"

namespace cdynamo::runtime::cuda {

// As library_matmul (runtime/library/library.h), with an addend of any floating type. False where the library is absent or has no way
// for these layouts; nothing was written then. Throws CudaError.
bool lt_matmul(const LibraryArgs& args);

}  // namespace cdynamo::runtime::cuda
