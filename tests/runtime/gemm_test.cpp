#include "runtime/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/gemm/half.h"
#include "runtime/gemm/kernels.h"

namespace cdynamo::runtime {
namespace {

template <typename T>
struct Problem {
  GemmShape shape;
  std::vector<T> a, b, c;
  ConstMatrix left, right;
  Matrix out;

  // Each operand row-major or transposed, as the bits of `layout` say.
  Problem(GemmShape shape, int layout)
      : shape(shape), a(shape.m * shape.k), b(shape.k * shape.n), c(shape.m * shape.n, T(3)) {
    std::mt19937 rng(1);
    std::uniform_int_distribution<int> digit(-4, 4);
    for (T& x : a) x = static_cast<T>(digit(rng));
    for (T& x : b) x = static_cast<T>(digit(rng));
    left = layout & 1 ? ConstMatrix{a.data(), 1, shape.m} : ConstMatrix{a.data(), shape.k, 1};
    right = layout & 2 ? ConstMatrix{b.data(), 1, shape.k} : ConstMatrix{b.data(), shape.n, 1};
    out = layout & 4 ? Matrix{c.data(), 1, shape.m} : Matrix{c.data(), shape.n, 1};
  }

  // Whole numbers: every order of summation gives the same.
  void expect(T before) const {
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j) {
        T want = before;
        for (int64_t k = 0; k < shape.k; ++k)
          want += a[i * left.row_stride + k * left.column_stride] *
                  b[k * right.row_stride + j * right.column_stride];
        ASSERT_EQ(c[i * out.row_stride + j * out.column_stride], want)
            << shape.m << "x" << shape.n << "x" << shape.k << " at " << i << "," << j;
      }
  }
};

const GemmShape kShapes[] = {{1, 1, 1},      {1, 40, 33},  {3, 5, 7},       {6, 37, 65},
                             {14, 32, 16},   {15, 33, 17}, {29, 70, 100},   {64, 10, 50},
                             {200, 45, 400}, {2, 3, 0},    {500, 33, 1100}, {40, 1, 19}};

template <typename T>
void check_kernels(void (*run)(const GemmShape&, ConstMatrix, ConstMatrix, Matrix, bool)) {
  for (const GemmShape& shape : kShapes)
    for (int layout = 0; layout < 8; ++layout)
      for (bool accumulate : {false, true}) {
        Problem<T> problem(shape, layout);
        run(shape, problem.left, problem.right, problem.out, accumulate);
        problem.expect(accumulate ? T(3) : T(0));
      }
}

TEST(Gemm, GenericKernels) {
  check_kernels<float>(tiled_gemm_generic().f32);
  check_kernels<double>(tiled_gemm_generic().f64);
}

TEST(Gemm, BestKernels) {
  check_kernels<float>(tiled_gemm().f32);
  check_kernels<double>(tiled_gemm().f64);
}

#if defined(__x86_64__)
TEST(Gemm, Avx2Kernels) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP();
  check_kernels<float>(tiled_gemm_avx2().f32);
  check_kernels<double>(tiled_gemm_avx2().f64);
}
#endif

TEST(Gemm, IntegersWrap) {
  check_kernels<int64_t>([](const GemmShape& s, ConstMatrix a, ConstMatrix b, Matrix c, bool add) {
    gemm_serial(DType::kI64, s, a, b, c, add);
  });
  check_kernels<int8_t>([](const GemmShape& s, ConstMatrix a, ConstMatrix b, Matrix c, bool add) {
    gemm_serial(DType::kI8, s, a, b, c, add);
  });
}

TEST(Gemm, ThreadsGiveTheSame) {
  for (int layout = 0; layout < 8; ++layout) {
    Problem<float> problem({130, 257, 64}, layout);
    gemm(DType::kF32, problem.shape, problem.left, problem.right, problem.out);
    problem.expect(0);
  }
}

TEST(Gemm, HalfTypesRoundOnce) {
  const float values[] = {1.0f, -2.5f, 0.1f, 65504.0f, 1e-7f, 6e-8f};
  for (float value : values) {
    EXPECT_EQ(static_cast<float>(Float16::from(static_cast<float>(Float16::from(value)))),
              static_cast<float>(Float16::from(value)));
    EXPECT_NEAR(static_cast<float>(BFloat16::from(value)), value, std::abs(value) * 0.004f);
  }
  EXPECT_EQ(Float16::from(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16::from(1.0f + 0x1p-11f).bits, 0x3c00);  // ties to even
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16::from(NAN))));
  std::vector<BFloat16> a(64, BFloat16::from(0.1f)), b(64, BFloat16::from(1.0f)), c(1);
  gemm_serial(DType::kBF16, {1, 1, 64}, {a.data(), 64, 1}, {b.data(), 1, 1}, {c.data(), 1, 1});
  EXPECT_EQ(c[0].bits, BFloat16::from(64 * static_cast<float>(a[0])).bits);
}

}  // namespace
}  // namespace cdynamo::runtime
