#include "symbolic/torch/function_modes.h"

#include <algorithm>

#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kMode = "a __torch_function__ mode";

// ---- the stack

class ModesEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    if (!tensor_capture(ex).function_modes.entered.empty()) break_graph("CD0413", kMode);
  }
};

std::vector<ValuePtr>& changed_modes(Executor& ex) {
  auto& modes = torch_capture(ex).function_modes;
  if (!modes.effect) {
    modes.effect = std::make_shared<ModesEffect>();
    ex.mutated(modes.effect);
  }
  return modes.entered;
}

std::vector<ValuePtr>& modes_of(Executor& ex) { return tensor_capture(ex).function_modes.entered; }

// The innermost mode is off the stack while its own method runs.
class WithoutInnermost {
 public:
  explicit WithoutInnermost(std::vector<ValuePtr>& modes) : modes_(modes), mode_(modes.back()) {
    modes.pop_back();
  }
  ~WithoutInnermost() { modes_.push_back(mode_); }
  const ValuePtr& mode() const { return mode_; }

 private:
  std::vector<ValuePtr>& modes_;
  ValuePtr mode_;
};

ValuePtr push_mode(Executor& ex, PyObject*, const CallArgs& args) {
  changed_modes(ex).push_back(args.positional.at(0));
  return ex.none();
}
ValuePtr pop_mode(Executor& ex, PyObject*, const CallArgs&) {
  std::vector<ValuePtr>& modes = changed_modes(ex);
  if (modes.empty()) break_graph("CD0413", kMode);
  ValuePtr mode = std::move(modes.back());
  modes.pop_back();
  return mode;
}
ValuePtr mode_at(Executor& ex, PyObject*, const CallArgs& args) {
  const Py_ssize_t at = index_argument(ex, args.positional.at(0));
  const std::vector<ValuePtr>& modes = modes_of(ex);
  if (at < 0 || at >= static_cast<Py_ssize_t>(modes.size())) break_graph("CD0413", kMode);
  return modes[static_cast<size_t>(at)];
}
ValuePtr mode_count(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_int(static_cast<int64_t>(modes_of(ex).size()));
}
ValuePtr is_any_on(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_bool(in_function_mode(ex));
}

// ---- what a mode is handed

// mode.__torch_function__(function, types, args, kwargs). C passes no kwargs where there are none.
ValuePtr hand_to_mode(Executor& ex, const ValuePtr& function, const ValuePtr& types, const CallArgs& args,
                      bool always_kwargs) {
  const WithoutInnermost scope(modes_of(ex));
  CallArgs given = positional({function, types, make_tuple(ex, args.positional)});
  if (always_kwargs || !args.keywords.empty()) {
    std::vector<std::pair<ValuePtr, ValuePtr>> items;
    for (const Keyword& keyword : args.keywords) items.emplace_back(ex.constant(keyword.name), keyword.value);
    given.positional.push_back(make_dict(ex, items));
  }
  ValuePtr result = scope.mode()->get_attribute(ex, interned("__torch_function__"))->call(ex, given);
  if (result->real_object() == Py_NotImplemented)
    break_graph("CD0413", std::string(kMode) + " that gives NotImplemented");
  return result;
}

ValuePtr types_of(Executor& ex, const ValuePtr& self) {
  auto* type = reinterpret_cast<PyObject*>(self->type());
  return make_tuple(ex, {ex.wrap(type, constant_source(type))});
}

// torch.Tensor.sin and the like, found by PyTorch or by the program.
ValuePtr call_tensor_method(Executor& ex, PyObject* descriptor, const CallArgs& args) {
  if (args.positional.empty()) break_graph("CD0401", "a tensor's method without a tensor");
  PyRef name = checked(PyObject_GetAttrString(descriptor, "__name__"));
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return args.positional[0]->get_attribute(ex, name.get())->call(ex, rest);
}

// `torch.Tensor.shape.__get__`
ValuePtr read_property(Executor& ex, PyObject* getter, const CallArgs& args) {
  if (args.positional.empty()) break_graph("CD0401", "a tensor's property without a tensor");
  PyRef descriptor = checked(PyObject_GetAttrString(getter, "__self__"));
  PyRef name = checked(PyObject_GetAttrString(descriptor.get(), "__name__"));
  return args.positional[0]->get_attribute(ex, name.get());
}

ValuePtr function_value(Executor& ex, PyObject* function) {
  SpecialFunction rule =
      Py_TYPE(function) == reinterpret_cast<PyTypeObject*>(library_object("types", "MethodWrapperType"))
          ? read_property
      : PyFunction_Check(function) ? nullptr
                                   : call_tensor_method;
  if (!rule) return ex.wrap(function, constant_source(function));
  return std::make_shared<TorchCallable>(PyRef::borrow(function), OperatorCallable{}, rule, nullptr,
                                         constant_source(function));
}

// What PyTorch says of an operation (cdynamo/_function_modes.py); null: it asks no mode.
PyRef dispatch_of(const char* name, const std::vector<ValuePtr>& operands) {
  PyRef tensors = checked(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_tensor = dynamic_cast<TensorValue*>(operands[i].get());
    PyObject* object = is_tensor ? Py_True : constant_object(operands[i]);
    if (!is_tensor && !(object && PyUnicode_Check(object))) object = Py_None;
    PyTuple_SET_ITEM(tensors.get(), static_cast<Py_ssize_t>(i), PyRef::borrow(object).release());
  }
  PyRef text = checked(PyUnicode_FromString(name));
  return checked(
      PyObject_CallFunctionObjArgs(python_side(PythonSide::kDispatchOf), text.get(), tensors.get(), nullptr));
}

// A method of torch.Tensor within a mode.
class MethodInMode final : public BoundMethod {
 public:
  MethodInMode(ValuePtr self, PyRef name, PyObject* descriptor)
      : BoundMethod(self, std::move(name)), descriptor_(PyRef::borrow(descriptor)), self_(std::move(self)) {}
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (!in_function_mode(ex)) return self_->get_attribute(ex, name().get())->call(ex, args);
    const PyRef is_typed =
        checked(PyObject_CallOneArg(python_side(PythonSide::kMethodIsTyped), name().get()));
    const ValuePtr types = is_typed.get() == Py_True ? types_of(ex, self_) : make_tuple(ex, {});
    return hand_to_mode(ex, function_value(ex, descriptor_.get()), types, with_self(args), false);
  }

 private:
  PyRef descriptor_;
  ValuePtr self_;
};

// ---- functions

// A function of torch's in Python that asks itself whether a mode is on, or calls what does.
bool is_inlined_in_mode(PyObject* function) {
  PyObject* names = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "handle_torch_function") == 0)
      return true;
  PyObject* module = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "__name__");
  static constexpr const char* kModules[] = {"torch.nn.functional", "torch.functional", "torch._tensor",
                                             "torch._jit_internal"};
  return module && std::ranges::any_of(kModules, [&](const char* name) {
           return PyUnicode_CompareWithASCIIString(module, name) == 0;
         });
}

// Functions in C, and the class, whose arguments PyTorch's parser reads.
bool is_parsed(PyObject* function) {
  if (function == library_object("torch", "device")) return true;
  if (!PyCFunction_Check(function)) return false;
  if (function == library_object("torch._C", "_set_grad_enabled")) return true;
  PyObject* self = reinterpret_cast<PyCFunctionObject*>(function)->m_self;  // of static methods, too
  if (!self) return false;
  const auto is_one = [&](const char* name) {
    return self == library_object("torch._C", name) ||
           as_object(Py_TYPE(self)) == library_object("torch._C", name);
  };
  static constexpr const char* kOwners[] = {"_VariableFunctions",
                                            "_VariableFunctionsClass",
                                            "_nn",
                                            "_linalg",
                                            "_fft",
                                            "_special",
                                            "_sparse",
                                            "_nested"};
  return std::ranges::any_of(kOwners, is_one);
}

bool is_aten(PyObject* function) {
  const auto is_one = [&](const char* name) {
    return as_object(Py_TYPE(function)) == library_object("torch._ops", name);
  };
  return is_one("OpOverload") || is_one("OpOverloadPacket");
}

bool is_tensor_descriptor(PyObject* function) {
  return (Py_IS_TYPE(function, &PyMethodDescr_Type) || Py_IS_TYPE(function, &PyWrapperDescr_Type)) &&
         PyType_IsSubtype(torch_access::tensor_type(), PyDescr_TYPE(function));
}

constexpr SpecialRow kFunctionModeRows[] = {
    {"torch._C._push_on_torch_function_stack", push_mode},
    {"torch._C._pop_torch_function_stack", pop_mode},
    {"torch._C._get_function_stack_at", mode_at},
    {"torch._C._len_torch_function_stack", mode_count},
    {"torch._C._is_torch_function_mode_enabled", is_any_on},
};

}  // namespace

bool in_function_mode(Executor& ex) { return !modes_of(ex).empty(); }

void refuse_in_mode(Executor& ex, const char* what) {
  if (in_function_mode(ex)) break_graph("CD0413", std::string(kMode) + " around " + what);
}

ValuePtr call_through_mode(Executor& ex, const ValuePtr& callable, PyObject* function, const CallArgs& args) {
  if (!in_function_mode(ex)) return nullptr;
  if (is_parsed(function)) return hand_to_mode(ex, callable, make_tuple(ex, {}), args, false);
  if (is_aten(function)) return hand_to_mode(ex, callable, make_tuple(ex, {}), args, true);
  if (is_tensor_descriptor(function)) return call_tensor_method(ex, function, args);
  if (PyFunction_Check(function) && is_inlined_in_mode(function))
    return wrap_function(ex, function, constant_source(function))->call(ex, args);
  return nullptr;
}

ValuePtr operate_through_mode(Executor& ex, const char* name, const std::vector<ValuePtr>& operands) {
  if (!in_function_mode(ex)) return nullptr;
  const PyRef dispatch = dispatch_of(name, operands);
  if (dispatch.get() == Py_None) return nullptr;
  // (function, is typed, the operands' numbers, with kwargs)
  PyObject* order = PyTuple_GET_ITEM(dispatch.get(), 2);
  CallArgs args;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i)
    args.positional.push_back(operands.at(PyLong_AsSize_t(PyTuple_GET_ITEM(order, i))));
  const bool is_typed = PyTuple_GET_ITEM(dispatch.get(), 1) == Py_True;
  PyObject* function = PyTuple_GET_ITEM(dispatch.get(), 0);
  return hand_to_mode(ex, function_value(ex, function),
                      is_typed ? types_of(ex, args.positional.at(0)) : make_tuple(ex, {}), args,
                      PyTuple_GET_ITEM(dispatch.get(), 3) == Py_True);
}

ValuePtr attribute_through_mode(Executor& ex, TensorValue& self, PyObject* name) {
  if (!in_function_mode(ex)) return nullptr;
  PyObject* found = _PyType_Lookup(self.type(), name);
  if (!found) return nullptr;
  if (PyFunction_Check(found))
    return make_bound_method(ex, ex.wrap(found, constant_source(found)), self_of(self));
  if (is_tensor_descriptor(found))
    return std::make_shared<MethodInMode>(self_of(self), PyRef::borrow(name), found);
  if (!Py_IS_TYPE(found, &PyGetSetDescr_Type)) return nullptr;
  return operate_through_mode(ex, "getattr", {self_of(self), ex.constant(PyRef::borrow(name))});
}

std::span<const SpecialRow> function_mode_rules() { return kFunctionModeRows; }

}  // namespace cdynamo::symbolic
