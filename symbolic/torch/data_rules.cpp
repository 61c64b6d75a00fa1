// What PyTorch's functions whose results depend on data are stated with (python/cdynamo/polyfills/data_dependent.py).
#include <algorithm>

#include "graph/op.h"
#include "graph/ops/random.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/tensors/nonzero.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// nonzero_columns(tensor)
ValuePtr nonzero_columns(Executor& ex, PyObject* function, const CallArgs& args) {
  auto* array = args.positional.size() == 1 ? dynamic_cast<ArrayValue*>(args.positional[0].get()) : nullptr;
  if (!array) break_graph("CD0401", "nonzero");
  return recorded_call(ex, "call_function", PyRef::borrow(function), args, [&] {
    std::vector<ValuePtr> columns;
    for (graph::Value* index : nonzero_indices(ex, array->value(), "nonzero"))
      columns.push_back(make_tensor(ex, index));
    return make_tuple(ex, std::move(columns));
  });
}

// required(condition): from here on a relation of numbers that the graph reads holds. False: it is none, or is known not to.
ValuePtr required(Executor& ex, PyObject*, const CallArgs& args) {
  const bool holds =
      args.positional.size() == 1 && require_truth(ex, args.positional[0], true, "torch._check");
  return ex.constant_bool(holds);
}

// changes_so_far()
ValuePtr changes_so_far(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_int(symbolic::changes_so_far(ex));
}

ValuePtr as_operator(Executor& ex, PyObject* function, const CallArgs& args) {
  const OperatorCallable op = find_torch_operator(function);
  return call_operator(ex, *op.op, op.in_place, "call_function", PyRef::borrow(function), args,
                       Convention::kTorchFunction);
}

// torch.where(condition) is nonzero.
ValuePtr where(Executor& ex, PyObject* function, const CallArgs& args) {
  if (args.positional.size() == 1 && args.keywords.empty())
    return polyfill(ex, PythonSide::kTorchPolyfills, "where_true")->call(ex, args);
  return as_operator(ex, function, args);
}

// Without a number of classes: as many as the largest index asks for.
ValuePtr one_hot(Executor& ex, PyObject* function, const CallArgs& args) {
  if (args.positional.size() == 1 && args.keywords.empty())
    return polyfill(ex, PythonSide::kTorchPolyfills, "one_hot_of_all")->call(ex, args);
  return as_operator(ex, function, args);
}

ValuePtr repeat_interleave_function(Executor& ex, PyObject* function, const CallArgs& args) {
  return repeat_interleave(ex, "call_function", PyRef::borrow(function), args, Convention::kTorchFunction);
}

constexpr SpecialRow kDataRuleRows[] = {
    {"cdynamo.polyfills.rules.nonzero_columns", nonzero_columns},
    {"cdynamo.polyfills.rules.required", required},
    {"cdynamo.polyfills.rules.changes_so_far", changes_so_far},
    {"torch.where", where},
    {"torch.repeat_interleave", repeat_interleave_function},
    {"torch.nn.functional.one_hot", one_hot},
};

}  // namespace

ValuePtr repeat_interleave(Executor& ex, const char* kind, PyRef target, const CallArgs& args,
                           Convention convention) {
  const auto is_tensor = [](const ValuePtr& value) { return is_array(value); };
  const bool by_tensor =
      args.positional.size() == 1
          ? args.keywords.empty() || std::ranges::any_of(args.keywords, is_tensor, &Keyword::value)
          : args.positional.size() > 1 && is_tensor(args.positional[1]);
  if (by_tensor) return polyfill(ex, PythonSide::kTorchPolyfills, "repeat_interleave")->call(ex, args);
  return call_operator(ex, *graph::find_op("repeat_interleave"), false, kind, std::move(target), args,
                       convention);
}

std::span<const SpecialRow> data_rules() { return kDataRuleRows; }

}  // namespace cdynamo::symbolic
