// The kernels of planes behind convolutions, each instruction set against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/gemm/kernels.h"

namespace cdynamo::runtime {
namespace {

template <typename T>
std::vector<T> digits(int64_t count) {
  std::mt19937 rng(3);
  std::uniform_int_distribution<int> digit(-4, 4);
  std::vector<T> values(count);
  for (T& x : values) x = static_cast<T>(digit(rng));
  return values;
}

// The image is exactly as large as said: what reads beyond it is seen by a sanitizer, and writes by the guard.
template <typename T>
void check_depthwise(void (*run)(const DepthwisePlane<T>&)) {
  for (int64_t kernel : {3, 5, 7})
    for (int64_t height : {1, 4, 7, 14, 19})
      for (int64_t width : {1, 3, 7, 14, 16, 33})
        for (int64_t padding : {int64_t{0}, kernel / 2, kernel}) {
          const int64_t out_height = height + 2 * padding - kernel + 1,
                        out_width = width + 2 * padding - kernel + 1;
          if (out_height < 1 || out_width < 1) continue;
          const int64_t row_stride = width + 1;
          const std::vector<T> image = digits<T>(height * row_stride - 1),
                               weights = digits<T>(kernel * kernel);
          std::vector<T> out(out_height * out_width + 1, T(77));
          run({kernel, padding, image.data(), height, width, row_stride, weights.data(), T(5), out.data(),
               out_height, out_width});
          for (int64_t y = 0; y < out_height; ++y)
            for (int64_t x = 0; x < out_width; ++x) {
              T want = 5;
              for (int64_t ky = 0; ky < kernel; ++ky)
                for (int64_t kx = 0; kx < kernel; ++kx) {
                  const int64_t at_y = y + ky - padding, at_x = x + kx - padding;
                  if (at_y >= 0 && at_y < height && at_x >= 0 && at_x < width)
                    want += image[at_y * row_stride + at_x] * weights[ky * kernel + kx];
                }
              ASSERT_EQ(out[y * out_width + x], want)
                  << kernel << "x" << kernel << " over " << height << "x" << width << " at " << y << "," << x;
            }
          ASSERT_EQ(out.back(), T(77));
        }
}

template <typename T>
void check_copies(void (*run)(const LineCopies<T>&)) {
  constexpr int64_t kLines = 3;
  for (int64_t step : {1, 2, 3})
    for (int64_t count : {1, 9, 17, 40})
      for (int64_t low : {int64_t{0}, int64_t{1}, count})
        for (int64_t high : {low, count - 1, count}) {
          if (high < low) continue;
          const int64_t reach = high > low ? (high - low - 1) * step + 1 : 0, line_stride = reach + 2;
          const std::vector<T> from = digits<T>((kLines - 1) * line_stride + reach);
          std::vector<T> to(kLines * count + 1, T(77));
          run({from.data(), line_stride, step, to.data(), kLines, count, low, high});
          for (int64_t line = 0; line < kLines; ++line)
            for (int64_t i = 0; i < count; ++i)
              ASSERT_EQ(to[line * count + i],
                        i >= low && i < high ? from[line * line_stride + (i - low) * step] : T(0))
                  << "step " << step << ", " << count << " elements, " << low << " to " << high << ", at "
                  << i;
          ASSERT_EQ(to.back(), T(77));
        }
}

void check(const TiledGemm& kernels) {
  check_depthwise<float>(kernels.depthwise_f32);
  check_depthwise<double>(kernels.depthwise_f64);
  check_copies<float>(kernels.copy_lines_f32);
  check_copies<double>(kernels.copy_lines_f64);
}

TEST(PlaneKernels, Generic) { check(tiled_gemm_generic()); }
TEST(PlaneKernels, Best) { check(tiled_gemm()); }
#if defined(__x86_64__)
TEST(PlaneKernels, Avx2) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP();
  check(tiled_gemm_avx2());
}
#endif

}  // namespace
}  // namespace cdynamo::runtime
