// softmax and normalisations: of layers, batches, groups, instances. All compute in the compute type and
// round once.
#include <cmath>
#include <limits>

#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

// ---- softmax --------------------------------------------------------------------------------------------

Tensor softmax_of(Tensor x, int64_t dim, DType dtype) {
  Tensor e = exp(x - amax(x, {dim}, true));
  return with_softmax_gradient(cast(e / sum(e, {dim}, true), dtype), x, dim, false);
}

// Eager's log_softmax of a half type on the CPU rounds the sum and its logarithm where `dim` is the last. Its gradient is that
// of the logarithm before it is rounded to the type: half a unit there is 2 % of a probability.
Tensor log_softmax_of(Tensor x, int64_t dim, DType dtype) {
  const bool rounds = is_half(dtype) && dim == x.rank() - 1 && !on_gpu(x);
  auto rounded = [&](Tensor t) { return rounds ? to_compute(cast(t, dtype)) : t; };
  Tensor shifted = x - amax(x, {dim}, true);
  Tensor result = shifted - rounded(log(rounded(sum(exp(shifted), {dim}, true))));
  return cast(with_softmax_gradient(result, x, dim, true), dtype);
}

template <bool logarithm>
std::vector<Value*> softmax_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  DType dtype = args.schema().find("dtype") >= 0 ? dtype_or(args, self.dtype()) : self.dtype();
  if (!is_float(dtype))
    runtime_error(std::string("\"softmax_lastdim_kernel_impl\" not implemented for '") +
                  runtime::info(dtype).name + "'");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  Tensor x = cast(self, runtime::compute_type(dtype));
  if (x.rank() == 0) x = reshape(x, {1});
  return one(reshape(logarithm ? log_softmax_of(x, dim, dtype) : softmax_of(x, dim, dtype), self.sizes()));
}

// ---- layers ---------------------------------------------------------------------------------------------

struct Normalized {
  Tensor scaled, mean, rstd, squares;  // in the compute type
};
Normalized normalize(Tensor x, const Dims& dims, double eps) {
  Tensor center = mean(x, dims, true), difference = x - center;
  // All squares have one gradient: what flows through the mean is its product with the sum of the differences, which is 0.
  Tensor squares = with_slope(difference * difference, x, difference * 2.0);
  Tensor rstd = rsqrt(mean(squares, dims, true) + eps);
  return {difference * rstd, center, rstd, squares};
}

Dims trailing_dims(Builder& b, Tensor x, const std::vector<Sym>& shape, const char* name) {
  if (shape.empty())
    runtime_error(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got normalized_shape = []");
  int64_t first = x.rank() - static_cast<int64_t>(shape.size());
  bool fits = first >= 0;
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = b.sym().guard_eq(x.size(first + static_cast<int64_t>(i)), shape[i], name);
  if (!fits)
    runtime_error("Given normalized_shape=" + sizes_text(shape) + ", expected input with shape [*, " +
                  sizes_text(shape).substr(1) + ", but got input of size" + sizes_text(x.sizes()));
  Dims dims;
  for (int64_t d = first; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

// Eager's kernels have parameters of the input's dtype, or float32 ones beside half types.
void require_parameter_dtype(Tensor input, DType parameter) {
  const bool is_wider = is_half(input.dtype()) && parameter == DType::kF32;
  if (parameter != input.dtype() && !is_wider)
    throw Unsupported("normalization with parameters of another dtype");
}

Tensor affine(const Args& args, Tensor x, const std::vector<Sym>& shape) {
  auto parameter = [&](const char* name) {
    Tensor p = operand(*x.builder, args, name);
    bool fits = p.sizes().size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = x.builder->sym().guard_eq(p.size(static_cast<int64_t>(d)), shape[d], name);
    if (!fits)
      runtime_error(std::string("Expected ") + name + " to be of same shape as normalized_shape, but got " +
                    name + " of shape " + sizes_text(p.sizes()));
    return cast(p, x.dtype());
  };
  if (args.has("weight")) x = x * parameter("weight");
  if (args.has("bias")) x = x + parameter("bias");
  return x;
}

void require_float(Tensor x, const char* name) {
  if (!is_float(x.dtype()))
    runtime_error(std::string(name) + " not implemented for '" + runtime::info(x.dtype()).name + "'");
}

std::vector<Value*> layer_norm_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input");
  require_float(input, "\"LayerNormKernelImpl\"");
  for (const char* parameter : {"weight", "bias"})
    if (args.has(parameter)) require_parameter_dtype(input, operand_dtype(args, parameter));
  std::vector<Sym> shape = args.sizes("normalized_shape");
  Dims dims = trailing_dims(b, input, shape, "layer_norm");
  Normalized n = normalize(to_compute(input), dims, args.number("eps"));
  Tensor result = cast(affine(args, n.scaled, shape), input.dtype());
  if (args.schema().num_results == 1) return one(result);
  // The statistics have the parameters' dtype; a GPU's kernel leaves them unrounded.
  DType dtype = on_gpu(input)        ? runtime::compute_type(input.dtype())
                : args.has("weight") ? operand_dtype(args, "weight")
                                     : input.dtype();
  return {result.value, detach(cast(n.mean, dtype)).value, detach(cast(n.rstd, dtype)).value};
}

std::vector<Value*> rms_norm_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input");
  require_float(input, "\"rms_norm\"");
  std::vector<Sym> shape = args.sizes("normalized_shape");
  Dims dims = trailing_dims(b, input, shape, "rms_norm");
  static constexpr double kEps[] = {0x1p-10, 0x1p-7, 0x1p-23, 0x1p-52};
  double eps = args.has("eps") ? args.number("eps")
                               : kEps[static_cast<int>(input.dtype()) - static_cast<int>(DType::kF16)];
  Tensor x = to_compute(input);
  Tensor scaled = x * rsqrt(mean(x * x, dims, true) + eps);
  return one(cast(affine(args, scaled, shape), input.dtype()));
}

// ---- channels -------------------------------------------------------------------------------------------

// A vector of channels as a factor of (N, C, ...).
Tensor over_channels(Tensor vector, int rank) {
  std::vector<Sym> shape(rank, 1);
  shape[1] = vector.size(0);
  return reshape(vector, shape);
}
Tensor channel_parameter(Builder& b, const Args& args, const char* name, const Sym& channels, DType dtype) {
  Tensor p = operand(b, args, name);
  require_parameter_dtype(operand(b, args, "input"), p.dtype());
  if (p.rank() != 1 || !b.sym().guard_eq(p.size(0), channels, name))
    runtime_error(std::string(name) + " should contain " + channels.str() + " elements not " +
                  p.type().numel().str());
  return cast(p, dtype);
}

// What training makes of a running statistic; no gradient flows to it.
Tensor running_statistic(Builder& b, const Args& args, const char* name, Tensor of_batch) {
  Tensor old = channel_parameter(b, args, name, of_batch.size(0), of_batch.dtype());
  const auto* of_graph = std::get_if<Value*>(&args["momentum"]);
  const Operand momentum = of_graph ? Operand(wrap(b, *of_graph)) : Operand(args.number("momentum"));
  const Operand rest = of_graph ? Operand(1 - wrap(b, *of_graph)) : Operand(1 - args.number("momentum"));
  Tensor updated = detach(of_batch) * momentum + old * rest;
  return cast(updated, operand_dtype(args, name));
}

// Times the weight and plus the bias, where these are given.
Tensor affine_over_channels(Builder& b, const Args& args, Tensor x) {
  const Sym channels = x.size(1);
  if (args.has("weight"))
    x = x * over_channels(channel_parameter(b, args, "weight", channels, x.dtype()), x.rank());
  if (args.has("bias"))
    x = x + over_channels(channel_parameter(b, args, "bias", channels, x.dtype()), x.rank());
  return x;
}

// One factor and one term for each channel, as eager computes them.
std::vector<Value*> normalized_by_running(Builder& b, const Args& args, Tensor input) {
  const Tensor x = to_compute(input);
  const Sym channels = x.size(1);
  const DType dtype = x.dtype();
  Tensor center = channel_parameter(b, args, "running_mean", channels, dtype);
  Tensor factor = 1.0 / sqrt(channel_parameter(b, args, "running_var", channels, dtype) + args.number("eps"));
  if (args.has("weight")) factor = factor * channel_parameter(b, args, "weight", channels, dtype);
  Tensor term = -(center * factor);
  if (args.has("bias")) term = channel_parameter(b, args, "bias", channels, dtype) - center * factor;
  return one(cast(x * over_channels(factor, x.rank()) + over_channels(term, x.rank()), input.dtype()));
}

std::vector<Value*> batch_norm_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input");
  require_float(input, "\"batch_norm\"");
  if (input.rank() < 2) runtime_error("Expected input to have at least 2 dims");
  bool running = args.has("running_mean") && args.has("running_var"), training = args.boolean("training");
  if (!training && !running)
    runtime_error("Expected running_mean and running_var to be defined when training is False");
  if (training) {
    const Sym channels = input.size(1);
    const Tensor x = to_compute(input);
    Dims dims;
    for (int d = 0; d < x.rank(); ++d)
      if (d != 1) dims.push_back(d);
    if (b.sym().guard(Relation::kLe, count_along(x, dims), 1, "batch_norm"))
      throw Unsupported("batch_norm of one value per channel");
    Normalized n = normalize(x, dims, args.number("eps"));
    std::vector<Value*> results = one(cast(affine_over_channels(b, args, n.scaled), input.dtype()));
    if (!running) return results;
    // Then the new running statistics, the variance without bias.
    const Sym count = count_along(x, dims);
    Tensor unbiased = sum(n.squares, dims) / Operand(count - 1);
    results.push_back(running_statistic(b, args, "running_mean", reshape(n.mean, {channels})).value);
    results.push_back(running_statistic(b, args, "running_var", unbiased).value);
    return results;
  }
  return normalized_by_running(b, args, input);
}

void batch_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& input = args.value("input")->type;
  results[0].strides = is_contiguous(*graph.sym, input)
                           ? contiguous_strides(results[0].sizes)
                           : suggested_strides(*graph.sym, input, results[0].sizes);
}
void group_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = suggested_strides(*graph.sym, args.value("input")->type, results[0].sizes);
}
// Eager brings the input into the format that it suggests and multiplies it by what is left of the normalized dims.
void rms_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  TensorType input = args.value("input")->type, scale = input;
  if (!is_contiguous(*graph.sym, input) || suggests_channels_last(*graph.sym, input))
    input.strides = suggested_strides(*graph.sym, input, input.sizes);
  const size_t kept = input.sizes.size() - args.sizes("normalized_shape").size();
  std::fill(scale.sizes.begin() + static_cast<int64_t>(kept), scale.sizes.end(), Sym(1));
  scale.strides = contiguous_strides(scale.sizes);
  results[0].strides = elementwise_strides(*graph.sym, results[0].sizes, {&input, &scale});
}

// Eager keeps mean and 1 / deviation in the input's dtype, which is what its backward reads; parameters in
// float32 keep these in float32.
bool statistics_are_rounded(const Args& args, DType dtype) {
  if (!is_half(dtype)) return false;
  for (const char* parameter : {"weight", "bias"})
    if (args.has(parameter) && operand_dtype(args, parameter) != dtype) return false;
  return true;
}
// What normalize(x, dims, eps) would be with statistics in `dtype`, and its derivative.
Tensor normalized_with_rounded(Tensor x, const Normalized& n, const Dims& dims, double eps, DType dtype) {
  auto rounded = [&](Tensor t) { return to_compute(cast(detach(t), dtype)); };
  Tensor center = with_slope(rounded(n.mean), n.mean), distance = x - detach(center), rstd = rounded(n.rstd);
  // A variance that has the rounded 1 / deviation.
  Tensor variance = with_slope(1.0 / (rstd * rstd), mean(distance * distance, dims, true) + eps);
  return (x - center) * rsqrt(variance);
}

std::vector<Value*> group_norm_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input");
  require_float(input, "\"GroupNormKernelImpl\"");
  if (input.rank() < 2)
    runtime_error("Expected at least 2 dimensions for input tensor but received " +
                  std::to_string(input.rank()));
  Sym groups = args.integer("num_groups"), channels = input.size(1);
  if (!b.sym().guard(Relation::kLt, 0, groups, "group_norm") ||
      !b.sym().guard_eq(mod(channels, groups), 0, "group_norm"))
    runtime_error(
        "Expected number of channels in input to be divisible by num_groups, but got input of shape " +
        sizes_text(input.sizes()) + " and num_groups=" + groups.str());
  Tensor x = to_compute(input);
  Sym places = 1;
  for (int d = 2; d < x.rank(); ++d) places = places * x.size(d);
  Tensor grouped = reshape(x, {x.size(0), groups, floordiv(channels, groups) * places});
  const double eps = args.number("eps");
  auto affine = [&](Tensor t) { return affine_over_channels(b, args, reshape(t, x.sizes())); };
  const Normalized n = normalize(grouped, {2}, eps);
  Tensor result = affine(n.scaled);
  if (statistics_are_rounded(args, input.dtype())) {
    const Tensor rounded = affine(normalized_with_rounded(grouped, n, {2}, eps, input.dtype()));
    result = on_gpu(input) ? rounded : with_slope(result, rounded);  // a GPU's forward reads them too
  }
  return one(cast(result, input.dtype()));
}

// Each channel of each example is one of batch_norm, whose running statistics are means over the examples.
std::vector<Value*> instance_norm_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input");
  require_float(input, "\"instance_norm\"");
  const bool running = args.has("running_mean") && args.has("running_var");
  if (!args.boolean("use_input_stats")) {
    if (!running)
      runtime_error("Expected running_mean and running_var to be defined when use_input_stats is false");
    return normalized_by_running(b, args, input);
  }
  Tensor x = to_compute(input);
  Dims dims;
  for (int d = 2; d < x.rank(); ++d) dims.push_back(d);
  // Of nothing eager leaves the statistics as they are.
  if (running && b.sym().guard(Relation::kLe, x.type().numel(), 1, "instance_norm"))
    throw Unsupported("instance_norm of so few values");
  const Normalized n = normalize(x, dims, args.number("eps"));
  std::vector<Value*> results = one(cast(affine_over_channels(b, args, n.scaled), input.dtype()));
  if (!running) return results;
  const Tensor unbiased = sum(n.squares, dims) / Operand(count_along(x, dims) - 1);
  const Tensor means = reshape(n.mean, unbiased.sizes());
  results.push_back(running_statistic(b, args, "running_mean", mean(means, {0})).value);
  results.push_back(running_statistic(b, args, "running_var", mean(unbiased, {0})).value);
  return results;
}

std::vector<Value*> cosine_similarity_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x1"), y = operand(b, args, "x2");
  require_float(x, "cosine_similarity");
  require_float(y, "cosine_similarity");
  if (x.dtype() != y.dtype()) throw Unsupported("cosine_similarity of several dtypes");
  std::vector<Sym> sizes = broadcast_sizes(b.graph(), x.sizes(), y.sizes());
  x = expand(x, sizes);
  y = expand(y, sizes);
  int64_t dim = wrap_dim(args.constant("dim"), x.rank());
  double eps = args.number("eps");
  // Eager's lower bound does not stop the gradient of the length.
  auto unit = [&](Tensor t) {
    Tensor length = root(sum(t * t, {dim}, true)), bounded = maximum(length, eps);
    return t / (length + detach(bounded - length));
  };
  DType dtype = x.dtype();
  return one(cast(sum(unit(to_compute(x)) * unit(to_compute(y)), {dim}), dtype));
}

// Cumulative averages have one that follows from the number of batches.
OpDef of_any_momentum(OpDef op) {
  op.numbers_of_graph = true;
  return op;
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {
      composite("softmax", {"softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"},
                softmax_body<false>, {"torch.special.softmax"}),
      composite("log_softmax", {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"},
                softmax_body<true>, {"torch.special.log_softmax"}),
      composite("layer_norm",
                {"layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? "
                 "bias=None, float eps=1e-05, "
                 "bool cudnn_enable=True) -> Tensor"},
                layer_norm_body),
      composite("native_layer_norm",
                {"native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
                 "float eps) -> "
                 "(Tensor, Tensor, Tensor)"},
                layer_norm_body),
      composite(
          "rms_norm",
          {"rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"},
          rms_norm_body, {}, rms_strides),
      of_any_momentum(composite(
          "batch_norm",
          {"batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? "
           "running_var, bool training, "
           "Scalar momentum, float eps, bool cudnn_enabled) -> Tensor"},
          batch_norm_body, {}, batch_strides)),
      composite("group_norm",
                {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
                 "eps=1e-05, "
                 "bool cudnn_enabled=True) -> Tensor"},
                group_norm_body, {}, group_strides),
      composite("instance_norm",
                {"instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
                 "Tensor(b!)? running_var, "
                 "bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"},
                instance_norm_body),
      composite("cosine_similarity",
                {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"},
                cosine_similarity_body),
  };
}

}  // namespace cdynamo::graph
