#include "lowering/cpu/library.h"

namespace cdynamo::lowering {

runtime::LibraryFn cpu_library(graph::CoreKind kind) {
  using enum graph::CoreKind;
  switch (kind) {
    case kMatmul:
    case kBatchMatmul: return runtime::library_matmul;
    case kConvolution: return runtime::library_convolution;
    case kConvolutionWeightGrad: return runtime::library_convolution_weight_grad;
    case kAttention: return runtime::library_attention;
    case kAttentionBackward: return runtime::library_attention_backward;
    case kRandom: return runtime::library_random;
    case kLibrary: return runtime::library_callback;
    default: throw graph::InternalError("the CPU has no library function of a kind of operator");
  }
}

}  // namespace cdynamo::lowering
