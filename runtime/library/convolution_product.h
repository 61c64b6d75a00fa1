// The products that convolutions are made of (GatheredProduct), on the process's threads.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/gemm/kernels.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convolution_shape.h"
#include "runtime/library/library.h"

namespace cdynamo::runtime {

// A vector's elements, whatever its stride; empty where it is absent.
template <typename T>
std::vector<T> dense_values(const TensorView& view) {
  std::vector<T> values(view.data ? view.sizes[0] : 0);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<const T*>(view.data)[static_cast<int64_t>(i) * view.strides[0]];
  return values;
}

// Columns [first, last) on the calling thread.
template <typename T>
void multiply_columns(const GatheredProduct<T>& product, int64_t first, int64_t last) {
  if constexpr (sizeof(T) == 4)
    tiled_gemm().gathered_f32(product, first, last);
  else
    tiled_gemm().gathered_f64(product, first, last);
}

// How many parts of the rows threads take, each for some of the columns. Whoever computes a row packs its weights, which
// takes about as long as a few columns; so where there are few columns, it is better that each thread has rows of its own.
inline int64_t parts_of_rows(int64_t rows, int64_t columns, int64_t threads) {
  constexpr int64_t kPanel = 32, kPackingColumns = 24;
  const int64_t panels = (rows + kPanel - 1) / kPanel;
  auto cost = [&](int64_t parts) {
    const int64_t column_parts = threads / parts, panels_each = (panels + parts - 1) / parts,
                  columns_each = (columns + column_parts - 1) / column_parts;
    return static_cast<double>(panels_each * (columns_each + kPackingColumns));
  };
  int64_t best = 1;
  for (int64_t parts = 2; parts <= std::min(threads, panels); ++parts)
    if (threads % parts == 0 && cost(parts) < 0.97 * cost(best)) best = parts;
  return best;
}

// All columns.
template <typename T>
void multiply_gathered(const GatheredProduct<T>& product, int64_t columns) {
  constexpr int64_t kPanel = 32, kWorthThread = 1 << 18;  // multiplications and additions
  const int64_t work = product.rows * std::max<int64_t>(product.depth, 1) * columns;
  const int64_t threads = std::clamp<int64_t>(work / kWorthThread, 1, num_threads());
  const int64_t row_parts = parts_of_rows(product.rows, columns, threads), column_parts = threads / row_parts;
  const int64_t row_panels = (product.rows + kPanel - 1) / kPanel,
                column_panels = (columns + kPanel - 1) / kPanel;
  parallel_for(row_parts * column_parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % row_parts, c = i / row_parts;
      const int64_t first_row = row_panels * r / row_parts * kPanel,
                    last_row = std::min(row_panels * (r + 1) / row_parts * kPanel, product.rows);
      const int64_t first = column_panels * c / column_parts * kPanel,
                    last = std::min(column_panels * (c + 1) / column_parts * kPanel, columns);
      if (first_row >= last_row || first >= last) continue;
      GatheredProduct<T> part = product;
      part.rows = last_row - first_row;
      part.weights += first_row * product.weight_row_stride;
      if (part.bias) part.bias += first_row;
      part.out += first_row * product.out_row_stride;
      multiply_columns(part, first, last);
    }
  });
}

// Whether convolve_planes does: a small square kernel, adjacent pixels.
inline bool is_depthwise(const Convolution& conv, const TensorView& from, const TensorView& to) {
  const int64_t kernel = conv.kernel[2];
  return conv.rank == 2 && conv.kernel[1] == kernel && (kernel == 3 || kernel == 5 || kernel == 7) &&
         conv.stride == Dims{1, 1, 1} && conv.dilation == Dims{1, 1, 1} &&
         (from.sizes[3] == 1 || from.strides[3] == 1) && (to.sizes[3] == 1 || to.strides[3] == 1) &&
         (to.sizes[2] == 1 || to.strides[2] == to.sizes[3]);
}

// Each channel with kernels of its own, as many as there are channels of the result for one of the input. Weights are dense.
template <typename T>
void convolve_planes(const TensorView& input, const T* weights, int64_t kernel, int64_t padding,
                     const T* bias, const TensorView& output) {
  const int64_t channels = output.sizes[1], multiplier = channels / input.sizes[1];
  const int64_t work = output.sizes[2] * output.sizes[3] * kernel * kernel;
  parallel_for(
      output.sizes[0] * channels, std::max<int64_t>(1, (1 << 17) / work), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t n = item / channels, channel = item % channels;
          const DepthwisePlane<T> plane{
              .kernel = kernel,
              .padding = padding,
              .image = static_cast<const T*>(input.data) + n * input.strides[0] +
                       channel / multiplier * input.strides[1],
              .height = input.sizes[2],
              .width = input.sizes[3],
              .row_stride = input.strides[2],
              .weights = weights + channel * kernel * kernel,
              .bias = bias ? bias[channel] : T(0),
              .out = static_cast<T*>(output.data) + n * output.strides[0] + channel * output.strides[1],
              .out_height = output.sizes[2],
              .out_width = output.sizes[3]};
          if constexpr (sizeof(T) == 4)
            tiled_gemm().depthwise_f32(plane);
          else
            tiled_gemm().depthwise_f64(plane);
        }
      });
}

}  // namespace cdynamo::runtime
