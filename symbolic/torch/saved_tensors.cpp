// torch.autograd.graph.save_on_cpu and disable_saved_tensors_hooks during capture. The classes are Python code that is inlined; what they
// call in C is here. On the CPU save_on_cpu keeps what is saved where it is, so nothing is to be done. Other hooks are the program's: the
// graph breaks where they are entered, and what runs under them is Python's (torch_state_obstacle).
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kSavedTensors = "hooks of saved tensors";

// All has been left when the capture ends: nobody else could leave it.
class HooksEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    const auto& hooks = tensor_capture(ex).saved_tensor_hooks;
    if (hooks.entered > 0 || hooks.disabled) break_graph("CD0413", kSavedTensors);
  }
};

TensorCapture::SavedTensorHooks& changed_hooks(Executor& ex) {
  auto& hooks = torch_capture(ex).saved_tensor_hooks;
  if (!hooks.effect) {
    hooks.effect = std::make_shared<HooksEffect>();
    ex.mutated(hooks.effect);
  }
  return hooks;
}

bool is_save_on_cpu(Executor& ex, const ValuePtr& hook) {
  const ValuePtr module = hook->get_attribute(ex, interned("__module__")),
                 name = hook->get_attribute(ex, interned("__qualname__"));
  const auto is = [](const ValuePtr& value, const char* text) {
    PyObject* object = constant_object(value);
    return object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
  };
  return is(module, "torch.autograd.graph") && is(name, "save_on_cpu.__init__.<locals>.pack_to_cpu");
}

ValuePtr push(Executor& ex, PyObject*, const CallArgs& args) {
  auto& hooks = changed_hooks(ex);
  const torch_access::Api* api = torch_access::api();
  // Where there are tensors of a GPU, memory is what the program wants of it. Eager raises where they are disabled.
  if (!api || api->cuda_keys || hooks.disabled || !is_save_on_cpu(ex, args.positional.at(0)))
    break_graph("CD0413", kSavedTensors);
  ++hooks.entered;
  return ex.none();
}

ValuePtr pop(Executor& ex, PyObject*, const CallArgs&) {
  auto& hooks = changed_hooks(ex);
  if (hooks.entered == 0) break_graph("CD0413", kSavedTensors);
  --hooks.entered;
  return ex.none();
}

ValuePtr disable(Executor& ex, PyObject*, const CallArgs& args) {
  auto& hooks = changed_hooks(ex);
  PyObject* message = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  if (!message || !PyUnicode_Check(message) || hooks.entered > 0) break_graph("CD0413", kSavedTensors);
  hooks.disabled = PyRef::borrow(message);
  return ex.none();
}

ValuePtr enable(Executor& ex, PyObject*, const CallArgs&) {
  changed_hooks(ex).disabled = PyRef();
  return ex.none();
}

ValuePtr are_enabled(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant(PyRef::borrow(torch_capture(ex).saved_tensor_hooks.disabled ? Py_False : Py_True));
}

ValuePtr disabled_message(Executor& ex, PyObject*, const CallArgs&) {
  const PyRef& message = torch_capture(ex).saved_tensor_hooks.disabled;
  return message ? ex.constant(message) : ex.none();
}

constexpr SpecialRow kSavedTensorRows[] = {
    {"torch._C._autograd._push_saved_tensors_default_hooks", push},
    {"torch._C._autograd._pop_saved_tensors_default_hooks", pop},
    {"torch._C._autograd._saved_tensors_hooks_disable", disable},
    {"torch._C._autograd._saved_tensors_hooks_enable", enable},
    {"torch._C._autograd._saved_tensors_hooks_is_enabled", are_enabled},
    {"torch._C._autograd._saved_tensors_hooks_get_disabled_error_message", disabled_message},
};

}  // namespace

std::span<const SpecialRow> saved_tensor_functions() { return kSavedTensorRows; }

}  // namespace cdynamo::symbolic
