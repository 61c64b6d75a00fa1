#include "graph/ops/entry.h"

#include "graph/strides.h"

#include <limits>
#include <numeric>

#include "graph/promotion.h"

namespace cdynamo::graph {

DType common_dtype(Graph& graph, std::initializer_list<const Arg*> operands) {
  std::vector<PromotedOperand> promoted;
  for (const Arg* arg : operands) promoted.push_back(promoted_operand(*arg));
  return result_type(graph.framework, graph.default_float(), promoted);
}

DType common_dtype(Graph& graph, const Args& args) {
  return common_dtype(graph, {&args["self"], &args["other"]});
}

bool is_bool(const Arg& arg) { return promoted_operand(arg).dtype == DType::kBool; }

Tensor own(Tensor x) { return wrap(*x.builder, x.builder->call1("core.own", {x.value})); }

Tensor follow(Tensor x, Tensor leader) {
  if (!is_float(x.dtype()) || !is_float(leader.dtype())) return x;
  if (leader.sizes() != x.sizes()) {  // pointwise operands have the result's sizes
    Dims dims(leader.rank());
    std::iota(dims.begin(), dims.end(), 0);
    leader = expand(sum(own(leader), dims), x.sizes());
  }
  return wrap(*x.builder, x.builder->call1("core.follow", {x.value, leader.value}));
}

Tensor with_slope(Tensor x, Tensor source) {
  return wrap(*x.builder, x.builder->call1("core.slope", {x.value, source.value, Arg()}));
}
Tensor with_slope(Tensor x, Tensor source, Tensor slope) {
  return wrap(*x.builder, x.builder->call1("core.slope", {x.value, source.value, slope.value}));
}

Tensor with_softmax_gradient(Tensor x, Tensor source, int64_t dim, bool logarithm) {
  return wrap(*x.builder, x.builder->call1("core.softmax", {x.value, source.value, Sym(dim), logarithm}));
}

Tensor softmax_gradient(Tensor result, Tensor grad, int64_t dim) {
  return result * (grad - sum(result * grad, {dim}, true));
}

Tensor root(Tensor x) {
  Tensor zero = eq(x, 0);
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

// x to the power of p, without a gradient where x is 0.
static Tensor power_beside_zero(Tensor x, double p) {
  Tensor zero = eq(x, 0);
  return where(zero, detach(pow(x, p)), pow(where(zero, 1.0, x), p));
}

Tensor p_norm(Tensor x, double p, const Dims& dims, bool keepdim) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (p == 2) return root(sum(x * x, dims, keepdim));
  if (p == 0) return sum(cast(ne(x, 0), x.dtype()), dims, keepdim);
  Tensor size = abs(x);
  if (p == kInfinity) return amax(size, dims, keepdim);
  if (p == -kInfinity) return amin(size, dims, keepdim);
  if (p == 1) return sum(size, dims, keepdim);
  Tensor powers = p < 1 ? power_beside_zero(size, p) : pow(size, p);
  return power_beside_zero(sum(powers, dims, keepdim), 1 / p);
}

void preserved_results(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = preserved_strides(graph, args.value("self")->type);
}

void strides_of_tensors(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  std::vector<TensorType> iterated;
  for (const Arg& arg : args.all()) {
    const auto* value = std::get_if<Value*>(&arg);
    if (!value || !*value) continue;
    TensorType& type = iterated.emplace_back((*value)->type);
    // An operand that is converted is copied before on the CPU.
    if (type.dtype != results[0].dtype && !on_gpu(type)) type.strides = preserved_strides(graph, type);
  }
  std::vector<const TensorType*> operands;
  for (const TensorType& type : iterated) operands.push_back(&type);
  results[0].strides = elementwise_strides(*graph.sym, results[0].sizes, operands);
}

OpDef composite(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                std::vector<std::string_view> torch_names, StridesFn strides) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .torch_names = std::move(torch_names),
          .body = body,
          .strides = strides,
          .in_place_variant = false};
}

OpDef with_in_place_variant(OpDef op) {
  op.in_place_variant = true;
  return op;
}

}  // namespace cdynamo::graph
