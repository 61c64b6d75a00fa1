#include "runtime/library/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// One source, three instruction sets; the loader picks. Under ThreadSanitizer one: what picks would call it before the loader
// has found it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CDYNAMO_TSAN)
#define CDYNAMO_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CDYNAMO_CLONES
#endif

namespace cdynamo::runtime {
namespace {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

#define CDYNAMO_INLINE inline __attribute__((always_inline))

CDYNAMO_INLINE void load(Floats& to, const float* from) { std::memcpy(&to, from, sizeof to); }

// exp(x) for x <= 0 or NaN, within 2 ULP; 0 below -87.3. Cody-Waite reduction by ln 2, then a polynomial of
// degree 6 on [-ln2/2, ln2/2].
CDYNAMO_INLINE void exp_negative(Floats& x) {
  const Floats lowest = Floats{} - 87.3f;
  const Floats clamped = x < lowest ? lowest : x;  // NaN is kept
  const Floats magic = Floats{} + 12582912.0f;     // 1.5 * 2^23: adding it rounds to an integer
  const Floats shifted = clamped * 1.44269504f + magic;
  const Floats n = shifted - magic;
  const Floats r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Ints exponent = ((Ints)shifted << 23) + (127 << 23);
  const Floats result = p * (Floats)exponent;
  const Floats zero = Floats{};
  x = x < lowest ? zero : result;
}

}  // namespace

CDYNAMO_CLONES void scale_scores(float* values, int64_t count, float factor) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats v;
    load(v, values + i);
    v *= factor;
    std::memcpy(values + i, &v, sizeof v);
  }
  for (; i < count; ++i) values[i] *= factor;
}

void scale_scores(double* values, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

CDYNAMO_CLONES float online_softmax_row(float* scores, int64_t count, float* maximum, float* sum) {
  const float infinity = std::numeric_limits<float>::infinity();
  Floats greatest = Floats{} - infinity;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats v;
    load(v, scores + i);
    greatest = v > greatest ? v : greatest;
  }
  float top = *maximum;
  for (int lane = 0; lane < kLanes; ++lane) top = std::max(top, greatest[lane]);
  for (int64_t j = i; j < count; ++j) top = std::max(top, scores[j]);
  // Nothing seen yet: subtracting infinity from itself would make NaN of what is just empty.
  const float base = top == -infinity ? 0.0f : top;
  Floats total = Floats{};
  for (i = 0; i < count; i += kLanes) {
    Floats v = Floats{} - infinity;
    const int64_t lanes = std::min<int64_t>(kLanes, count - i);
    if (lanes == kLanes)
      load(v, scores + i);
    else
      std::memcpy(&v, scores + i, lanes * sizeof(float));
    v -= base;
    exp_negative(v);
    total += v;
    std::memcpy(scores + i, &v, lanes * sizeof(float));
  }
  float added = 0;
  for (int lane = 0; lane < kLanes; ++lane) added += total[lane];
  const float shrink = *maximum == -infinity ? 0.0f : std::exp(*maximum - top);
  *sum = *sum * shrink + added;
  *maximum = top;
  return shrink;
}

CDYNAMO_CLONES void softmax_gradient_row(float* scores, float* grads, int64_t count, const float* mask,
                                         float scale, float logsumexp, float mean) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Floats v{}, g{}, m{};
    const int64_t lanes = std::min<int64_t>(kLanes, count - i);
    const size_t size = lanes * sizeof(float);
    if (lanes == kLanes) {
      load(v, scores + i);
      load(g, grads + i);
      if (mask) load(m, mask + i);
    } else {
      std::memcpy(&v, scores + i, size);
      std::memcpy(&g, grads + i, size);
      if (mask) std::memcpy(&m, mask + i, size);
    }
    v = v * scale + m - logsumexp;
    exp_negative(v);
    g = v * (g - mean) * scale;
    if (lanes == kLanes) {
      std::memcpy(scores + i, &v, sizeof v);
      std::memcpy(grads + i, &g, sizeof g);
    } else {
      std::memcpy(scores + i, &v, size);
      std::memcpy(grads + i, &g, size);
    }
  }
}

void softmax_gradient_row(double* scores, double* grads, int64_t count, const double* mask, double scale,
                          double logsumexp, double mean) {
  for (int64_t i = 0; i < count; ++i) {
    const double weight = std::exp(scores[i] * scale + (mask ? mask[i] : 0) - logsumexp);
    scores[i] = weight;
    grads[i] = weight * (grads[i] - mean) * scale;
  }
}

double online_softmax_row(double* scores, int64_t count, double* maximum, double* sum) {
  const double infinity = std::numeric_limits<double>::infinity();
  double top = *maximum;
  for (int64_t i = 0; i < count; ++i) top = std::max(top, scores[i]);
  const double base = top == -infinity ? 0.0 : top;
  double added = 0;
  for (int64_t i = 0; i < count; ++i) added += scores[i] = std::exp(scores[i] - base);
  const double shrink = *maximum == -infinity ? 0.0 : std::exp(*maximum - top);
  *sum = *sum * shrink + added;
  *maximum = top;
  return shrink;
}

}  // namespace cdynamo::runtime
