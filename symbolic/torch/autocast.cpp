// torch.autocast during capture. The class is Python code that is inlined; what it calls in C is here. The state
// that a capture ends in is set again after the graph has run. The casts are autocast_policy.cpp's.
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

PyObject* boolean_object(bool value) { return value ? Py_True : Py_False; }

void call_effect(Executor& ex, const char* function, std::vector<PyObject*> arguments) {
  std::vector<RecipePtr> items;
  for (PyObject* argument : arguments) items.push_back(make_recipe(RecipeKind::kConstant, argument));
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, library_object("torch", function));
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(items));
  ex.effect(std::move(effect));
}

constexpr const char* kDeviceNames[] = {"cpu", "cuda"};  // by runtime::DeviceType

// Stands for the thread's autocast state among the mutated values.
class AutocastEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    const TensorCapture& capture = tensor_capture(ex);
    const AutocastState &now = capture.autocast, &before = capture.autocast_before;
    for (size_t i = 0; i < now.devices.size(); ++i) {
      PyObject* device = interned(kDeviceNames[i]);
      if (now.devices[i].enabled != before.devices[i].enabled)
        call_effect(ex, "set_autocast_enabled", {device, boolean_object(now.devices[i].enabled)});
      if (now.devices[i].dtype != before.devices[i].dtype)
        call_effect(ex, "set_autocast_dtype", {device, torch_dtype_object(now.devices[i].dtype)});
    }
    for (int i = 0; i < now.nesting; ++i) call_effect(ex, "autocast_increment_nesting", {});
    for (int i = 0; i > now.nesting; --i) call_effect(ex, "autocast_decrement_nesting", {});
    if (now.cache_cleared) call_effect(ex, "clear_autocast_cache", {});
    if (now.cache != before.cache) call_effect(ex, "set_autocast_cache_enabled", {boolean_object(now.cache)});
  }
};

const AutocastState& autocast_state(Executor& ex) { return torch_capture(ex).autocast; }

AutocastState& changed_state(Executor& ex) {
  TensorCapture& capture = torch_capture(ex);
  if (!capture.autocast.known) break_graph("CD0413", "torch.autocast");
  if (!capture.autocast_effect) {
    capture.autocast_effect = std::make_shared<AutocastEffect>();
    ex.mutated(capture.autocast_effect);
  }
  return capture.autocast;
}

// Of "cpu" and "cuda"; null for other devices.
AutocastState::OfDevice* find_device(AutocastState& state, const ValuePtr& device) {
  PyObject* name = device ? constant_object(device) : nullptr;
  for (size_t i = 0; name && PyUnicode_Check(name) && i < state.devices.size(); ++i)
    if (PyUnicode_CompareWithASCIIString(name, kDeviceNames[i]) == 0) return &state.devices[i];
  return nullptr;
}

bool flag(const ValuePtr& value, const char* function) {
  PyObject* object = constant_object(value);
  if (object != Py_True && object != Py_False) break_graph("CD0413", function);
  return object == Py_True;
}

// Without an argument: of CUDA. Capture does not begin where autocast of a third device is on.
ValuePtr autocast_is_enabled(Executor& ex, PyObject*, const CallArgs& args) {
  ValuePtr device = bind_arguments(ex, "is_autocast_enabled", args, {"device_type?"})[0];
  AutocastState state = autocast_state(ex);
  const AutocastState::OfDevice* found = device ? find_device(state, device) : &state.devices[1];
  return ex.constant_bool(found && found->enabled);
}

ValuePtr is_cpu_enabled(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_bool(autocast_state(ex).devices[0].enabled);
}

ValuePtr set_enabled(Executor& ex, PyObject*, const CallArgs& args) {
  constexpr const char* kName = "torch.set_autocast_enabled";
  if (args.positional.size() != 2) break_graph("CD0413", kName);
  AutocastState::OfDevice* device = find_device(changed_state(ex), args.positional[0]);
  if (!device) break_graph("CD0413", kName);
  const bool enabled = flag(args.positional[1], kName);
  if (device->enabled != enabled) ex.changes_autocast();
  device->enabled = enabled;
  return ex.none();
}

ValuePtr get_dtype(Executor& ex, PyObject*, const CallArgs& args) {
  AutocastState state = autocast_state(ex);
  const auto* device = args.positional.size() == 1 ? find_device(state, args.positional[0]) : nullptr;
  if (!device || !state.known) break_graph("CD0413", "torch.get_autocast_dtype");
  return ex.constant(PyRef::borrow(torch_dtype_object(device->dtype)));
}

ValuePtr set_dtype(Executor& ex, PyObject*, const CallArgs& args) {
  constexpr const char* kName = "torch.set_autocast_dtype";
  graph::DType dtype;
  if (args.positional.size() != 2) break_graph("CD0413", kName);
  AutocastState::OfDevice* device = find_device(changed_state(ex), args.positional[0]);
  if (!device) break_graph("CD0413", kName);
  PyObject* object = constant_object(args.positional[1]);
  if (!object || !dtype_of_torch_object(object, &dtype)) break_graph("CD0413", kName);
  if (device->dtype != dtype) ex.changes_autocast();
  device->dtype = dtype;
  return ex.none();
}

ValuePtr increment_nesting(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_int(++changed_state(ex).nesting);
}

// Whether the region that is left is the outermost one is not known here. Captured code puts nothing into the
// cache, so it is cleared where a region is left that the program was called in, and else never.
ValuePtr decrement_nesting(Executor& ex, PyObject*, const CallArgs&) {
  AutocastState& state = changed_state(ex);
  if (--state.nesting < 0) state.cache_cleared = true;
  return ex.constant_int(1);
}

ValuePtr clear_cache(Executor& ex, PyObject*, const CallArgs&) {
  changed_state(ex).cache_cleared = true;
  return ex.none();
}

ValuePtr is_cache_enabled(Executor& ex, PyObject*, const CallArgs&) {
  const AutocastState& state = autocast_state(ex);
  if (!state.known) break_graph("CD0413", "torch.is_autocast_cache_enabled");
  return ex.constant_bool(state.cache);
}

ValuePtr set_cache_enabled(Executor& ex, PyObject*, const CallArgs& args) {
  constexpr const char* kName = "torch.set_autocast_cache_enabled";
  if (args.positional.size() != 1) break_graph("CD0413", kName);
  const bool enabled = flag(args.positional[0], kName);
  changed_state(ex).cache = enabled;
  return ex.none();
}

constexpr SpecialRow kAutocastRows[] = {
    {"torch.is_autocast_enabled", autocast_is_enabled},
    {"torch.is_autocast_cpu_enabled", is_cpu_enabled},
    {"torch.set_autocast_enabled", set_enabled},
    {"torch.get_autocast_dtype", get_dtype},
    {"torch.set_autocast_dtype", set_dtype},
    {"torch.autocast_increment_nesting", increment_nesting},
    {"torch.autocast_decrement_nesting", decrement_nesting},
    {"torch.clear_autocast_cache", clear_cache},
    {"torch.is_autocast_cache_enabled", is_cache_enabled},
    {"torch.set_autocast_cache_enabled", set_cache_enabled},
    {"torch._C._is_autocast_available", fold_call},
    {"torch._C._get_privateuse1_backend_name", fold_call},
};

}  // namespace

std::span<const SpecialRow> torch_autocast_functions() { return kAutocastRows; }

}  // namespace cdynamo::symbolic
