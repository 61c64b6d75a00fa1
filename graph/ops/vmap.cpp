// torch.vmap inside of a captured graph: a function of one example, computed of a batch of them.
#include "graph/ops/entry.h"
#include "graph/passes.h"
#include "graph/passes/batching.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

const Sym& batch_size(const Args& args) { return args.values("batched").at(0)->type.sizes.at(0); }

// As eager's: each example's result in its own order, one after the other.
std::vector<TensorType> infer_vmap(Graph& graph, const Args& args) {
  std::vector<TensorType> types;
  for (const Value* output : args.graph("body").outputs) {
    TensorType type = output->type;
    const bool is_dense = is_non_overlapping_and_dense(*graph.sym, type);
    type.strides.insert(type.strides.begin(), type.numel());
    type.sizes.insert(type.sizes.begin(), batch_size(args));
    if (!is_dense) type.strides = contiguous_strides(type.sizes);
    type.weak = false;
    types.push_back(std::move(type));
  }
  return types;
}

std::vector<Value*> vmap_body(Builder& b, const Args& args) {
  const Graph& body = args.graph("body");
  std::vector<Value*> inputs = args.values("batched");
  const size_t batched = inputs.size();
  for (Value* shared : args.values("shared")) inputs.push_back(shared);
  Graph example(b.graph().sym);
  example.framework = b.graph().framework;
  example.torch_float = b.graph().torch_float;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorType type = inputs[i]->type;
    if (i < batched) {
      type.sizes.erase(type.sizes.begin());
      type.strides = contiguous_strides(type.sizes);
    }
    example.add_input(std::move(type), body.inputs.at(i)->name);
  }
  Builder of_example(example, Level::kCore);
  example.outputs = expand_captured(of_example, body, example.inputs);
  return expand_batched(b, example, inputs, batched, batch_size(args));
}

}  // namespace

std::vector<OpDef> vmap_ops() {
  return {{.name = "func.vmap",
           .family = Family::kComposite,
           .schemas = {"func.vmap(Graph body, Tensor[] batched, Tensor[] shared) -> Tensor[]"},
           .body = vmap_body,
           .infer = infer_vmap,
           .in_place_variant = false}};
}

}  // namespace cdynamo::graph
