// The core's attention. The forward gives the log-sum-exp of each row of scores beside its result, from which the backward computes
// the weights again, tile by tile: the matrix of scores is never in memory. Where the mask or a second derivative is asked for, the
// gradients are written out with matrix products.
#include <limits>

#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_sdpa(Graph& graph, const Args& args) {
  const TensorType &query = operand_type(args, "query"), &value = operand_type(args, "value");
  std::vector<Sym> sizes = query.sizes, rows(query.sizes.begin(), query.sizes.end() - 1);
  sizes.back() = value.sizes.back();
  return {contiguous_type(args.value("query"), std::move(sizes), query.dtype),
          contiguous_type(args.value("query"), std::move(rows), runtime::compute_type(query.dtype))};
}

std::vector<TensorType> infer_sdpa_backward(Graph& graph, const Args& args) {
  std::vector<TensorType> types;
  for (const char* name : {"query", "key", "value"}) {
    const Value* operand = args.value(name);
    types.push_back(contiguous_type(operand, operand->type.sizes, operand->type.dtype));
  }
  return types;
}

// The weights, in the compute type: the matrices of scores written out. Tensors have four dims.
Tensor attention_weights(Derivative& d, Tensor query, Tensor key, int mask) {
  double infinity = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(query, transpose(key, -1, -2)) * Operand(d.args.number("scale"));
  if (d.args.has("attn_mask")) scores = scores + to_compute(d.operand(mask));
  if (d.args.boolean("is_causal")) {
    std::vector<Sym> matrix{scores.size(-2), scores.size(-1)};
    Tensor row = iota(d.builder, matrix, 0, DType::kI64), column = iota(d.builder, matrix, 1, DType::kI64);
    scores = where(le(column, row), scores, -infinity);
  }
  // A row that sees nothing has weights of 0.
  Tensor top = amax(scores, {-1}, true), seen = gt(top, -infinity);
  Tensor shifted = exp(scores - where(seen, top, 0.0));
  return shifted / where(seen, sum(shifted, {-1}, true), 1.0);
}

// Sums what the mask was broadcast over.
Tensor mask_gradient(Tensor scores_grad, Tensor mask) {
  Dims broadcast;
  std::vector<Sym> sizes(4 - static_cast<size_t>(mask.rank()), 1);
  sizes.insert(sizes.end(), mask.sizes().begin(), mask.sizes().end());
  for (int dim = 0; dim < 4; ++dim)
    if (!(sizes[dim] == scores_grad.size(dim))) broadcast.push_back(dim);
  if (!broadcast.empty()) scores_grad = sum(scores_grad, broadcast, true);
  return cast(reshape(scores_grad, mask.sizes()), mask.dtype());
}

void sdpa_derivative(Derivative& d) {
  if (d.grads.at(1).value) throw Unsupported("the derivative of attention's log-sum-exp");
  if (!d.grad().value) return;
  std::vector<Value*> found =
      d.builder.call("core.sdpa_backward",
                     {d.grad().value, d.args["query"], d.args["key"], d.args["value"], d.args["attn_mask"],
                      d.result().value, d.result(1).value, d.args["is_causal"], d.args["scale"]});
  for (int i = 0; i < 3; ++i) d.set(i, wrap(d.builder, found[i]));
  if (!d.args.has("attn_mask")) return;
  Tensor weights = attention_weights(d, to_compute(d.operand(0)), to_compute(d.operand(1)), 3);
  Tensor weights_grad = matmul(to_compute(d.grad()), transpose(to_compute(d.operand(2)), -1, -2));
  d.set(3, mask_gradient(softmax_gradient(weights, weights_grad, -1), d.operand(3)));
}

// With P the weights, G the gradient that came in, c the scale, dP = G V', D = rowsum(P dP), dS = P (dP - D), the results are
// c dS K, c dS' Q and P' G (' transposes). They are taken for functions of the five tensors alone: the result and the log-sum-exp
// are functions of these and get no gradient of their own.
void sdpa_backward_derivative(Derivative& d) {
  Tensor grad = to_compute(d.operand(0)), query = to_compute(d.operand(1)), key = to_compute(d.operand(2)),
         value = to_compute(d.operand(3));
  Operand scale(d.args.number("scale"));
  auto turned = [](Tensor x) { return transpose(x, -1, -2); };
  auto row_sum = [](Tensor x) { return sum(x, {-1}, true); };
  auto of_result = [&](int i, Tensor like) {
    return d.grad(i).value ? to_compute(d.grad(i)) : full_like(like, 0.0);
  };
  Tensor to_query = of_result(0, query), to_key = of_result(1, key), to_value = of_result(2, value);
  Tensor weights = attention_weights(d, query, key, 4), weights_grad = matmul(grad, turned(value));
  Tensor shifted = weights_grad - row_sum(weights * weights_grad), scores_grad = weights * shifted;
  Tensor of_scores = (matmul(to_query, turned(key)) + matmul(query, turned(to_key))) * scale;
  Tensor mean = row_sum(of_scores * weights), of_weights_grad = weights * (of_scores - mean);
  Tensor of_weights = matmul(grad, turned(to_value)) + of_scores * shifted - mean * weights_grad;
  Tensor through_scores = softmax_gradient(weights, of_weights, -1);
  auto set = [&](int i, Tensor x) { d.set(i, cast(x, d.operand(i).dtype())); };
  set(0, matmul(weights, to_value) + matmul(of_weights_grad, value));
  set(1, (matmul(scores_grad, to_key) + matmul(through_scores, key)) * scale);
  set(2, (matmul(turned(scores_grad), to_query) + matmul(turned(through_scores), query)) * scale);
  set(3, matmul(turned(of_weights_grad), grad));
  if (d.args.has("attn_mask")) d.set(4, mask_gradient(through_scores, d.operand(4)));
}

}  // namespace

std::vector<OpDef> core_attention_ops() {
  return {
      {.name = "core.sdpa",
       .family = Family::kContraction,
       .schemas = {"core.sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
                   "float scale) -> (Tensor, Tensor)"},
       .infer = infer_sdpa,
       .derivative = sdpa_derivative,
       .core = {.kind = CoreKind::kAttention,
                .linearity = Linearity::kNone,
                .interpret = interpret_sdpa,
                .call = CallDef{.tensors = {"query", "key", "value", "attn_mask"},
                                .integers = {"is_causal"},
                                .numbers = {"scale"},
                                .may_omit_results = true},
                .eager = "attention(query, key, value, attn_mask, is_causal, scale)"}},
      {.name = "core.sdpa_backward",
       .family = Family::kContraction,
       .schemas = {"core.sdpa_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? "
                   "attn_mask, Tensor out, "
                   "Tensor logsumexp, bool is_causal, float scale) -> (Tensor, Tensor, Tensor)"},
       .infer = infer_sdpa_backward,
       .derivative = sdpa_backward_derivative,
       .core =
           {.kind = CoreKind::kAttentionBackward,
            .linearity = Linearity::kNone,
            .interpret = interpret_sdpa_backward,
            .call = CallDef{.tensors = {"grad", "query", "key", "value", "attn_mask", "out", "logsumexp"},
                            .integers = {"is_causal"},
                            .numbers = {"scale"},
                            .may_omit_results = true},
            .eager =
                "attention_backward(grad, query, key, value, attn_mask, out, logsumexp, is_causal, scale)"}},
  };
}

}  // namespace cdynamo::graph
