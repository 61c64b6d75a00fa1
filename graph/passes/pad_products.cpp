#include "graph/passes/pad_products.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "graph/builder.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/graph_edit.h"

namespace cdynamo::graph {
namespace {

constexpr int64_t kAlignment = 16;  // bytes

bool is_product(const Node& node) {
  return kind_of(node) == CoreKind::kMatmul || kind_of(node) == CoreKind::kBatchMatmul;
}

// Matrices, or batches of them: what a dim lacks. 0 where its size is not known, or so small that the product is none for tensor cores.
int64_t lacks(const Sym& size, DType dtype) {
  const int64_t multiple = kAlignment / runtime::bytes(dtype);
  if (!size.is_constant() || size.constant() < multiple) return 0;
  return (multiple - size.constant() % multiple) % multiple;
}

// The matrix that a value is the transpose of, node by node; null where it is none.
Value* transposed_base(const Value& value) {
  if (!value.node || kind_of(*value.node) != CoreKind::kPermute) return nullptr;
  const Args args = args_of(*value.node);
  const int64_t rank = value.type.rank();
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t swapped = d < rank - 2 ? d : 2 * rank - 3 - d;
    if (args.constants("dims")[d] != swapped) return nullptr;
  }
  return args.value("self");
}

// Whether the second last dim runs along memory.
bool lies_transposed(const Value& value) {
  if (const Value* base = transposed_base(value)) return !lies_transposed(*base);
  if (value.node) return false;
  const std::vector<Sym>& strides = value.type.strides;
  return strides[strides.size() - 2] == Sym(1) && !(strides.back() == Sym(1));
}

struct Padding {
  int64_t rows = 0, inner = 0, columns = 0;
  bool any() const { return rows || inner || columns; }
};

Padding padding_of(const Node& product) {
  const Args args = args_of(product);
  const Value &self = *args.value("self"), &mat2 = *args.value("mat2");
  const std::vector<Sym>& sizes = product.results[0]->type.sizes;
  const DType dtype = product.results[0]->type.dtype;
  const size_t row = sizes.size() - 2;
  Padding padding;
  padding.columns = lacks(sizes[row + 1], dtype);
  if (lies_transposed(self)) padding.rows = lacks(sizes[row], dtype);
  if (!lies_transposed(self) || lies_transposed(mat2)) padding.inner = lacks(self.type.sizes[row + 1], dtype);
  return padding;
}

double count_hint(const Graph& graph, const Sym& size) {
  return static_cast<double>(size.is_constant() ? size.constant() : graph.sym->hint(size));
}
double bytes_hint(const Graph& graph, const Value& value) {
  double count = static_cast<double>(runtime::bytes(value.type.dtype));
  for (const Sym& size : value.type.sizes) count *= count_hint(graph, size);
  return count;
}

// What views show.
const Value& behind_views(const Value& value) {
  const Value* at = &value;
  while (at->node && is_view(kind_of(*at->node)) && !at->node->args.empty() &&
         std::holds_alternative<Value*>(at->node->args[0]))
    at = std::get<Value*>(at->node->args[0]);
  return *at;
}

// What products gain, of one graph.
class Weigher {
 public:
  Weigher(const Graph& graph, const GainsByPadding& gains) : graph_(graph), gains_(gains) {
    for (const Value* output : graph.outputs) leaving_.insert(&behind_views(*output));
    for (const Graph::Mutation& mutation : graph.mutations) leaving_.insert(&behind_views(*mutation.value));
  }

  // None where the product had better stay as it is.
  Padding worthwhile_padding(const Node& node) const {
    if (!is_product(node)) return {};
    const Padding padding = padding_of(node);
    return padding.any() && gains_(weigh(node, padding)) ? padding : Padding{};
  }

 private:
  PaddedProduct weigh(const Node& node, const Padding& padding) const {
    const Args args = args_of(node);
    const Value &self = *args.value("self"), &mat2 = *args.value("mat2"), &result = *node.results[0];
    const int64_t element = runtime::bytes(result.type.dtype);
    PaddedProduct product{.dtype = result.type.dtype,
                          .row_alignment = kAlignment,
                          .multiplications = bytes_hint(graph_, result) / static_cast<double>(element) *
                                             count_hint(graph_, self.type.sizes.back())};
    for (const int64_t lacking : {padding.rows, padding.inner, padding.columns})
      if (lacking) product.row_alignment = std::min(product.row_alignment, element * (lacking & -lacking));
    if (padding.rows || padding.inner) weigh_operand(self, product);
    if (padding.inner || padding.columns) weigh_operand(mat2, product);
    if (args.has("addend") && (padding.rows || padding.columns)) {
      const Value& addend = *args.value("addend");
      weigh_operand(addend.node && kind_of(*addend.node) == CoreKind::kExpand
                        ? *args_of(*addend.node).value("self")
                        : addend,
                    product);
    }
    if (leaving_.contains(&result)) {
      product.copied_bytes += 2 * bytes_hint(graph_, result);
      ++product.copies;
    }
    return product;
  }

  // What is computed element by element is computed into padded memory.
  void weigh_operand(const Value& operand, PaddedProduct& product) const {
    const Node* node = behind_views(operand).node;
    if (node && is_elementwise(kind_of(*node))) return;
    product.copied_bytes += 2 * bytes_hint(graph_, operand);
    ++product.copies;
  }

  const Graph& graph_;
  const GainsByPadding& gains_;
  std::set<const Value*> leaving_;
};

class Padder {
 public:
  Padder(std::unique_ptr<Graph> graph, const GainsByPadding& gains)
      : graph_(std::move(graph)), weigher_(*graph_, gains), builder_(*graph_, Level::kCore) {}

  std::unique_ptr<Graph> run() {
    for (auto at = graph_->nodes.begin(); at != graph_->nodes.end(); ++at)
      if (const Padding padding = weigher_.worthwhile_padding(**at); padding.any()) pad_product(at, padding);
    eliminate_dead_code(*graph_);
    return std::move(graph_);
  }

 private:
  void pad_product(Position at, const Padding& padding) {
    Node& node = **at;
    Value* result = node.results[0];
    builder_.set_location(node.location, node.user_call, node.region);
    std::vector<Arg> args = node.args;
    const auto replace_arg = [&](const char* name, auto&& make) {
      Arg& arg = args[node.op->parsed[node.overload].find(name)];
      arg = make(std::get<Value*>(arg));
    };
    replace_arg("self", [&](Value* value) { return padded(at, *value, padding.rows, padding.inner); });
    replace_arg("mat2", [&](Value* value) { return padded(at, *value, padding.inner, padding.columns); });
    if (args_of(node).has("addend"))
      replace_arg("addend", [&](Value* value) { return padded(at, *value, padding.rows, padding.columns); });
    Value* part = insert(at, [&] {
      Tensor product = wrap(builder_, builder_.call(*node.op, node.overload, args).at(0));
      const size_t row = result->type.sizes.size() - 2;
      return slice(slice(product, row, 0, result->type.sizes[row]), row + 1, 0, result->type.sizes[row + 1])
          .value;
    });
    part->type = result->type;
    // What is written to an input is no view.
    for (Graph::Mutation& mutation : graph_->mutations)
      if (mutation.value == result)
        mutation.value = insert(graph_->nodes.end(), [&] { return copy(wrap(builder_, part)); });
    replace_uses(*graph_, result, part, std::next(at));
  }

  template <typename F>
  Value* insert(Position at, F&& make) {
    return insert_before(*graph_, at, make);
  }

  // `value` with so many more rows and columns, in the order of its memory. What is one row for all stays one.
  Value* padded(Position at, Value& value, int64_t rows, int64_t columns) {
    if (!rows && !columns) return &value;
    if (value.node && kind_of(*value.node) == CoreKind::kExpand) {
      Value& base = *args_of(*value.node).value("self");
      const auto is_one = [&](int from_end) {
        return base.type.rank() < from_end || base.type.sizes[base.type.rank() - from_end] == Sym(1);
      };
      std::vector<Sym> sizes = value.type.sizes;
      sizes[sizes.size() - 2] = sizes[sizes.size() - 2] + rows;
      sizes.back() = sizes.back() + columns;
      Value* wider = padded(at, base, is_one(2) ? 0 : rows, is_one(1) ? 0 : columns);
      return insert(at, [&] { return expand(wrap(builder_, wider), sizes).value; });
    }
    Value* base = transposed_base(value);
    if (!base && !lies_transposed(value)) return copied(at, value, rows, columns, false);
    Value* lying = base ? padded(at, *base, columns, rows) : copied(at, value, columns, rows, true);
    const int64_t rank = value.type.rank();
    return insert(at, [&] { return transpose(wrap(builder_, lying), rank - 2, rank - 1).value; });
  }

  // One copy for all products that want the same. `turned`: of the value's transpose.
  Value* copied(Position at, Value& value, int64_t rows, int64_t columns, bool turned) {
    Value*& made = copies_[{value.id, rows, columns, turned}];
    if (made) return made;
    return made = insert(at, [&] {
             Tensor x = wrap(builder_, &value);
             if (turned) x = transpose(x, -2, -1);
             std::vector<Sym> low(x.rank(), 0), high(x.rank(), 0);
             if (x.rank() > 1) high[x.rank() - 2] = rows;
             high.back() = columns;
             return copy(pad(x, low, high, 0.0));
           });
  }

  Value* copy(Tensor x) { return builder_.call1("core.cast", {x.value, x.dtype()}); }

  std::unique_ptr<Graph> graph_;
  const Weigher weigher_;
  Builder builder_;
  absl::flat_hash_map<std::tuple<int, int64_t, int64_t, bool>, Value*> copies_;
};

}  // namespace

std::unique_ptr<Graph> pad_products(const Graph& core, const GainsByPadding& gains) {
  const Weigher weigher(core, gains);
  for (const auto& node : core.nodes)
    if (weigher.worthwhile_padding(*node).any()) return Padder(core.clone(), gains).run();
  return nullptr;
}

}  // namespace cdynamo::graph
