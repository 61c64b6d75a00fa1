// Functions of torch that answer from metadata and state, and helpers inside torch.nn.functional that are
// constants for plain tensors.
#include <algorithm>

#include "graph/op.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/torch_generator.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

ValuePtr always_false(Executor& ex, PyObject*, const CallArgs&) { return ex.constant_bool(false); }
ValuePtr always_true(Executor& ex, PyObject*, const CallArgs&) { return ex.constant_bool(true); }
ValuePtr always_none(Executor& ex, PyObject*, const CallArgs&) { return ex.none(); }

// Asks the function itself: its answer is covered by the guard on torch's state, or cannot change.

ValuePtr argument(Executor& ex, const char* function, const CallArgs& args, const char* name) {
  return bind_arguments(ex, function, args, {name})[0];
}

TensorValue* tensor_of(const ValuePtr& value) { return dynamic_cast<TensorValue*>(value.get()); }

bool holds_foreign_tensor(Executor& ex, const ValuePtr& value) {
  if (graph_value(value) || value->as_constant() || dynamic_cast<ComplexTensor*>(value.get())) return false;
  if (auto items = sequence_items(ex, value)) {
    for (const ValuePtr& item : *items)
      if (holds_foreign_tensor(ex, item)) return true;
    return false;
  }
  return _PyType_Lookup(value->type(), interned("__torch_function__")) != nullptr;
}

// has_torch_function(...): no plain tensor has one.
ValuePtr has_torch_function(Executor& ex, PyObject*, const CallArgs& args) {
  if (in_function_mode(ex)) return ex.constant_bool(true);
  for (const ValuePtr& value : args.positional)
    if (holds_foreign_tensor(ex, value)) return ex.constant_bool(true);
  return ex.constant_bool(false);
}

ValuePtr is_tensor(Executor& ex, PyObject*, const CallArgs& args) {
  return ex.constant_bool(is_instance_of(argument(ex, "is_tensor", args, "obj"),
                                         reinterpret_cast<PyTypeObject*>(library_object("torch", "Tensor"))));
}

ValuePtr is_tensor_like(Executor& ex, PyObject*, const CallArgs& args) {
  const ValuePtr object = argument(ex, "is_tensor_like", args, "inp");
  return ex.constant_bool(is_array(object) ||
                          get_attribute_or_null(ex, object, interned("__torch_function__")) != nullptr);
}

// torch.f(x) where x.f() answers.
template <const char* const& kMethod>
ValuePtr as_method(Executor& ex, PyObject*, const CallArgs& args) {
  CallArgs rest = args;
  ValuePtr self;
  if (!rest.positional.empty()) {
    self = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
  } else if (!rest.keywords.empty()) {
    self = rest.keywords.front().value;
    rest.keywords.erase(rest.keywords.begin());
  }
  if (!self || !tensor_of(self)) break_graph("CD0401", std::string("torch.") + kMethod);
  return self->get_attribute(ex, interned(kMethod))->call(ex, rest);
}
constexpr const char* kNumel = "numel";
constexpr const char* kIsFloatingPoint = "is_floating_point";
constexpr const char* kIsSigned = "is_signed";
constexpr const char* kIsComplex = "is_complex";
constexpr const char* kIsConj = "is_conj";
constexpr const char* kIsNeg = "is_neg";
constexpr const char* kIsNonzero = "is_nonzero";
constexpr const char* kIsInference = "is_inference";
constexpr const char* kIsSameSize = "is_same_size";

// torch.Tensor.size(x) and other methods called through the class.
template <const char* const& kWhat>
ValuePtr break_on(Executor&, PyObject*, const CallArgs&) {
  break_graph("CD0406", kWhat);
}

ValuePtr broadcast_shapes(Executor& ex, PyObject*, const CallArgs& args) {
  std::vector<graph::Sym> result;
  for (const ValuePtr& shape : args.positional) {
    std::vector<ValuePtr> items;
    if (auto list = sequence_items(ex, shape))
      items = *list;
    else
      items = {shape};
    if (items.size() > result.size())
      result.insert(result.begin(), items.size() - result.size(), graph::Sym(int64_t{1}));
    for (size_t i = 0; i < items.size(); ++i) {
      auto size = as_sym(items[items.size() - 1 - i]);
      if (!size) break_graph("CD0401", "torch.broadcast_shapes");
      graph::Sym& out = result[result.size() - 1 - i];
      graph::SymContext& sym = *ex.graph().sym;
      if (sym.guard_eq(*size, 1, "broadcast_shapes")) continue;
      if (sym.guard_eq(out, 1, "broadcast_shapes"))
        out = *size;
      else if (!sym.guard_eq(out, *size, "broadcast_shapes"))
        break_graph("CD0403", "torch.broadcast_shapes");
    }
  }
  return make_size(ex, result);
}

// torch.Size(iterable).
ValuePtr make_size_from(Executor& ex, PyObject*, const CallArgs& args) {
  std::vector<graph::Sym> sizes;
  if (!args.positional.empty())
    for (const ValuePtr& item : items_of(ex, args.positional[0])) {
      auto size = as_sym(item);
      if (!size) break_graph("CD0401", "torch.Size");
      sizes.push_back(*size);
    }
  return make_size(ex, sizes);
}

ValuePtr random_call(Executor&, PyObject* callable, const CallArgs&) {
  PyRef name = PyRef::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : "a random function";
  break_graph("CD0412", text ? text : "a random function");
}

// torch.normal: with a tensor of deviations it is what eager makes of numbers of the standard distribution.
ValuePtr normal(Executor& ex, PyObject* callable, const CallArgs& args) {
  const auto is_deviation = [](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), "std") == 0 && tensor_of(keyword.value);
  };
  if (std::ranges::any_of(args.keywords, is_deviation) ||
      (args.positional.size() > 1 && tensor_of(args.positional[1])))
    return polyfill(ex, PythonSide::kTorchPolyfills, "normal_of_deviations")->call(ex, args);
  return call_operator(ex, *graph::find_op("normal"), false, "call_function", PyRef::borrow(callable), args,
                       Convention::kTorchFunction);
}

// What module.to(...) is asked for; of a tensor its device and dtype.
ValuePtr parse_to(Executor& ex, PyObject* callable, const CallArgs& args) {
  CallArgs known = args;
  if (!args.positional.empty() && tensor_of(args.positional[0])) {
    const ValuePtr like = args.positional[0];
    known.positional[0] = like->get_attribute(ex, interned("device"));
    known.positional.insert(known.positional.begin() + 1, like->get_attribute(ex, interned("dtype")));
  }
  return fold_call(ex, callable, known);
}

// Plain tensors take each other's content.
ValuePtr take_each_others_content(Executor& ex, PyObject*, const CallArgs& args) {
  if (!std::ranges::all_of(args.positional, tensor_of))
    break_graph("CD0401", "_has_compatible_shallow_copy_type");
  return ex.constant_bool(true);
}

// torch.jit.annotate(type, value) is the value.
ValuePtr annotated(Executor& ex, PyObject*, const CallArgs& args) {
  return bind_arguments(ex, "annotate", args, {"the_type", "the_value"})[1];
}

ValuePtr asked_at_each_call(Executor& ex, PyObject* function, const CallArgs& args) {
  require_count(ex, "get_num_threads", args, 0, 0);
  if (ValuePtr number = number_of_process(ex, function)) return number;
  break_graph("CD0401", "get_num_threads");
}

// A range of the profiler. While one is on, the program's own are Python's; those of libraries, and in one graph that is demanded,
// are left out.
ValuePtr profiler_range(Executor& ex, PyObject*, const CallArgs&) {
  if (ex.state().request.leaves_loops && !is_in_library(ex.frame())) {
    const ValuePtr is_on = number_of_process(ex, library_object("torch.autograd", "_profiler_enabled"));
    if (!is_on || is_true(ex, is_on)) break_graph("CD0413", "record_function while a profiler is on");
  }
  return polyfill(ex, PythonSide::kTrainingPolyfills, "no_range")->call(ex, {});
}

ValuePtr event_of_profiler(Executor&, PyObject*, const CallArgs&) {
  break_graph("CD0413", "record_function while a profiler is on");
}

// Of subclasses, which plain tensors are not. What a program asks under it is Python's.
ValuePtr no_torch_functions(Executor& ex, PyObject*, const CallArgs&) {
  if (!is_in_library(ex.frame()))
    throw SkipFrame{.reason = "it enters DisableTorchFunctionSubclass", .callees_too = true};
  return polyfill(ex, PythonSide::kTrainingPolyfills, "no_range")->call(ex, {});
}

constexpr SpecialRow kTorchRows[] = {
    {"torch.autograd.profiler.record_function", profiler_range},
    {"torch.ops.profiler._record_function_enter_new", event_of_profiler},
    {"torch._C.DisableTorchFunctionSubclass", no_torch_functions},
    {"torch.autograd.grad", torch_autograd_grad},
    {"torch.jit.annotate", annotated},
    // What a class has for a lazy property; it is looked at by isinstance alone.
    {"torch.distributions.utils._lazy_property_and_property", fold_call},
    {"torch._C._has_torch_function",
     [](Executor& ex, PyObject* f, const CallArgs& args) -> ValuePtr {
       if (args.positional.size() != 1) break_graph("CD0401", "has_torch_function");
       return ex.constant_bool(in_function_mode(ex) || holds_foreign_tensor(ex, args.positional[0]));
     }},
    {"torch._C._has_torch_function_unary", has_torch_function},
    {"torch._C._has_torch_function_variadic", has_torch_function},
    {"torch.is_tensor", is_tensor},
    {"torch.numel", as_method<kNumel>},
    {"torch.is_floating_point", as_method<kIsFloatingPoint>},
    {"torch.is_signed", as_method<kIsSigned>},
    {"torch.is_complex", as_method<kIsComplex>},
    {"torch.is_conj", as_method<kIsConj>},
    {"torch.is_neg", as_method<kIsNeg>},
    {"torch.is_nonzero", as_method<kIsNonzero>},
    {"torch.is_inference", as_method<kIsInference>},
    {"torch.is_same_size", as_method<kIsSameSize>},
    {"torch.broadcast_shapes", broadcast_shapes},
    {"torch._C._infer_size", broadcast_shapes},
    {"torch.Size", make_size_from},
    {"torch.Generator", make_torch_generator},
    {"torch.promote_types", fold_call},
    {"torch.get_num_threads", asked_at_each_call},
    {"torch.get_num_interop_threads", asked_at_each_call},
    {"torch.can_cast", fold_call},
    {"torch.finfo", fold_call},
    {"torch.iinfo", fold_call},
    {"torch.device", fold_call},
    {"torch._C._get_default_device", fold_call},
    {"torch.cuda.is_available", fold_call},
    {"torch.cuda.is_bf16_supported", fold_call},
    {"torch.cuda.device_count", fold_call},
    {"torch.cuda.current_device", fold_call},
    {"torch.cuda.is_current_stream_capturing", fold_call},
    {"torch.cuda.get_device_capability", fold_call},
    {"torch.cuda.get_device_name", fold_call},
    {"torch._C._len_torch_dispatch_stack",
     [](Executor& ex, PyObject*, const CallArgs&) { return ex.constant_int(0); }},
    {"torch._C._get_tracing_state", always_none},
    {"torch._C._log_api_usage_once", always_none},
    {"torch._C._log_api_usage_metadata", always_none},
    {"torch._C._is_tracing", always_false},
    {"torch._C._is_torch_function_enabled", always_true},
    {"torch.jit.is_scripting", always_false},
    {"torch.jit.is_tracing", always_false},
    {"torch._jit_internal.is_scripting", always_false},
    {"torch.compiler.is_compiling", always_true},
    {"torch.compiler.is_dynamo_compiling", always_true},
    {"torch.compiler.is_exporting", always_false},
    {"torch._utils.is_compiling", always_true},
    {"torch._dynamo.is_compiling", always_true},
    {"torch.onnx.is_in_onnx_export", always_false},
    {"torch.distributed.is_available", fold_call},
    {"torch.are_deterministic_algorithms_enabled", fold_call},
    {"torch._C._get_deterministic_algorithms", fold_call},
    {"torch._C._are_functorch_transforms_active", always_false},
    {"torch._C._functorch.peek_interpreter_stack", always_none},
    {"torch.overrides.is_tensor_like", is_tensor_like},
    {"torch.normal", normal},
    {"torch.manual_seed", random_call},
    {"torch._C._nn._parse_to", parse_to},
    {"torch._has_compatible_shallow_copy_type", take_each_others_content},
};

}  // namespace

std::span<const SpecialRow> torch_query_functions() { return kTorchRows; }

}  // namespace cdynamo::symbolic
