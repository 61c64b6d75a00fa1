// Lines of half types to float32 and back, with the processor's instructions where it has them.
#pragma once

#include "runtime/gemm/half.h"

namespace cdynamo::runtime {

void widen_half(const Float16* from, int64_t count, float* to);
void widen_half(const BFloat16* from, int64_t count, float* to);
// Rounds to nearest even.
void narrow_half(const float* from, int64_t count, Float16* to);
void narrow_half(const float* from, int64_t count, BFloat16* to);
// The sum of a[i] * b[i].
float dot_half(const Float16* a, const float* b, int64_t count);
float dot_half(const BFloat16* a, const float* b, int64_t count);

}  // namespace cdynamo::runtime
