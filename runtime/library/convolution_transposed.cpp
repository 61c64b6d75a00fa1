// Transposed convolution, which is also the gradient of a convolution's input. Image place y gets windows' places x with y + padding =
// x * stride + k * dilation: the places of one phase of the stride see the same kernel elements, so each phase is a plain convolution
// of stride 1 over the windows, padded with zeros. Its result goes to every stride-th place of the image.
#include <algorithm>
#include <new>

#include "runtime/host/arena.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"
#include "runtime/library/convolution_product.h"
#include "runtime/library/convolution_shape.h"

namespace cdynamo::runtime {
namespace {

// Along one dim: the kernel elements that a phase of the image sees, and its places.
struct Phase {
  std::vector<int64_t> kernel, back;  // elements, and how many windows each lies back
  int64_t first_place = 0;            // in the image
  int64_t first_window = 0, count = 0;
};

std::vector<Phase> phases_along(const Convolution& conv, int d) {
  const int64_t stride = conv.stride[d], padding = conv.padding[d];
  std::vector<Phase> phases(stride);
  for (int64_t f = 0; f < stride; ++f) {
    Phase& phase = phases[f];
    for (int64_t k = 0; k < conv.kernel[d]; ++k)
      if (k * conv.dilation[d] % stride == f) {
        phase.kernel.push_back(k);
        phase.back.push_back(k * conv.dilation[d] / stride);
      }
    phase.first_window = padding > f ? (padding - f + stride - 1) / stride : 0;
    phase.first_place = phase.first_window * stride + f - padding;
    if (phase.first_place < conv.image[d]) phase.count = (conv.image[d] - 1 - phase.first_place) / stride + 1;
  }
  return phases;
}

// The windows of one image with zeros around: along each dim, padded element i is window i - before.
struct Padded {
  std::array<std::vector<Phase>, kMostRank> phases;
  Dims before{}, extent{};
  int64_t channel = 0, image = 0;  // elements

  explicit Padded(const Convolution& conv) {
    for (int d = 0; d < kMostRank; ++d) {
      phases[d] = phases_along(conv, d);
      for (const Phase& phase : phases[d])
        for (int64_t back : phase.back) before[d] = std::max(before[d], back - phase.first_window);
      for (const Phase& phase : phases[d])
        extent[d] = std::max(extent[d], phase.first_window + phase.count + before[d]);
    }
    channel = extent[0] * extent[1] * extent[2];
    image = channel * conv.window_channels;
  }
};

template <typename T>
void fill_padded(const Convolution& conv, const Padded& padded, const TensorView& windows, int64_t n,
                 int64_t c, T* to) {
  const Dims strides = spatial_strides(windows);
  const T* from = static_cast<const T*>(windows.data) + n * windows.strides[0] + c * windows.strides[1];
  const int64_t plane = padded.extent[1] * padded.extent[2];
  const PaddedLines<T> line(padded.extent[2], -padded.before[2], 1, conv.windows[2]);
  for (int64_t d = 0; d < padded.extent[0]; ++d, to += plane) {
    const int64_t at = d - padded.before[0];
    if (at < 0 || at >= conv.windows[0])
      std::fill(to, to + plane, T(0));
    else
      fill_plane(line, padded.extent[1], -padded.before[1], 1, conv.windows[1], from + at * strides[0],
                 strides[1], strides[2], to);
  }
}

// One phase: what its products read.
struct PhaseProduct {
  const Phase &d, &h, &w;
  // Of each pair of a channel of the group's windows and a kernel element: in the padded windows, and in the weight.
  std::vector<int64_t> offsets, weight_offsets;
  int64_t depth() const { return static_cast<int64_t>(offsets.size()); }

  PhaseProduct(const Convolution& conv, const Padded& padded, const TensorView& weight, const Phase& d,
               const Phase& h, const Phase& w)
      : d(d), h(h), w(w) {
    const int64_t channels = conv.window_channels / conv.groups;
    const Dims strides = spatial_strides(weight);
    std::vector<int64_t> elements;  // in the weight
    for (size_t i = 0; i < d.kernel.size(); ++i)
      for (size_t j = 0; j < h.kernel.size(); ++j)
        for (size_t k = 0; k < w.kernel.size(); ++k) {
          elements.push_back(d.kernel[i] * strides[0] + h.kernel[j] * strides[1] + w.kernel[k] * strides[2]);
          offsets.push_back(((d.first_window + padded.before[0] - d.back[i]) * padded.extent[1] +
                             h.first_window + padded.before[1] - h.back[j]) *
                                padded.extent[2] +
                            w.first_window + padded.before[2] - w.back[k]);
        }
    const int64_t kernel = static_cast<int64_t>(elements.size());
    offsets.resize(channels * kernel);
    for (int64_t i = kernel; i < channels * kernel; ++i) offsets[i] = offsets[i - kernel] + padded.channel;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t element : elements) weight_offsets.push_back(c * weight.strides[0] + element);
  }
};

template <typename T>
class Transposed {
 public:
  Transposed(const Convolution& conv, const LibraryArgs& args)
      : conv_(conv),
        padded_(conv),
        windows_(args.operands[0]),
        weight_(args.operands[1]),
        bias_(args.operands[2]),
        image_(args.output()),
        dense_bias_(dense_values<T>(bias_)) {}

  void run() {
    constexpr int64_t kMostElements = int64_t{1} << 22;
    const int64_t most =
        std::clamp<int64_t>(kMostElements / std::max<int64_t>(padded_.image, 1), 1, conv_.batch);
    Arena arena((most * padded_.image + 64) * sizeof(T));
    if (!arena.data()) throw std::bad_alloc();
    base_ = reinterpret_cast<T*>(arena.data());
    for (int64_t n = 0; n < conv_.batch; n += most) {
      const int64_t images = std::min(most, conv_.batch - n);
      parallel_for(images * conv_.window_channels,
                   std::max<int64_t>(1, 16384 / std::max<int64_t>(padded_.channel, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       fill_padded(conv_, padded_, windows_, n + i / conv_.window_channels,
                                   i % conv_.window_channels, base_ + i * padded_.channel);
                   });
      for (int64_t group = 0; group < conv_.groups; ++group)
        for (const Phase& d : padded_.phases[0])
          for (const Phase& h : padded_.phases[1])
            for (const Phase& w : padded_.phases[2])
              if (d.count > 0 && h.count > 0 && w.count > 0)
                run_phase(n, images, group, PhaseProduct(conv_, padded_, weight_, d, h, w));
    }
  }

 private:
  // The phase's places are adjacent in each plane of the image.
  bool writes_planes(const PhaseProduct& phase) const {
    const Dims strides = spatial_strides(image_);
    return conv_.stride[1] == 1 && conv_.stride[2] == 1 && (conv_.image[2] == 1 || strides[2] == 1) &&
           (conv_.image[1] == 1 || strides[1] == conv_.image[2]);
  }

  void run_phase(int64_t n, int64_t images, int64_t group, const PhaseProduct& phase) {
    const int64_t rows = conv_.image_channels / conv_.groups, pixels = phase.h.count * phase.w.count;
    T* out = static_cast<T*>(image_.data) + n * image_.strides[0] + group * rows * image_.strides[1];
    const bool direct = writes_planes(phase);
    Arena memory(direct ? 0 : images * rows * pixels * sizeof(T));
    if (!direct && !memory.data()) throw std::bad_alloc();
    T* const result = reinterpret_cast<T*>(memory.data());
    const int64_t first = group * (conv_.window_channels / conv_.groups) * padded_.channel;
    for (int64_t d = 0; d < phase.d.count; ++d) {
      const int64_t place = (phase.d.first_place + d * conv_.stride[0]) * spatial_strides(image_)[0];
      GatheredProduct<T> product{
          .rows = rows,
          .depth = phase.depth(),
          .pixels = pixels,
          .row_length = phase.w.count,
          .image_stride = padded_.image,
          .row_stride = padded_.extent[2],
          .weights = static_cast<const T*>(weight_.data) +
                     group * (conv_.window_channels / conv_.groups) * weight_.strides[0],
          .weight_row_stride = weight_.strides[1],
          .weight_offsets = phase.weight_offsets.data(),
          .bias = bias_.data ? dense_bias_.data() + group * rows : nullptr,
          .base = base_ + first + d * padded_.extent[1] * padded_.extent[2],
          .depth_offsets = phase.offsets.data(),
          .out = direct ? out + place : result,
          .out_row_stride = direct ? image_.strides[1] : pixels,
          .out_image_stride = direct ? image_.strides[0] : rows * pixels};
      multiply_gathered(product, images * pixels);
      if (!direct) scatter(phase, result, out + place, images);
    }
  }

  void scatter(const PhaseProduct& phase, const T* result, T* out, int64_t images) const {
    const int64_t rows = conv_.image_channels / conv_.groups, pixels = phase.h.count * phase.w.count;
    const Dims strides = spatial_strides(image_);
    parallel_for(images * rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(pixels, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const T* from = result + i * pixels;
                     T* plane = out + i / rows * image_.strides[0] + i % rows * image_.strides[1];
                     for (int64_t h = 0; h < phase.h.count; ++h) {
                       T* to = plane + (phase.h.first_place + h * conv_.stride[1]) * strides[1] +
                               phase.w.first_place * strides[2];
                       for (int64_t w = 0; w < phase.w.count; ++w)
                         to[w * conv_.stride[2] * strides[2]] = *from++;
                     }
                   }
                 });
  }

  const Convolution& conv_;
  const Padded padded_;
  const TensorView &windows_, &weight_, &bias_, &image_;
  const std::vector<T> dense_bias_;
  T* base_ = nullptr;
};

template <typename T>
bool transposed(const Convolution& conv, const LibraryArgs& args) {
  const TensorView &windows = args.operands[0], &weight = args.operands[1], &bias = args.operands[2];
  const int64_t kernel = conv.count(conv.kernel);
  // A depthwise one is a depthwise convolution with the kernels turned round.
  if (conv.window_channels == conv.groups && conv.image_channels == conv.groups && conv.rank == 2 &&
      conv.padding[1] == conv.padding[2] && conv.kernel[2] > conv.padding[2] &&
      is_depthwise(conv, windows, args.output())) {
    const Dims strides = spatial_strides(weight);
    std::vector<T> turned(conv.groups * kernel);
    for (int64_t c = 0; c < conv.groups; ++c)
      for (int64_t k = 0; k < kernel; ++k)
        turned[c * kernel + kernel - 1 - k] =
            static_cast<const T*>(weight.data)[c * weight.strides[0] + k / conv.kernel[2] * strides[1] +
                                               k % conv.kernel[2] * strides[2]];
    const std::vector<T> biases = dense_values<T>(bias);
    convolve_planes(windows, turned.data(), conv.kernel[2], conv.kernel[2] - 1 - conv.padding[2],
                    bias.data ? biases.data() : nullptr, args.output());
    return true;
  }
  // With few channels a group there is too little for a tile.
  if (conv.groups > 1 && conv.image_channels / conv.groups < 4) return false;
  Transposed<T>(conv, args).run();
  return true;
}

}  // namespace

bool tiled_transposed_convolution(const Convolution& conv, const LibraryArgs& args) {
  const DType dtype = args.output().dtype;
  if (count_elements(args.operands[0]) == 0) return false;
  if (dtype == DType::kF32) return transposed<float>(conv, args);
  return dtype == DType::kF64 && transposed<double>(conv, args);
}

}  // namespace cdynamo::runtime
