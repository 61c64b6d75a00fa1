#include "symbolic/torch/data_assignment.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Of a tensor that came in: assigned when the graph has run.
class DataEffect final : public PendingEffect {
 public:
  DataEffect(ValuePtr tensor, ValuePtr content) : tensor_(std::move(tensor)), content_(std::move(content)) {}
  void emit_effects(Executor& ex) override {
    Effect effect{.kind = EffectKind::kSetAttribute};
    effect.target = tensor_->recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, interned("data"));
    effect.value = content_->recipe(ex);
    ex.effect(std::move(effect));
  }

 private:
  ValuePtr tensor_, content_;
};

bool can_be_assigned(Executor& ex, const TensorValue& self, const TensorValue* other) {
  const TensorCapture& capture = tensor_capture(ex);
  const graph::Value* value = self.value();
  if (!other || ex.isolated_region() || !ex.state().request.is_native) return false;
  const graph::TensorType &own = self.array_type(), &given = other->array_type();
  if (own.dtype != given.dtype || !(own.device == given.device)) return false;
  // A view has a base, and what has a history is read by its backward; inference tensors are refused in ways of their own.
  if (capture.base_of.contains(value) || capture.made_leaves.contains(value) ||
      !capture.inference_values.empty())
    return false;
  if (value->requires_grad && value->node) return false;
  return !self.source || ex.state().hooked.count(value) == 0;
}

bool is_plain_input(Executor& ex, const TensorValue& self) {
  if (!self.source) return true;
  for (const auto& input : tensor_capture(ex).inputs)
    if (input->array.get() == &self) return !input->info.inference && input->array->value() == self.value();
  return false;
}

bool is_leaf(Executor& ex, const ValuePtr& self) {
  return is_true(ex, self->get_attribute(ex, interned("is_leaf")));
}

}  // namespace

void assign_data(Executor& ex, TensorValue& self, const ValuePtr& given) {
  auto* other = dynamic_cast<TensorValue*>(given.get());
  const ValuePtr tensor = self_of(self);
  TensorCapture& capture = torch_capture(ex);
  if (other == &self) return;  // PyTorch copies the content onto itself
  if (!can_be_assigned(ex, self, other) || !is_plain_input(ex, self) || !is_leaf(ex, tensor))
    break_graph("CD0408", "assignment to data");
  const ValuePtr name = ex.constant(PyRef::borrow(interned("data")));
  recorded_call(
      ex, "call_function", PyRef::borrow(library_object("builtins", "setattr")),
      positional({tensor, name, given}), [&]() -> ValuePtr {
        graph::Value* before = self.value();
        graph::Value* content = append_call1(ex, "detach", {other->value()});
        if (self.source) {
          ValuePtr effect =
              std::make_shared<DataEffect>(tensor, make_tensor(ex, append_call1(ex, "detach", {content})));
          ex.mutated(effect);
        }
        // A leaf is another one to the graph, which no gradient is computed for.
        if (before->requires_grad) {
          content->requires_grad = true;
          capture.updated_leaves.insert(base_of(capture, content));
        }
        if (auto gradient = capture.leaf_gradients.find(before); gradient != capture.leaf_gradients.end()) {
          ValuePtr kept = gradient->second;
          capture.leaf_gradients.erase(gradient);
          capture.leaf_gradients[content] = std::move(kept);
        }
        capture.objects.erase(before);
        capture.objects[content] = tensor;
        self.rebind(content);
        return ex.none();
      });
}

}  // namespace cdynamo::symbolic
