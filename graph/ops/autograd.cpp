// What differentiates inside a captured graph: torch.autograd.grad, cdynamo.grad, and Functions of the user.
#include <numeric>

#include "graph/autograd/autograd.h"
#include "graph/autograd/recompute.h"
#include "graph/ops/entry.h"
#include "graph/passes.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_variable(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  TensorType type = contiguous_type(self, self->type.sizes, self->type.dtype);
  type.strides = preserved_strides(graph, self->type);
  return {std::move(type)};
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
  const size_t forward = b.graph().nodes.size();
  std::vector<Value*> gradients = differentiate(b, outputs, cotangents, inputs);
  recompute_regions(b.graph(), forward);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!gradients[i]) gradients[i] = full_like(wrap(b, inputs[i]), 0.0).value;
  return gradients;
}

std::vector<TensorType> infer_function(Graph&, const Args& args) {
  std::vector<TensorType> types;
  for (const Value* output : args.values("outputs")) types.push_back(output->type);
  return types;
}

// For each input, the result of the backward that is its gradient; -1: none.
std::vector<int64_t> places_of_gradients(const Derivative& d, size_t inputs) {
  std::vector<int64_t> places(inputs);
  std::iota(places.begin(), places.end(), 0);
  const size_t optional = d.args.constant("optional"), others = d.grads.size() - optional;
  if (optional == 0) return places;
  const auto comes = [&](size_t i) { return d.grads.at(i).value != nullptr; };
  size_t set = 0;
  for (size_t i = 0; i < optional; ++i) set |= size_t{comes(others + i)} << i;
  bool any = others == 0;
  for (size_t i = 0; i < others; ++i) any |= comes(i);
  const std::vector<int64_t> all = d.args.constants("places");
  for (size_t i = 0; i < inputs; ++i) places[i] = any ? all.at(set * inputs + i) : -1;
  return places;
}

// As eager does it: what no gradient came for is zero, where it is read.
void function_derivative(Derivative& d) {
  const Graph& backward = d.args.graph("backward");
  const size_t outputs = d.args.values("outputs").size(), inputs = d.args.values("inputs").size();
  std::vector<Value*> given;
  for (size_t i = 0; i < outputs; ++i)
    given.push_back((d.grads[i].value ? d.grads[i] : full_like(d.results[i], 0.0)).value);
  for (Value* saved : d.args.values("saved")) given.push_back(saved);
  for (const Tensor& result : d.results) given.push_back(result.value);
  const std::list<std::unique_ptr<Node>>& nodes = d.builder.graph().nodes;
  const size_t before = nodes.size();
  const std::vector<Value*> gradients = expand_captured(d.builder, backward, given);
  size_t made = nodes.size() - before;
  for (auto node = nodes.rbegin(); made > 0; ++node, --made) {
    if ((*node)->op->family == Family::kRandom)
      throw Unsupported("random numbers in the backward of a Function");
    // What it reads, the derivative of the Function's call reads.
    (*node)->user_call = d.results.at(0).value->node->user_call;
  }
  const std::vector<int64_t> places = places_of_gradients(d, inputs);
  for (size_t i = 0; i < inputs; ++i)
    if (places[i] >= 0) d.set(static_cast<int>(outputs + i), wrap(d.builder, gradients.at(places[i])));
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
      // The operand, as a constant: what a backward under torch.autograd.function.once_differentiable gives.
      {.name = "core.once_differentiable",
       .family = Family::kPointwise,
       .schemas = {"core.once_differentiable(Tensor self) -> Tensor"},
       .scalar = CDYNAMO_SCALAR(return x[0]),
       .differentiable = false,
       .in_place_variant = false,
       .core = {.linearity = Linearity::kNone, .eager = "self.detach()"}},
      {.name = "autograd.grad",
       .family = Family::kComposite,
       .schemas = {"autograd.grad(Tensor[] outputs, Tensor[] inputs, Tensor?[] grad_outputs) -> Tensor[]"},
       .body = gradients_body,
       .infer = infer_gradients,
       .in_place_variant = false},
      {.name = "core.function",
       .family = Family::kIndexing,
       .schemas = {"core.function(Graph backward, Tensor(a!)[] outputs, Tensor[] inputs, Tensor[] saved, "
                   "int optional, int[] places, bool frees) -> Tensor[]"},
       .infer = infer_function,
       .derivative = function_derivative,
       .in_place_variant = false,
       .core = {.kind = CoreKind::kGone, .linearity = Linearity::kNone, .eager = kNoEager}},
  };
}

}  // namespace cdynamo::graph
