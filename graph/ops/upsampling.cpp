// Images of other sizes: each pixel becomes several along each spatial dim. Whole factors alone; others are left to the framework.
#include <algorithm>

#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

// How many pixels one becomes along each spatial dim.
std::vector<int64_t> factors_of(Builder& b, const Args& args, Tensor x) {
  const size_t spatial = static_cast<size_t>(x.rank()) - 2;
  const std::vector<int64_t> output =
      args.has("output_size") ? args.constants("output_size") : std::vector<int64_t>();
  const Arg given = args.has("scale_factors") ? args["scale_factors"] : Arg();
  const auto* scales = std::get_if<std::vector<double>>(&given);
  if (x.rank() < 3 || (scales ? scales->size() : output.size()) != spatial)
    throw Unsupported("upsampling of a tensor of another rank");
  if (x.size(1) == Sym(0)) throw Unsupported("upsampling of no channel");
  std::vector<int64_t> factors;
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t size = b.sym().specialize(x.size(static_cast<int64_t>(d) + 2), "upsample");
    int64_t times = 0;
    if (scales)
      times = static_cast<int64_t>(scales->at(d));
    else if (size > 0 && output.at(d) % size == 0)
      times = output.at(d) / size;
    if (size < 1 || times < 1 || (scales && scales->at(d) != static_cast<double>(times)))
      throw Unsupported("upsampling by a factor that is not a whole number");
    factors.push_back(times);
  }
  return factors;
}

std::vector<Value*> nearest_body(Builder& b, const Args& args) {
  const Tensor x = operand(b, args, "input");
  if (!is_float(x.dtype()) && x.dtype() != DType::kU8) throw Unsupported("upsampling of integers");
  std::vector<Sym> paired = {x.size(0), x.size(1)}, wide = paired, sizes = paired;
  int64_t d = 2;
  for (int64_t times : factors_of(b, args, x)) {
    paired.insert(paired.end(), {x.size(d), 1});
    wide.insert(wide.end(), {x.size(d), times});
    sizes.push_back(x.size(d++) * Sym(times));
  }
  return one(reshape(expand(reshape(x, paired), wide), sizes));
}

// The pixel `by` places further along `d`; 0 where there is none.
Tensor neighbour(Tensor x, int64_t d, int64_t by) {
  const size_t rank = static_cast<size_t>(x.rank()), dim = static_cast<size_t>(d);
  std::vector<Sym> low(rank, Sym(0)), high(rank, Sym(0));
  (by < 0 ? low : high)[dim] = Sym(1);
  return pad(slice(x, d, by < 0 ? Sym(0) : Sym(1), x.size(d) - Sym(1)), low, high, 0.0);
}

// Point p of pixel q lies at (q * times + p + 0.5) / times - 0.5, between two pixels, and not before the first one. As eager has it
// (area_pixel_compute_source_index in ATen/native/UpSample.h), in the dtype of x with one rounding. The result has a dim for the
// points behind dim `d`.
Tensor between_pixels(Tensor x, int64_t d, int64_t times, Operand point) {
  Builder& b = *x.builder;
  std::vector<Sym> pixels(static_cast<size_t>(x.rank() - d) + 1, Sym(1));
  pixels[0] = x.size(d);
  const double exact = 1.0 / static_cast<double>(times);
  const double scale = x.dtype() == DType::kF64 ? exact : static_cast<float>(exact);
  const Tensor q = iota(b, pixels, 0, DType::kF64), pixel = cast(q, x.dtype());
  const Tensor at = maximum(cast((q * times + point + 0.5) * scale - 0.5, x.dtype()), 0);
  const Tensor is_before = lt(at, pixel), is_last = eq(q, x.size(d) - Sym(1));
  const Tensor weight = at - (pixel - cast(is_before, x.dtype()));
  const Tensor here = unsqueeze(x, d + 1), before = unsqueeze(neighbour(x, d, -1), d + 1),
               after = unsqueeze(neighbour(x, d, 1), d + 1);
  const Tensor left = where(is_before, before, here),
               right = where(logical_or(is_before, is_last), here, after);
  return left * (1 - weight) + right * weight;
}

Tensor linear(Tensor x, int64_t d, int64_t times) {
  constexpr int64_t kFewPoints = 8;
  if (times == 1) return x;
  Builder& b = *x.builder;
  std::vector<Sym> points(static_cast<size_t>(x.rank() - d) + 1, Sym(1)), sizes = x.sizes();
  points[1] = Sym(times);
  sizes[static_cast<size_t>(d)] = x.size(d) * Sym(times);
  Tensor result = between_pixels(x, d, times, iota(b, points, 1, DType::kF64));
  if (times <=
      kFewPoints) {  // the gradients of few points are added one by one: they are no rows to be summed
    std::vector<Tensor> each;
    for (int64_t point = 0; point < times; ++point) each.push_back(between_pixels(x, d, times, point));
    result = with_slope(result, concat(each, d + 1));
  }
  return reshape(result, sizes);
}

std::vector<Value*> linear_upsample_body(Builder& b, const Args& args) {
  const Tensor input = operand(b, args, "input");
  if (args.boolean("align_corners")) throw Unsupported("upsampling with align_corners");
  if (!is_float(input.dtype())) throw Unsupported("interpolation of integers");
  const std::vector<int64_t> factors = factors_of(b, args, input);
  Tensor x = to_compute(input);
  for (int64_t d = x.rank() - 1; d >= 2; --d) x = linear(x, d, factors[static_cast<size_t>(d) - 2]);
  return one(cast(x, input.dtype()));
}

OpDef upsampling(std::string_view name, std::string_view schema, BodyFn body) {
  OpDef op = composite(name, {schema}, body);
  op.strides = strides_of_pixels;
  return op;
}

}  // namespace

std::vector<OpDef> upsampling_ops() {
  return {
      upsampling("upsample_nearest1d",
                 "upsample_nearest1d.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor",
                 nearest_body),
      upsampling("upsample_nearest2d",
                 "upsample_nearest2d.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor",
                 nearest_body),
      upsampling("upsample_nearest3d",
                 "upsample_nearest3d.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor",
                 nearest_body),
      upsampling("upsample_linear1d",
                 "upsample_linear1d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? "
                 "scale_factors) -> Tensor",
                 linear_upsample_body),
      upsampling("upsample_bilinear2d",
                 "upsample_bilinear2d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? "
                 "scale_factors) -> Tensor",
                 linear_upsample_body),
      upsampling("upsample_trilinear3d",
                 "upsample_trilinear3d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? "
                 "scale_factors) -> Tensor",
                 linear_upsample_body),
  };
}

}  // namespace cdynamo::graph
