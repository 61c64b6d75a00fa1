// The register-tiled kernels behind gemm(): one file for each instruction set, chosen at the first call.
#pragma once

#include "runtime/gemm/gemm.h"

namespace cdynamo::runtime {

using TiledGemmFn = void (*)(const GemmShape& shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate);

// A product with a right side that is read through offsets, as a convolution's is: column j is pixel j %
// pixels of image j / pixels, pixels lie in rows, and out[i][j] = bias[i] + sum over k of weights[i][k]
// * base[depth_offsets[k] + offset of pixel j]. `base` may be read up to 64 elements past the last pixel's.
// With a depth of more than this, and rows in multiples of kManyRows, nothing past the last pixel is read.
constexpr int64_t kLittleDepth = 160, kManyRows = 32;
template <typename T>
struct GatheredProduct {
  int64_t rows, depth;  // of weights
  int64_t pixels, row_length;
  int64_t image_stride, row_stride;  // of base
  const T* weights;                  // (i, k) at weights[i * weight_row_stride + k], or + weight_offsets[k]
  int64_t weight_row_stride;
  const int64_t* weight_offsets = nullptr;
  const T* bias;  // null: zeros
  const T* base;
  const int64_t* depth_offsets;
  T* out;
  int64_t out_row_stride, out_image_stride;
};

// Sums over pixels of products of channels, as a convolution's weight gradient is: sums[k][i] += sum over pixels of left[pixel][i] *
// base[depth_offsets[k] + offset of the pixel], for each lane i. Pixels lie in rows; those of `left` are adjacent.
template <typename T>
struct GatheredSums {
  int64_t lanes, depth;
  const T* left;
  const T* base;
  const int64_t* depth_offsets;
  const int64_t* row_offsets;
  int64_t rows, row_length;
  T* sums;
};

template <typename T>
struct SumKernels {
  // How many lanes to compute `channels` with, several times over if need be.
  int64_t (*lanes)(int64_t channels);
  // out[pixel][lane] = from[lane * channel_stride + pixel * pixel_stride], 0 from lane `channels` on.
  void (*pack)(const T* from, int64_t channel_stride, int64_t pixel_stride, int64_t channels, int64_t pixels,
               T* out, int64_t lanes);
  void (*run)(const GatheredSums<T>& sums);
  T (*dot)(const T* a, const T* b, int64_t count);  // of adjacent elements
};

// Lines one after the other: to[line][i] = from[line * line_stride + (i - low) * step] for low <= i < high, 0 elsewhere.
template <typename T>
struct LineCopies {
  const T* from;
  int64_t line_stride, step;
  T* to;
  int64_t lines, count, low, high;
};

// out = bias + the plane convolved with a square kernel of 3, 5 or 7, stride 1. The result is dense.
template <typename T>
struct DepthwisePlane {
  int64_t kernel, padding;
  const T* image;
  int64_t height, width, row_stride;
  const T* weights;
  T bias;
  T* out;
  int64_t out_height, out_width;
};

struct TiledGemm {
  TiledGemmFn f32, f64;
  // Columns [first, last) of the product.
  void (*gathered_f32)(const GatheredProduct<float>& product, int64_t first, int64_t last);
  void (*gathered_f64)(const GatheredProduct<double>& product, int64_t first, int64_t last);
  SumKernels<float> sums_f32;
  SumKernels<double> sums_f64;
  void (*copy_lines_f32)(const LineCopies<float>& copies);
  void (*copy_lines_f64)(const LineCopies<double>& copies);
  void (*depthwise_f32)(const DepthwisePlane<float>& plane);
  void (*depthwise_f64)(const DepthwisePlane<double>& plane);
};

const TiledGemm& tiled_gemm_avx512();
const TiledGemm& tiled_gemm_avx2();
const TiledGemm& tiled_gemm_generic();
// The best that this processor has.
const TiledGemm& tiled_gemm();

}  // namespace cdynamo::runtime
