#include "symbolic/torch/factory_defaults.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char *kDevice = "torch.set_default_device", *kDtype = "torch.set_default_dtype";

void call_effect(Executor& ex, const char* function, RecipePtr argument) {
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, library_object("torch", function));
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, {std::move(argument)});
  ex.effect(std::move(effect));
}

class FactoryDefaultsEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    const auto& now = tensor_capture(ex).factory_defaults;
    if (!now.entered.empty()) break_graph("CD0413", "torch.device as a context");
    if (now.device) call_effect(ex, "set_default_device", now.device->recipe(ex));
    if (now.dtype)
      call_effect(ex, "set_default_dtype",
                  make_recipe(RecipeKind::kConstant, torch_dtype_object(*now.dtype)));
  }
};

TensorCapture::FactoryDefaults& changed_defaults(Executor& ex, const char* what) {
  auto& defaults = torch_capture(ex).factory_defaults;
  if (!ex.state().request.is_native || ex.isolated_region()) break_graph("CD0413", what);
  if (!defaults.effect) {
    defaults.effect = std::make_shared<FactoryDefaultsEffect>();
    ex.mutated(defaults.effect);
  }
  return defaults;
}

ValuePtr device_value(Executor& ex, const ValuePtr& given) {
  const PyRef object = given->as_constant().value_or(PyRef());
  if (!object) break_graph("CD0413", kDevice);
  return ex.constant(checked_user(ex, PyObject_CallOneArg(library_object("torch", "device"), object.get())));
}

ValuePtr current_device(Executor& ex) {
  const auto& defaults = torch_capture(ex).factory_defaults;
  return defaults.entered.empty() ? defaults.device : defaults.entered.back();
}

ValuePtr set_default_device(Executor& ex, PyObject*, const CallArgs& args) {
  const ValuePtr device = bind_arguments(ex, "set_default_device", args, {"device"})[0];
  auto& defaults = changed_defaults(ex, kDevice);
  if (!defaults.entered.empty()) break_graph("CD0413", kDevice);
  defaults.device = is_none(device) ? nullptr : device_value(ex, device);
  return ex.none();
}

// Capture does not begin where a mode of torch's is on, as that of a default device.
ValuePtr get_default_device(Executor& ex, PyObject*, const CallArgs&) {
  const ValuePtr device = current_device(ex);
  return device ? device : device_value(ex, ex.constant(PyRef::borrow(interned("cpu"))));
}

ValuePtr enter_device(Executor& ex, PyObject*, const CallArgs& args) {
  changed_defaults(ex, "torch.device as a context").entered.push_back(args.positional.at(0));
  return args.positional[0];
}
ValuePtr leave_device(Executor& ex, PyObject*, const CallArgs& args) {
  auto& entered = changed_defaults(ex, "torch.device as a context").entered;
  if (entered.empty()) break_graph("CD0413", "torch.device as a context");
  entered.pop_back();
  return ex.none();
}

ValuePtr set_default_dtype(Executor& ex, PyObject*, const CallArgs& args) {
  const ValuePtr given = bind_arguments(ex, "set_default_dtype", args, {"d"})[0];
  graph::DType dtype, before;
  PyObject* object = constant_object(given);
  const TensorCapture& capture = torch_capture(ex);
  if (!object || !dtype_of_torch_object(object, &dtype) || !runtime::is_float(dtype))
    break_graph("CD0413", kDtype);
  auto& defaults = changed_defaults(ex, kDtype);
  use_framework(ex, graph::Framework::kTorch);
  before = ex.graph().torch_float;
  if (capture.uses_numpy) break_graph("CD0413", std::string(kDtype) + " in a program with NumPy");
  defaults.dtype = dtype == before ? std::nullopt : std::optional(dtype);
  return ex.none();
}

ValuePtr get_default_dtype(Executor& ex, PyObject*, const CallArgs&) {
  use_framework(ex, graph::Framework::kTorch);
  const graph::DType dtype = torch_capture(ex).factory_defaults.dtype.value_or(ex.graph().torch_float);
  return ex.constant(PyRef::borrow(torch_dtype_object(dtype)));
}

bool has_keyword(const CallArgs& args, const char* name) {
  return std::ranges::any_of(args.keywords, [&](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), name) == 0 && !is_none(keyword.value);
  });
}

void set_keyword(CallArgs& args, const char* name, ValuePtr value) {
  std::erase_if(args.keywords, [&](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), name) == 0;
  });
  args.keywords.push_back({PyRef::borrow(interned(name)), std::move(value)});
}

bool makes_tensor(PyObject* callable) {
  static PyObject* kept = nullptr;
  if (!kept) {
    PyObject* function = library_object("torch.utils._device", "_device_constructors");
    PyRef made = checked(PyObject_CallNoArgs(function));
    if (!kept) kept = made.release();
  }
  const int found = PySet_Contains(kept, callable);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

// A float among the numbers that say what the tensor holds.
bool holds_float(Executor& ex, const ValuePtr& value) {
  if (auto items = sequence_items(ex, value))
    return std::ranges::any_of(*items, [&](const ValuePtr& item) { return holds_float(ex, item); });
  return value->type() == &PyFloat_Type;
}

enum class DefaultDtype : uint8_t { kNever, kAlways, kOfFloats };

DefaultDtype default_dtype_of(PyObject* callable) {
  static constexpr const char* kAlways[] = {"empty",    "ones", "zeros", "eye",          "linspace",
                                            "logspace", "rand", "randn", "empty_strided"};
  static constexpr const char* kOfFloats[] = {"full",      "arange",  "tensor",
                                              "as_tensor", "asarray", "scalar_tensor"};
  static constexpr const char* kNever[] = {"randint", "randperm", "tril_indices", "triu_indices"};
  const auto is_one = [&](const char* name) { return library_object("torch", name) == callable; };
  if (std::ranges::any_of(kAlways, is_one)) return DefaultDtype::kAlways;
  if (std::ranges::any_of(kOfFloats, is_one)) return DefaultDtype::kOfFloats;
  if (std::ranges::any_of(kNever, is_one)) return DefaultDtype::kNever;
  break_graph("CD0413", std::string(kDtype) + " before a function that makes a tensor");
}

bool wants_dtype(Executor& ex, PyObject* callable, const CallArgs& args) {
  const DefaultDtype rule = default_dtype_of(callable);
  if (rule != DefaultDtype::kOfFloats) return rule == DefaultDtype::kAlways;
  const auto is_float = [&](const ValuePtr& value) { return holds_float(ex, value); };
  return std::ranges::any_of(args.positional, is_float) ||
         std::ranges::any_of(args.keywords, is_float, &Keyword::value);
}

constexpr SpecialRow kFactoryDefaultRows[] = {
    {"torch.set_default_device", set_default_device}, {"torch.get_default_device", get_default_device},
    {"torch.set_default_dtype", set_default_dtype},   {"torch.get_default_dtype", get_default_dtype},
    {"torch.device.__enter__", enter_device},         {"torch.device.__exit__", leave_device},
};

}  // namespace

std::optional<CallArgs> with_factory_defaults(Executor& ex, const TensorCapture& capture, PyObject* callable,
                                              const CallArgs& args) {
  const auto& defaults = capture.factory_defaults;
  if (!defaults.effect || !makes_tensor(callable)) return std::nullopt;
  CallArgs all = args;
  if (const ValuePtr device = current_device(ex); device && !has_keyword(args, "device"))
    set_keyword(all, "device", device);
  if (defaults.dtype && !has_keyword(args, "dtype") && wants_dtype(ex, callable, args))
    set_keyword(all, "dtype", ex.constant(PyRef::borrow(torch_dtype_object(*defaults.dtype))));
  return all;
}

std::span<const SpecialRow> factory_default_functions() { return kFactoryDefaultRows; }

}  // namespace cdynamo::symbolic
