// A call of an operator from Python: binding, node, results. See tensor.h.
#include <algorithm>
#include <optional>

#include "graph/op.h"
#include "graph/ops/random.h"
#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/attention.h"
#include "symbolic/torch/autocast_policy.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/eager_kernels.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/library_numbers.h"
#include "symbolic/torch/return_type.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

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
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  refuse_shape_change(op, in_place);
  BoundCall call = bind_call(ex, op, args, convention, in_place);
  if (!in_place) cast_for_autocast(ex, op, call);
  if (ValuePtr result = try_fused_attention(ex, op, call)) return result;
  if (!in_place && needs_eager_kernel(op, call))
    if (ValuePtr result = try_library(ex, args)) return result;
  const int overload = call.overload;
  std::vector<graph::Value*> results = append_call(ex, op, std::move(call), in_place);
  if (in_place) return args.positional.empty() ? args.keywords.at(0).value : args.positional[0];
  return wrap_results(ex, op, overload, results);
}

// ---- out=

const Keyword* find_out(const CallArgs& args) {
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), "out") == 0 && !is_none(keyword.value))
      return &keyword;
  return nullptr;
}

std::vector<ValuePtr> one_or_many(Executor& ex, const ValuePtr& value) {
  if (dynamic_cast<TensorValue*>(value.get())) return {value};
  auto items = value->unpack(ex);
  return items ? *items : std::vector<ValuePtr>{};
}

// What eager allows of an operand that shares memory with where the result goes: the same tensor, element by element.
void refuse_overlap(Executor& ex, const graph::OpDef& op, graph::Value* out, std::vector<graph::Arg>& args) {
  const auto& bases = tensor_capture(ex).base_of;
  const auto base = [&](const graph::Value* value) {
    auto found = bases.find(value);
    return found == bases.end() ? value : found->second;
  };
  const auto check = [&](const graph::Value* value) {
    const bool itself = value == out && op.family == graph::Family::kPointwise;
    if (value && !itself && base(value) == base(out)) break_graph("CD0402", "memory that it reads");
  };
  for (const graph::Arg& arg : args) {
    if (auto* value = std::get_if<graph::Value*>(&arg)) check(*value);
    if (auto* list = std::get_if<std::vector<graph::Value*>>(&arg))
      for (const graph::Value* value : *list) check(value);
  }
}

// The call without out=, then a copy: for tensors of the result's dtype and sizes, where eager neither casts nor resizes.
ValuePtr apply_out(Executor& ex, const graph::OpDef& op, const ValuePtr& out_argument, const CallArgs& args,
                   Convention convention) {
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  CallArgs rest = args;
  std::erase_if(rest.keywords, [&](const Keyword& other) { return other.value == out_argument; });
  const std::vector<ValuePtr> outs = one_or_many(ex, out_argument);
  BoundCall call = bind_call(ex, op, rest, convention);
  const TensorCapture& capture = torch_capture(ex);
  if (!capture.autocast.known || capture.autocast.enabled()) break_graph("CD0402", "under autocast");
  std::vector<graph::Value*> targets;
  for (const ValuePtr& out : outs) {
    auto* tensor = dynamic_cast<TensorValue*>(out.get());
    if (!tensor || tensor->value()->requires_grad) break_graph("CD0402", out->describe());
    for (const graph::Value* other : targets)
      if (other == tensor->value()) break_graph("CD0402", "one tensor twice");
    targets.push_back(tensor->value());
    refuse_overlap(ex, op, tensor->value(), call.args);
  }
  const graph::Schema& schema = op.parsed[call.overload];
  const int overload = call.overload;
  const std::vector<graph::Value*> results = append_call(ex, op, std::move(call));
  if (results.size() != targets.size())
    break_graph("CD0402", "another number of tensors than it has results");
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::TensorType &given = targets[i]->type, &type = results[i]->type;
    bool fits = given.dtype == type.dtype && given.rank() == type.rank() && !results[i]->requires_grad;
    for (int d = 0; fits && d < type.rank(); ++d)
      fits = ex.graph().sym->guard_eq(given.sizes[d], type.sizes[d], "out=");
    if (!fits) break_graph("CD0402", "a tensor of another dtype or other sizes, or a gradient");
    // Eager draws them one after the other in memory.
    if (graph::draws_random_numbers(op) && !graph::is_contiguous(*ex.graph().sym, given))
      break_graph("CD0402", "a tensor that random numbers fill in another order");
  }
  for (size_t i = 0; i < results.size(); ++i)
    append_call1(ex, "copy", {targets[i], results[i]}, /*in_place=*/true);
  if (!schema.result_is_list && schema.num_results == 1) return outs[0];
  ValuePtr named = make_return_type(ex, op.parsed[overload], outs);
  if (PyObject* type = named ? library_object("torch.return_types", (schema.name + "_out").c_str()) : nullptr)
    return std::make_shared<ReturnTypeValue>(reinterpret_cast<PyTypeObject*>(type), outs);
  return named ? named : make_tuple(ex, outs);
}

// Operators with a factor that is a Number in the schema, and in eager may be a tensor of one element.
struct FactorRow {
  std::string_view op;
  const char *factor, *function, *in_place;  // of polyfills/training.py
};
constexpr FactorRow kFactors[] = {
    {"add", "alpha", "add_scaled", "add_scaled_"},
    {"sub", "alpha", "sub_scaled", "sub_scaled_"},
    {"addcmul", "value", "addcmul_scaled", "addcmul_scaled_"},
    {"addcdiv", "value", "addcdiv_scaled", "addcdiv_scaled_"},
};

// Null: the factor is an ordinary number.
const char* scaled_form(const graph::OpDef& op, bool in_place, const CallArgs& args) {
  const auto is_float = [](const ValuePtr& value) {
    const graph::Value* held = graph_value(value);
    return held && runtime::is_float(held->type.dtype);
  };
  for (const FactorRow& row : kFactors) {
    if (op.name != row.op || args.keywords.size() != 1) continue;
    const auto& [name, factor] = args.keywords[0];
    const graph::Value* held = graph_value(factor);
    if (PyUnicode_CompareWithASCIIString(name.get(), row.factor) != 0 || !held || held->type.rank() != 0 ||
        held->requires_grad || !std::ranges::all_of(args.positional, is_float))
      return nullptr;
    return in_place ? row.in_place : row.function;
  }
  return nullptr;
}

ValuePtr try_apply(Executor& ex, const graph::OpDef& op, bool in_place, const CallArgs& args,
                   Convention convention) {
  try {
    return apply(ex, op, in_place, args, convention);
  } catch (const GraphBreak&) {
    return nullptr;
  }
}

// Where the table's entry has no node for the call: with less of what changes from call to call, and then in PyTorch's library.
ValuePtr apply_as_far_as_possible(Executor& ex, const graph::OpDef& op, bool in_place, const CallArgs& args,
                                  Convention convention) {
  try {
    return apply(ex, op, in_place, args, convention);
  } catch (const GraphBreak& broken) {
    if (broken.record.id == "CD0404")
      if (const auto fitting = with_floats_that_fit(ex, args))
        if (ValuePtr result = try_apply(ex, op, in_place, *fitting, convention)) return result;
    if (broken.record.id == "CD0404" || broken.record.id == "CD0403")
      if (const auto pinned = with_pinned_floats(ex, args))
        return apply_as_far_as_possible(ex, op, in_place, *pinned, convention);
    if (in_place) throw;
    return call_library_after(ex, broken, args);
  }
}

// torch.div(7, 2): PyTorch's parser makes tensors of a function's numbers. Nothing: one of the operands is a tensor.
std::optional<CallArgs> with_tensor_of_number(Executor& ex, const graph::OpDef& op, const CallArgs& args,
                                              Convention convention) {
  const auto is_tensor = [](const ValuePtr& value) { return graph_value(value) != nullptr; };
  const auto names_tensor = [&](const Keyword& keyword) { return is_tensor(keyword.value); };
  if (convention != Convention::kTorchFunction || !op.numbers_as_tensors || args.positional.size() < 2 ||
      std::ranges::any_of(args.positional, is_tensor) || std::ranges::any_of(args.keywords, names_tensor))
    return std::nullopt;
  CallArgs made = args;
  made.positional[0] = call_named(ex, "full", {make_tuple(ex, {}), args.positional[0]});
  return made;
}

// x.copy_(2): so does its parser there, with all digits of a float.
std::optional<CallArgs> with_tensor_to_copy(Executor& ex, const graph::OpDef& op, bool in_place,
                                            const CallArgs& args) {
  if (!in_place || op.name != "copy" || args.positional.size() < 2 || graph_value(args.positional[1]))
    return std::nullopt;
  const std::optional<graph::Arg> number = number_argument(args.positional[1]);
  if (!number) return std::nullopt;
  const graph::DType dtype = std::holds_alternative<double>(*number) ? graph::DType::kF64
                             : std::holds_alternative<bool>(*number) ? graph::DType::kBool
                                                                     : graph::DType::kI64;
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  CallArgs made = args;
  made.positional[1] =
      make_tensor(ex, append_call1(ex, "core.full", {std::vector<graph::Sym>{}, *number, dtype}));
  return made;
}

ValuePtr call_real_operator(Executor& ex, const graph::OpDef& op, bool in_place, const char* kind,
                            PyRef target, const CallArgs& args, Convention convention) {
  if (const char* scaled = scaled_form(op, in_place, args))
    return polyfill(ex, PythonSide::kTrainingPolyfills, scaled)->call(ex, args);
  return recorded_call(ex, kind, std::move(target), args, [&] {
    if (const Keyword* out = in_place ? nullptr : find_out(args))
      return apply_out(ex, op, out->value, args, convention);
    if (const auto of_numbers = with_tensor_of_number(ex, op, args, convention))
      return apply(ex, op, in_place, *of_numbers, convention);
    if (const auto of_tensors = with_tensor_to_copy(ex, op, in_place, args))
      return apply(ex, op, in_place, *of_tensors, convention);
    return apply_as_far_as_possible(ex, op, in_place, args, convention);
  });
}

}  // namespace

ValuePtr call_operator(Executor& ex, const graph::OpDef& op, bool in_place, const char* kind, PyRef target,
                       const CallArgs& args, Convention convention) {
  const std::string name = std::string(op.name) + (in_place ? "_" : "");
  if (ValuePtr result = try_complex_call(ex, name, kind, target.get(), args)) return result;
  return or_complex(ex, kind, target.get(), args,
                    [&] { return call_real_operator(ex, op, in_place, kind, target, args, convention); });
}

ValuePtr call_named(Executor& ex, const char* name, std::vector<ValuePtr> args, bool in_place) {
  const graph::OpDef* op = graph::find_op(name);
  if (!op) break_graph("CD0405", name);
  return apply(ex, *op, in_place, CallArgs{.positional = std::move(args), .keywords = {}},
               Convention::kTorchFunction);
}

}  // namespace cdynamo::symbolic
