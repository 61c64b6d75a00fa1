// A call of an operator from Python: binding, node, results. See tensor.h.
#include "graph/op.h"
#include "symbolic/hooks.h"
#include "symbolic/torch/autocast_policy.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/return_type.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/common.h"

namespace cdynamo::symbolic {
namespace {

ValuePtr wrap_results(Executor& ex, const graph::OpDef& op, int overload,
                      const std::vector<graph::Value*>& results) {
  const graph::Schema& schema = op.parsed[overload];
  if (!schema.result_is_list && schema.num_results == 1) return make_tensor(ex, results.at(0));
  std::vector<ValuePtr> items;
  for (graph::Value* result : results) items.push_back(make_tensor(ex, result));
  if (ValuePtr named = make_return_type(ex, schema, items)) return named;
  return make_tuple(ex, std::move(items));
}

// An operator that only changes the shape of its receiver: eager changes the object, which a value cannot.
void refuse_shape_change(const graph::OpDef& op, bool in_place) {
  static constexpr std::string_view kShapes[] = {"t",        "transpose", "squeeze", "unsqueeze",
                                                 "swapaxes", "swapdims",  "resize",  "as_strided"};
  for (std::string_view name : kShapes)
    if (in_place && op.name == name) break_graph("CD0404", std::string(op.name) + "_");
}

ValuePtr apply(Executor& ex, const graph::OpDef& op, bool in_place, const CallArgs& args,
               Convention convention) {
  use_framework(ex, graph::Framework::kTorch);
  refuse_shape_change(op, in_place);
  BoundCall call = bind_call(ex, op, args, convention, in_place);
  if (!in_place) cast_for_autocast(ex, op, call);
  const int overload = call.overload;
  std::vector<graph::Value*> results = append_call(ex, op, std::move(call), in_place);
  if (in_place) return args.positional.empty() ? args.keywords.at(0).value : args.positional[0];
  return wrap_results(ex, op, overload, results);
}

}  // namespace

ValuePtr call_operator(Executor& ex, const graph::OpDef& op, bool in_place, const char* kind, PyRef target,
                       const CallArgs& args, Convention convention) {
  return recorded_call(ex, kind, std::move(target), args,
                       [&] { return apply(ex, op, in_place, args, convention); });
}

ValuePtr call_named(Executor& ex, const char* name, std::vector<ValuePtr> args, bool in_place) {
  const graph::OpDef* op = graph::find_op(name);
  if (!op) break_graph("CD0405", name);
  return apply(ex, *op, in_place, CallArgs{.positional = std::move(args), .keywords = {}},
               Convention::kTorchFunction);
}

}  // namespace cdynamo::symbolic
