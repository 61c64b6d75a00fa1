// Products in half types with something added, where no framework is in the process.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/gemm/half.h"
#include "runtime/library/library.h"

namespace cdynamo::runtime {
namespace {

struct Array {
  std::vector<Float16> values;
  std::vector<int64_t> sizes, strides;
  Array(std::vector<int64_t> of, bool transposed, std::mt19937& rng) : sizes(std::move(of)) {
    const size_t last = sizes.size() - 1;
    strides.assign(sizes.size(), sizes[last] * sizes[last - 1]);
    strides[last - 1] = transposed ? 1 : sizes[last];
    strides[last] = transposed ? sizes[last - 1] : 1;
    values.resize((sizes.size() == 3 ? sizes[0] : 1) * sizes[last] * sizes[last - 1]);
    std::uniform_real_distribution<float> numbers(-2, 2);
    for (Float16& value : values) value = Float16::from(numbers(rng));
  }
  float at(int64_t n, int64_t i, int64_t j) const {
    const size_t last = sizes.size() - 1;
    return values[(last == 2 ? n * strides[0] : 0) + i * strides[last - 1] + j * strides[last]];
  }
  TensorView view() {
    return {values.data(), sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), DType::kF16, {}};
  }
};

// Each result is a sum in float32 (or better) that was rounded once.
void check(int64_t batch, int64_t m, int64_t n, int64_t k, int layout, double beta, double alpha) {
  std::mt19937 rng(static_cast<unsigned>(m * 100 + n * 10 + k));
  auto sizes = [&](int64_t rows, int64_t columns) {
    return batch ? std::vector<int64_t>{batch, rows, columns} : std::vector<int64_t>{rows, columns};
  };
  Array a(sizes(m, k), layout & 1, rng), b(sizes(k, n), layout & 2, rng),
      addend(sizes(m, n), layout & 4, rng), c(sizes(m, n), layout & 8, rng);
  // As where a row is broadcast.
  if (layout & 4) addend.strides[addend.strides.size() - 2] = 0;
  const TensorView operands[] = {a.view(), b.view(), addend.view(), c.view()};
  const double numbers[] = {beta, alpha};
  LibraryArgs args{.operands = operands, .num_inputs = 3, .num_operands = 4, .numbers = numbers, .text = {}};
  RunError error;
  ASSERT_TRUE(library_matmul(args, &error));
  for (int64_t i = 0; i < std::max<int64_t>(batch, 1); ++i)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t at = 0; at < k; ++at) sum += static_cast<double>(a.at(i, row, at)) * b.at(i, at, column);
        sum = alpha * sum + (beta == 0 ? 0 : beta * addend.at(i, row, column));
        // Half of a step of float16 at the result, and float32's own errors.
        const double step = std::ldexp(1.0, std::max(std::ilogb(std::abs(sum) + 1e-30), -14) - 10);
        ASSERT_NEAR(c.at(i, row, column), sum, 0.5 * step + 1e-5 * (1 + k))
            << batch << " " << m << "x" << n << "x" << k << " layout " << layout << " factors " << beta << " "
            << alpha;
      }
}

TEST(Matmul, HalfWithAddendRoundsOnce) {
  for (int64_t batch : {0, 1, 3, 40})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 9, 33}, {5, 7, 3}, {16, 2, 64}, {33, 40, 17}, {4, 4, 0}})
      for (int layout = 0; layout < 16; ++layout)
        for (auto [beta, alpha] : {std::array<double, 2>{1, 1}, {0, 1}, {0.5, 2}, {0, -1}})
          check(batch, m, n, k, layout, beta, alpha);
}

}  // namespace
}  // namespace cdynamo::runtime
