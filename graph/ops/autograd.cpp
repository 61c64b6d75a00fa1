// What differentiates inside a captured graph: torch.autograd.grad, cdynamo.grad.
#include "graph/autograd.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_variable(Graph&, const Args& args) {
  const Value* self = args.value("self");
  return {contiguous_type(self, self->type.sizes, self->type.dtype)};
}

// A value of its own: what depends on it depends on the operand through it only.
std::vector<Value*> variable_body(Builder& b, const Args& args) {
  Value* self = args.value("self");
  return forward(b, "core.cast", {self, self->type.dtype});
}

std::vector<TensorType> infer_gradients(Graph&, const Args& args) {
  std::vector<TensorType> types;
  for (const Value* input : args.values("inputs"))
    types.push_back(contiguous_type(input, input->type.sizes, input->type.dtype));
  return types;
}

std::vector<Value*> gradients_body(Builder& b, const Args& args) {
  const std::vector<Value*> outputs = args.values("outputs"), inputs = args.values("inputs");
  std::vector<Value*> cotangents = args.values("grad_outputs");
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!cotangents.at(i)) cotangents[i] = full_like(wrap(b, outputs[i]), 1.0).value;
  std::vector<Value*> gradients = differentiate(b, outputs, cotangents, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!gradients[i]) gradients[i] = full_like(wrap(b, inputs[i]), 0.0).value;
  return gradients;
}

}  // namespace

std::vector<OpDef> autograd_ops() {
  return {
      {.name = "autograd.variable",
       .family = Family::kComposite,
       .schemas = {"autograd.variable(Tensor self) -> Tensor"},
       .body = variable_body,
       .infer = infer_variable,
       .in_place_variant = false},
      {.name = "autograd.grad",
       .family = Family::kComposite,
       .schemas = {"autograd.grad(Tensor[] outputs, Tensor[] inputs, Tensor?[] grad_outputs) -> Tensor[]"},
       .body = gradients_body,
       .infer = infer_gradients,
       .in_place_variant = false},
  };
}

}  // namespace cdynamo::graph
