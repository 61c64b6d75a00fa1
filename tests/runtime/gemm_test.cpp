#include "runtime/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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

const GemmShape kShapes[] = {{1, 1, 1},       {1, 40, 33},   {3, 5, 7},      {6, 37, 65},    {14, 32, 16},
                             {15, 33, 17},    {29, 70, 100}, {64, 10, 50},   {200, 45, 400}, {2, 3, 0},
                             {500, 33, 1100}, {40, 1, 19},   {31, 60, 1030}, {64, 29, 0},    {128, 15, 40},
                             {26, 600, 390},  {40, 70, 1},   {20, 50, 3},    {70, 64, 3800}, {33, 24, 2},
                             {17, 9, 4},      {300, 3, 1}};

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

// Channels of the left side against places of the right one, over two rows of pixels.
template <typename T>
void check_sums(const SumKernels<T>& kernels) {
  constexpr int64_t kLength = 7, kRowsOfPixels = 2, kDepth = 17;
  for (int64_t channels : {1, 3, 16, 40, 64}) {
    const int64_t lanes = std::min<int64_t>(kernels.lanes(channels), 64), used = std::min(lanes, channels);
    const int64_t pixels = kLength * kRowsOfPixels;
    std::mt19937 rng(5);
    std::uniform_int_distribution<int> digit(-4, 4);
    std::vector<T> left(channels * pixels), base(400), packed(pixels * lanes + 64, T(9)),
        sums(kDepth * lanes, T(2));
    for (T& x : left) x = static_cast<T>(digit(rng));
    for (T& x : base) x = static_cast<T>(digit(rng));
    std::vector<int64_t> depth_offsets, row_offsets{3, 60};
    for (int64_t k = 0; k < kDepth; ++k) depth_offsets.push_back(k * 11 % 300);
    kernels.pack(left.data(), pixels, 1, used, pixels, packed.data(), lanes);
    std::vector<T> strided(packed.size(), T(9));
    std::vector<T> last(channels * pixels);  // channels last
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t x = 0; x < pixels; ++x) last[x * channels + c] = left[c * pixels + x];
    kernels.pack(last.data(), 1, channels, used, pixels, strided.data(), lanes);
    kernels.run({.lanes = lanes,
                 .depth = kDepth,
                 .left = packed.data(),
                 .base = base.data(),
                 .depth_offsets = depth_offsets.data(),
                 .row_offsets = row_offsets.data(),
                 .rows = kRowsOfPixels,
                 .row_length = kLength,
                 .sums = sums.data()});
    for (int64_t k = 0; k < kDepth; ++k)
      for (int64_t c = 0; c < lanes; ++c) {
        T want = 2;
        for (int64_t x = 0; x < pixels && c < used; ++x)
          want += left[c * pixels + x] * base[depth_offsets[k] + row_offsets[x / kLength] + x % kLength];
        ASSERT_EQ(sums[k * lanes + c], want) << channels << " channels, lane " << c << ", element " << k;
      }
    EXPECT_TRUE(std::equal(packed.begin(), packed.begin() + pixels * lanes, strided.begin()));
    EXPECT_EQ(kernels.dot(left.data(), left.data(), pixels),
              std::inner_product(left.begin(), left.begin() + pixels, left.begin(), T(0)));
  }
}

TEST(Gemm, SumsOverPixels) {
  for (const TiledGemm* kernels : {&tiled_gemm_generic(), &tiled_gemm()}) {
    check_sums<float>(kernels->sums_f32);
    check_sums<double>(kernels->sums_f64);
  }
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) return;
  check_sums<float>(tiled_gemm_avx2().sums_f32);
  check_sums<double>(tiled_gemm_avx2().sums_f64);
#endif
}

// A 3x3 kernel over channels of padded planes, two images, in ranges of columns that end anywhere.
template <typename T>
void check_gathered(void (*run)(const GatheredProduct<T>&, int64_t, int64_t)) {
  constexpr int64_t kImages = 2, kHeight = 5;
  for (int64_t rows : {1, 3, 5, 8, 9, 16, 17, 40, 150})
    for (int64_t width : {1, 7, 14, 20, 61})
      for (int64_t channels : {2, 12, 40}) {  // the last of several pieces
        if (channels == 40 && width * rows > 1000) continue;
        const int64_t depth = channels * 9;
        const bool with_bias = width % 2 == 0;
        const int64_t row_stride = width + 2, plane = row_stride * (kHeight + 2), pixels = kHeight * width;
        std::mt19937 rng(7);
        std::uniform_int_distribution<int> digit(-4, 4);
        std::vector<T> weights(rows * depth), base(kImages * channels * plane + 64),
            out(kImages * rows * pixels, T(2)), bias(rows);
        for (T& x : bias) x = static_cast<T>(digit(rng));
        for (T& x : weights) x = static_cast<T>(digit(rng));
        for (T& x : base) x = static_cast<T>(digit(rng));
        // Weights one row or one element of depth after the other.
        const bool strided = width == 7 || width == 20;
        std::vector<int64_t> offsets, weight_offsets;
        for (int64_t k = 0; k < depth; ++k) weight_offsets.push_back(k * rows);
        for (int64_t k = 0; k < depth; ++k) offsets.push_back(k / 9 * plane + k / 3 % 3 * row_stride + k % 3);
        const GatheredProduct<T> product{.rows = rows,
                                         .depth = depth,
                                         .pixels = pixels,
                                         .row_length = width,
                                         .image_stride = channels * plane,
                                         .row_stride = row_stride,
                                         .weights = weights.data(),
                                         .weight_row_stride = strided ? 1 : depth,
                                         .weight_offsets = strided ? weight_offsets.data() : nullptr,
                                         .bias = with_bias ? bias.data() : nullptr,
                                         .base = base.data(),
                                         .depth_offsets = offsets.data(),
                                         .out = out.data(),
                                         .out_row_stride = pixels,
                                         .out_image_stride = rows * pixels};
        const int64_t columns = kImages * pixels, cut = columns / 3;
        run(product, 0, cut);
        run(product, cut, columns);
        for (int64_t image = 0; image < kImages; ++image)
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t pixel = 0; pixel < pixels; ++pixel) {
              T want = with_bias ? bias[i] : 0;
              for (int64_t k = 0; k < depth; ++k)
                want += weights[strided ? k * rows + i : i * depth + k] *
                        base[image * product.image_stride + offsets[k] + pixel / width * row_stride +
                             pixel % width];
              ASSERT_EQ(out[(image * rows + i) * pixels + pixel], want)
                  << rows << " rows of " << width << ", row " << i << ", pixel " << pixel;
            }
      }
}

TEST(Gemm, GatheredProducts) {
  for (const TiledGemm* kernels : {&tiled_gemm_generic(), &tiled_gemm()}) {
    check_gathered<float>(kernels->gathered_f32);
    check_gathered<double>(kernels->gathered_f64);
  }
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) return;
  check_gathered<float>(tiled_gemm_avx2().gathered_f32);
  check_gathered<double>(tiled_gemm_avx2().gathered_f64);
#endif
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

// The float32 problem, rounded at the end.
template <typename T>
void check_half(DType dtype) {
  for (const GemmShape& shape : kShapes)
    for (int layout = 0; layout < 8; ++layout)
      for (bool accumulate : {false, true}) {
        Problem<float> problem(shape, layout);
        const auto half = [](const std::vector<float>& values) {
          std::vector<T> result;
          for (float x : values) result.push_back(T::from(x));
          return result;
        };
        const std::vector<T> a = half(problem.a), b = half(problem.b);
        std::vector<T> c = half(problem.c);
        gemm_serial(DType::kF32, shape, problem.left, problem.right, problem.out, accumulate);
        gemm_serial(dtype, shape, {a.data(), problem.left.row_stride, problem.left.column_stride},
                    {b.data(), problem.right.row_stride, problem.right.column_stride},
                    {c.data(), problem.out.row_stride, problem.out.column_stride}, accumulate);
        for (size_t i = 0; i < c.size(); ++i)
          ASSERT_EQ(c[i].bits, T::from(problem.c[i]).bits)
              << shape.m << "x" << shape.n << "x" << shape.k << ", layout " << layout << " at " << i;
      }
}

TEST(Gemm, HalfProducts) {
  check_half<Float16>(DType::kF16);
  check_half<BFloat16>(DType::kBF16);
}

}  // namespace
}  // namespace cdynamo::runtime
