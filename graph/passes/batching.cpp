#include "graph/passes/batching.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "graph/op.h"

namespace cdynamo::graph {
namespace {

class Batcher {
 public:
  Batcher(Builder& builder, Sym batch) : b_(builder), batch_(std::move(batch)) {}

  void bind(const Value* of, Value* value, bool batched) { values_[of] = {value, batched}; }
  // With the batch's dim, whether it varies or not.
  Tensor batched(const Value* of) {
    const Image& image = values_.at(of);
    const Tensor x = wrap(b_, image.value);
    return image.batched ? x : expand(x, with_batch(x.sizes()));
  }
  void append(const Node& node);

  // ---- for the rules

  template <typename F>
  static std::vector<Arg> map_operands(const Node& node, F&& image) {
    std::vector<Arg> args = node.args;
    for (Arg& arg : args) {
      if (auto* value = std::get_if<Value*>(&arg)) {
        if (*value) *value = image(*value);
      } else if (auto* list = std::get_if<std::vector<Value*>>(&arg)) {
        for (Value*& value : *list)
          if (value) value = image(value);
      }
    }
    return args;
  }
  // With these types: operands have been converted already.
  std::vector<Value*> append_again(const Node& node, std::vector<Arg> args, std::vector<TensorType> types) {
    return b_.append(*node.op, node.overload, std::move(args), std::move(types), /*in_place=*/false);
  }

  Builder& builder() { return b_; }
  const Sym& batch() const { return batch_; }
  bool varies(const Value* of) const { return values_.at(of).batched; }
  Tensor single(const Value* of) { return wrap(b_, values_.at(of).value); }
  std::vector<Sym> with_batch(std::vector<Sym> sizes, const Sym& first) const {
    sizes.insert(sizes.begin(), first);
    return sizes;
  }
  std::vector<Sym> with_batch(std::vector<Sym> sizes) const { return with_batch(std::move(sizes), batch_); }
  // The batch's dim and the one after it as one, and back.
  Tensor folded(Tensor x) {
    std::vector<Sym> sizes(x.sizes().begin() + 1, x.sizes().end());
    sizes.at(0) = x.size(0) * x.size(1);
    return reshape(x, sizes);
  }
  Tensor unfolded(Tensor x) {
    std::vector<Sym> sizes = with_batch(x.sizes());
    sizes[1] = floordiv(x.size(0), batch_);
    return reshape(x, sizes);
  }
  // The number of the example, with the sizes that indices have.
  Tensor example_numbers(const std::vector<Sym>& sizes) { return iota(b_, sizes, 0, DType::kI64); }

 private:
  struct Image {
    Value* value;
    bool batched;
  };
  // As it is, of what does not vary.
  std::vector<Value*> append_single(const Node& node) {
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    return append_again(node, map_operands(node, [&](const Value* of) { return values_.at(of).value; }),
                        std::move(types));
  }

  Builder& b_;
  const Sym batch_;
  absl::flat_hash_map<const Value*, Image> values_;
};

using Results = std::vector<Value*>;
using Rule = Results (*)(Batcher&, const Node&, const Args&);

// The node again, its operands with the batch's dim, and what `fix` makes of its other arguments.
template <typename F>
Results again(Batcher& batcher, const Node& node, F&& fix) {
  std::vector<Arg> args =
      Batcher::map_operands(node, [&](const Value* of) { return batcher.batched(of).value; });
  const Schema& schema = node.op->parsed[node.overload];
  fix([&](std::string_view name) -> Arg& { return args.at(schema.find(name)); });
  std::vector<TensorType> types;
  for (const Value* result : node.results) {
    TensorType& type = types.emplace_back(result->type);
    type.sizes = batcher.with_batch(std::move(type.sizes));
    type.strides = contiguous_strides(type.sizes);
  }
  return batcher.append_again(node, std::move(args), std::move(types));
}

Results as_it_is(Batcher& batcher, const Node& node, const Args&) {
  return again(batcher, node, [](auto&&) {});
}

// Arguments that name dims, or have an entry for each dim.
Results one_dim_more(Batcher& batcher, const Node& node, const Args& args) {
  return again(batcher, node, [&](auto&& arg) {
    for (const char* name : {"dim", "dim1", "dim2"})
      if (args.schema().find(name) >= 0) arg(name) = args.integer(name) + 1;
    if (args.schema().find("dims") >= 0) {
      std::vector<Sym> dims = args.sizes("dims");
      for (Sym& dim : dims) dim = dim + 1;
      arg("dims") = std::move(dims);
    }
    const std::pair<const char*, Sym> entries[] = {
        {"size", batcher.batch()}, {"start", Sym(0)}, {"step", Sym(1)}, {"low", Sym(0)}, {"high", Sym(0)}};
    for (const auto& [name, first] : entries)
      if (args.schema().find(name) >= 0) arg(name) = batcher.with_batch(args.sizes(name), first);
  });
}

Results permuted(Batcher& batcher, const Node& node, const Args& args) {
  return again(batcher, node, [&](auto&& arg) {
    std::vector<Sym> dims{0};
    for (const Sym& dim : args.sizes("dims")) dims.push_back(dim + 1);
    arg("dims") = std::move(dims);
  });
}

Results operand(Batcher& batcher, const Node&, const Args& args) {
  return {batcher.batched(args.value("self")).value};
}

// Each example's elements in a row.
Tensor in_rows(Batcher& batcher, const Value* examples) {
  const Tensor x = batcher.batched(examples);
  Sym count = 1;
  for (int d = 1; d < x.rank(); ++d) count = count * x.size(d);
  return reshape(x, {batcher.batch(), count});
}

// Of all elements where there is no dim, or several.
Results extremum_index(Batcher& batcher, const Node& node, const Args& args) {
  if (args.sizes("dims").size() == 1) return one_dim_more(batcher, node, args);
  return {batcher.builder().call1(node.op->name,
                                  {in_rows(batcher, args.value("self")).value, std::vector<Sym>{1}})};
}

// As eager's batch of x.max(): a gradient from outside goes to one element.
template <const char* name>
Results shared_extremum(Batcher& batcher, const Node&, const Args& args) {
  return {batcher.builder().call1(name, {in_rows(batcher, args.value("self")).value, std::vector<Sym>{1}})};
}
constexpr char kMax[] = "core.max", kMin[] = "core.min";

// One of `self` for all, or each example its own, at indices of its own.
Results indexed(Batcher& batcher, const Node& node, const Args& args) {
  const std::vector<Value*> indices = args.values("indices");
  std::vector<Value*> given;
  for (const Value* index : indices) given.push_back(batcher.batched(index).value);
  if (batcher.varies(args.value("self")))
    given.insert(given.begin(), batcher.example_numbers(given.at(0)->type.sizes).value);
  return {batcher.builder().call1(
      node.op->name, {batcher.single(args.value("self")).value, std::move(given), args["error"]})};
}

Results index_put(Batcher& batcher, const Node& node, const Args& args) {
  return again(batcher, node, [&](auto&& arg) {
    auto& indices = std::get<std::vector<Value*>>(arg("indices"));
    indices.insert(indices.begin(), batcher.example_numbers(indices.at(0)->type.sizes).value);
  });
}

Results product(Batcher& batcher, const Node&, const Args& args) {
  const Value *self = args.value("self"), *mat2 = args.value("mat2");
  if (batcher.varies(self) && !batcher.varies(mat2))
    return {batcher.unfolded(mm(batcher.folded(batcher.single(self)), batcher.single(mat2))).value};
  return {bmm(batcher.batched(self), batcher.batched(mat2)).value};
}

Results batch_product(Batcher& batcher, const Node&, const Args& args) {
  const auto folded = [&](const char* name) { return batcher.folded(batcher.batched(args.value(name))); };
  return {batcher.unfolded(bmm(folded("self"), folded("mat2"))).value};
}

Results added_product(Batcher& batcher, const Node& node, const Args& args) {
  if (args.value("self")->type.rank() == 2) return as_it_is(batcher, node, args);
  const auto folded = [&](const char* name) {
    return batcher.folded(batcher.batched(args.value(name))).value;
  };
  Value* sum = batcher.builder().call1(
      node.op->name, {folded("self"), folded("mat2"), folded("addend"), args["beta"], args["alpha"]});
  return {batcher.unfolded(wrap(batcher.builder(), sum)).value};
}

// (B, N, C, ...) with the examples' channels side by side: (N, B * C, ...).
Tensor side_by_side(Batcher& batcher, const Value* images) {
  const Tensor x = batcher.batched(images);
  Dims dims(x.rank());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
  std::swap(dims[0], dims[1]);
  std::vector<Sym> sizes(x.sizes().begin() + 1, x.sizes().end());
  sizes[0] = x.size(1);
  sizes[1] = x.size(0) * x.size(2);
  return reshape(permute(x, dims), sizes);
}

// One weight for all: more images. Each example its own: more groups.
Results convolution(Batcher& batcher, const Node& node, const Args& args) {
  const Value *weight = args.value("weight"), *bias = args.value("bias");
  std::vector<Arg> given = node.args;
  const auto arg = [&](const char* name) -> Arg& { return given.at(args.schema().find(name)); };
  if (!batcher.varies(weight) && !(bias && batcher.varies(bias))) {
    arg("input") = batcher.folded(batcher.batched(args.value("input"))).value;
    arg("weight") = batcher.single(weight).value;
    if (bias) arg("bias") = batcher.single(bias).value;
    return {
        batcher
            .unfolded(wrap(batcher.builder(), batcher.builder().call(*node.op, node.overload, given).at(0)))
            .value};
  }
  arg("input") = side_by_side(batcher, args.value("input")).value;
  arg("weight") = batcher.folded(batcher.batched(weight)).value;
  if (bias) arg("bias") = batcher.folded(batcher.batched(bias)).value;
  arg("groups") = args.integer("groups") * batcher.batch();
  const Tensor result = wrap(batcher.builder(), batcher.builder().call(*node.op, node.overload, given).at(0));
  std::vector<Sym> sizes = batcher.with_batch(result.sizes());
  sizes[0] = result.size(0);
  sizes[1] = batcher.batch();
  sizes[2] = floordiv(result.size(1), batcher.batch());
  return {transpose(reshape(result, sizes), 0, 1).value};
}

Results convolution_weight_grad(Batcher& batcher, const Node& node, const Args& args) {
  std::vector<Arg> given = node.args;
  const auto arg = [&](const char* name) -> Arg& { return given.at(args.schema().find(name)); };
  arg("windows") = side_by_side(batcher, args.value("windows")).value;
  arg("image") = side_by_side(batcher, args.value("image")).value;
  arg("groups") = args.integer("groups") * batcher.batch();
  std::vector<Sym> size = args.sizes("size");
  size.at(0) = size[0] * batcher.batch();
  arg("size") = size;
  const Tensor result = wrap(batcher.builder(), batcher.builder().call(*node.op, node.overload, given).at(0));
  return {batcher.unfolded(result).value};
}

// (b, H, L, E), of which the examples make more; a mask has as many dims and may have one for all.
Results attention(Batcher& batcher, const Node& node, const Args& args) {
  std::vector<Arg> given = node.args;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto* value = std::get_if<Value*>(&given[i]);
    if (!value || !*value) continue;
    Tensor x = batcher.batched(*value);
    if (args.schema().params[i].name == "attn_mask") {
      while (x.rank() < 5) x = unsqueeze(x, 1);
      std::vector<Sym> sizes = x.sizes();
      sizes[1] = args.value("query")->type.sizes[0];
      x = expand(x, sizes);
    }
    given[i] = batcher.folded(x).value;
  }
  Results results = batcher.builder().call(*node.op, node.overload, std::move(given));
  for (Value*& result : results) result = batcher.unfolded(wrap(batcher.builder(), result)).value;
  return results;
}

constexpr int64_t kMostCalls = 64;

// A call of the framework's library for each example: nothing is known of what it makes of another dim.
Results library(Batcher& batcher, const Node& node, const Args&) {
  if (!batcher.batch().is_constant() || batcher.batch().constant() > kMostCalls)
    throw Unsupported("a batch of that many calls of PyTorch's library");
  std::vector<TensorType> types;
  const auto require_rows = [](const TensorType& type) {
    if (type.strides != contiguous_strides(type.sizes))
      throw Unsupported("a batch of calls of PyTorch's library whose operands or results are not row-major");
  };
  for (const Value* result : node.results) require_rows(types.emplace_back(result->type));
  std::vector<std::vector<Tensor>> parts(types.size());
  for (int64_t i = 0; i < batcher.batch().constant(); ++i) {
    const auto example = [&](const Value* of) -> Value* {
      if (!batcher.varies(of)) return batcher.single(of).value;
      require_rows(of->type);
      return reshape(slice(batcher.batched(of), 0, i, 1), of->type.sizes).value;
    };
    const Results results = batcher.append_again(node, Batcher::map_operands(node, example), types);
    for (size_t r = 0; r < results.size(); ++r)
      parts[r].push_back(
          reshape(wrap(batcher.builder(), results[r]), batcher.with_batch(types[r].sizes, Sym(int64_t{1}))));
  }
  Results stacked;
  for (const std::vector<Tensor>& each : parts) stacked.push_back(concat(each, 0).value);
  return stacked;
}

// The backward of a batch: of what it is given each has the batch's dim.
std::shared_ptr<const Graph> batched_backward(Batcher& batcher, const Args& args) {
  const Graph& of_batch = batcher.builder().graph();
  auto backward = std::make_shared<Graph>(of_batch.sym);
  backward->framework = of_batch.framework;
  backward->torch_float = of_batch.torch_float;
  const auto& example = std::get<std::shared_ptr<const Graph>>(args["backward"]);
  std::vector<Value*> given;
  for (const Value* input : example->inputs) {
    TensorType type = input->type;
    type.sizes = batcher.with_batch(std::move(type.sizes));
    type.strides = contiguous_strides(type.sizes);
    given.push_back(backward->add_input(std::move(type), input->name));
  }
  backward->outputs = Builder(*backward).call("func.vmap", {example, given, std::vector<Value*>()});
  return backward;
}

Results function_of_user(Batcher& batcher, const Node& node, const Args& args) {
  return again(batcher, node, [&](auto&& arg) { arg("backward") = batched_backward(batcher, args); });
}

const absl::flat_hash_map<std::string_view, Rule>& rules_by_name() {
  static const auto* rules = new absl::flat_hash_map<std::string_view, Rule>{
      {"core.cast", as_it_is},
      {"core.bitcast", as_it_is},
      {"core.regroup", as_it_is},
      {"core.detach", as_it_is},
      {"core.own", as_it_is},
      {"core.copy", as_it_is},
      {"core.follow", as_it_is},
      {"core.slope", as_it_is},
      {"core.softmax", one_dim_more},
      {"core.unit_strides", operand},
      {"core.expand", one_dim_more},
      {"core.permute", permuted},
      {"core.reshape", one_dim_more},
      {"core.slice", one_dim_more},
      {"core.diagonal", one_dim_more},
      {"core.window", one_dim_more},
      {"core.pad", one_dim_more},
      {"core.concat", one_dim_more},
      {"core.gather", one_dim_more},
      {"core.index", indexed},
      {"core.slice_scatter", one_dim_more},
      {"core.diagonal_scatter", one_dim_more},
      {"core.scatter", one_dim_more},
      {"core.index_put", index_put},
      {"core.argmax", extremum_index},
      {"core.argmin", extremum_index},
      {"core.shared_max", shared_extremum<kMax>},
      {"core.shared_min", shared_extremum<kMin>},
      {"core.mm", product},
      {"core.bmm", batch_product},
      {"core.addmm", added_product},
      {"core.convolution", convolution},
      {"core.convolution_weight_grad", convolution_weight_grad},
      {"core.sdpa", attention},
      {"core.sdpa_backward", attention},
      {"core.function", function_of_user},
      {"core.library", library},
      {"core.library_backward", library},
  };
  return *rules;
}

[[noreturn]] void refuse(const Node& node) { throw Unsupported("a batch of " + std::string(node.op->name)); }

Rule rule_of(const Node& node) {
  if (const auto found = rules_by_name().find(node.op->name); found != rules_by_name().end())
    return found->second;
  switch (node.op->core.kind) {
    case CoreKind::kPointwise: return as_it_is;
    case CoreKind::kScan: return one_dim_more;
    case CoreKind::kReduction: return one_dim_more;
    default: refuse(node);
  }
}

void Batcher::append(const Node& node) {
  b_.set_location(node.location, node.user_call, node.region);
  if (!node.results.empty()) b_.set_device(node.results[0]->type.device);
  // A call of a library may raise an error, and does nothing else.
  if (node.op->effects != Effects::kNone && node.op->family != Family::kLibrary) refuse(node);
  bool any = false;
  for_each_operand(const_cast<Node&>(node), [&](Value*& value) { any |= varies(value); });
  const Results results =
      any ? rule_of(node)(*this, node, Args(node.op->parsed[node.overload], node.args)) : append_single(node);
  for (size_t i = 0; i < node.results.size(); ++i) {
    results.at(i)->type.weak = node.results[i]->type.weak;
    bind(node.results[i], results[i], any);
  }
}

}  // namespace

std::vector<Value*> expand_batched(Builder& builder, const Graph& example, const std::vector<Value*>& inputs,
                                   size_t batched, const Sym& batch) {
  Batcher batcher(builder, batch);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor input = wrap(builder, inputs[i]);
    // Batches of one size may have several symbols for it.
    if (i < batched && !(input.size(0) == batch)) {
      std::vector<Sym> sizes = input.sizes();
      sizes[0] = batch;
      input = expand(input, sizes);
    }
    batcher.bind(example.inputs[i], input.value, i < batched);
  }
  for (const auto& node : example.nodes) batcher.append(*node);
  std::vector<Value*> results;
  for (const Value* output : example.outputs) results.push_back(batcher.batched(output).value);
  return results;
}

}  // namespace cdynamo::graph
