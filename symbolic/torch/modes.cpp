// torch's modes during capture. torch.no_grad, enable_grad and set_grad_enabled are Python classes that are
// inlined; what they call in C is here. The mode that a capture ends in is set again after the graph has run.
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Stands for the thread's grad mode among the mutated values.
class GradModeEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    const TensorCapture& capture = tensor_capture(ex);
    if (capture.grad_mode == capture.state.grad_mode()) return;
    Effect effect{.kind = EffectKind::kCall};
    effect.target = make_recipe(RecipeKind::kConstant, library_object("torch._C", "_set_grad_enabled"));
    effect.value = make_recipe(RecipeKind::kTuple, nullptr,
                               {make_recipe(RecipeKind::kConstant, capture.grad_mode ? Py_True : Py_False)});
    ex.effect(std::move(effect));
  }
};

ValuePtr is_grad_enabled(Executor& ex, PyObject*, const CallArgs&) {
  ex.asks_later("the grad mode");
  return ex.constant_bool(torch_capture(ex).grad_mode);
}

ValuePtr set_grad_enabled(Executor& ex, PyObject* callable, const CallArgs& args) {
  TensorCapture& capture = torch_capture(ex);
  PyObject* mode = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  if (mode != Py_True && mode != Py_False) break_graph("CD0413", "torch.set_grad_enabled");
  if (!capture.grad_mode_effect) {
    capture.grad_mode_effect = std::make_shared<GradModeEffect>();
    ex.mutated(capture.grad_mode_effect);
  }
  if (capture.grad_mode == (mode == Py_True)) return ex.none();
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    capture.grad_mode = mode == Py_True;
    return ex.none();
  });
}

ValuePtr change_of_mode(Executor&, PyObject* callable, const CallArgs&) {
  PyRef name = PyRef::steal(PyObject_Str(callable));
  PyErr_Clear();
  break_graph("CD0413", name ? PyUnicode_AsUTF8(name.get()) : "a function");
}

constexpr SpecialRow kModeRows[] = {
    {"torch.is_grad_enabled", is_grad_enabled},       {"torch._C.is_grad_enabled", is_grad_enabled},
    {"torch._C._set_grad_enabled", set_grad_enabled}, {"torch.use_deterministic_algorithms", change_of_mode},
    {"torch.set_num_threads", change_of_mode},
};

}  // namespace

std::span<const SpecialRow> torch_mode_functions() { return kModeRows; }

}  // namespace cdynamo::symbolic
