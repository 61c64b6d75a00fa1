// Scaled dot-product attention.
#include <cmath>
#include <limits>

#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

// (L, E) to (1, 1, L, E); more than four dims are merged into the batch.
Tensor four_dims(Tensor x, const std::vector<Sym>& batch) {
  std::vector<Sym> sizes = batch;
  sizes.insert(sizes.end(), x.sizes().end() - 2, x.sizes().end());
  x = expand(x, sizes);
  if (batch.size() == 2) return x;
  Sym heads = batch.empty() ? Sym(1) : batch.back(), rest = 1;
  for (size_t d = 0; d + 1 < batch.size(); ++d) rest = rest * batch[d];
  return reshape(x, {rest, heads, x.size(-2), x.size(-1)});
}

// A bool mask says what is seen; as a term of the scores it is 0 there and -inf elsewhere.
Tensor additive_mask(Builder& b, const Args& args, Tensor query, Tensor key, const std::vector<Sym>& batch) {
  Tensor mask = operand(b, args, "attn_mask");
  if (mask.dtype() != DType::kBool && mask.dtype() != query.dtype())
    runtime_error("Expected attn_mask dtype to be bool or float or to match query dtype");
  std::vector<Sym> scores = batch;
  scores.insert(scores.end(), {query.size(-2), key.size(-2)});
  broadcast_sizes(b.graph(), mask.sizes(), scores);
  if (mask.dtype() == DType::kBool) {
    double infinity = std::numeric_limits<double>::infinity();
    mask = where(mask, full(b, {}, 0.0, query.dtype()), full(b, {}, -infinity, query.dtype()));
  }
  if (mask.rank() < 2) {
    std::vector<Sym> sizes(2 - static_cast<size_t>(mask.rank()), 1);
    sizes.insert(sizes.end(), mask.sizes().begin(), mask.sizes().end());
    mask = reshape(mask, sizes);
  }
  if (mask.rank() == 2 || (mask.rank() == 4 && batch.size() == 2)) {
    std::vector<Sym> sizes(4 - static_cast<size_t>(mask.rank()), 1);
    sizes.insert(sizes.end(), mask.sizes().begin(), mask.sizes().end());
    return reshape(mask, sizes);
  }
  return four_dims(mask, batch);
}

// Eager's plain way: the weights are a tensor, of which dropout takes its share. A row that sees nothing gives
// 0.
Tensor by_products(Builder& b, const Args& args, Tensor query, Tensor key, Tensor value, const Arg& mask,
                   double scale) {
  const double infinity = std::numeric_limits<double>::infinity(), root = std::sqrt(std::abs(scale));
  Tensor scores = matmul(query * (scale < 0 ? -root : root), transpose(key, 2, 3) * root);
  if (const auto* given = std::get_if<Value*>(&mask); given && *given) scores = scores + wrap(b, *given);
  if (args.boolean("is_causal")) {
    std::vector<Sym> places{query.size(2), key.size(2)};
    Tensor seen = ge(iota(b, places, 0, DType::kI64), iota(b, places, 1, DType::kI64));
    scores = where(seen, scores, -infinity);
  }
  Tensor blind = eq(amax(scores, {3}, true), -infinity);
  Tensor weights = wrap(b, b.call1("softmax", {where(blind, 0.0, scores).value, Sym(3)}));
  weights = where(blind, 0.0, weights);
  if (const double p = args.number("dropout_p"); p > 0)
    weights = wrap(b, b.call1("dropout", {weights.value, p, true}));
  return matmul(weights, value);
}

std::vector<Value*> attention_body(Builder& b, const Args& args) {
  Tensor query = operand(b, args, "query"), key = operand(b, args, "key"), value = operand(b, args, "value");
  if (query.dtype() != key.dtype() || query.dtype() != value.dtype())
    runtime_error("Expected query, key, and value to have the same dtype");
  if (!is_float(query.dtype())) throw Unsupported("attention of integers");
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2)
    runtime_error("Expected query, key, and value to all be at least 2 dimensional");
  bool causal = args.boolean("is_causal"), masked = args.has("attn_mask");
  if (causal && masked)
    runtime_error("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  if (args.boolean("enable_gqa")) {
    auto repeated = [&](Tensor x) {
      if (!b.sym().guard_eq(mod(query.size(-3), x.size(-3)), 0, "attention"))
        runtime_error("Number of heads in key and value must divide the number of heads in query");
      return wrap(b, b.call1("repeat_interleave",
                             {x.value, floordiv(query.size(-3), x.size(-3)), Sym(x.rank() - 3)}));
    };
    key = repeated(key);
    value = repeated(value);
  }
  auto batch_of = [](Tensor x) { return std::vector<Sym>(x.sizes().begin(), x.sizes().end() - 2); };
  std::vector<Sym> batch =
      broadcast_sizes(b.graph(), broadcast_sizes(b.graph(), batch_of(query), batch_of(key)), batch_of(value));
  if (!b.sym().guard_eq(query.size(-1), key.size(-1), "attention") ||
      !b.sym().guard_eq(key.size(-2), value.size(-2), "attention"))
    runtime_error("The shapes of query, key and value do not fit");
  Arg mask = masked ? Arg(additive_mask(b, args, query, key, batch).value) : Arg();
  double scale =
      args.has("scale")
          ? args.number("scale")
          : 1 / std::sqrt(static_cast<double>(b.sym().specialize(query.size(-1), "attention's scale")));
  std::vector<Sym> sizes = batch;
  sizes.insert(sizes.end(), {query.size(-2), value.size(-1)});
  // On a GPU capture has asked which kernel eager would choose (symbolic/torch/attention.cpp): none. Half types are
  // computed in float32 there.
  if (args.number("dropout_p") > 0 || on_gpu(query)) {
    const auto operand_of = [&](Tensor x) { return four_dims(on_gpu(query) ? to_compute(x) : x, batch); };
    Tensor result = by_products(b, args, operand_of(query), operand_of(key), operand_of(value), mask, scale);
    return one(reshape(cast(result, query.dtype()), sizes));
  }
  Tensor result = wrap(b, b.call1("core.sdpa", {four_dims(query, batch).value, four_dims(key, batch).value,
                                                four_dims(value, batch).value, mask, causal, scale}));
  return one(reshape(result, sizes));
}

// Eager's fused kernel writes in the order of the query's strides; its plain one row-major.
void attention_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& query = args.value("query")->type;
  const bool gpu = query.device.type == runtime::DeviceType::kCUDA;
  bool fused = !gpu && args.number("dropout_p") == 0 && query.rank() == 4 &&
               results[0].sizes == query.sizes && query.strides.back() == Sym(1);
  results[0].strides = fused ? preserved_strides(graph, query) : contiguous_strides(results[0].sizes);
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {
      {.name = "scaled_dot_product_attention",
       .family = Family::kComposite,
       .schemas = {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
                   "attn_mask=None, float dropout_p=0.0, "
                   "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"},
       .opinfo = "nn.functional.scaled_dot_product_attention",
       .body = attention_body,
       .strides = attention_strides,
       .in_place_variant = false},
  };
}

}  // namespace cdynamo::graph
