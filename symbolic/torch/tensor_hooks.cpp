#include "symbolic/torch/tensor_hooks.h"

#include <algorithm>

#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/torch/backward_graph.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Node;
using graph::Value;
using Position = std::list<std::unique_ptr<Node>>::iterator;

constexpr const char* kHook = "a hook of a tensor";

// ---- who reads a tensor

// What the graph has done with a value that it made.
struct Uses {
  Position made;                // the node that gave it its content: its own, or the last write to it
  const Node* first = nullptr;  // the first that reads that content; null: none does
  bool writes_between = false;  // something was written since
};

Uses uses_of(Executor& ex, const Value* value) {
  const TensorCapture& capture = tensor_capture(ex);
  const Value* base = base_of(capture, value);  // what reads the storage of a view may read the view
  auto& nodes = ex.graph().nodes;
  Uses uses{nodes.end()};
  for (auto at = nodes.begin(); at != nodes.end(); ++at) {
    Node& node = **at;
    bool reads = false;
    graph::for_each_operand(node, [&](Value*& operand) { reads |= base_of(capture, operand) == base; });
    const bool writes = node.in_place && base_of(capture, std::get<Value*>(node.args.at(0))) == base;
    const bool makes = std::ranges::find(node.results, value) != node.results.end();
    if (makes || writes || (reads && is_function_of_user(node))) {
      uses = Uses{at};
    } else if (uses.made != nodes.end()) {
      if (reads && !uses.first) uses.first = &node;
      uses.writes_between |= node.in_place || is_function_of_user(node);
    }
  }
  return uses;
}

// The step of the root frame that appended the node.
int64_t step_of(Executor& ex, const Node& node) {
  const std::vector<int>& values = ex.state().root_values;
  return std::upper_bound(values.begin(), values.end(), node.results.at(0)->id) - values.begin() - 1;
}

// Before which a break lets PyTorch see all that is done with the value from now on.
int64_t step_before_uses(Executor& ex, const Value* value) {
  const int64_t now = std::ssize(ex.state().root_trace) - 1;
  const Uses uses = uses_of(ex, value);
  return uses.first ? std::min(now, step_of(ex, *uses.first)) : now;
}

}  // namespace

void break_before_uses(Executor& ex, const Value* value, const std::string& what) {
  Executor::State& state = ex.state();
  const Uses uses = uses_of(ex, value);
  if (uses.first) {
    const int64_t first = step_of(ex, *uses.first), now = static_cast<int64_t>(state.root_trace.size()) - 1;
    // One instruction has both made and read it: a compiled call would again.
    if (first < now && first == step_of(ex, **uses.made))
      throw SkipFrame{.reason = what + " of what was read where it was made", .callees_too = true};
    state.break_step = first;
  }
  break_graph("CD0400", what);
}

namespace {

// ---- what came in

// tensor.method(*arguments), after the graph has run: what a hook reads is what the program has left.
class RegistrationEffect final : public PendingEffect {
 public:
  RegistrationEffect(ValuePtr tensor, const char* method, std::vector<ValuePtr> arguments)
      : tensor_(std::move(tensor)), method_(method), arguments_(std::move(arguments)) {}
  void emit_effects(Executor& ex) override {
    if (is_removed) return;
    Effect effect{.kind = EffectKind::kCall};
    effect.target = call_recipe(library_object("builtins", "getattr"),
                                {tensor_->recipe(ex), make_recipe(RecipeKind::kConstant, interned(method_))});
    effect.value = make_recipe(RecipeKind::kTuple, nullptr, recipes_of(ex, arguments_));
    ex.effect(std::move(effect));
  }
  bool is_removed = false;

 private:
  ValuePtr tensor_;
  const char* method_;
  std::vector<ValuePtr> arguments_;
};

// ---- handles

// What registering a hook gives. The hook can be removed again, as long as no gradient has been computed since.
class HookHandle final : public SymbolicValue {
 public:
  HookHandle(const Value* value, std::string what, int64_t step)
      : value_(value), what_(std::move(what)), step_(step) {}
  PyTypeObject* type() const override {
    return reinterpret_cast<PyTypeObject*>(library_object("torch.utils.hooks", "RemovableHandle"));
  }
  std::string describe() const override { return "the handle of " + std::string(kHook); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    static constexpr BuiltinMethodRow kMethods[] = {
        {"remove", remove_method}, {"__enter__", enter_method}, {"__exit__", remove_method}};
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kMethods)) return method;
    refuse(ex);
  }
  RecipePtr recipe(Executor& ex) override { refuse(ex); }

  const Node* node = nullptr;                        // what the hook is in the graph
  std::shared_ptr<RegistrationEffect> registration;  // with what came in

 private:
  static ValuePtr enter_method(Executor&, const ValuePtr& self, const CallArgs&) { return self; }
  static ValuePtr remove_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
    static_cast<HookHandle&>(*self).remove(ex);
    return ex.none();
  }

  void remove(Executor& ex) {
    if (!ex.state().request.is_native || ex.isolated_region()) refuse(ex);  // a backend is given the call
    if (registration) registration->is_removed = true;
    if (node) remove_node(ex);
  }

  void remove_node(Executor& ex) {
    auto& nodes = ex.graph().nodes;
    const auto at = std::ranges::find_if(nodes, [&](const auto& other) { return other.get() == node; });
    const bool is_used =
        std::any_of(at, nodes.end(), [](const auto& later) { return later->op->name == "autograd.grad"; });
    if (at == nodes.end() || is_used) refuse(ex);
    nodes.erase(at);
    node = nullptr;
  }

  [[noreturn]] void refuse(Executor& ex) {
    ex.state().break_step = step_;
    if (value_->node) break_before_uses(ex, value_, what_);
    break_graph("CD0400", what_);
  }
  const Value* value_;
  std::string what_;
  int64_t step_;  // of the root frame, in which the hook was registered
};

std::shared_ptr<HookHandle> make_handle(Executor& ex, const Value* value, std::string what) {
  const auto step = static_cast<int64_t>(ex.state().root_trace.size()) - 1;
  return std::make_shared<HookHandle>(value, std::move(what), step);
}

const Value* hookable(Executor& ex, const ValuePtr& self, const char* method) {
  auto& tensor = static_cast<TensorValue&>(*self);
  // Eager raises; and a part of the program that is run again would register again.
  if (!tensor.requires_grad() || is_another_leaf(tensor_capture(ex), tensor.value()) || ex.isolated_region())
    break_graph("CD0400", method);
  // A leaf that leaves is made anew of its content. What is retained is the gradient that hooks leave.
  if (tensor_capture(ex).made_leaves.contains(tensor.value()) ||
      tensor_capture(ex).retained.contains(tensor.value()))
    break_graph("CD0400", method);
  refuse_hook_on_possible_alias(ex, tensor.value());
  return tensor.value();
}

ValuePtr hook_input(Executor& ex, const ValuePtr& self, const char* method,
                    const std::vector<ValuePtr>& arguments) {
  const auto* value = static_cast<TensorValue&>(*self).value();
  if (!self->source) break_graph("CD0400", method);
  ex.state().hooked.insert(value);
  const auto handle = make_handle(ex, value, method);
  handle->registration = std::make_shared<RegistrationEffect>(self, method, arguments);
  ex.mutated(handle->registration);
  return handle;
}

// ---- what the graph makes

bool has_type_of(Executor& ex, const Value* gradient, const Value* of) {
  graph::SymContext& sym = *ex.graph().sym;
  bool same = gradient && gradient->type.dtype == of->type.dtype && gradient->type.rank() == of->type.rank();
  for (int d = 0; same && d < of->type.rank(); ++d)
    same = sym.guard_eq(gradient->type.sizes[d], of->type.sizes[d], kHook);
  return same;
}

// The gradient that `hook` makes of `grad_output`; null where it leaves it alone. Breaks before the uses of `value` where
// it cannot be captured.
Value* hooked_gradient(Executor& ex, const Value* value, const ValuePtr& hook, const ValuePtr& grad_output) {
  TensorCapture& capture = tensor_capture(ex);
  std::string why;
  try {
    const AutocastState autocast = capture.autocast;
    capture.autocast.disable();
    ex.enter_isolated_region(kHook, 0, /*pure=*/true);
    Executor::IsolatedRegion& region = ex.state().isolated_regions.back();
    region.runs_later = step_before_uses(ex, value);
    region.first_gradient = graph_value(grad_output)->id;
    const ValuePtr result = hook->call(ex, {.positional = {grad_output}, .keywords = {}});
    ex.leave_isolated_region();
    capture.autocast.devices = autocast.devices;
    if (is_none(result)) return nullptr;
    if (has_type_of(ex, graph_value(result), value)) return graph_value(result);
    why = "it gives no tensor like its argument";
  } catch (const GraphBreak& broken) {
    why = broken.record.what;
  } catch (const PythonRaise&) {
    why = "it raises";
  }
  break_before_uses(ex, value, "register_hook() with a hook that is not captured: " + why);
}

bool draws(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const auto& node) { return node->op->family == graph::Family::kRandom; });
}

// Appends the hook as a node, and moves it to where all that reads the value finds its result; before hooks that are
// there, which get the gradient first.
const Node* append_hook(Executor& ex, Value* value, Value* grad_output, Value* gradient, size_t begin) {
  const std::vector<Value*> grad_outputs = {grad_output}, values = {value}, gradients = {gradient};
  auto& nodes = ex.graph().nodes;
  BackwardGraph backward =
      take_backward(ex.graph(), begin, {grad_outputs, values, gradients}, ex.state().user_call);
  const std::string what = "register_hook()";
  if (draws(*backward.graph)) break_before_uses(ex, value, what + " with a hook that draws random numbers");
  const Uses uses = uses_of(ex, value);
  if (uses.first) {
    const auto is_later = [&](const Value* saved) {
      return std::any_of(uses.made, nodes.end(), [&](const auto& node) { return node.get() == saved->node; });
    };
    if (uses.writes_between || std::ranges::any_of(backward.saved, is_later))
      break_before_uses(ex, value, what + " on what was read before");
  }
  ex.state().hooked.insert(value);
  const auto last = std::prev(nodes.end());
  append_call(ex, graph::op("core.function"),
              {.overload = 0,
               .args = {std::move(backward.graph), values, values, std::move(backward.saved), graph::Sym(0),
                        std::vector<graph::Sym>{}, false}});
  const Node* hook = nodes.back().get();
  if (uses.first) nodes.splice(std::next(uses.made), nodes, std::next(last));
  return hook;
}

}  // namespace

ValuePtr register_hook_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  constexpr const char* kName = "register_hook";
  const ValuePtr hook = bind_arguments(ex, kName, args, {"hook"})[0];
  const Value* known = hookable(ex, self, "register_hook()");
  if (!known->node) return hook_input(ex, self, kName, {hook});
  auto* value = const_cast<Value*>(known);
  const TensorCapture& capture = tensor_capture(ex);
  if (capture.base_of.count(value) || capture.storage_of.count(value))
    break_before_uses(ex, value, "register_hook() of a view");
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return recorded_call(ex, "call_method", PyRef::borrow(interned(kName)), all, [&]() -> ValuePtr {
    Value* grad_output = new_grad_output(ex.graph(), value);
    const size_t begin = ex.graph().nodes.size();
    Value* gradient = hooked_gradient(ex, value, hook, make_tensor(ex, grad_output));
    const auto handle = make_handle(ex, value, "register_hook() with a handle that is used");
    if (gradient)
      handle->node = append_hook(ex, value, grad_output, gradient, begin);
    else
      ex.graph().nodes.resize(begin);
    return handle;
  });
}

ValuePtr register_post_accumulate_hook_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  constexpr const char* kName = "register_post_accumulate_grad_hook";
  const ValuePtr hook = bind_arguments(ex, kName, args, {"hook"})[0];
  if (hookable(ex, self, kName)->node) break_graph("CD0400", kName);
  return hook_input(ex, self, kName, {hook});
}

ValuePtr retain_grad_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  constexpr const char* kName = "retain_grad";
  bind_arguments(ex, kName, args, {});
  TensorCapture& capture = tensor_capture(ex);
  if (const Value* value = graph_value(self); value && capture.retained.contains(value)) return ex.none();
  const Value* value = hookable(ex, self, "retain_grad()");
  if (!value->node) {
    hook_input(ex, self, kName, {});
    return ex.none();
  }
  if (ex.state().hooked.contains(value) || capture.base_of.contains(value) ||
      capture.storage_of.contains(value) || !capture.batches.empty())
    break_before_uses(ex, value, "retain_grad()");
  return recorded_call(ex, "call_method", PyRef::borrow(interned(kName)), positional({self}), [&] {
    capture.retained.emplace(value, static_cast<int64_t>(ex.state().root_trace.size()) - 1);
    return ex.none();
  });
}

void refuse_retained(Executor& ex, const Value* value) {
  const auto& retained = tensor_capture(ex).retained;
  const auto found = retained.find(value);
  if (found == retained.end()) return;
  ex.state().break_step = found->second;
  break_before_uses(ex, value, "retain_grad() of what is used after the graph");
}

}  // namespace cdynamo::symbolic
