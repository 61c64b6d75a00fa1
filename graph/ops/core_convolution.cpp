// The core's convolutions. A convolution adds up products of three places: one of the windows (the result of a plain convolution,
// the input of a transposed one), one of the image (the other way round) and one of the weights. Its three sums are each other's
// gradients: core.convolution, the same transposed, and core.convolution_weight_grad.
#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_convolution(Graph& graph, const Args& args) {
  const TensorType &input = operand_type(args, "input"), &weight = operand_type(args, "weight");
  size_t spatial = input.sizes.size() - 2;
  std::vector<Sym> stride = args.sizes("stride"), padding = args.sizes("padding"),
                   dilation = args.sizes("dilation"), output_padding = args.sizes("output_padding");
  bool transposed = args.boolean("transposed");
  std::vector<Sym> sizes{input.sizes[0],
                         transposed ? weight.sizes[1] * args.integer("groups") : weight.sizes[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const Sym &n = input.sizes[i + 2], &k = weight.sizes[i + 2];
    Sym reach = dilation[i] * (k - 1);
    sizes.push_back(transposed ? (n - 1) * stride[i] - padding[i] * 2 + reach + output_padding[i] + 1
                               : floordiv(n + padding[i] * 2 - reach - 1, stride[i]) + 1);
  }
  return {contiguous_type(args.value("input"), std::move(sizes), input.dtype)};
}

std::vector<TensorType> infer_weight_grad(Graph& graph, const Args& args) {
  return {contiguous_type(args.value("windows"), args.sizes("size"), operand_type(args, "windows").dtype)};
}

// The sum over the weights, for each place of the windows. There may be room for more windows in the image than there are.
Tensor to_windows(Derivative& d, Tensor image, Tensor weight, const std::vector<Sym>& sizes) {
  std::vector<Sym> none(sizes.size() - 2, 0);
  Tensor found = wrap(
      d.builder, d.builder.call1("core.convolution",
                                 {image.value, weight.value, std::monostate{}, d.args["stride"],
                                  d.args["padding"], d.args["dilation"], false, none, d.args["groups"]}));
  for (int dim = 2; dim < found.rank(); ++dim)
    if (!(found.size(dim) == sizes[dim])) found = own(slice(found, dim, 0, sizes[dim]));
  return found.sizes() == sizes ? found : reshape(found, sizes);
}

// The sum over the weights, for each place of the image.
Tensor to_image(Derivative& d, Tensor windows, Tensor weight, const std::vector<Sym>& sizes) {
  std::vector<Sym> stride = d.args.sizes("stride"), padding = d.args.sizes("padding"),
                   dilation = d.args.sizes("dilation"), beyond;
  for (size_t i = 0; i < stride.size(); ++i) {
    Sym reached =
        (windows.size(i + 2) - 1) * stride[i] - padding[i] * 2 + dilation[i] * (weight.size(i + 2) - 1) + 1;
    beyond.push_back(sizes[i + 2] - reached);
  }
  Tensor found = wrap(
      d.builder, d.builder.call1("core.convolution", {windows.value, weight.value, std::monostate{}, stride,
                                                      padding, dilation, true, beyond, d.args["groups"]}));
  return found.sizes() == sizes ? found : reshape(found, sizes);
}

Tensor to_weight(Derivative& d, Tensor windows, Tensor image, const std::vector<Sym>& sizes) {
  return wrap(d.builder, d.builder.call1("core.convolution_weight_grad",
                                         {windows.value, image.value, sizes, d.args["stride"],
                                          d.args["padding"], d.args["dilation"], d.args["groups"]}));
}

void convolution_derivative(Derivative& d) {
  Tensor input = d.operand(0), weight = d.operand(1), grad = d.grad();
  if (d.args.boolean("transposed")) {
    d.set(0, to_windows(d, grad, weight, input.sizes()));
    d.set(1, to_weight(d, input, grad, weight.sizes()));
  } else {
    d.set(0, to_image(d, grad, weight, input.sizes()));
    d.set(1, to_weight(d, grad, input, weight.sizes()));
  }
  if (!d.args.has("bias")) return;
  Dims dims{0};
  for (int dim = 2; dim < grad.rank(); ++dim) dims.push_back(dim);
  d.set(2, sum(grad, dims));
}

void weight_grad_derivative(Derivative& d) {
  Tensor windows = d.operand(0), image = d.operand(1), grad = d.grad();
  d.set(0, to_windows(d, image, grad, windows.sizes()));
  d.set(1, to_image(d, windows, grad, image.sizes()));
}

}  // namespace

std::vector<OpDef> core_convolution_ops() {
  return {
      {.name = "core.convolution",
       .family = Family::kContraction,
       .schemas = {"core.convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
                   "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor"},
       .infer = infer_convolution,
       .derivative = convolution_derivative,
       .core = {.kind = CoreKind::kConvolution,
                .linearity = Linearity::kNone,
                .interpret = interpret_convolution,
                .call = CallDef{.tensors = {"input", "weight", "bias"},
                                .integers = {"stride", "padding", "dilation", "output_padding", "transposed",
                                             "groups"}},
                .eager = "torch.ops.aten.convolution(input, weight, bias, stride, padding, dilation, "
                         "transposed, output_padding, groups)"}},
      {.name = "core.convolution_weight_grad",
       .family = Family::kContraction,
       .schemas = {"core.convolution_weight_grad(Tensor windows, Tensor image, int[] size, int[] stride, "
                   "int[] padding, "
                   "int[] dilation, int groups) -> Tensor"},
       .infer = infer_weight_grad,
       .derivative = weight_grad_derivative,
       .core = {.kind = CoreKind::kConvolutionWeightGrad,
                .linearity = Linearity::kNone,
                .interpret = interpret_convolution_weight_grad,
                .call = CallDef{.tensors = {"windows", "image"},
                                .integers = {"stride", "padding", "dilation", "groups"}},
                .eager = "convolution_weight_grad(windows, image, size, stride, padding, dilation, groups)"}},
  };
}

}  // namespace cdynamo::graph
