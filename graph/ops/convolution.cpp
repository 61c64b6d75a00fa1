// Convolutions of one to three dims, plain and transposed. All become core.convolution.
#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

struct Parameters {
  std::vector<Sym> stride, padding, dilation, output_padding;
  bool transposed = false;
  Sym groups = 1;
};

// One number stands for all dims.
std::vector<Sym> spatial(const Args& args, const char* name, size_t dims, int otherwise) {
  if (args.schema().find(name) < 0) return std::vector<Sym>(dims, otherwise);
  std::vector<Sym> values = args.sizes(name);
  if (values.size() == 1) values.assign(dims, values[0]);
  if (values.size() != dims)
    runtime_error(std::string("expected ") + name + " to be a single integer value or a list of " +
                  std::to_string(dims) + " values, but got " + sizes_text(values));
  return values;
}

void check_shapes(Builder& b, Tensor input, Tensor weight, const Args& args, const Parameters& p) {
  SymContext& sym = b.sym();
  if (!is_float(input.dtype())) throw Unsupported("convolution of integers");
  if (input.dtype() != weight.dtype())
    runtime_error(std::string("Input type (") + runtime::info(input.dtype()).name + ") and weight type (" +
                  runtime::info(weight.dtype()).name + ") should be the same");
  Sym expected = p.transposed ? weight.size(0) : weight.size(1) * p.groups;
  if (!sym.guard_eq(input.size(1), expected, "convolution"))
    runtime_error("Given groups=" + p.groups.str() + ", weight of size " + sizes_text(weight.sizes()) +
                  ", expected input" + sizes_text(input.sizes()) + " to have " + expected.str() +
                  " channels, but got " + input.size(1).str() + " channels instead");
  Sym outputs = p.transposed ? weight.size(1) * p.groups : weight.size(0);
  if (!sym.guard_eq(mod(weight.size(0), p.groups), 0, "convolution"))
    runtime_error("Given groups=" + p.groups.str() + ", expected weight to be divisible by " +
                  p.groups.str() + " at dimension 0");
  if (args.has("bias")) {
    const TensorType& bias = args.value("bias")->type;
    if (bias.rank() != 1 || !sym.guard_eq(bias.sizes[0], outputs, "convolution"))
      runtime_error("Given weight of size " + sizes_text(weight.sizes()) +
                    ", expected bias to be 1-dimensional with " + outputs.str() +
                    " elements, but got bias of size " + sizes_text(bias.sizes) + " instead");
  }
  for (size_t d = 0; d < p.stride.size(); ++d) {
    if (!sym.guard(Relation::kLt, 0, p.stride[d], "convolution"))
      runtime_error("non-positive stride is not supported");
    if (sym.guard(Relation::kLt, p.padding[d], 0, "convolution"))
      runtime_error("negative padding is not supported");
    if (!sym.guard(Relation::kLt, 0, p.dilation[d], "convolution"))
      runtime_error("dilation should be greater than zero");
    int64_t dim = static_cast<int64_t>(d) + 2;
    if (!sym.guard(Relation::kLt, 0, weight.size(dim), "convolution"))
      throw Unsupported("a convolution with an empty kernel");
    if (p.transposed) continue;
    Sym reach = p.dilation[d] * (weight.size(dim) - 1) + 1;
    if (sym.guard(Relation::kLt, input.size(dim) + p.padding[d] * 2, reach, "convolution"))
      runtime_error(
          "Calculated padded input size per channel is smaller than the kernel size. Kernel size can't be "
          "greater than actual input size");
  }
}

// padding="same": where it is uneven, the end gets the extra place.
Tensor pad_same(Tensor input, Tensor weight, Parameters& p) {
  std::vector<Sym> low(input.rank(), 0), high(input.rank(), 0);
  bool uneven = false;
  for (size_t d = 0; d < p.stride.size(); ++d) {
    if (!(p.stride[d] == Sym(1))) runtime_error("padding='same' is not supported for strided convolutions");
    Sym total = p.dilation[d] * (weight.size(static_cast<int64_t>(d) + 2) - 1);
    p.padding[d] = floordiv(total, 2);
    high[d + 2] = mod(total, 2);
    uneven |= !(high[d + 2] == Sym(0));
  }
  return uneven ? pad(input, low, high, Sym(0)) : input;
}

std::vector<Value*> convolution_body(Builder& b, const Args& args, size_t dims, bool transposed) {
  Tensor input = operand(b, args, "input"), weight = operand(b, args, "weight");
  size_t rank = dims + 2;
  bool unbatched = input.rank() == static_cast<int>(rank) - 1;
  if (!unbatched && input.rank() != static_cast<int>(rank))
    runtime_error("Expected " + std::to_string(rank - 1) + "D (unbatched) or " + std::to_string(rank) +
                  "D (batched) input, but got input of size: " + sizes_text(input.sizes()));
  if (weight.rank() != static_cast<int>(rank))
    runtime_error("weight should have " + std::to_string(rank) + " dimensions");
  if (unbatched) input = unsqueeze(input, 0);
  Parameters p;
  p.stride = spatial(args, "stride", dims, 1);
  p.dilation = spatial(args, "dilation", dims, 1);
  p.output_padding = spatial(args, "output_padding", dims, 0);
  p.transposed = transposed;
  p.groups = args.integer("groups");
  if (std::holds_alternative<std::string>(args["padding"])) {
    p.padding.assign(dims, 0);
    std::string_view mode = args.string("padding");
    if (mode != "same" && mode != "valid")
      runtime_error("Invalid padding string: '" + std::string(mode) + "'");
    if (mode == "same") input = pad_same(input, weight, p);
  } else {
    p.padding = spatial(args, "padding", dims, 0);
  }
  check_shapes(b, input, weight, args, p);
  for (size_t d = 0; transposed && d < dims; ++d) {
    if (b.sym().guard(Relation::kLt, p.output_padding[d], 0, "convolution"))
      runtime_error("negative output_padding is not supported");
    if (!b.sym().guard(Relation::kLt, p.output_padding[d], max(p.stride[d], p.dilation[d]), "convolution"))
      runtime_error("output padding must be smaller than either stride or dilation");
  }
  Tensor result =
      wrap(b, b.call1("core.convolution", {input.value, weight.value, args["bias"], p.stride, p.padding,
                                           p.dilation, transposed, p.output_padding, p.groups}));
  return one(unbatched ? squeeze(result, 0) : result);
}

template <size_t dims, bool transposed>
std::vector<Value*> body(Builder& b, const Args& args) {
  return convolution_body(b, args, dims, transposed);
}

std::vector<Value*> general_body(Builder& b, const Args& args) {
  return convolution_body(b, args, static_cast<size_t>(args.value("weight")->type.rank()) - 2,
                          args.boolean("transposed"));
}

// Channels-last where the input or the weight is.
void convolution_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  bool last = suggests_channels_last(*graph.sym, args.value("input")->type) ||
              suggests_channels_last(*graph.sym, args.value("weight")->type);
  bool batched =
      results[0].rank() >= 4 && args.value("input")->type.rank() == args.value("weight")->type.rank();
  results[0].strides =
      last && batched ? channels_last_strides(results[0].sizes) : contiguous_strides(results[0].sizes);
}

OpDef convolution(std::string_view name, std::vector<std::string_view> schemas, BodyFn body) {
  return composite(name, std::move(schemas), body, {}, convolution_strides);
}

}  // namespace

std::vector<OpDef> convolution_ops() {
  return {
      convolution("conv1d",
                  {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] "
                   "padding=0, int[1] dilation=1, int groups=1) -> Tensor",
                   "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str "
                   "padding=\"valid\", int[1] dilation=1, int groups=1) -> Tensor"},
                  body<1, false>),
      convolution("conv2d",
                  {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] "
                   "padding=0, int[2] dilation=1, int groups=1) -> Tensor",
                   "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str "
                   "padding=\"valid\", int[2] dilation=1, int groups=1) -> Tensor"},
                  body<2, false>),
      convolution("conv3d",
                  {"conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] "
                   "padding=0, int[3] dilation=1, int groups=1) -> Tensor",
                   "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str "
                   "padding=\"valid\", int[3] dilation=1, int groups=1) -> Tensor"},
                  body<3, false>),
      convolution("conv_transpose1d",
                  {"conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] "
                   "padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor"},
                  body<1, true>),
      convolution("conv_transpose2d",
                  {"conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
                   "int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor"},
                  body<2, true>),
      convolution("conv_transpose3d",
                  {"conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, "
                   "int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor"},
                  body<3, true>),
      convolution("convolution",
                  {"convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
                   "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor"},
                  general_body),
  };
}

}  // namespace cdynamo::graph
