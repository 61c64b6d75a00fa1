// The core's matrix products.
#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_mm(Graph& graph, const Args& args) {
  const TensorType &a = operand_type(args, "self"), &b = operand_type(args, "mat2");
  return {contiguous_type(args.value("self"), {a.sizes.at(0), b.sizes.at(1)}, a.dtype)};
}

std::vector<TensorType> infer_bmm(Graph& graph, const Args& args) {
  const TensorType &a = operand_type(args, "self"), &b = operand_type(args, "mat2");
  return {contiguous_type(args.value("self"), {a.sizes.at(0), a.sizes.at(1), b.sizes.at(2)}, a.dtype)};
}

// A transposed operand, as a linear layer's weight is, has a gradient that is computed transposed: it lies in memory as the operand's
// own base does, in eager too.
Tensor product_gradient(Tensor operand, Tensor left, Tensor right) {
  const Node* node = operand.value->node;
  const bool is_transposed = node && node->op->name == "core.permute";
  return is_transposed ? transpose_folded(mm(transpose_folded(right), transpose_folded(left)))
                       : mm(left, right);
}

void mm_derivative(Derivative& d) {
  d.set(0, product_gradient(d.operand(0), d.grad(), transpose_folded(d.operand(1))));
  d.set(1, product_gradient(d.operand(1), transpose_folded(d.operand(0)), d.grad()));
}

std::vector<TensorType> infer_addmm(Graph& graph, const Args& args) {
  return operand_type(args, "self").rank() == 2 ? infer_mm(graph, args) : infer_bmm(graph, args);
}

Tensor scaled(Tensor x, Derivative& d, std::string_view factor) {
  return d.args.number(factor) == 1 ? x : x * Operand(d.args[factor], &d.builder);
}

void addmm_derivative(Derivative& d) {
  const Tensor left = d.operand(0), right = d.operand(1), grad = d.grad();
  if (grad.rank() == 2) {
    d.set(0, scaled(product_gradient(left, grad, transpose_folded(right)), d, "alpha"));
    d.set(1, scaled(product_gradient(right, transpose_folded(left), grad), d, "alpha"));
  } else {
    d.set(0, scaled(bmm(grad, transpose(right, 1, 2)), d, "alpha"));
    d.set(1, scaled(bmm(transpose(left, 1, 2), grad), d, "alpha"));
  }
  d.set(2, scaled(grad, d, "beta"));
}

void bmm_derivative(Derivative& d) {
  d.set(0, bmm(d.grad(), transpose(d.operand(1), 1, 2)));
  d.set(1, bmm(transpose(d.operand(0), 1, 2), d.grad()));
}

}  // namespace

std::vector<OpDef> core_contraction_ops() {
  return {
      {.name = "core.mm",
       .family = Family::kContraction,
       .schemas = {"core.mm(Tensor self, Tensor mat2) -> Tensor"},
       .infer = infer_mm,
       .derivative = mm_derivative,
       .core = {.kind = CoreKind::kMatmul,
                .linearity = Linearity::kProduct,
                .interpret = interpret_matmul,
                .call = CallDef{.tensors = {"self", "mat2"}},
                .eager = "self @ mat2"}},
      {.name = "core.bmm",
       .family = Family::kContraction,
       .schemas = {"core.bmm(Tensor self, Tensor mat2) -> Tensor"},
       .infer = infer_bmm,
       .derivative = bmm_derivative,
       .core = {.kind = CoreKind::kBatchMatmul,
                .linearity = Linearity::kProduct,
                .interpret = interpret_matmul,
                .call = CallDef{.tensors = {"self", "mat2"}},
                .eager = "self.bmm(mat2)"}},
      // beta * addend + alpha * (self @ mat2), of matrices or of batches of them, rounded once: for half types, where a product and
      // a sum of their own would round twice, and for GPUs, whose library adds in the same kernel.
      {.name = "core.addmm",
       .family = Family::kContraction,
       .schemas = {"core.addmm(Tensor self, Tensor mat2, Tensor addend, float beta, float alpha) -> Tensor"},
       .infer = infer_addmm,
       .derivative = addmm_derivative,
       .core = {.kind = CoreKind::kMatmul,
                .linearity = Linearity::kNone,
                .interpret = interpret_addmm,
                .call = CallDef{.tensors = {"self", "mat2", "addend"}, .numbers = {"beta", "alpha"}},
                .eager = "(torch.addmm if self.ndim == 2 else torch.baddbmm)(addend, self, mat2, beta=beta, "
                         "alpha=alpha)"}},
  };
}

}  // namespace cdynamo::graph
