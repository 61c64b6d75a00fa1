// torch.inference_mode during capture. The class is Python code that is inlined; the guard of C++ that it enters is here. What is
// computed meanwhile is computed as under no_grad, and what of it leaves is made an inference tensor when the graph has run.
#include "symbolic/capture/executor_state.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kInferenceMode = "torch.inference_mode";

// The mode has been left when the capture ends: nobody else could leave it.
class InferenceModeEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    if (tensor_capture(ex).inference_mode) break_graph("CD0413", kInferenceMode);
  }
};

void set_inference_mode(Executor& ex, bool on) {
  TensorCapture& capture = tensor_capture(ex);
  if (capture.inference_mode) capture.inference_values.back().second = ex.graph().next_value_id();
  if (on) capture.inference_values.emplace_back(ex.graph().next_value_id(), INT_MAX);
  capture.inference_mode = on;
}

class InferenceGuard final : public SymbolicValue {
 public:
  explicit InferenceGuard(bool mode) : mode_(mode) {}
  PyTypeObject* type() const override {
    return reinterpret_cast<PyTypeObject*>(library_object("torch._C", "_InferenceMode"));
  }
  std::string describe() const override { return kInferenceMode; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override { break_graph("CD0413", kInferenceMode); }

  // c10::InferenceMode sets the grad mode as well.
  void enter(Executor& ex) {
    TensorCapture& capture = tensor_capture(ex);
    if (!capture.inference_effect) {
      capture.inference_effect = std::make_shared<InferenceModeEffect>();
      ex.mutated(capture.inference_effect);
    }
    before_ = {capture.inference_mode, capture.grad_mode};
    set_inference_mode(ex, mode_);
    capture.grad_mode = !mode_;
  }
  void leave(Executor& ex) {
    set_inference_mode(ex, before_.first);
    tensor_capture(ex).grad_mode = before_.second;
  }

 private:
  bool mode_;
  std::pair<bool, bool> before_ = {false, false};
};

InferenceGuard& guard_of(const ValuePtr& self) { return static_cast<InferenceGuard&>(*self); }

constexpr BuiltinMethodRow kInferenceModeMethods[] = {
    {"__enter__",
     [](Executor& ex, const ValuePtr& self, const CallArgs&) { return guard_of(self).enter(ex), self; }},
    {"__exit__",
     [](Executor& ex, const ValuePtr& self, const CallArgs&) { return guard_of(self).leave(ex), ex.none(); }},
};

ValuePtr InferenceGuard::get_attribute(Executor& ex, PyObject* name) {
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kInferenceModeMethods)) return method;
  return SymbolicValue::get_attribute(ex, name);
}

ValuePtr make_guard(Executor& ex, PyObject*, const CallArgs& args) {
  const TensorCapture& capture = torch_capture(ex);
  PyObject* mode = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  if (mode != Py_True && mode != Py_False) break_graph("CD0413", kInferenceMode);
  // A backend's graph would have to switch it, and results of the graph are made in the mode of the call.
  if (!ex.state().request.is_native || capture.state.flags & TorchState::kInferenceMode ||
      ex.isolated_region())
    break_graph("CD0413", kInferenceMode);
  return std::make_shared<InferenceGuard>(mode == Py_True);
}

ValuePtr inference_mode_is_enabled(Executor& ex, PyObject*, const CallArgs&) {
  const TensorCapture& capture = torch_capture(ex);
  const bool on = capture.inference_mode || capture.state.flags & TorchState::kInferenceMode;
  return ex.constant_bool(on);
}

constexpr SpecialRow kInferenceModeRows[] = {
    {"torch._C._InferenceMode", make_guard},
    {"torch.is_inference_mode_enabled", inference_mode_is_enabled},
    {"torch._C.is_inference_mode_enabled", inference_mode_is_enabled},
};

}  // namespace

std::span<const SpecialRow> inference_mode_functions() { return kInferenceModeRows; }

}  // namespace cdynamo::symbolic
