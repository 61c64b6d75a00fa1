// torch.func.grad, grad_and_value and vjp during capture: python/cdynamo/polyfills/function_transforms.py says what they
// do, in terms of the rules here. A level of differentiation is values of their own (autograd.variable) and a node
// that differentiates (autograd.grad).
#include <algorithm>

#include "graph/op.h"
#include "graph/ops/random.h"
#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

Value* float_value(const ValuePtr& value) {
  Value* held = dynamic_cast<TensorValue*>(value.get()) ? graph_value(value) : nullptr;
  if (!held || !runtime::is_float(held->type.dtype)) break_graph("CD0418", value->describe());
  return held;
}

// level_variable(tensor): the tensor as a value of its own. Backends in Python see what the program calls, not levels.
ValuePtr level_variable(Executor& ex, PyObject*, const CallArgs& args) {
  if (!ex.state().request.is_native) break_graph("CD0404", "torch.func for a backend in Python");
  Value* variable = append_call1(ex, "autograd.variable", {float_value(args.positional.at(0))});
  variable->requires_grad = true;
  return make_tensor(ex, variable);
}

// Eager writes to the tensor that the variable stands for.
void refuse_writes(Executor& ex, const std::vector<Value*>& variables) {
  const auto& bases = tensor_capture(ex).base_of;
  for (const auto& node : ex.graph().nodes) {
    if (!node->in_place) continue;
    const Value* written = std::get<Value*>(node->args.at(0));
    if (auto base = bases.find(written); base != bases.end()) written = base->second;
    if (std::ranges::find(variables, written) != variables.end())
      break_graph("CD0418", "an argument that the function writes to");
  }
}

// level_gradients(outputs, grad_outputs or None, variables): a tuple; zeros where nothing depends on a variable.
ValuePtr level_gradients(Executor& ex, PyObject*, const CallArgs& args) {
  std::vector<Value*> outputs, grad_outputs, variables;
  for (const ValuePtr& item : items_of(ex, args.positional.at(0))) outputs.push_back(float_value(item));
  for (const ValuePtr& item : items_of(ex, args.positional.at(2))) variables.push_back(float_value(item));
  if (is_none(args.positional.at(1))) {
    grad_outputs.resize(outputs.size());
  } else {
    for (const ValuePtr& item : items_of(ex, args.positional[1])) grad_outputs.push_back(float_value(item));
  }
  if (grad_outputs.size() != outputs.size())
    break_graph("CD0418", "a number of gradients that is not that of the outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]->node) break_graph("CD0418", "a result that is not computed");
    require_grad_output(ex, outputs[i], grad_outputs[i]);
  }
  if (!tensor_capture(ex).retained.empty()) break_graph("CD0418", "a function after retain_grad()");
  refuse_writes(ex, variables);
  std::vector<Value*> used;
  for (Value* variable : variables)
    if (std::ranges::any_of(outputs, [&](const Value* output) { return depends_on(ex, output, variable); }))
      used.push_back(variable);
  std::vector<Value*> found;
  if (!used.empty()) found = append_gradients(ex, outputs, used, grad_outputs, /*create_graph=*/true);
  std::vector<ValuePtr> gradients;
  for (Value* variable : variables) {
    const auto at = std::ranges::find(used, variable) - used.begin();
    const bool is_used = at < static_cast<ptrdiff_t>(used.size());
    gradients.push_back(make_tensor(ex, is_used ? found.at(at) : append_call1(ex, "zeros_like", {variable})));
  }
  return make_tuple(ex, std::move(gradients));
}

// Does it depend on what came in with a history, or on a variable of a level around this one?
bool has_outer_history(Executor& ex, const Value* value, const std::vector<Value*>& own) {
  for (const TensorCapture::Batch& batch : tensor_capture(ex).batches)
    for (const Value* example : batch.examples)
      if (example->requires_grad && depends_on(ex, value, example)) return true;
  for (const auto& input : tensor_capture(ex).inputs)
    if (input->array->requires_grad() && depends_on(ex, value, input->array->value())) return true;
  for (const auto& node : ex.graph().nodes) {
    if (node->op->name != "autograd.variable") continue;
    Value* variable = node->results.at(0);
    if (std::ranges::find(own, variable) == own.end() && depends_on(ex, value, variable)) return true;
  }
  return false;
}

// The view of `from` that `view` is of the variable `of`.
Value* same_view(Executor& ex, const Value* view, const Value* of, Value* from) {
  if (view == of) return from;
  graph::Node* node = view->node;
  auto* viewed = node && !node->in_place ? std::get_if<Value*>(&node->args.at(0)) : nullptr;
  if (!viewed || graph::viewed_operand(*view) != *viewed)
    break_graph("CD0418", "a result that is a view of the argument");
  std::vector<graph::Arg> args = node->args;
  args[0] = same_view(ex, *viewed, of, from);
  const auto place = std::ranges::find(node->results, view) - node->results.begin();
  return append_call(ex, *node->op, {.overload = node->overload, .args = std::move(args)}).at(place);
}

// level_result(tensor, grad_mode, variables, arguments): what is seen outside of the level with these variables, which stand for
// the arguments.
ValuePtr level_result(Executor& ex, PyObject*, const CallArgs& args) {
  const ValuePtr& given = args.positional.at(0);
  Value* value = dynamic_cast<TensorValue*>(given.get()) ? graph_value(given) : nullptr;
  if (!value) return given;
  std::vector<Value*> own;
  for (const ValuePtr& item : items_of(ex, args.positional.at(2))) own.push_back(float_value(item));
  // Eager's variable is the argument, too.
  const auto of = std::ranges::find(own, base_of(tensor_capture(ex), value));
  if (of != own.end()) {
    const ValuePtr argument = items_of(ex, args.positional.at(3)).at(of - own.begin());
    return value == *of ? argument : make_tensor(ex, same_view(ex, value, *of, graph_value(argument)));
  }
  if (!value->requires_grad) return given;
  const bool stays = constant_object(args.positional.at(1)) == Py_True && has_outer_history(ex, value, own);
  return stays ? given : make_tensor(ex, append_call1(ex, "detach", {value}));
}

// stays_inside(what): stands for what must not leave the capture, in an object that this is.
class StaysInside final : public SymbolicValue {
 public:
  explicit StaysInside(std::string what) : what_(std::move(what)) {}
  PyTypeObject* type() const override { return &PyBaseObject_Type; }
  std::string describe() const override { return what_; }
  RecipePtr recipe(Executor&) override { break_graph("CD0211", what_); }

 private:
  std::string what_;
};
ValuePtr stays_inside(Executor&, PyObject*, const CallArgs& args) {
  return std::make_shared<StaysInside>(PyUnicode_AsUTF8(constant_object(args.positional.at(0))));
}

// has_levels(): whether a function that differentiates another one, and holds one of these meanwhile, is at work.
ValuePtr has_levels(Executor& ex, PyObject*, const CallArgs&) {
  const auto is_level = [](const ValuePtr& value) {
    return dynamic_cast<StaysInside*>(value.get()) != nullptr;
  };
  return ex.constant_bool(any_local(ex, is_level));
}

// refuse_draws(position): where random numbers were drawn since.
ValuePtr refuse_draws(Executor& ex, PyObject*, const CallArgs& args) {
  const int64_t position = PyLong_AsLongLong(constant_object(args.positional.at(0)));
  for (const auto& node : ex.graph().nodes)
    if (graph::draws_random_numbers(*node->op) && node->results.at(0)->id >= position)
      break_graph("CD0418", "a function that draws random numbers");
  return ex.none();
}

// The nodes of a rule belong to its call.
template <ValuePtr (*rule)(Executor&, PyObject*, const CallArgs&)>
ValuePtr recorded(Executor& ex, PyObject* callable, const CallArgs& args) {
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args,
                       [&] { return rule(ex, callable, args); });
}

constexpr SpecialRow kFunctionTransformRows[] = {
    {"cdynamo.polyfills.rules.level_variable", recorded<level_variable>},
    {"cdynamo.polyfills.rules.level_gradients", recorded<level_gradients>},
    {"cdynamo.polyfills.rules.level_result", recorded<level_result>},
    {"cdynamo.polyfills.rules.stays_inside", stays_inside},
    {"cdynamo.polyfills.rules.has_levels", has_levels},
    {"cdynamo.polyfills.rules.refuse_draws", refuse_draws},
};

}  // namespace

std::span<const SpecialRow> function_transform_rules() { return kFunctionTransformRows; }

}  // namespace cdynamo::symbolic
