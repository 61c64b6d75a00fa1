// Convolution as a matrix product of the weights with windows of the input, which are read where they lie: the
// input is copied once into padded planes, one for each phase of the stride, so that a window's pixels are
// adjacent. Transposed convolution is PyTorch's where that is in the process, else a product and a
// folding.
#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "runtime/gemm/gemm.h"
#include "runtime/gemm/kernels.h"
#include "runtime/host/arena.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"
#include "runtime/library/convolution_product.h"
#include "runtime/library/convolution_shape.h"
#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

Convolution describe(const LibraryArgs& args) {
  Convolution conv;
  conv.rank = args.operands[0].rank - 2;
  const int64_t* at = conv.read_parameters(args.integers);
  at += conv.rank;  // the output padding shows in the output's sizes
  conv.transposed = at[0] != 0;
  conv.groups = at[1];
  const TensorView &input = args.operands[0], &output = args.output();
  conv.set_sizes(conv.transposed ? output : input, conv.transposed ? input : output, args.operands[1]);
  return conv;
}

// --- forward ---

// Channel `row` of an image's output starts as its bias.
template <typename T>
void fill_bias(const TensorView& bias, int64_t channel, T* to, int64_t count) {
  std::fill(to, to + count, static_cast<const T*>(bias.data)[channel * bias.strides[0]]);
}

// A 1x1 kernel: each image is the right side of a product as it is.
template <typename T>
void multiply_images(const Convolution& conv, const LibraryArgs& args, int64_t rows, int64_t pixels,
                     int64_t depth) {
  const TensorView &input = args.operands[0], &weight = args.operands[1], &bias = args.operands[2],
                   &output = args.output();
  const int64_t items = conv.batch * conv.groups;
  auto multiply = [&](int64_t item, auto&& product) {
    const int64_t n = item / conv.groups, group = item % conv.groups;
    T* out = static_cast<T*>(output.data) + n * output.strides[0] + group * rows * output.strides[1];
    if (bias.data)
      for (int64_t i = 0; i < rows; ++i)
        fill_bias(bias, group * rows + i, out + i * output.strides[1], pixels);
    const T* image =
        static_cast<const T*>(input.data) + n * input.strides[0] + group * depth * input.strides[1];
    product(GemmShape{rows, pixels, depth},
            ConstMatrix{static_cast<const T*>(weight.data) + group * rows * depth, depth, 1},
            ConstMatrix{image, input.strides[1], 1}, Matrix{out, output.strides[1], 1});
  };
  const bool accumulate = bias.data != nullptr;
  if (items >= num_threads())
    parallel_for(items, std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(rows * pixels * depth, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     multiply(i, [&](auto... x) { gemm_serial(output.dtype, x..., accumulate); });
                 });
  else
    for (int64_t i = 0; i < items; ++i) multiply(i, [&](auto... x) { gemm(output.dtype, x..., accumulate); });
}

// Groups of few channels: each thread copies a group's planes, which stay in its cache, and multiplies.
template <typename T>
void multiply_groups(const Convolution& conv, const Planes& planes, const LibraryArgs& args,
                     GatheredProduct<T> product) {
  const TensorView &input = args.operands[0], &output = args.output();
  const int64_t channels = conv.image_channels / conv.groups,
                work = product.rows * product.depth * product.pixels;
  const T* const bias = product.bias;
  parallel_for(conv.batch * conv.groups, std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(work, 1)),
               [&](int64_t begin, int64_t end) {
                 Arena arena((channels * planes.channel + 64) * sizeof(T));
                 if (!arena.data()) throw std::bad_alloc();
                 T* const buffer = reinterpret_cast<T*>(arena.data());
                 GatheredProduct<T> own = product;
                 own.base = buffer;
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t n = item / conv.groups, group = item % conv.groups;
                   for (int64_t c = 0; c < channels; ++c)
                     fill_channel(conv, planes, input, n, group * channels + c, buffer + c * planes.channel);
                   own.weights = product.weights + group * product.rows * product.depth;
                   own.bias = bias ? bias + group * product.rows : nullptr;
                   own.out = product.out + n * output.strides[0] + group * product.rows * output.strides[1];
                   multiply_columns(own, 0, own.pixels);
                 }
               });
}

template <typename T>
bool forward(const Convolution& conv, const LibraryArgs& args) {
  const TensorView &input = args.operands[0], &weight = args.operands[1], &bias = args.operands[2],
                   &output = args.output();
  const std::vector<int64_t> dense_output = dense_strides(output.sizes, output.rank),
                             dense_weight = dense_strides(weight.sizes, weight.rank);
  for (int d = 2; d < output.rank; ++d)
    if (output.sizes[d] != 1 && output.strides[d] != dense_output[d]) return false;
  for (int d = 0; d < weight.rank; ++d)
    if (weight.sizes[d] != 1 && weight.strides[d] != dense_weight[d]) return false;
  const Planes planes(conv);
  const int64_t pixels = conv.count(conv.windows), rows = conv.window_channels / conv.groups,
                group_channels = conv.image_channels / conv.groups;
  // Rows of pixels are rows of a plane, so a volume is multiplied slice by slice.
  const int64_t slices = conv.windows[0], slice_pixels = pixels / std::max<int64_t>(slices, 1);
  const int64_t depth = group_channels * conv.count(conv.kernel);
  // A 1x1 kernel over a dense image reads the image itself.
  const bool direct = conv.count(conv.kernel) == 1 && planes.channel == conv.count(conv.image) &&
                      conv.padding == Dims{0, 0, 0} && input.strides[1] == planes.channel &&
                      (input.rank < 4 || input.strides[2] == input.sizes[3]) &&
                      input.strides[input.rank - 1] == 1;
  constexpr int64_t kMostElements = int64_t{1} << 22;
  const int64_t together =
      std::clamp<int64_t>(kMostElements / std::max<int64_t>(planes.image, 1), 1, conv.batch);
  // In place of panels of 32 pixels, of which small images leave much empty, tiles of a few.
  const bool in_place = direct && depth > kLittleDepth && rows % kManyRows == 0 &&
                        100 * ((pixels + 31) / 32 * 32) > 105 * pixels;
  if (direct && !in_place) {
    multiply_images<T>(conv, args, rows, pixels, depth);
    return true;
  }
  const std::vector<int64_t> offsets = window_offsets(conv, planes);
  const std::vector<T> dense_bias = dense_values<T>(bias);
  GatheredProduct<T> product{.rows = rows,
                             .depth = depth,
                             .pixels = slice_pixels,
                             .row_length = conv.windows[2],
                             .image_stride = planes.image,
                             .row_stride = planes.extent[2],
                             .weights = static_cast<const T*>(weight.data),
                             .weight_row_stride = depth,
                             .bias = bias.data ? dense_bias.data() : nullptr,
                             .base = nullptr,
                             .depth_offsets = offsets.data(),
                             .out = static_cast<T*>(output.data),
                             .out_row_stride = output.strides[1],
                             .out_image_stride = output.strides[0]};
  // Images from the n-th on, which lie at `base`; one slice of each.
  const auto multiply = [&](const T* base, int64_t n, int64_t images) {
    for (int64_t group = 0; group < conv.groups; ++group) {
      GatheredProduct<T> part = product;
      part.weights += group * rows * depth;
      if (part.bias) part.bias += group * rows;
      part.base = base + group * group_channels * planes.channel;
      part.out += n * output.strides[0] + group * rows * output.strides[1];
      multiply_gathered(part, images * part.pixels);
    }
  };
  if (in_place) {
    product.pixels = product.row_length = pixels;
    product.image_stride = input.strides[0];
    multiply(static_cast<const T*>(input.data), 0, conv.batch);
    return true;
  }
  if (slices == 1 && conv.image_channels == conv.groups && conv.padding[1] == conv.padding[2] &&
      is_depthwise(conv, input, output)) {
    convolve_planes(input, product.weights, conv.kernel[2], conv.padding[2], product.bias, output);
    return true;
  }
  if (slices == 1 && conv.groups > 1 && conv.batch * conv.groups >= 2 * num_threads()) {
    multiply_groups(conv, planes, args, product);
    return true;
  }
  Arena arena((together * planes.image + 64) * sizeof(T));
  if (!arena.data()) throw std::bad_alloc();
  T* buffer = reinterpret_cast<T*>(arena.data());
  for (int64_t n0 = 0; n0 < conv.batch; n0 += together) {
    const int64_t images = std::min(together, conv.batch - n0);
    fill_images(conv, planes, input, n0, images, buffer);
    for (int64_t slice = 0; slice < slices; ++slice, product.out += slice_pixels)
      multiply(buffer + slice * planes.extent[1] * planes.extent[2], n0, images);
    product.out -= pixels;
  }
  return true;
}

// --- by unfolding: everything else ---

// Calls fn(column of the unfolded matrix, element of the image or -1) for each window position of kernel
// element `k`.
template <typename F>
void for_each_window(const Convolution& conv, int64_t k, F&& fn) {
  Dims at_kernel{}, at{};
  for (int d = kMostRank - 1; d >= 0; --d) {
    at_kernel[d] = k % conv.kernel[d];
    k /= conv.kernel[d];
  }
  const int64_t columns = conv.count(conv.windows);
  for (int64_t column = 0; column < columns; ++column) {
    int64_t element = 0;
    for (int d = 0; d < kMostRank && element >= 0; ++d) {
      const int64_t i = at[d] * conv.stride[d] - conv.padding[d] + at_kernel[d] * conv.dilation[d];
      element = i < 0 || i >= conv.image[d] ? -1 : element * conv.image[d] + i;
    }
    fn(column, element);
    for (int d = kMostRank - 1; d >= 0; --d) {
      if (++at[d] < conv.windows[d]) break;
      at[d] = 0;
    }
  }
}

// input (N,C,image) -> output (N,O,windows), all dense. Transposed: input (N,O,windows) -> output
// (N,C,image).
template <typename T>
void unfold_and_multiply(const Convolution& conv, DType dtype, const T* input, const T* weight, const T* bias,
                         T* output) {
  const int64_t group_images = conv.image_channels / conv.groups,
                group_windows = conv.window_channels / conv.groups;
  const int64_t kernel = conv.count(conv.kernel), image_size = conv.count(conv.image),
                windows_size = conv.count(conv.windows);
  const int64_t unfolded_rows = group_images * kernel;
  parallel_for(conv.batch * conv.groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> unfolded(unfolded_rows * windows_size);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / conv.groups, group = item % conv.groups;
      const T* w = weight + group * group_windows * unfolded_rows;
      const int64_t image_at = (n * conv.image_channels + group * group_images) * image_size;
      const int64_t windows_at = (n * conv.window_channels + group * group_windows) * windows_size;
      const int64_t out_channels = conv.transposed ? group_images : group_windows,
                    out_size = conv.transposed ? image_size : windows_size;
      T* out = output + (conv.transposed ? image_at : windows_at);
      for (int64_t o = 0; o < out_channels; ++o)
        std::fill_n(out + o * out_size, out_size, bias ? bias[group * out_channels + o] : T(0));
      if (conv.transposed)
        gemm_serial(dtype, {unfolded_rows, windows_size, group_windows}, {w, 1, unfolded_rows},
                    {input + windows_at, windows_size, 1}, {unfolded.data(), windows_size, 1});
      for (int64_t row = 0; row < unfolded_rows; ++row) {
        const int64_t plane = image_at + row / kernel * image_size;
        T* column_data = unfolded.data() + row * windows_size;
        if (conv.transposed)
          for_each_window(conv, row % kernel, [&](int64_t column, int64_t element) {
            if (element >= 0) output[plane + element] += column_data[column];
          });
        else
          for_each_window(conv, row % kernel, [&](int64_t column, int64_t element) {
            column_data[column] = element < 0 ? T(0) : input[plane + element];
          });
      }
      if (!conv.transposed)
        gemm_serial(dtype, {group_windows, windows_size, unfolded_rows}, {w, unfolded_rows, 1},
                    {unfolded.data(), windows_size, 1}, {out, windows_size, 1}, true);
    }
  });
}

template <typename T>
void portable(const Convolution& conv, const LibraryArgs& args, DType dtype) {
  const TensorView &input = args.operands[0], &weight = args.operands[1], &bias = args.operands[2],
                   &output = args.output();
  std::vector<T> in(count_elements(input)), w(count_elements(weight)), b, out(count_elements(output));
  read_dense(input, in.data());
  read_dense(weight, w.data());
  if (bias.data) {
    b.resize(count_elements(bias));
    read_dense(bias, b.data());
  }
  unfold_and_multiply(conv, dtype, in.data(), w.data(), bias.data ? b.data() : nullptr, out.data());
  write_dense(output, out.data());
}

}  // namespace

bool has_spatial_rank(const TensorView& image, RunError* error) {
  const int rank = image.rank - 2;
  if (rank >= 1 && rank <= kMostRank) return true;
  *error = {RunError::kRuntimeError, absl::StrCat("convolution over ", rank, " dimensions")};
  return false;
}

const int64_t* Convolution::read_parameters(const int64_t* at) {
  const int first = kMostRank - rank;
  for (Dims* dims : {&stride, &padding, &dilation}) {
    std::copy_n(at, rank, dims->begin() + first);
    at += rank;
  }
  return at;
}

void Convolution::set_sizes(const TensorView& image_view, const TensorView& windows_view,
                            const TensorView& weight) {
  const int first = kMostRank - rank;
  batch = image_view.sizes[0];
  image_channels = image_view.sizes[1];
  window_channels = windows_view.sizes[1];
  for (int d = 0; d < rank; ++d) {
    kernel[first + d] = weight.sizes[2 + d];
    image[first + d] = image_view.sizes[2 + d];
    windows[first + d] = windows_view.sizes[2 + d];
  }
}

bool library_convolution(const LibraryArgs& args, RunError* error) {
  const TensorView& output = args.output();
  if (!has_spatial_rank(args.operands[0], error)) return false;
  if (count_elements(output) == 0) return true;
  const Convolution conv = describe(args);
  const bool tiled = !conv.transposed;
  if (tiled && output.dtype == DType::kF32 && forward<float>(conv, args)) return true;
  if (tiled && output.dtype == DType::kF64 && forward<double>(conv, args)) return true;
  if (conv.transposed && tiled_transposed_convolution(conv, args)) return true;
  if (torch_convolution(args)) return true;
  const bool wide = output.dtype == DType::kF64 || is_integer(output.dtype);
  if (wide)
    portable<double>(conv, args, DType::kF64);
  else
    portable<float>(conv, args, DType::kF32);
  return true;
}

}  // namespace cdynamo::runtime
