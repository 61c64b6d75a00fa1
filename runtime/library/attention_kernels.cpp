#include "runtime/library/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace cdynamo::runtime {
namespace {

#define CDYNAMO_INLINE inline __attribute__((always_inline))

template <int kLanes>
struct Vector;
#define CDYNAMO_VECTOR(lanes)                                                   \
  template <>                                                                   \
  struct Vector<lanes> {                                                        \
    typedef float Floats __attribute__((vector_size(lanes * sizeof(float))));   \
    typedef int32_t Ints __attribute__((vector_size(lanes * sizeof(int32_t)))); \
  };
CDYNAMO_VECTOR(4)
CDYNAMO_VECTOR(8)
CDYNAMO_VECTOR(16)

// The loops over vectors of as many floats as a register holds: the compiler takes wider ones apart badly. Inlined into a function
// for each instruction set.
template <int kLanes>
struct Rows {
  using Floats = typename Vector<kLanes>::Floats;
  using Ints = typename Vector<kLanes>::Ints;

  static CDYNAMO_INLINE void load(Floats& to, const float* from) { std::memcpy(&to, from, sizeof to); }

  // exp(x) for x <= 0 or NaN, within 2 ULP; 0 below -87.3. Cody-Waite reduction by ln 2, then a polynomial of
  // degree 6 on [-ln2/2, ln2/2].
  static CDYNAMO_INLINE void exp_negative(Floats& x) {
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

  static CDYNAMO_INLINE void scale(float* values, int64_t count, float factor) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Floats v;
      load(v, values + i);
      v *= factor;
      std::memcpy(values + i, &v, sizeof v);
    }
    for (; i < count; ++i) values[i] *= factor;
  }

  static CDYNAMO_INLINE float online_softmax(float* scores, int64_t count, float* maximum, float* sum) {
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

  static CDYNAMO_INLINE void softmax_gradient(float* scores, float* grads, int64_t count, const float* mask,
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
};

// By the instruction set that the process runs on.
struct Kernels {
  void (*scale)(float*, int64_t, float);
  float (*online_softmax)(float*, int64_t, float*, float*);
  void (*softmax_gradient)(float*, float*, int64_t, const float*, float, float, float);
};

#define CDYNAMO_KERNELS(name, lanes, target)                                                         \
  target void scale_##name(float* values, int64_t count, float factor) {                             \
    Rows<lanes>::scale(values, count, factor);                                                       \
  }                                                                                                  \
  target float online_softmax_##name(float* scores, int64_t count, float* maximum, float* sum) {     \
    return Rows<lanes>::online_softmax(scores, count, maximum, sum);                                 \
  }                                                                                                  \
  target void softmax_gradient_##name(float* scores, float* grads, int64_t count, const float* mask, \
                                      float scale, float logsumexp, float mean) {                    \
    Rows<lanes>::softmax_gradient(scores, grads, count, mask, scale, logsumexp, mean);               \
  }                                                                                                  \
  constexpr Kernels k_##name = {scale_##name, online_softmax_##name, softmax_gradient_##name};

CDYNAMO_KERNELS(generic, 4, )
#if defined(__x86_64__)
CDYNAMO_KERNELS(avx2, 8, __attribute__((target("arch=x86-64-v3"))))
CDYNAMO_KERNELS(avx512, 16, __attribute__((target("arch=x86-64-v4"))))
#endif

const Kernels& kernels() {
#if defined(__x86_64__)
  static const Kernels& best = __builtin_cpu_supports("x86-64-v4")   ? k_avx512
                               : __builtin_cpu_supports("x86-64-v3") ? k_avx2
                                                                     : k_generic;
  return best;
#else
  return k_generic;
#endif
}

}  // namespace

void scale_scores(float* values, int64_t count, float factor) { kernels().scale(values, count, factor); }

void scale_scores(double* values, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

float online_softmax_row(float* scores, int64_t count, float* maximum, float* sum) {
  return kernels().online_softmax(scores, count, maximum, sum);
}

void softmax_gradient_row(float* scores, float* grads, int64_t count, const float* mask, float scale,
                          float logsumexp, float mean) {
  kernels().softmax_gradient(scores, grads, count, mask, scale, logsumexp, mean);
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
