// Attention written out by hand, softmax(q @ k^T * scale + mask) @ v, becomes one core.sdpa.
//
// What torch.matmul and softmax leave at core level, views between any two steps:
//   scores  = bmm(q, permute(k))            scale: mul or div by a number, on q, on k or on the scores
//   scores  = add(scores, mask)  or  where(condition, fill, scores)
//   shifted = exp(scores - amax(scores, -1));  weights = shifted / sum(shifted, -1);  result = bmm(weights,
//   v)
//
// core.sdpa gives 0 for a row whose keys are all masked. By hand, a row of -inf gives NaN, and a row filled
// with one finite number gives the mean of the values. Where a mask is there, such rows are put right after
// the call: found by a reduction over the mask, which is cheap beside attention.
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/builder.h"
#include "graph/passes.h"
#include "graph/passes/graph_edit.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

// The last two sizes are rows and columns of a matrix; what comes before are batches.
bool same_matrix(const Value* a, const Value* b) {
  const auto &x = a->type.sizes, &y = b->type.sizes;
  return x.size() >= 2 && y.size() >= 2 && x[x.size() - 1] == y[y.size() - 1] &&
         x[x.size() - 2] == y[y.size() - 2];
}

struct Mask {
  enum Kind : uint8_t { kNone, kAdditive, kFilled } kind = kNone;
  Value* value = nullptr;  // kAdditive: what is added; kFilled: where the scores are not replaced
  bool kept_where_true = true;
  double fill = 0;
};

// What was found, from the last node back to the operands.
struct Attention {
  Value* query = nullptr;         // (.., L, E)
  Value* key = nullptr;           // transposed: (.., E, S)
  Value* values = nullptr;        // (.., S, Ev)
  std::vector<Sym> scores_sizes;  // as softmax saw them
  double scale = 1;
  Mask mask;
  absl::flat_hash_set<const Node*> nodes;  // all but the last must have no other use
};

class Matcher {
 public:
  // `result` is the bmm of weights and values.
  std::optional<Attention> match(Value* result) {
    found_ = {};
    if (!is(result, "core.bmm") || !runtime::is_float(result->type.dtype) ||
        runtime::is_half(result->type.dtype))
      return std::nullopt;
    take(result);
    found_.values = operand(result, 1);
    Value* scores = match_softmax(through_reshapes(operand(result, 0)));
    if (!scores) return std::nullopt;
    found_.scores_sizes = scores->type.sizes;
    scores = match_mask(scores);
    scores = match_scale(scores);
    scores = through_reshapes(scores);
    if (!scores || !is(scores, "core.bmm")) return std::nullopt;
    take(scores);
    found_.query = match_scale(operand(scores, 0));
    found_.key = match_scale(operand(scores, 1));
    return found_;
  }

 private:
  void take(const Value* value) { found_.nodes.insert(value->node); }

  // Views that leave the matrices of the last two dims as they are.
  Value* through_reshapes(Value* value) {
    while (value && is(value, "core.reshape") && same_matrix(value, operand(value, 0))) {
      take(value);
      value = operand(value, 0);
    }
    return value;
  }

  // The reduction over the last dim that was expanded again to the operand's sizes.
  Value* match_row_reduction(Value* value, std::string_view reduction) {
    for (std::string_view view : {"core.expand", "core.detach", "core.reshape", "core.detach"}) {
      const bool optional = view == "core.detach";  // there in training only
      if (optional && !is(value, view)) continue;
      if (!is(value, view)) return nullptr;
      take(value);
      value = operand(value, 0);
    }
    if (!is(value, reduction)) return nullptr;
    const std::vector<int64_t> dims = args_of(*value->node).constants("dims");
    Value* reduced = operand(value, 0);
    if (dims.size() != 1 || dims[0] != reduced->type.rank() - 1) return nullptr;
    take(value);
    return reduced;
  }

  Value* match_softmax(Value* weights) {
    if (is(weights, "core.softmax")) {  // there in training only
      take(weights);
      weights = operand(weights, 0);
    }
    if (!weights || !(is(weights, "core.true_divide") || is(weights, "div"))) return nullptr;
    take(weights);
    Value* shifted = operand(weights, 0);
    if (match_row_reduction(operand(weights, 1), "core.sum") != shifted || !is(shifted, "exp"))
      return nullptr;
    take(shifted);
    Value* difference = operand(shifted, 0);
    if (!is(difference, "sub")) return nullptr;
    take(difference);
    Value* scores = operand(difference, 0);
    return match_row_reduction(operand(difference, 1), "core.amax") == scores ? scores : nullptr;
  }

  // Fills that exp() turns into 0 beside any score that is not as extreme itself.
  static bool is_mask_fill(double fill) { return fill <= -1e8; }

  Value* match_mask(Value* scores) {
    if (is(scores, "add") && args_of(*scores->node).number("alpha") == 1) return match_additive_mask(scores);
    if (!is(scores, "where")) return scores;
    for (int kept : {1, 2}) {
      const std::optional<double> fill = constant_of(operand(scores, 3 - kept));
      if (!fill || !is_mask_fill(*fill)) continue;
      found_.mask = {Mask::kFilled, operand(scores, 0), kept == 1, *fill};
      take(scores);
      return operand(scores, kept);
    }
    return scores;
  }

  // Which of the two is the mask? The one that does not lead to a bmm.
  Value* match_additive_mask(Value* scores) {
    for (int side : {0, 1}) {
      const Value* other = operand(scores, side);
      while (is(other, "core.reshape") || is(other, "mul") || is(other, "div") ||
             is(other, "core.true_divide"))
        other = operand(other, 0);
      if (!is(other, "core.bmm")) continue;
      found_.mask = {.kind = Mask::kAdditive, .value = operand(scores, 1 - side)};
      take(scores);
      return operand(scores, side);
    }
    return scores;
  }

  // Multiplication or division by one number, views between.
  Value* match_scale(Value* value) {
    for (;;) {
      value = through_reshapes(value);
      const bool divides = is(value, "div") || is(value, "core.true_divide");
      if (!divides && !is(value, "mul")) return value;
      const std::optional<double> right = constant_of(operand(value, 1)),
                                  left = constant_of(operand(value, 0));
      if (right && std::isfinite(*right) && *right != 0) {
        found_.scale = divides ? found_.scale / *right : found_.scale * *right;
        take(value);
        value = operand(value, 0);
      } else if (left && !divides && std::isfinite(*left) && *left != 0) {
        found_.scale *= *left;
        take(value);
        value = operand(value, 1);
      } else {
        return value;
      }
    }
  }

  Attention found_;
};

// Uses of each value; an end of the graph is a use by no node.
using Uses = absl::flat_hash_map<const Value*, std::vector<const Node*>>;

Uses collect_uses(Graph& core) {
  Uses uses;
  for (const auto& node : core.nodes)
    for_each_operand(*node, [&](Value* value) { uses[value].push_back(node.get()); });
  for (const Value* output : core.outputs) uses[output].push_back(nullptr);
  for (const Graph::Mutation& mutation : core.mutations) uses[mutation.value].push_back(nullptr);
  return uses;
}

class Rewriter {
 public:
  Rewriter(Builder& builder, const Attention& found) : b_(builder), found_(found) {
    const std::vector<Sym>& s = found.scores_sizes;
    // (B, H, L, S); scores of three dims are batches of one head.
    if (s.size() == 4)
      sizes_ = s;
    else
      sizes_ = {s[0], 1, s[1], s[2]};
  }

  // What the call would be of; sizes of four dims.
  AttentionShape shape(bool for_training) const {
    AttentionShape shape{found_.query->type, found_.key->type, found_.values->type.sizes.back(),
                         for_training};
    shape.query.sizes = {sizes_[0], sizes_[1], sizes_[2], found_.query->type.sizes.back()};
    shape.key.sizes = {sizes_[0], sizes_[1], sizes_[3], found_.query->type.sizes.back()};
    return shape;
  }

  Value* build(const TensorType& result) {
    Tensor query = as_heads(found_.query), values = as_heads(found_.values);
    Tensor key = permute(as_heads(found_.key), {0, 1, 3, 2});
    Tensor mask = additive_mask(query.dtype());
    Arg mask_arg = mask.value ? Arg(mask.value) : Arg(std::monostate{});
    Tensor out = wrap(
        b_, b_.call1("core.sdpa", {query.value, key.value, values.value, mask_arg, false, found_.scale}));
    if (mask.value) out = with_masked_rows(out, mask, values);
    return reshape(out, result.sizes).value;
  }

 private:
  Tensor as_heads(Value* value) {
    const std::vector<Sym>& sizes = value->type.sizes;
    const size_t rank = sizes.size();
    return reshape(wrap(b_, value), {sizes_[0], sizes_[1], sizes[rank - 2], sizes[rank - 1]});
  }

  // The mask before it was expanded to the scores' sizes, with four dims.
  Tensor unexpanded(Value* value) {
    if (is(value, "core.expand")) value = operand(value, 0);
    Tensor mask = wrap(b_, value);
    std::vector<Sym> sizes = mask.sizes();
    if (sizes.size() == 3) sizes.insert(sizes.begin() + 1, 1);
    return reshape(mask, sizes);
  }

  Tensor additive_mask(DType dtype) {
    const Mask& mask = found_.mask;
    if (mask.kind == Mask::kNone) return {&b_, nullptr};
    Tensor value = unexpanded(mask.value);
    if (mask.kind == Mask::kAdditive) return value;
    Tensor zero = full(b_, value.sizes(), 0.0, dtype), masked = full(b_, value.sizes(), -INFINITY, dtype);
    return mask.kept_where_true ? where(value, zero, masked) : where(value, masked, zero);
  }

  // A row without a key: NaN where it was all -inf by hand, the mean of the values where it was all one
  // number.
  Tensor with_masked_rows(Tensor out, Tensor mask, Tensor values) {
    Tensor nothing_left = eq(expand(amax(mask, {3}, /*keepdim=*/true), row_sizes(mask)), Operand(-INFINITY));
    Tensor instead = full_like(out, NAN);
    if (found_.mask.kind == Mask::kFilled && std::isfinite(found_.mask.fill))
      instead = expand(mean(values, {2}, /*keepdim=*/true), out.sizes());
    return where(expand(nothing_left, out.sizes()), instead, out);
  }

  static std::vector<Sym> row_sizes(Tensor mask) { return {mask.size(0), mask.size(1), mask.size(2), 1}; }

  Builder& b_;
  const Attention& found_;
  std::vector<Sym> sizes_;
};

bool used_elsewhere(const Attention& found, const Node& last, const Uses& uses) {
  for (const Node* node : found.nodes) {
    if (node == &last) continue;
    const auto found_uses = uses.find(node->results[0]);
    if (found_uses == uses.end()) continue;
    for (const Node* user : found_uses->second)
      if (!user || !found.nodes.count(user)) return true;
  }
  return false;
}

}  // namespace

bool recognize_attention(Graph& core, bool for_training, const GainsByAttention& gains) {
  static const OpDef* const sdpa = find_op("core.sdpa");
  if (!sdpa) return false;
  const Uses uses = collect_uses(core);
  return rewrite_nodes(core, [&](Builder& builder, Node& node) -> Value* {
    const bool on_cpu = node.results[0]->type.device.type == runtime::DeviceType::kCPU;
    if (node.results.size() != 1 || !(on_cpu || gains)) return nullptr;
    const std::optional<Attention> found = Matcher().match(node.results[0]);
    if (!found || used_elsewhere(*found, node, uses)) return nullptr;
    const size_t rank = found->scores_sizes.size();
    if (rank != 3 && rank != 4) return nullptr;
    Rewriter rewriter(builder, *found);
    // A GPU's kernel has no masks of that kind.
    if (!on_cpu && (found->mask.kind != Mask::kNone || !gains(rewriter.shape(for_training)))) return nullptr;
    return rewriter.build(node.results[0]->type);
  });
}

}  // namespace cdynamo::graph
