// A call of one of PyTorch's attention kernels that eager chose (python/cdynamo/_library/attention.py), without Python.
#pragma once

#include <cstdint>

#include "runtime/library/library.h"

namespace cdynamo::runtime {

struct FusedAttention {
  enum Kernel : int8_t { kFlash = 1, kEfficient = 2 };  // torch.nn.attention.SDPBackend
  Kernel kernel = kFlash;
  bool is_causal = false;
  bool gives_logsumexp = false;
  double scale = 1;
  // What eager's choice depends on and no guard looks at, when the call was captured.
  uint64_t settings = 0;

  // As it is now; never 0 where it can be asked for.
  static uint64_t current_settings();
};

// query, key, value (B,H,L,E) and perhaps an additive mask -> output and perhaps the log-sum-exp of each row of scores. False where
// Python has to make the call: eager might choose another kernel by now, operands lie in another way than the kernel takes, PyTorch
// refused. Outputs have not been written then.
bool torch_fused_attention(const FusedAttention& attention, const LibraryArgs& args);
// The same operands, output, log-sum-exp, gradient of the output -> gradients of the operands, each of which may be absent.
bool torch_fused_attention_backward(const FusedAttention& attention, const LibraryArgs& args);

}  // namespace cdynamo::runtime
