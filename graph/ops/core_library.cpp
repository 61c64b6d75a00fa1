// Calls of the framework's own operators, and of their derivatives as its autograd knows them.
#include <algorithm>

#include "graph/core.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_library(Graph& graph, const Args& args) {
  throw InternalError("the types of a library call come from capture");
}

// One call, for the results whose gradients come in, to all inputs. It computes the operator again, or is given its results.
void library_derivative(Derivative& d) {
  const int64_t differentiable = d.args.constant("differentiable");
  if (differentiable < 0)
    throw Unsupported("no derivative is known of " + std::string(d.args.string("name")));
  int64_t incoming = 0;
  std::vector<Value*> cotangents;
  for (size_t i = 0; i < d.results.size(); ++i) {
    if (!d.grads[i].value || i >= kMostLibraryResults || !(differentiable >> i & 1)) continue;
    incoming |= int64_t{1} << i;
    cotangents.push_back(d.grads[i].value);
  }
  if (!incoming) return;
  std::vector<Value*> inputs;
  std::vector<TensorType> types;
  for (const Tensor& operand : d.operands) {
    inputs.push_back(operand.value);
    if (is_float(operand.dtype()))
      types.push_back(contiguous_type(operand.value, operand.sizes(), operand.dtype()));
  }
  if (differentiable >> kReadsResults & 1)
    for (size_t i = 0; i < d.results.size(); ++i) inputs.push_back(d.result(static_cast<int>(i)).value);
  const std::vector<Sym> strides = d.args.sizes("gradient_strides");
  for (size_t at = 0; TensorType & type : types) {
    if (strides.empty()) break;
    std::copy_n(strides.begin() + at, type.strides.size(), type.strides.begin());
    at += type.strides.size();
  }
  const std::string name(d.args.string("name"));
  const std::vector<Value*> gradients = d.builder.append(
      op("core.library_backward"), 0,
      {std::move(inputs), std::move(cotangents), name + "_backward", d.args.constant("call") + Sym(incoming)},
      std::move(types), /*in_place=*/false);
  size_t next = 0;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    if (!is_float(d.operands[i].dtype())) continue;
    if (differentiable >> (kMostLibraryResults + next) & 1)
      d.set(static_cast<int>(i), wrap(d.builder, gradients[next]));
    ++next;
  }
}

}  // namespace

std::vector<OpDef> core_library_ops() {
  return {
      {.name = "core.library",
       .family = Family::kLibrary,
       .schemas = {"core.library(Tensor[] inputs, str name, str attributes, int call, int differentiable, "
                   "int[] gradient_strides=[]) -> "
                   "Tensor[]"},
       .infer = infer_library,
       .derivative = library_derivative,
       .in_place_variant = false,
       .effects = Effects::kUnknown,
       .core = {.call = CallDef{.tensors = {"inputs"}}, .eager = kNoEager}},
      {.name = "core.library_backward",
       .family = Family::kLibrary,
       .schemas = {"core.library_backward(Tensor[] inputs, Tensor[] grads, str name, int call) -> Tensor[]"},
       .infer = infer_library,
       .in_place_variant = false,
       .effects = Effects::kNone,
       .core = {.call = CallDef{.tensors = {"inputs", "grads"}, .may_omit_results = true},
                .eager = kNoEager}},
  };
}

}  // namespace cdynamo::graph
