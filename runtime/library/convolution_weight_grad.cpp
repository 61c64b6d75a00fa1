// The gradient of a convolution's weight: weight (o, c, k) is the sum over images and windows of windows (n, o, x) times the image's
// element of channel c that kernel element k of window x covers. Images are copied into padded planes as for the forward.
#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/gemm/kernels.h"
#include "runtime/host/arena.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"
#include "runtime/library/convolution_shape.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

template <typename T>
const SumKernels<T>& sum_kernels() {
  if constexpr (sizeof(T) == 4)
    return tiled_gemm().sums_f32;
  else
    return tiled_gemm().sums_f64;
}

// Rows of windows of the images at hand, numbered through: where each begins in the windows and in the planes.
struct Rows {
  std::vector<int64_t> in_windows, in_planes;

  Rows(const Convolution& conv, const Planes& planes, const TensorView& windows, int64_t images) {
    const Dims strides = spatial_strides(windows);
    for (int64_t n = 0; n < images; ++n)
      for (int64_t d = 0; d < conv.windows[0]; ++d)
        for (int64_t h = 0; h < conv.windows[1]; ++h) {
          in_windows.push_back(n * windows.strides[0] + d * strides[0] + h * strides[1]);
          in_planes.push_back(n * planes.image + (d * planes.extent[1] + h) * planes.extent[2]);
        }
  }
};

// The images at hand, in padded planes.
template <typename T>
struct Chunk {
  const Convolution& conv;
  const Planes& planes;
  const TensorView& windows;
  const Rows& rows;
  const T* base;
  int64_t image;  // the first
  const T* windows_data() const { return static_cast<const T*>(windows.data) + image * windows.strides[0]; }
};

// A tile of the result: some output channels of a group, as lanes, times some of (channel, kernel element).
struct WeightTile {
  int64_t group, channel, channels, depth_begin, depth_end;
};

template <typename T>
void add_sums(const Chunk<T>& chunk, const WeightTile& tile, const int64_t* offsets, int64_t lanes, T* packed,
              T* sums) {
  constexpr int64_t kPixels = 112;  // packed pixels that stay in the first cache
  const Convolution& conv = chunk.conv;
  const int64_t group_windows = conv.window_channels / conv.groups,
                group_image = conv.image_channels / conv.groups;
  const int64_t length = conv.windows[2], stride = spatial_strides(chunk.windows)[2];
  const int64_t piece = std::min(length, kPixels), rows_at_once = std::max<int64_t>(1, kPixels / length);
  const int64_t rows = static_cast<int64_t>(chunk.rows.in_planes.size());
  const T* from =
      chunk.windows_data() + (tile.group * group_windows + tile.channel) * chunk.windows.strides[1];
  const SumKernels<T>& kernels = sum_kernels<T>();
  for (int64_t row = 0; row < rows; row += rows_at_once)
    for (int64_t x = 0; x < length; x += piece) {
      const int64_t count = std::min(rows_at_once, rows - row), pixels = std::min(piece, length - x);
      for (int64_t i = 0; i < count; ++i)
        kernels.pack(from + chunk.rows.in_windows[row + i] + x * stride, chunk.windows.strides[1], stride,
                     tile.channels, pixels, packed + i * pixels * lanes, lanes);
      kernels.run({.lanes = lanes,
                   .depth = tile.depth_end - tile.depth_begin,
                   .left = packed,
                   .base = chunk.base + tile.group * group_image * chunk.planes.channel + x,
                   .depth_offsets = offsets + tile.depth_begin,
                   .row_offsets = chunk.rows.in_planes.data() + row,
                   .rows = count,
                   .row_length = pixels,
                   .sums = sums});
    }
}

// Few channels a group: each weight is one sum of products of rows.
template <typename T>
void add_dots(const Chunk<T>& chunk, const WeightTile& tile, const int64_t* offsets, T* sums) {
  const Convolution& conv = chunk.conv;
  const int64_t group_windows = conv.window_channels / conv.groups,
                group_image = conv.image_channels / conv.groups;
  const SumKernels<T>& kernels = sum_kernels<T>();
  const T* base = chunk.base + tile.group * group_image * chunk.planes.channel;
  for (int64_t k = tile.depth_begin; k < tile.depth_end; ++k)
    for (int64_t c = 0; c < tile.channels; ++c) {
      const T* from =
          chunk.windows_data() + (tile.group * group_windows + tile.channel + c) * chunk.windows.strides[1];
      T total = 0;
      for (size_t row = 0; row < chunk.rows.in_planes.size(); ++row)
        total += kernels.dot(from + chunk.rows.in_windows[row], base + offsets[k] + chunk.rows.in_planes[row],
                             conv.windows[2]);
      sums[(k - tile.depth_begin) * tile.channels + c] += total;
    }
}

// Where (channel, kernel element) lies in the weight.
std::vector<int64_t> weight_offsets(const Convolution& conv, const TensorView& weight) {
  const Dims strides = spatial_strides(weight);
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < conv.image_channels / conv.groups; ++c)
    for (int64_t d = 0; d < conv.kernel[0]; ++d)
      for (int64_t h = 0; h < conv.kernel[1]; ++h)
        for (int64_t w = 0; w < conv.kernel[2]; ++w)
          offsets.push_back(c * weight.strides[1] + d * strides[0] + h * strides[1] + w * strides[2]);
  return offsets;
}

// The sums have lanes side by side, the weight its kernel elements: transposed in blocks that stay in the first cache.
template <typename T>
void store_part(const Convolution& conv, const WeightTile& tile, const TensorView& weight,
                const int64_t* offsets, const T* sums, int64_t lanes, bool add) {
  constexpr int64_t kBlock = 32;
  const int64_t first = tile.group * (conv.window_channels / conv.groups) + tile.channel;
  for (int64_t k0 = tile.depth_begin; k0 < tile.depth_end; k0 += kBlock) {
    const int64_t end = std::min(tile.depth_end, k0 + kBlock);
    for (int64_t c = 0; c < tile.channels; ++c) {
      T* to = static_cast<T*>(weight.data) + (first + c) * weight.strides[0];
      const T* from = sums + c - tile.depth_begin * lanes;
      for (int64_t k = k0; k < end; ++k)
        to[offsets[k]] = add ? to[offsets[k]] + from[k * lanes] : from[k * lanes];
    }
  }
}

// Parts that keep their sums in the second cache, at least one a thread where there is work.
std::vector<WeightTile> cut(const Convolution& conv, int64_t lanes, int64_t work) {
  constexpr int64_t kMostDepth = 1536, kWorthThreads = 1 << 20, kLeastDepth = 48;
  const int64_t depth = conv.image_channels / conv.groups * conv.count(conv.kernel),
                channels = conv.window_channels / conv.groups;
  const int64_t blocks = conv.groups * ((channels + lanes - 1) / lanes);
  int64_t pieces = (depth + kMostDepth - 1) / kMostDepth;
  if (work >= kWorthThreads) {
    const int64_t threads = num_threads();
    while (blocks * pieces % threads != 0 && blocks * pieces < 4 * threads &&
           depth / (pieces + 1) >= kLeastDepth)
      ++pieces;
  }
  const int64_t step = (depth + pieces - 1) / pieces;
  std::vector<WeightTile> tiles;
  for (int64_t group = 0; group < conv.groups; ++group)
    for (int64_t c = 0; c < channels; c += lanes)
      for (int64_t k = 0; k < depth; k += step)
        tiles.push_back({group, c, std::min(lanes, channels - c), k, std::min(k + step, depth)});
  return tiles;
}

template <typename T>
void weight_grad(const Convolution& conv, const TensorView& windows, const TensorView& image,
                 const TensorView& weight) {
  constexpr int64_t kMostElements = int64_t{1} << 22, kFewChannels = 4, kPackedPixels = 112;
  const Planes planes(conv);
  const std::vector<int64_t> offsets = window_offsets(conv, planes), places = weight_offsets(conv, weight);
  const int64_t channels = conv.window_channels / conv.groups;
  const bool dots = channels <= kFewChannels && spatial_strides(windows)[2] == 1;
  const int64_t lanes = dots ? channels : sum_kernels<T>().lanes(channels);
  const int64_t pixels = conv.batch * conv.count(conv.windows);
  const std::vector<WeightTile> tiles =
      cut(conv, lanes, pixels * channels * static_cast<int64_t>(offsets.size()));
  const int64_t most = std::clamp<int64_t>(kMostElements / std::max<int64_t>(planes.image, 1), 1, conv.batch);
  Arena arena((most * planes.image + 64) * sizeof(T));
  if (!arena.data()) throw std::bad_alloc();
  T* base = reinterpret_cast<T*>(arena.data());
  for (int64_t n = 0; n < conv.batch; n += most) {
    const int64_t images = std::min(most, conv.batch - n);
    fill_images(conv, planes, image, n, images, base);
    const Rows rows(conv, planes, windows, images);
    const Chunk<T> chunk{conv, planes, windows, rows, base, n};
    const int64_t work =
        images * conv.count(conv.windows) * lanes * (tiles[0].depth_end - tiles[0].depth_begin);
    parallel_for(static_cast<int64_t>(tiles.size()),
                 std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(work, 1)),
                 [&](int64_t begin, int64_t end) {
                   std::vector<T> packed(dots ? 0 : kPackedPixels * lanes + 64), sums;
                   for (int64_t i = begin; i < end; ++i) {
                     const WeightTile& tile = tiles[i];
                     sums.assign((tile.depth_end - tile.depth_begin) * lanes, T(0));
                     if (dots)
                       add_dots(chunk, tile, offsets.data(), sums.data());
                     else
                       add_sums(chunk, tile, offsets.data(), lanes, packed.data(), sums.data());
                     store_part(conv, tile, weight, places.data(), sums.data(), lanes, n > 0);
                   }
                 });
  }
}

// A dense float32 or float64 copy of a tensor.
template <typename T>
struct Dense {
  std::vector<T> values;
  std::vector<int64_t> strides;
  TensorView view;

  explicit Dense(const TensorView& from)
      : values(count_elements(from)), strides(dense_strides(from.sizes, from.rank)), view(from) {
    view.data = values.data();
    view.strides = strides.data();
    view.dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  }
};

template <typename T>
void widened(const Convolution& conv, const LibraryArgs& args) {
  Dense<T> windows(args.operands[0]), image(args.operands[1]), weight(args.output());
  read_dense(args.operands[0], windows.values.data());
  read_dense(args.operands[1], image.values.data());
  weight_grad<T>(conv, windows.view, image.view, weight.view);
  write_dense(args.output(), weight.values.data());
}

}  // namespace

bool library_convolution_weight_grad(const LibraryArgs& args, RunError* error) {
  const TensorView &windows = args.operands[0], &image = args.operands[1], &weight = args.output();
  if (!has_spatial_rank(image, error)) return false;
  if (count_elements(weight) == 0) return true;
  if (count_elements(windows) == 0 || count_elements(image) == 0) {
    write_dense(weight, std::vector<double>(count_elements(weight)).data());
    return true;
  }
  Convolution conv;
  conv.rank = image.rank - 2;
  const int64_t* at = conv.read_parameters(args.integers);
  conv.groups = *at;
  conv.set_sizes(image, windows, weight);
  // Few channels a group leave vectors empty, and PyTorch's library has instructions for half types.
  const bool few = conv.groups > 1 && conv.window_channels / conv.groups < 8;
  if ((few || is_half(weight.dtype)) && torch_convolution_weight_grad(args)) return true;
  switch (weight.dtype) {
    case DType::kF32: weight_grad<float>(conv, windows, image, weight); break;
    case DType::kF64: weight_grad<double>(conv, windows, image, weight); break;
    default:
      if (is_integer(weight.dtype))
        widened<double>(conv, args);
      else
        widened<float>(conv, args);
  }
  return true;
}

}  // namespace cdynamo::runtime
