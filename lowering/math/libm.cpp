// C's functions, for the rare lanes that polynomials leave to them and as what tests compare with.
#include <cmath>
#include <cstring>

#include "graph/op.h"
#include "lowering/math/math.h"
#include "runtime/host/jit.h"

namespace cdynamo::lowering::math {
namespace {

// The digamma function: recurrence up to where the asymptotic series is exact enough, reflection below zero.
double scalar_digamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0) return std::copysign(INFINITY, -x);
  if (std::isinf(x)) return x > 0 ? x : NAN;
  double result = 0;
  if (x < 0) {
    double whole, fraction = std::modf(x, &whole);
    if (fraction == 0) return NAN;
    result = -kPi / std::tan(kPi * fraction);
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  double z = 1 / (x * x);
  // B_2k / 2k
  constexpr double kSeries[] = {8.33333333333333333333e-2, -8.33333333333333333333e-3,
                                3.96825396825396825397e-3, -4.16666666666666666667e-3,
                                7.57575757575757575758e-3, -2.10927960927960927961e-2,
                                8.33333333333333333333e-2};
  double sum = 0;
  for (int i = 6; i >= 0; --i) sum = sum * z + kSeries[i];
  return result + std::log(x) - 0.5 / x - z * sum;
}
float digamma_f32(float x) { return static_cast<float>(scalar_digamma(x)); }

using F1 = float (*)(float);
using D1 = double (*)(double);
using F2 = float (*)(float, float);
using D2 = double (*)(double, double);

// lgamma without its side effect on `signgam`, which other threads may see.
double lgamma_f64(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
float lgamma_f32(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}

template <typename F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

#define CDYNAMO_LIBM_1(name)                                                                              \
  {Prim::k_##name, "cdynamo_" #name "_f32", address(static_cast<F1>(::name##f)), "cdynamo_" #name "_f64", \
   address(static_cast<D1>(::name))}
#define CDYNAMO_LIBM_2(prim, name)                                                                        \
  {Prim::k_##prim, "cdynamo_" #prim "_f32", address(static_cast<F2>(::name##f)), "cdynamo_" #prim "_f64", \
   address(static_cast<D2>(::name))}

const LibmEntry kEntries[] = {
    CDYNAMO_LIBM_1(exp),
    CDYNAMO_LIBM_1(exp2),
    CDYNAMO_LIBM_1(expm1),
    CDYNAMO_LIBM_1(log),
    CDYNAMO_LIBM_1(log2),
    CDYNAMO_LIBM_1(log10),
    CDYNAMO_LIBM_1(log1p),
    CDYNAMO_LIBM_1(sin),
    CDYNAMO_LIBM_1(cos),
    CDYNAMO_LIBM_1(tan),
    CDYNAMO_LIBM_1(asin),
    CDYNAMO_LIBM_1(acos),
    CDYNAMO_LIBM_1(atan),
    CDYNAMO_LIBM_1(sinh),
    CDYNAMO_LIBM_1(cosh),
    CDYNAMO_LIBM_1(tanh),
    CDYNAMO_LIBM_1(asinh),
    CDYNAMO_LIBM_1(acosh),
    CDYNAMO_LIBM_1(atanh),
    CDYNAMO_LIBM_1(erf),
    CDYNAMO_LIBM_1(erfc),
    CDYNAMO_LIBM_2(atan2, atan2),
    CDYNAMO_LIBM_2(pow, pow),
    CDYNAMO_LIBM_2(hypot, hypot),
    CDYNAMO_LIBM_2(rem, fmod),
    {Prim::k_lgamma, "cdynamo_lgamma_f32", address(lgamma_f32), "cdynamo_lgamma_f64", address(lgamma_f64)},
    {Prim::k_digamma, "cdynamo_digamma_f32", address(digamma_f32), "cdynamo_digamma_f64",
     address(scalar_digamma)},
};

template <typename T>
void call_unary(T* result, const T* x, const T*, uint64_t mask, int64_t lanes, T (*function)(T)) {
  for (int64_t lane = 0; lane < lanes; ++lane)
    if (mask >> lane & 1) result[lane] = function(x[lane]);
}
template <typename T>
void call_binary(T* result, const T* x, const T* y, uint64_t mask, int64_t lanes, T (*function)(T, T)) {
  for (int64_t lane = 0; lane < lanes; ++lane)
    if (mask >> lane & 1) result[lane] = function(x[lane], y[lane]);
}

// Conversions of float16 where the processor has none.
float extend_half(_Float16 x) { return static_cast<float>(x); }
_Float16 truncate_to_half(float x) { return static_cast<_Float16>(x); }

constexpr const char* kHelperNames[2][2] = {{"cdynamo_lanes_f32_1", "cdynamo_lanes_f32_2"},
                                            {"cdynamo_lanes_f64_1", "cdynamo_lanes_f64_2"}};

}  // namespace

const char* lanes_helper_name(bool f64, int operands) { return kHelperNames[f64][operands - 1]; }

const LibmEntry* find_libm(Prim prim) {
  for (const LibmEntry& entry : kEntries)
    if (entry.prim == prim) return &entry;
  return nullptr;
}

void define_libm_symbols() {
  static const bool done = [] {
    std::vector<std::pair<const char*, void*>> symbols;
    for (const LibmEntry& entry : kEntries) {
      symbols.emplace_back(entry.name_f32, entry.f32);
      symbols.emplace_back(entry.name_f64, entry.f64);
    }
    symbols.emplace_back(kHelperNames[0][0], address(call_unary<float>));
    symbols.emplace_back(kHelperNames[0][1], address(call_binary<float>));
    symbols.emplace_back(kHelperNames[1][0], address(call_unary<double>));
    symbols.emplace_back(kHelperNames[1][1], address(call_binary<double>));
    symbols.emplace_back("__extendhfsf2", address(extend_half));
    symbols.emplace_back("__truncsfhf2", address(truncate_to_half));
    // What LLVM itself calls where the processor lacks an instruction.
    symbols.emplace_back("fmaf", address(static_cast<float (*)(float, float, float)>(::fmaf)));
    symbols.emplace_back("fma", address(static_cast<double (*)(double, double, double)>(::fma)));
    for (auto [name, function] : {std::pair{"floorf", static_cast<F1>(::floorf)},
                                  {"ceilf", ::ceilf},
                                  {"truncf", ::truncf},
                                  {"roundevenf", ::roundevenf}})
      symbols.emplace_back(name, address(function));
    for (auto [name, function] : {std::pair{"floor", static_cast<D1>(::floor)},
                                  {"ceil", ::ceil},
                                  {"trunc", ::trunc},
                                  {"roundeven", ::roundeven}})
      symbols.emplace_back(name, address(function));
    // float16 without NaN, where it is not a vector.
    symbols.emplace_back("fminf", address(static_cast<float (*)(float, float)>(::fminf)));
    symbols.emplace_back("fmaxf", address(static_cast<float (*)(float, float)>(::fmaxf)));
    symbols.emplace_back("fmin", address(static_cast<double (*)(double, double)>(::fmin)));
    symbols.emplace_back("fmax", address(static_cast<double (*)(double, double)>(::fmax)));
    symbols.emplace_back("memset", reinterpret_cast<void*>(&memset));
    symbols.emplace_back("memcpy", reinterpret_cast<void*>(&memcpy));
    runtime::define_symbols(symbols);
    return true;
  }();
  (void)done;
}

}  // namespace cdynamo::lowering::math
