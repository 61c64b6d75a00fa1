#include "symbolic/torch/leaf_gradients.h"

#include <algorithm>

#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/freed_histories.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

PyObject* input_object(Executor& ex, const TensorValue& self) {
  for (const auto& input : tensor_capture(ex).inputs)
    if (input->array.get() == &self) return input->object.get();
  return nullptr;
}

// The gradient of one leaf among the mutated values.
class LeafGradient final : public PendingEffect {
 public:
  LeafGradient(ValuePtr leaf, ValuePtr gradient) : now(std::move(gradient)), leaf_(std::move(leaf)) {}
  void emit_effects(Executor& ex) override {
    Effect effect{.kind = EffectKind::kSetAttribute};
    effect.target = leaf_->recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, interned("grad"));
    effect.value = now->recipe(ex);
    ex.effect(std::move(effect));
  }

  ValuePtr now;
  bool was_assigned = false;  // by the program

 private:
  ValuePtr leaf_;
};

bool is_parameter(const TensorValue& self) {
  return self.type() == reinterpret_cast<PyTypeObject*>(library_object("torch.nn", "Parameter"));
}

bool is_known_leaf(Executor& ex, const TensorValue& self) {
  return is_parameter(self) || !self.requires_grad() || input_is_leaf(ex, self);
}

LeafGradient& gradient_state(Executor& ex, TensorValue& self) {
  auto [found, is_new] = tensor_capture(ex).leaf_gradients.try_emplace(self.value());
  if (is_new) {
    if (tensor_capture(ex).made_leaves.contains(self.value()) ||
        tensor_capture(ex).retained.contains(self.value())) {
      found->second = std::make_shared<LeafGradient>(self_of(self), ex.none());
      return static_cast<LeafGradient&>(*found->second);
    }
    PyObject* object = input_object(ex, self);
    if (!object || !is_known_leaf(ex, self)) break_graph("CD0408", "grad");
    SourcePtr source = attribute_source(self.source, interned("grad"));
    PyRef real = checked(PyObject_GetAttr(object, interned("grad")));
    if (real.get() == Py_None) add_guard(ex, GuardKind::kIdentity, source, Py_None);
    ValuePtr now = real.get() == Py_None ? ex.none() : wrap_torch_tensor(ex, real.get(), source);
    found = tensor_capture(ex).leaf_gradients.find(self.value());
    found->second = std::make_shared<LeafGradient>(self_of(self), now);
  }
  return static_cast<LeafGradient&>(*found->second);
}

// Hooks of the engine are its own business.
void require_no_hooks(Executor& ex, TensorValue& leaf) {
  if (ex.state().hooked.count(leaf.value())) break_graph("CD0400", "backward() with hooks");
  PyObject* object = input_object(ex, leaf);
  for (const char* name : {"_backward_hooks", "_post_accumulate_grad_hooks"}) {
    PyRef hooks = checked(PyObject_GetAttrString(object, name));
    if (hooks.get() != Py_None) break_graph("CD0400", "backward() with hooks");
    add_guard(ex, GuardKind::kIdentity, attribute_source(leaf.source, interned(name)), Py_None);
  }
}

// The leaves that `loss` depends on. Breaks where its history goes on outside of the graph.
std::vector<std::shared_ptr<TensorValue>> leaves_of(Executor& ex, const Value* loss) {
  std::vector<std::shared_ptr<TensorValue>> leaves;
  for (const auto& input : tensor_capture(ex).inputs) {
    if (!input->array->requires_grad() || !depends_on(ex, loss, input->array->value())) continue;
    auto leaf = std::dynamic_pointer_cast<TensorValue>(input->array);
    if (!leaf || !is_known_leaf(ex, *leaf)) break_graph("CD0400", "backward() to what is no leaf");
    require_no_hooks(ex, *leaf);
    leaves.push_back(std::move(leaf));
  }
  for (const auto& [value, content] : tensor_capture(ex).made_leaves) {
    if (!depends_on(ex, loss, value)) continue;
    auto leaf = std::dynamic_pointer_cast<TensorValue>(tensor_capture(ex).objects.at(value));
    if (!leaf || tensor_capture(ex).written_leaves.contains(value) || ex.state().hooked.count(value))
      break_graph("CD0400", "backward() to a tensor that was written to");
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

// The gradient of what retain_grad() was called of: a tensor of its own, after each backward.
void retain(Executor& ex, TensorValue& tensor, Value* gradient) {
  LeafGradient& state = gradient_state(ex, tensor);
  const auto* existing = dynamic_cast<TensorValue*>(state.now.get());
  state.now = make_tensor(
      ex, existing ? append_call1(ex, "add", {existing->value(), gradient, graph::Sym(int64_t{1})})
                   : append_call1(ex, "clone", {append_call1(ex, "contiguous", {gradient})}));
}

// What retain_grad() was called of on the way to the loss.
std::vector<std::shared_ptr<TensorValue>> retained_of(Executor& ex, const Value* loss) {
  const TensorCapture& capture = tensor_capture(ex);
  std::vector<std::shared_ptr<TensorValue>> retained;
  for (const auto& [value, step] : capture.retained) {
    if (value == loss || !depends_on(ex, loss, value)) continue;
    const auto is_write = [&, of = value](const auto& node) {
      return node->in_place && base_of(capture, std::get<Value*>(node->args.at(0))) == of;
    };
    const auto object = capture.objects.find(value);
    auto tensor =
        object == capture.objects.end() ? nullptr : std::dynamic_pointer_cast<TensorValue>(object->second);
    if (!tensor || std::ranges::any_of(ex.graph().nodes, is_write))
      break_graph("CD0400", "backward() to a tensor that was written to");
    retained.push_back(std::move(tensor));
  }
  std::ranges::sort(retained, {}, [](const auto& tensor) { return tensor->value()->id; });
  return retained;
}

void accumulate(Executor& ex, TensorValue& leaf, Value* gradient) {
  if (tensor_capture(ex).retained.contains(leaf.value())) return retain(ex, leaf, gradient);
  LeafGradient& state = gradient_state(ex, leaf);
  if (auto* existing = dynamic_cast<TensorValue*>(state.now.get())) {
    if (existing->requires_grad()) break_graph("CD0400", "backward() into a gradient that requires grad");
    append_call1(ex, "add", {existing->value(), gradient, graph::Sym(int64_t{1})}, /*in_place=*/true);
    return;
  }
  state.now = make_tensor(ex, gradient);
  ex.mutated(tensor_capture(ex).leaf_gradients.at(leaf.value()));
}

// The call with which a graph's reader finds the gradient that the engine has left with the leaf.
void record_gradient(Executor& ex, const std::shared_ptr<TensorValue>& leaf) {
  const CallArgs args = positional({leaf, ex.constant(PyRef::borrow(interned("grad")))});
  recorded_call(ex, "call_function", PyRef::borrow(library_object("builtins", "getattr")), args,
                [&] { return gradient_state(ex, *leaf).now; });
}

// The engine that a backend's graph calls finds what the program has assigned before.
void record_assignment(Executor& ex, const std::shared_ptr<TensorValue>& leaf) {
  LeafGradient& state = gradient_state(ex, *leaf);
  if (!std::exchange(state.was_assigned, false)) return;
  const CallArgs args = positional({leaf, ex.constant(PyRef::borrow(interned("grad"))), state.now});
  recorded_call(ex, "call_function", PyRef::borrow(library_object("builtins", "setattr")), args,
                [&] { return ex.none(); });
}

}  // namespace

bool input_is_leaf(Executor& ex, const TensorValue& self) {
  PyObject* object = input_object(ex, self);
  if (!object || !self.source) return false;
  const PyRef is_leaf = checked(PyObject_GetAttrString(object, "is_leaf"));
  add_guard(ex, GuardKind::kIdentity, attribute_source(self.source, interned("is_leaf")), is_leaf.get());
  return is_leaf.get() == Py_True;
}

ValuePtr leaf_gradient(Executor& ex, TensorValue& self) {
  if (!self.source && !tensor_capture(ex).leaf_gradients.count(self.value())) return ex.none();
  return gradient_state(ex, self).now;
}

void set_leaf_gradient(Executor& ex, TensorValue& self, const ValuePtr& value) {
  auto* tensor = dynamic_cast<TensorValue*>(value.get());
  if (!is_none(value)) {
    // Eager refuses a gradient that is not like its tensor.
    const graph::TensorType &own = self.array_type(), *given = tensor ? &tensor->array_type() : nullptr;
    bool same = given && given->dtype == own.dtype && given->rank() == own.rank();
    for (int d = 0; same && d < own.rank(); ++d)
      same = ex.graph().sym->guard_eq(given->sizes[d], own.sizes[d], "assignment to grad");
    if (!same) break_graph("CD0408", "assignment to grad");
  }
  gradient_state(ex, self).now = value;
  gradient_state(ex, self).was_assigned = true;
  if (tensor_capture(ex).retained.contains(self.value())) return;  // nobody sees it after the graph
  ex.mutated(tensor_capture(ex).leaf_gradients.at(self.value()));
}

ValuePtr backward_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  std::vector<ValuePtr> given =
      bind_arguments(ex, "backward", args, {"gradient?", "retain_graph?", "create_graph?", "inputs?"});
  auto& loss = static_cast<TensorValue&>(*self);
  for (size_t i : {2, 3})
    if (given[i] && !is_none(given[i]) && constant_object(given[i]) != Py_False)
      break_graph("CD0400", "backward() with create_graph or inputs");
  Value* grad_output = given[0] && !is_none(given[0]) ? graph_value(given[0]) : nullptr;
  if (given[0] && !is_none(given[0]) && !grad_output) break_graph("CD0400", "backward()");
  if (!loss.requires_grad() || !loss.value()->node) break_graph("CD0400", "backward()");
  require_grad_output(ex, loss.value(), grad_output);
  std::vector<std::shared_ptr<TensorValue>> leaves = leaves_of(ex, loss.value());
  if (leaves.empty() || tensor_capture(ex).retained.contains(loss.value()))
    break_graph("CD0400", "backward()");
  for (auto& tensor : retained_of(ex, loss.value())) leaves.push_back(std::move(tensor));
  std::vector<Value*> inputs;
  for (const auto& leaf : leaves) inputs.push_back(leaf->value());
  free_histories(ex, {loss.value()}, inputs, autograd_flag(given[1], false));
  for (const auto& leaf : leaves)
    if (tensor_capture(ex).leaf_gradients.contains(leaf->value())) record_assignment(ex, leaf);
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  recorded_call(ex, "call_method", PyRef::borrow(interned("backward")), all, [&]() -> ValuePtr {
    std::vector<Value*> gradients =
        append_gradients(ex, {loss.value()}, inputs, {grad_output}, /*create_graph=*/false);
    for (size_t i = 0; i < leaves.size(); ++i) accumulate(ex, *leaves[i], gradients[i]);
    return ex.none();
  });
  for (const auto& leaf : leaves) record_gradient(ex, leaf);
  return ex.none();
}

}  // namespace cdynamo::symbolic
