#include "runtime/gemm/half_lines.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define CDYNAMO_HALF_TARGET __attribute__((target("avx2,fma,f16c")))
#endif

namespace cdynamo::runtime {
namespace {

#if defined(__x86_64__)

bool has_vectors() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return has;
}

CDYNAMO_HALF_TARGET inline __m256 load_half(const Float16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
CDYNAMO_HALF_TARGET inline __m256 load_half(const BFloat16* from) {
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}

// These three return how many elements they did, a multiple of a vector.
template <typename T>
CDYNAMO_HALF_TARGET int64_t widen_vectors(const T* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, load_half(from + i));
  return i;
}

CDYNAMO_HALF_TARGET int64_t narrow_vectors(const float* from, int64_t count, Float16* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return i;
}

template <typename T>
CDYNAMO_HALF_TARGET int64_t dot_vectors(const T* a, const float* b, int64_t count, float* total) {
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= count; i += 32)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      sums[v] = _mm256_fmadd_ps(load_half(a + i + 8 * v), _mm256_loadu_ps(b + i + 8 * v), sums[v]);
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
  for (float lane : lanes) *total += lane;
  return i;
}

#else

bool has_vectors() { return false; }
template <typename... Args>
int64_t widen_vectors(const Args&...) {
  return 0;
}
template <typename... Args>
int64_t narrow_vectors(const Args&...) {
  return 0;
}
template <typename... Args>
int64_t dot_vectors(const Args&...) {
  return 0;
}

#endif

template <typename T>
void widen(const T* from, int64_t count, float* to) {
  for (int64_t i = has_vectors() ? widen_vectors(from, count, to) : 0; i < count; ++i) to[i] = from[i];
}

template <typename T>
float dot(const T* a, const float* b, int64_t count) {
  float total = 0;
  for (int64_t i = has_vectors() ? dot_vectors(a, b, count, &total) : 0; i < count; ++i)
    total += static_cast<float>(a[i]) * b[i];
  return total;
}

}  // namespace

void widen_half(const Float16* from, int64_t count, float* to) { widen(from, count, to); }
void widen_half(const BFloat16* from, int64_t count, float* to) { widen(from, count, to); }

void narrow_half(const float* from, int64_t count, Float16* to) {
  for (int64_t i = has_vectors() ? narrow_vectors(from, count, to) : 0; i < count; ++i)
    to[i] = Float16::from(from[i]);
}
void narrow_half(const float* from, int64_t count, BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16::from(from[i]);
}

float dot_half(const Float16* a, const float* b, int64_t count) { return dot(a, b, count); }
float dot_half(const BFloat16* a, const float* b, int64_t count) { return dot(a, b, count); }

}  // namespace cdynamo::runtime
