#include "graph/passes/channels_last.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "graph/builder.h"
#include "graph/op.h"
#include "graph/passes/graph_edit.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

bool is_convolution(const Node& node) {
  return kind_of(node) == CoreKind::kConvolution || kind_of(node) == CoreKind::kConvolutionWeightGrad;
}

// What a convolution reads beside its weight.
std::vector<const char*> images_of(const Node& convolution) {
  if (kind_of(convolution) == CoreKind::kConvolution) return {"input"};
  return {"windows", "image"};
}

// What a value is a view of, as far as dims stay where they are.
const Value* behind_views(const Value* value) {
  while (value->node) {
    const CoreKind kind = kind_of(*value->node);
    if (kind != CoreKind::kExpand && kind != CoreKind::kSlice && kind != CoreKind::kPad &&
        kind != CoreKind::kWindow && !(kind == CoreKind::kGone && value->node->op->name != "core.function"))
      break;
    value = args_of(*value->node).value("self");
  }
  return value;
}

int64_t numel_hint(const Graph& graph, const Value& value) {
  int64_t count = 1;
  for (const Sym& size : value.type.sizes)
    count *= size.is_constant() ? size.constant() : graph.sym->hint(size);
  return count;
}

// Nodes whose result may lie in any order: loops over its elements.
bool stores_in_any_order(const Node& node) {
  return node.results.size() == 1 && node.results[0]->type.rank() == 4 &&
         (is_elementwise(kind_of(node)) || kind_of(node) == CoreKind::kReduction);
}

// A kernel that looks at one element for each weight has the same weight in both orders.
bool is_point(const Value& weight) {
  return weight.type.sizes[2] == Sym(1) && weight.type.sizes[3] == Sym(1);
}

class Marker {
 public:
  Marker(const Graph& graph, const Gains& gains)
      : graph_(graph), gains_(gains), marked_(graph.next_value_id(), 0) {}

  std::vector<char> run() {
    bool any = false;
    for (const auto& node : graph_.nodes) any |= is_convolution(*node) && gains_(*node);
    if (!any) return {};
    for (const auto& node : graph_.nodes)
      if (is_convolution(*node) && gains_(*node)) mark_convolution(*node);
    // What is between convolutions, and what is computed of their results, down to where it leaves.
    for (changed_ = true; changed_;) {
      changed_ = false;
      for (const auto& node : graph_.nodes)
        if (stores_in_any_order(*node) && reads_marked(*node)) mark(*node->results[0]);
      for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
        if (stores_in_any_order(**node) && marked_[(*node)->results[0]->id])
          for_each_large_operand(**node, [&](const Value& root) {
            if (root.node && stores_in_any_order(*root.node)) mark(root);
          });
    }
    return std::move(marked_);
  }

 private:
  void mark(const Value& value) {
    changed_ |= !marked_[value.id];
    marked_[value.id] = 1;
  }

  void mark_convolution(const Node& node) {
    mark(*node.results[0]);
    const Args args = args_of(node);
    for (const char* name : images_of(node)) mark_operand(*args.value(name));
    if (kind_of(node) == CoreKind::kConvolution) mark_operand(*args.value("weight"));
  }

  void mark_operand(const Value& value) {
    if (value.node && stores_in_any_order(*value.node)) mark(value);
  }

  // Those that are about as large as the result; a channel's statistics are not.
  template <typename F>
  void for_each_large_operand(const Node& node, F&& fn) const {
    const int64_t elements = numel_hint(graph_, *node.results[0]);
    for_each_operand(const_cast<Node&>(node), [&](Value*& operand) {
      const Value* root = behind_views(operand);
      if (root->type.rank() == 4 && numel_hint(graph_, *root) * 8 >= elements) fn(*root);
    });
  }

  bool reads_marked(const Node& node) const {
    bool found = false;
    for_each_large_operand(node, [&](const Value& root) { found |= marked_[root.id] != 0; });
    return found;
  }

  const Graph& graph_;
  const Gains& gains_;
  std::vector<char> marked_;
  bool changed_ = false;
};

bool has_channels_last_strides(const Value& value) {
  return value.type.rank() == 4 && value.type.strides == channels_last_strides(value.type.sizes);
}

class Layouter {
 public:
  Layouter(std::unique_ptr<Graph> graph, const Gains& gains)
      : graph_(std::move(graph)), gains_(gains), builder_(*graph_, Level::kCore) {}

  ChannelsLast run() {
    separate_biases();
    marked_ = channels_last_values(*graph_, gains_);
    if (marked_.empty()) return {};
    for (auto at = graph_->nodes.begin(); at != graph_->nodes.end(); ++at)
      if (is_convolution(**at)) gains_(**at) ? lay_out(at) : lay_out_in_rows(at);
    std::vector<char> turned = find_turned();
    return {std::move(graph_), std::move(marked_), std::move(turned)};
  }

 private:
  // What `make` appends goes to before `at`.
  template <typename F>
  Value* insert(Position at, const Node& origin, F&& make) {
    builder_.set_location(origin.location, origin.user_call, origin.region);
    return insert_before(*graph_, at, make);
  }

  // The library adds a bias in a kernel of its own; as an addition it is part of what follows.
  void separate_biases() {
    for (auto at = graph_->nodes.begin(); at != graph_->nodes.end(); ++at) {
      Node& node = **at;
      if (kind_of(node) != CoreKind::kConvolution || !gains_(node)) continue;
      const Args args = args_of(node);
      // Kernels for many groups add it themselves.
      if (!args.has("bias") || !(args.integer("groups") == Sym(1))) continue;
      Value *result = node.results[0], *bias = args.value("bias");
      node.args[node.op->parsed[node.overload].find("bias")] = std::monostate{};
      std::vector<Sym> sizes(result->type.sizes.size(), 1);
      sizes[1] = bias->type.sizes[0];
      const auto next = std::next(at);
      Value* sum = insert(
          next, node, [&] { return (wrap(builder_, result) + reshape(wrap(builder_, bias), sizes)).value; });
      sum->type.strides = result->type.strides;
      replace_uses(*graph_, result, sum, next, sum->node);
    }
  }

  const Value* output_of(const Value& value) const {
    const auto found = std::ranges::find(graph_->outputs, &value);
    return found == graph_->outputs.end() ? nullptr : *found;
  }

  bool is_channels_last(const Value& value) const {
    if (!value.node || output_of(value)) return has_channels_last_strides(value);
    return marked_[value.id] != 0;
  }

  // (N,H,W,C) in the order of its dims, seen as (N,C,H,W).
  bool is_permuted(const Value& value) const {
    if (!value.node || kind_of(*value.node) != CoreKind::kPermute) return false;
    const Args args = args_of(*value.node);
    const Value& self = *args.value("self");
    const bool in_order = self.node ? stores_in_any_order(*self.node) && !marked_[self.id] && !output_of(self)
                                    : self.type.strides == contiguous_strides(self.type.sizes);
    return in_order && args.constants("dims") == std::vector<int64_t>{0, 3, 1, 2};
  }

  void lay_out(Position at) {
    Node& node = **at;
    const Args args = args_of(node);
    for (const char* name : images_of(node)) copy_operand(at, name, /*channels_last=*/true);
    if (kind_of(node) == CoreKind::kConvolution && !is_point(*args.value("weight")))
      copy_operand(at, "weight", /*channels_last=*/true);
    // The order that the program is promised is that of a copy.
    Value* result = node.results[0];
    if (!output_of(*result) || has_channels_last_strides(*result)) return;
    const auto next = std::next(at);
    Value* promised = insert(next, node, [&] { return copy(result); });
    promised->type = result->type;
    std::ranges::replace(graph_->outputs, result, promised);
    grow();
  }

  // The library takes the order of what it is given.
  void lay_out_in_rows(Position at) {
    for (const char* name : images_of(**at)) {
      const Value* root = behind_views(args_of(**at).value(name));
      if (root->node && is_channels_last(*root)) copy_operand(at, name, /*channels_last=*/false);
    }
  }

  Value* copy(Value* value) { return builder_.call1("core.cast", {value, value->type.dtype}); }
  void grow() { marked_.resize(graph_->next_value_id(), 0); }

  void copy_operand(Position at, const char* name, bool channels_last) {
    Node& node = **at;
    Arg& arg = node.args[node.op->parsed[node.overload].find(name)];
    Value* value = std::get<Value*>(arg);
    if (channels_last && (is_channels_last(*value) || is_permuted(*value))) return;
    Value*& copied = copies_[{value->id, channels_last}];
    if (!copied) {
      copied = insert(at, node, [&] { return copy(value); });
      grow();
      marked_[copied->id] = channels_last;
    }
    arg = copied;
  }

  std::vector<char> find_turned() const {
    std::vector<char> turned(marked_.size(), 0);
    for (const auto& node : graph_->nodes) {
      if (!stores_in_any_order(*node) || !is_channels_last(*node->results[0])) continue;
      const int64_t elements = numel_hint(*graph_, *node->results[0]);
      for_each_operand(*node, [&](Value*& operand) {
        const Value* root = behind_views(operand);
        const bool in_memory = !root->node || (kind_of(*root->node) != CoreKind::kFull &&
                                               kind_of(*root->node) != CoreKind::kIota);
        if (in_memory && numel_hint(*graph_, *root) * 8 >= elements && !is_channels_last(*root))
          turned[node->results[0]->id] = 1;
      });
    }
    return turned;
  }

  std::unique_ptr<Graph> graph_;
  const Gains& gains_;
  Builder builder_;
  std::vector<char> marked_;
  absl::flat_hash_map<std::pair<int, bool>, Value*> copies_;  // by the id of what is copied, and the order
};

}  // namespace

// Measured on an H100 with cuDNN 9: docs/gpu.md.
bool gains_by_channels_last(const Node& convolution, bool tensor_cores) {
  const TensorType& type = convolution.results[0]->type;
  const bool half = type.dtype == DType::kF16 || type.dtype == DType::kBF16;
  if (type.rank() != 4 || !(half || (type.dtype == DType::kF32 && tensor_cores))) return false;
  const Args args = args_of(convolution);
  const bool to_weight = kind_of(convolution) == CoreKind::kConvolutionWeightGrad;
  const bool to_image = !to_weight && args.boolean("transposed");
  const std::vector<Sym>& weight = (to_weight ? convolution.results[0] : args.value("weight"))->type.sizes;
  const Sym groups = args.integer("groups");
  for (const Sym& size : weight)
    if (!size.is_constant()) return false;
  if (!groups.is_constant()) return false;
  const int64_t windows = weight[0].constant(), each = weight[1].constant(),
                kernel = weight[2].constant() * weight[3].constant();
  constexpr int64_t kFew = 16;
  if (groups.constant() > 1) {
    if (!to_weight || each >= 2 * kFew) return true;
    return each == 1 ? half || kernel <= 9 : !half;
  }
  if (half) return each > 1;
  return windows >= kFew && each >= (to_image ? kFew : 3);
}

std::vector<char> channels_last_values(const Graph& core, const Gains& gains) {
  return Marker(core, gains).run();
}

ChannelsLast lay_out_channels_last(const Graph& core, const Gains& gains) {
  const bool any = std::ranges::any_of(
      core.nodes, [&](const auto& node) { return is_convolution(*node) && gains(*node); });
  if (!any) return {};
  return Layouter(core.clone(), gains).run();
}

}  // namespace cdynamo::graph
