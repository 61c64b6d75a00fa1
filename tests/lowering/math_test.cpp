// Accuracy of the mathematical functions against C's in a wider type, over all exponents, and their special
// values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "lowering/cpu/emit.h"
#include "runtime/host/kernel.h"
#include "tests/lowering/emulated_gpu.h"

namespace cdynamo::lowering {
namespace {

using graph::Prim;

Stmt load(int dst, int buffer, DType dtype) {
  Stmt stmt{.kind = StmtKind::kLoad, .dst = dst, .dtype = dtype, .buffer = buffer};
  stmt.index.terms = {{0, -1, Sym(1)}};
  return stmt;
}

// y = prim(x0, x1) elementwise; `of_sine`: prim(sin(x0)).
ScheduledKernel elementwise(Prim prim, int operands, DType dtype, Sym n, bool of_sine) {
  ScheduledKernel kernel;
  kernel.name = "math";
  kernel.outer = {n};
  kernel.lanes_outer = true;
  kernel.phases.resize(1);
  Stmt call{.kind = StmtKind::kPrim, .dst = operands, .dtype = dtype, .prim = prim};
  for (int i = 0; i < operands; ++i) {
    kernel.buffers.push_back({BufferKind::kGlobal, dtype, i, n, false});
    kernel.phases[0].body.push_back(load(i, i, dtype));
    call.operands.push_back(i);
  }
  kernel.buffers.push_back({BufferKind::kGlobal, dtype, operands, n, true});
  if (of_sine) {
    const int sine = operands + 1;
    kernel.phases[0].body.push_back(
        {.kind = StmtKind::kPrim, .dst = sine, .dtype = dtype, .operands = {0}, .prim = Prim::k_sin});
    call.operands = {sine};
  }
  kernel.phases[0].body.push_back(call);
  Stmt store{.kind = StmtKind::kStore, .dtype = dtype, .operands = {operands}, .buffer = operands};
  store.index.terms = {{0, -1, Sym(1)}};
  kernel.phases[0].body.push_back(store);
  kernel.num_registers = operands + 2;
  return kernel;
}

template <typename T>
std::vector<T> run(Prim prim, const std::vector<std::vector<T>>& inputs, bool gpu = false,
                   bool of_sine = false) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 64);
  DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  std::vector<ScheduledKernel> kernels = {
      elementwise(prim, static_cast<int>(inputs.size()), dtype, n, of_sine)};
  std::unique_ptr<CompiledModule> module;
  if (gpu)
    module = std::make_unique<testing::EmulatedModule>(kernels, context, testing::kSmallGpu);
  else
    module = emit_cpu(kernels, context, {.use_disk_cache = false});
  int64_t size = static_cast<int64_t>(inputs[0].size());
  std::vector<T> out(inputs[0].size());
  std::vector<void*> buffers;
  for (const auto& input : inputs) buffers.push_back(const_cast<T*>(input.data()));
  buffers.push_back(out.data());
  int64_t error[3] = {};
  int64_t items = context.evaluate(module->kernels[0].grid[0], &size);
  runtime::host_kernel(module->kernels[0].code)(buffers.data(), &size, 0, items, nullptr, error);
  return out;
}

// The distance in units in the last place of the exact result.
template <typename T>
double ulp_error(T got, long double exact) {
  T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) == std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // One step beyond the greatest number.
    return std::fabs(got) >= std::numeric_limits<T>::max() &&
                   std::fabs(rounded) >= std::numeric_limits<T>::max()
               ? 1
               : INFINITY;
  }
  int exponent;
  std::frexp(rounded, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

template <typename T>
std::vector<T> bit_patterns(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> out;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (int i = 0; i < count; ++i) {
    Bits bits = static_cast<Bits>(random());
    T value;
    std::memcpy(&value, &bits, sizeof value);
    out.push_back(value);
  }
  return out;
}

template <typename T>
std::vector<T> uniform(int count, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<T> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<T>(distribution(random)));
  return out;
}

template <typename T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> out;
  for (T v : {T(0), L::denorm_min(), L::min(), L::epsilon(), T(0.5), T(1), T(1.5), T(2), T(3), T(10), T(88.7),
              T(104), T(709.7), T(1e5), L::max(), L::infinity()}) {
    out.push_back(v);
    out.push_back(-v);
  }
  out.push_back(L::quiet_NaN());
  return out;
}

template <typename T>
std::vector<T> samples(double low, double high) {
  std::vector<T> out = special_values<T>();
  for (T v : bit_patterns<T>(150000, 1)) out.push_back(v);
  for (T v : uniform<T>(150000, low, high, 2)) out.push_back(v);
  for (T v : uniform<T>(50000, -1, 1, 3)) out.push_back(v);
  return out;
}

struct UnaryCase {
  const char* name;
  Prim prim;
  long double (*exact)(long double);
  double low, high;
  double max_ulp_f32 = 2, max_ulp_f64 = 2;
};

#define EXACT(name) [](long double x) -> long double { return std::name(x); }
const UnaryCase kUnary[] = {
    {"exp", Prim::k_exp, EXACT(exp), -100, 90},        {"exp2", Prim::k_exp2, EXACT(exp2), -150, 130},
    {"expm1", Prim::k_expm1, EXACT(expm1), -20, 90},   {"log", Prim::k_log, EXACT(log), 0, 4},
    {"log2", Prim::k_log2, EXACT(log2), 0, 4},         {"log10", Prim::k_log10, EXACT(log10), 0, 4},
    {"log1p", Prim::k_log1p, EXACT(log1p), -1, 4},     {"sin", Prim::k_sin, EXACT(sin), -100, 100},
    {"cos", Prim::k_cos, EXACT(cos), -100, 100},       {"tan", Prim::k_tan, EXACT(tan), -100, 100},
    {"asin", Prim::k_asin, EXACT(asin), -1, 1},        {"acos", Prim::k_acos, EXACT(acos), -1, 1},
    {"atan", Prim::k_atan, EXACT(atan), -10, 10},      {"sinh", Prim::k_sinh, EXACT(sinh), -90, 90},
    {"cosh", Prim::k_cosh, EXACT(cosh), -90, 90},      {"tanh", Prim::k_tanh, EXACT(tanh), -10, 10},
    {"asinh", Prim::k_asinh, EXACT(asinh), -10, 10},   {"acosh", Prim::k_acosh, EXACT(acosh), 1, 10},
    {"atanh", Prim::k_atanh, EXACT(atanh), -1, 1},     {"erf", Prim::k_erf, EXACT(erf), -5, 5},
    {"erfc", Prim::k_erfc, EXACT(erfc), -6, 28, 2, 4}, {"lgamma", Prim::k_lgamma, EXACT(lgamma), 0, 30, 2, 4},
};

class UnaryMath : public ::testing::TestWithParam<UnaryCase> {};

template <typename T>
void check_unary(const UnaryCase& c, double limit, bool gpu = false) {
  std::vector<T> x = samples<T>(c.low, c.high);
  // Next to its zeros on the negative axis lgamma is accurate absolutely, not relatively.
  if (c.prim == Prim::k_lgamma)
    for (T& v : x) v = std::fabs(v);
  std::vector<T> y = run<T>(c.prim, {x}, gpu);
  double worst = 0;
  T worst_x = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = ulp_error<T>(y[i], c.exact(x[i]));
    // Without C's function it is so everywhere below a few units.
    if (gpu && c.prim == Prim::k_lgamma && std::fabs(y[i] - c.exact(x[i])) < 1e-13) error = 0;
    if (error > worst) worst = error, worst_x = x[i];
    if (y[i] == 0 && static_cast<T>(c.exact(x[i])) == 0)
      EXPECT_EQ(std::signbit(y[i]), std::signbit(c.exact(x[i]))) << c.name << " sign of zero at " << x[i];
  }
  EXPECT_LE(worst, limit) << c.name << " at " << std::hexfloat << worst_x;
  ::testing::Test::RecordProperty(std::string(c.name) + (sizeof(T) == 4 ? "_f32" : "_f64"),
                                  std::to_string(worst));
  if (std::getenv("CDYNAMO_MATH_REPORT"))
    std::printf("%-8s f%zu %.3f ULP at %.9g\n", c.name, 8 * sizeof(T), worst, double(worst_x));
}

TEST_P(UnaryMath, Float32) { check_unary<float>(GetParam(), GetParam().max_ulp_f32); }
TEST_P(UnaryMath, Float32OnAGpu) { check_unary<float>(GetParam(), GetParam().max_ulp_f32, true); }
TEST_P(UnaryMath, Float64OnAGpu) {
  check_unary<double>(GetParam(), std::max(4.0, GetParam().max_ulp_f64), true);
}
TEST_P(UnaryMath, Float64) { check_unary<double>(GetParam(), GetParam().max_ulp_f64); }
INSTANTIATE_TEST_SUITE_P(All, UnaryMath, ::testing::ValuesIn(kUnary),
                         [](const auto& info) { return info.param.name; });

// What is known not to exceed 1 is not reduced before the next function.
template <typename T>
void check_of_sine(bool gpu) {
  const std::vector<T> x = samples<T>(-100, 100), sines = run<T>(Prim::k_sin, {x}, gpu);
  for (const UnaryCase& c : kUnary) {
    if (c.prim != Prim::k_sin && c.prim != Prim::k_cos && c.prim != Prim::k_exp) continue;
    const std::vector<T> y = run<T>(c.prim, {x}, gpu, true);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulp_error<T>(y[i], c.exact(sines[i])));
    EXPECT_LE(worst, sizeof(T) == 8 && gpu ? 4 : 2) << c.name;
  }
}
TEST(MathOfSine, Float32) { check_of_sine<float>(false); }
TEST(MathOfSine, Float32OnAGpu) { check_of_sine<float>(true); }
TEST(MathOfSine, Float64) { check_of_sine<double>(false); }
TEST(MathOfSine, Float64OnAGpu) { check_of_sine<double>(true); }

struct BinaryCase {
  const char* name;
  Prim prim;
  long double (*exact)(long double, long double);
  double low, high;
};
#define EXACT2(name) [](long double x, long double y) -> long double { return std::name(x, y); }
const BinaryCase kBinary[] = {
    {"pow", Prim::k_pow, EXACT2(pow), -5, 5},
    {"atan2", Prim::k_atan2, EXACT2(atan2), -5, 5},
    {"hypot", Prim::k_hypot, EXACT2(hypot), -5, 5},
    {"fmod", Prim::k_rem, EXACT2(fmod), -50, 50},
};

class BinaryMath : public ::testing::TestWithParam<BinaryCase> {};

template <typename T>
void check_binary(const BinaryCase& c, bool gpu = false) {
  std::vector<T> x, y;
  for (T a : special_values<T>())
    for (T b : special_values<T>()) x.push_back(a), y.push_back(b);
  for (T v : bit_patterns<T>(100000, 5)) x.push_back(v);
  for (T v : bit_patterns<T>(100000, 6)) y.push_back(v);
  for (T v : uniform<T>(100000, c.low, c.high, 7)) x.push_back(v);
  for (T v : uniform<T>(100000, c.low, c.high, 8)) y.push_back(v);
  for (T v : uniform<T>(10000, 0, 100, 9)) x.push_back(v);
  for (T v : uniform<T>(10000, -20, 20, 10)) y.push_back(std::round(v));
  std::vector<T> out = run<T>(c.prim, {x, y}, gpu);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = ulp_error<T>(out[i], c.exact(x[i], y[i]));
    if (error > worst) worst = error;
    ASSERT_LE(error, 2) << c.name << "(" << x[i] << ", " << y[i] << ") = " << out[i];
    if (out[i] == 0)
      ASSERT_EQ(std::signbit(out[i]), std::signbit(static_cast<T>(c.exact(x[i], y[i]))))
          << c.name << "(" << x[i] << ", " << y[i] << ")";
  }
  if (std::getenv("CDYNAMO_MATH_REPORT")) std::printf("%-8s f%zu %.3f ULP\n", c.name, 8 * sizeof(T), worst);
}

TEST_P(BinaryMath, Float32) { check_binary<float>(GetParam()); }
TEST_P(BinaryMath, Float32OnAGpu) { check_binary<float>(GetParam(), true); }
TEST_P(BinaryMath, Float64OnAGpu) { check_binary<double>(GetParam(), true); }
TEST_P(BinaryMath, Float64) { check_binary<double>(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, BinaryMath, ::testing::ValuesIn(kBinary),
                         [](const auto& info) { return info.param.name; });

TEST(Digamma, KnownValues) {
  std::vector<double> x = {1, 0.5, 2, 10, -0.5, 1e-3, 100, 0.0, -1, INFINITY};
  std::vector<double> exact = {-0.57721566490153286,
                               -1.9635100260214235,
                               0.42278433509846714,
                               2.2517525890667211,
                               0.03648997397857652,
                               -1000.5755719318103,
                               4.6001618527380874,
                               -INFINITY,
                               NAN,
                               INFINITY};
  std::vector<float> x32(x.begin(), x.end());
  std::vector<double> y = run<double>(Prim::k_digamma, {x});
  std::vector<float> y32 = run<float>(Prim::k_digamma, {x32});
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(exact[i])) {
      EXPECT_TRUE(std::isnan(y[i]) && std::isnan(y32[i])) << x[i];
    } else if (std::isinf(exact[i])) {
      EXPECT_EQ(y[i], exact[i]) << x[i];
      EXPECT_EQ(y32[i], exact[i]) << x[i];
    } else {
      EXPECT_NEAR(y[i], exact[i], 1e-13 * std::max(1.0, std::fabs(exact[i]))) << x[i];
      EXPECT_NEAR(y32[i], exact[i], 2e-7 * std::max(1.0, std::fabs(exact[i]))) << x[i];
    }
  }
}

TEST(Trigonometry, ExactWhereItIsExpected) {
  std::vector<float> x = {0.0f, -0.0f};
  std::vector<float> c = run<float>(Prim::k_cos, {x}), s = run<float>(Prim::k_sin, {x}),
                     e = run<float>(Prim::k_exp, {x});
  EXPECT_EQ(c[0], 1.0f);
  EXPECT_EQ(c[1], 1.0f);
  EXPECT_EQ(e[0], 1.0f);
  EXPECT_FALSE(std::signbit(s[0]));
  EXPECT_TRUE(std::signbit(s[1]));
  EXPECT_EQ(run<double>(Prim::k_cos, {{0.0}})[0], 1.0);
}

}  // namespace
}  // namespace cdynamo::lowering
