// What the convolutions of this folder share: the problem's sizes, and images copied into padded planes, in which the pixels of a
// window's element are adjacent.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/gemm/kernels.h"
#include "runtime/library/library.h"

namespace cdynamo::runtime {

constexpr int kMostRank = 3;
using Dims = std::array<int64_t, kMostRank>;

// Always three spatial dims; those that the problem lacks are 1 and come first. Windows lie stride steps apart in the image: they are
// the result of a plain convolution, the input of a transposed one.
struct Convolution {
  int rank = 0;
  Dims stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1}, kernel{1, 1, 1}, image{1, 1, 1},
      windows{1, 1, 1};
  bool transposed = false;
  int64_t groups = 1, batch = 0, image_channels = 0, window_channels = 0;
  int64_t count(const Dims& dims) const { return dims[0] * dims[1] * dims[2]; }

  // Reads stride, padding and dilation; returns what follows them. `rank` is set.
  const int64_t* read_parameters(const int64_t* at);
  void set_sizes(const TensorView& image, const TensorView& windows, const TensorView& weight);
};

// One to three; false with an error elsewhere.
bool has_spatial_rank(const TensorView& image, RunError* error);

// Strides of the spatial dims, the missing ones 0.
inline Dims spatial_strides(const TensorView& view) {
  Dims strides{0, 0, 0};
  for (int d = 2; d < view.rank; ++d) strides[kMostRank - view.rank + d] = view.strides[d];
  return strides;
}

// The padded input of some images: for each channel one plane a phase of the strides; plane element (d, h, w)
// of phase (pd, ph, pw) is the padded image's element (d*sd + pd, h*sh + ph, w*sw + pw).
struct Planes {
  Dims phases{}, extent{};
  int64_t plane = 0, channel = 0, image = 0;  // elements

  explicit Planes(const Convolution& conv) {
    for (int d = 0; d < kMostRank; ++d) {
      const int64_t reach = (conv.kernel[d] - 1) * conv.dilation[d];
      phases[d] = std::min(conv.stride[d], reach + 1);
      extent[d] = conv.windows[d] + reach / conv.stride[d];
    }
    plane = extent[0] * extent[1] * extent[2];
    channel = plane * phases[0] * phases[1] * phases[2];
    image = channel * conv.image_channels;
  }
};

// Lines of an image in padded lines: element i of a line is image element first + i * step, 0 outside [0, size).
template <typename T>
struct PaddedLines {
  int64_t count, step, low, high;
  int64_t begin;  // of the image element that `low` is

  PaddedLines(int64_t count, int64_t first, int64_t step, int64_t size) : count(count), step(step) {
    low = std::clamp<int64_t>(first >= 0 ? 0 : (-first + step - 1) / step, 0, count);
    high = std::clamp<int64_t>(first >= size ? 0 : (size - 1 - first) / step + 1, low, count);
    begin = first + low * step;
  }
  void copy(const T* from, int64_t element_stride, int64_t line_stride, int64_t lines, T* to) const {
    const LineCopies<T> copies{.from = low < high ? from + begin * element_stride : from,
                               .line_stride = line_stride,
                               .step = step * element_stride,
                               .to = to,
                               .lines = lines,
                               .count = count,
                               .low = low,
                               .high = high};
    if constexpr (sizeof(T) == 4)
      tiled_gemm().copy_lines_f32(copies);
    else
      tiled_gemm().copy_lines_f64(copies);
  }
};

// A plane of lines: line i is image line first + i * step.
template <typename T>
void fill_plane(const PaddedLines<T>& line, int64_t lines, int64_t first, int64_t step, int64_t size,
                const T* from, int64_t line_stride, int64_t element_stride, T* to) {
  const PaddedLines<T> rows(lines, first, step, size);
  std::fill(to, to + rows.low * line.count, T(0));
  if (rows.low < rows.high)
    line.copy(from + rows.begin * line_stride, element_stride, step * line_stride, rows.high - rows.low,
              to + rows.low * line.count);
  std::fill(to + rows.high * line.count, to + lines * line.count, T(0));
}

template <typename T>
void fill_channel(const Convolution& conv, const Planes& planes, const TensorView& input, int64_t n,
                  int64_t c, T* to) {
  const Dims strides = spatial_strides(input);
  const T* from = static_cast<const T*>(input.data) + n * input.strides[0] + c * input.strides[1];
  const int64_t plane = planes.extent[1] * planes.extent[2];
  for (int64_t pd = 0; pd < planes.phases[0]; ++pd)
    for (int64_t ph = 0; ph < planes.phases[1]; ++ph)
      for (int64_t pw = 0; pw < planes.phases[2]; ++pw) {
        const PaddedLines<T> line(planes.extent[2], pw - conv.padding[2], conv.stride[2], conv.image[2]);
        for (int64_t d = 0; d < planes.extent[0]; ++d, to += plane) {
          const int64_t at = d * conv.stride[0] + pd - conv.padding[0];
          if (at < 0 || at >= conv.image[0])
            std::fill(to, to + plane, T(0));
          else
            fill_plane(line, planes.extent[1], ph - conv.padding[1], conv.stride[1], conv.image[1],
                       from + at * strides[0], strides[1], strides[2], to);
        }
      }
}

// Where window element k = (channel, kd, kh, kw) of a group's windows begins in the planes.
inline std::vector<int64_t> window_offsets(const Convolution& conv, const Planes& planes) {
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < conv.image_channels / conv.groups; ++c)
    for (int64_t kd = 0; kd < conv.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < conv.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < conv.kernel[2]; ++kw) {
          const Dims at{kd * conv.dilation[0], kh * conv.dilation[1], kw * conv.dilation[2]};
          int64_t phase = 0, element = 0;
          for (int d = 0; d < kMostRank; ++d) {
            phase = phase * planes.phases[d] + at[d] % conv.stride[d];
            element = element * planes.extent[d] + at[d] / conv.stride[d];
          }
          offsets.push_back(c * planes.channel + phase * planes.plane + element);
        }
  return offsets;
}

// The transposed convolution by register tiles; false where the portable way has to do it.
bool tiled_transposed_convolution(const Convolution& conv, const LibraryArgs& args);

// `images` images from the n-th on, channel after channel.
template <typename T>
void fill_images(const Convolution& conv, const Planes& planes, const TensorView& input, int64_t n,
                 int64_t images, T* to) {
  parallel_for(images * conv.image_channels,
               std::max<int64_t>(1, 16384 / std::max<int64_t>(planes.channel, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   fill_channel(conv, planes, input, n + i / conv.image_channels, i % conv.image_channels,
                                to + i * planes.channel);
               });
}

}  // namespace cdynamo::runtime
