// Attributes of tensors, and methods whose answer is metadata rather than a tensor.
#include "graph/op.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/leaf_gradients.h"
#include "symbolic/torch/made_leaves.h"
#include "symbolic/torch/size.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/torch/tensor_hooks.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Sym;
using graph::TensorType;

namespace {

int64_t wrap_dimension(Executor& ex, const ValuePtr& dim, int rank) {
  int64_t d = index_argument(ex, dim);
  int64_t extent = std::max(rank, 1);
  if (d < -extent || d >= extent) break_graph("CD0403", "Dimension out of range");
  return d < 0 ? d + extent : d;
}

// ---- properties

using Property = ValuePtr (*)(Executor& ex, TensorValue& self);
struct PropertyRow {
  const char* name;
  Property read;
};

ValuePtr recorded_property(Executor& ex, TensorValue& self, const char* name,
                           ValuePtr (*body)(Executor&, TensorValue&)) {
  CallArgs args;
  args.positional = {self_of(self), ex.constant(PyRef::borrow(interned(name)))};
  return recorded_call(ex, "call_function", PyRef::borrow(library_object("builtins", "getattr")), args,
                       [&] { return body(ex, self); });
}

ValuePtr permuted(Executor& ex, TensorValue& self, const std::vector<int64_t>& order) {
  std::vector<ValuePtr> dims;
  for (int64_t d : order) dims.push_back(ex.constant_int(d));
  return call_named(ex, "permute", {self_of(self), make_tuple(ex, std::move(dims))});
}

ValuePtr reversed_dims(Executor& ex, TensorValue& self) {
  std::vector<int64_t> order;
  for (int64_t d = self.rank(); d-- > 0;) order.push_back(d);
  return permuted(ex, self, order);
}

ValuePtr swapped_dims(Executor& ex, TensorValue& self) {
  if (self.rank() < 2) break_graph("CD0403", "mT of a tensor of fewer than 2 dimensions");
  return call_named(ex, "transpose", {self_of(self), ex.constant_int(-2), ex.constant_int(-1)});
}

// Legacy: x.T of a tensor that is not a matrix warns; eager does.
ValuePtr matrix_transpose(Executor& ex, TensorValue& self) {
  if (self.rank() != 2) break_graph("CD0408", "T of a tensor that has not 2 dimensions");
  return reversed_dims(ex, self);
}

ValuePtr data_of(Executor& ex, TensorValue& self) { return call_named(ex, "data", {self_of(self)}); }

// The grad_fn of what the graph computes: there is one, and nothing else is known of it.
class GradientFunction final : public SymbolicValue {
 public:
  PyTypeObject* type() const override { refuse(); }
  std::string describe() const override { return "a grad_fn"; }
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    if (dynamic_cast<const GradientFunction*>(&other)) refuse();
    return false;
  }
  ValuePtr get_attribute(Executor&, PyObject*) override { refuse(); }
  ValuePtr compare(Executor&, int, const ValuePtr&) override { refuse(); }
  RecipePtr recipe(Executor&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { break_graph("CD0408", "grad_fn"); }
};

// How a gradient lies, and whether it has a history, is known when it comes.
void ask_of_gradient(Executor& ex, const TensorValue& tensor, const char* what) {
  const Executor::IsolatedRegion* region = ex.isolated_region();
  if (region && region->runs_later >= 0 && tensor.value()->id >= region->first_gradient) ex.asks_later(what);
}

constexpr PropertyRow kProperties[] = {
    {"shape", [](Executor& ex, TensorValue& self) { return make_size(ex, self.array_type().sizes); }},
    {"dtype",
     [](Executor& ex, TensorValue& self) {
       return ex.constant(PyRef::borrow(torch_dtype_object(self.array_type().dtype)));
     }},
    {"device", [](Executor& ex,
                  TensorValue& self) { return ex.constant(torch_device_object(self.array_type().device)); }},
    {"is_cuda",
     [](Executor& ex, TensorValue& self) {
       return ex.constant_bool(self.array_type().device.type == runtime::DeviceType::kCUDA);
     }},
    {"layout", [](Executor& ex,
                  TensorValue&) { return ex.constant(PyRef::borrow(library_object("torch", "strided"))); }},
    {"ndim", [](Executor& ex, TensorValue& self) { return ex.constant_int(self.rank()); }},
    {"itemsize", [](Executor& ex,
                    TensorValue& self) { return ex.constant_int(runtime::bytes(self.array_type().dtype)); }},
    {"nbytes",
     [](Executor& ex, TensorValue& self) {
       return make_int(ex, self.array_type().numel() * Sym(int64_t{runtime::bytes(self.array_type().dtype)}));
     }},
    {"requires_grad",
     [](Executor& ex, TensorValue& self) {
       ask_of_gradient(ex, self, "requires_grad");
       // PyTorch asks the tensor that all are views of, which need not require grad where the input is a view itself.
       const TensorCapture& capture = tensor_capture(ex);
       if (is_another_leaf(capture, self.value()) && !base_of(capture, self.value())->node)
         break_graph("CD0422", "made under no_grad");
       return ex.constant_bool(self.requires_grad());
     }},
    {"is_leaf",
     [](Executor& ex, TensorValue& self) -> ValuePtr {
       if (!self.requires_grad()) return ex.constant_bool(true);
       if (is_another_leaf(tensor_capture(ex), self.value())) break_graph("CD0422", "made under no_grad");
       if (tensor_capture(ex).made_leaves.contains(self.value())) return ex.constant_bool(true);
       if (self.source &&
           self.type() != reinterpret_cast<PyTypeObject*>(library_object("torch.nn", "Parameter")))
         return ex.constant_bool(input_is_leaf(ex, self));
       return ex.constant_bool(self.source != nullptr);
     }},
    {"grad", leaf_gradient},
    {"grad_fn",
     [](Executor& ex, TensorValue& self) -> ValuePtr {
       const TensorCapture& capture = tensor_capture(ex);
       if (!self.requires_grad() || capture.made_leaves.contains(self.value())) return ex.none();
       if (is_another_leaf(capture, self.value())) break_graph("CD0422", "made under no_grad");
       if (!self.source) return std::make_shared<GradientFunction>();
       if (!input_is_leaf(ex, self)) break_graph("CD0408", "grad_fn");
       return ex.none();
     }},
    {"is_cpu",
     [](Executor& ex, TensorValue& self) {
       return ex.constant_bool(self.array_type().device.type == runtime::DeviceType::kCPU);
     }},
    {"T", [](Executor& ex, TensorValue& self) { return recorded_property(ex, self, "T", matrix_transpose); }},
    {"mT", [](Executor& ex, TensorValue& self) { return recorded_property(ex, self, "mT", swapped_dims); }},
    {"H", [](Executor& ex, TensorValue& self) { return recorded_property(ex, self, "H", matrix_transpose); }},
    {"mH", [](Executor& ex, TensorValue& self) { return recorded_property(ex, self, "mH", swapped_dims); }},
    {"data", [](Executor& ex, TensorValue& self) { return recorded_property(ex, self, "data", data_of); }},
    {"real", [](Executor&, TensorValue& self) { return self_of(self); }},
    {"names",
     [](Executor& ex, TensorValue& self) -> ValuePtr {
       if (!_PyType_Lookup(self.type(), interned("names"))) return nullptr;  // releases after 2.12 have none
       return make_tuple(ex, std::vector<ValuePtr>(self.rank(), ex.none()));
     }},
};

// What no plain tensor is.
constexpr const char* kFalse[] = {"is_sparse",     "is_quantized",
                                  "is_meta",       "is_mkldnn",
                                  "is_mps",        "is_mtia",
                                  "is_nested",     "is_xpu",
                                  "is_xla",        "is_ipu",
                                  "is_vulkan",     "is_maia",
                                  "is_sparse_csr", "_has_symbolic_sizes_strides"};

// ---- methods

TensorValue& tensor(const ValuePtr& self) { return static_cast<TensorValue&>(*self); }

ValuePtr size_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const TensorType& type = tensor(self).array_type();
  ValuePtr dim = bind_arguments(ex, "size", args, {"dim?"})[0];
  if (!dim || is_none(dim)) return make_size(ex, type.sizes);
  if (type.rank() == 0) break_graph("CD0403", "size of a 0-d tensor's dimension");
  return make_int(ex, type.sizes[wrap_dimension(ex, dim, type.rank())]);
}

ValuePtr stride_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const TensorType& type = tensor(self).array_type();
  ValuePtr dim = bind_arguments(ex, "stride", args, {"dim?"})[0];
  ask_of_gradient(ex, tensor(self), "stride()");
  if (dim && !is_none(dim)) {
    if (type.rank() == 0) break_graph("CD0403", "stride of a 0-d tensor's dimension");
    return make_int(ex, type.strides[wrap_dimension(ex, dim, type.rank())]);
  }
  std::vector<ValuePtr> items;
  for (const Sym& stride : type.strides) items.push_back(make_int(ex, stride));
  return make_tuple(ex, std::move(items));
}

ValuePtr dim_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return ex.constant_int(tensor(self).rank());
}
ValuePtr numel_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return make_int(ex, tensor(self).array_type().numel());
}
ValuePtr element_size_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return ex.constant_int(runtime::bytes(tensor(self).array_type().dtype));
}

// TensorImpl::compute_contiguous, and the channels-last orders.
bool is_dense_in_order(Executor& ex, const TensorType& type, const std::vector<int>& order) {
  graph::SymContext& sym = *ex.graph().sym;
  Sym expected = 1;
  for (const Sym& size : type.sizes)
    if (size == Sym(int64_t{0})) return true;
  for (int d : order) {
    if (sym.guard_eq(type.sizes[d], 1, "is_contiguous")) continue;
    if (!sym.guard_eq(type.strides[d], expected, "is_contiguous")) return false;
    expected = expected * type.sizes[d];
  }
  return true;
}

ValuePtr is_contiguous_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const TensorType& type = tensor(self).array_type();
  ValuePtr format = bind_arguments(ex, "is_contiguous", args, {"memory_format?"})[0];
  ask_of_gradient(ex, tensor(self), "is_contiguous()");
  PyObject* wanted = format ? format->real_object() : nullptr;
  std::vector<int> order;
  if (!wanted || wanted == library_object("torch", "contiguous_format")) {
    for (int d = type.rank(); d-- > 0;) order.push_back(d);
  } else if (wanted == library_object("torch", "channels_last")) {
    if (type.rank() != 4) return ex.constant_bool(false);
    order = {1, 3, 2, 0};
  } else {
    break_graph("CD0408", "is_contiguous of this memory format");
  }
  return ex.constant_bool(is_dense_in_order(ex, type, order));
}

ValuePtr is_floating_point_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return ex.constant_bool(runtime::is_float(tensor(self).array_type().dtype));
}
ValuePtr is_signed_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return ex.constant_bool(runtime::info(tensor(self).array_type().dtype).is_signed);
}
ValuePtr false_method(Executor& ex, const ValuePtr&, const CallArgs&) { return ex.constant_bool(false); }
// Memory can be pinned once CUDA has been initialized; what a graph gives is not.
ValuePtr is_pinned_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  if (tensor(self).array_type().device.type == runtime::DeviceType::kCUDA || !tensor(self).source)
    return ex.constant_bool(false);
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.cuda");
  PyObject* initialized = module ? PyDict_GetItemString(PyModule_GetDict(module), "_initialized") : nullptr;
  if (initialized != Py_False) break_graph("CD0408", "is_pinned");
  add_guard(ex, GuardKind::kEquals, module_global_source(module, interned("_initialized")), initialized);
  return ex.constant_bool(false);
}
ValuePtr is_inference_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  const TensorCapture& capture = tensor_capture(ex);
  if (capture.state.flags & TorchState::kInferenceMode) break_graph("CD0408", "is_inference");
  const auto storage = capture.storage_of.find(tensor(self).value());
  if (storage != capture.storage_of.end())
    return ex.constant_bool(capture.inputs[storage->second]->info.inference);
  return ex.constant_bool(is_inference_value(capture, tensor(self).value()));
}
ValuePtr same_size_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto* other = args.positional.size() == 1 ? dynamic_cast<ArrayValue*>(args.positional[0].get()) : nullptr;
  if (!other) break_graph("CD0408", "is_same_size");
  const std::vector<Sym>&a = tensor(self).array_type().sizes, &b = other->array_type().sizes;
  bool same = a.size() == b.size();
  for (size_t d = 0; same && d < a.size(); ++d) same = ex.graph().sym->guard_eq(a[d], b[d], "is_same_size");
  return ex.constant_bool(same);
}
ValuePtr get_device_method(Executor& ex, const ValuePtr& self, const CallArgs&) {
  const graph::Device device = tensor(self).array_type().device;
  return ex.constant_int(device.type == runtime::DeviceType::kCPU ? -1 : device.index);
}

template <const char* const& kName>
ValuePtr value_method(Executor&, const ValuePtr&, const CallArgs&) {
  break_graph("CD0406", kName);
}
constexpr const char* kItem = "item()";
constexpr const char* kToList = "tolist()";
constexpr const char* kNonZero = "is_nonzero()";
constexpr const char* kDataPointer = "data_ptr()";
constexpr const char* kFloat = "float()";
constexpr const char* kInt = "int()";
constexpr const char* kBool = "bool()";
constexpr const char* kIndex = "use as an index";
constexpr const char* kFormat = "formatting";

ValuePtr requires_grad_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const ValuePtr wanted = bind_arguments(ex, "requires_grad_", args, {"requires_grad?"})[0];
  PyObject* object = wanted ? constant_object(wanted) : Py_True;
  if (is_another_leaf(tensor_capture(ex), tensor(self).value())) break_graph("CD0422", "made under no_grad");
  if (object == (tensor(self).requires_grad() ? Py_True : Py_False)) return self;
  if (object == Py_False && tensor_capture(ex).made_leaves.contains(tensor(self).value()))
    return no_leaf_any_more(ex, self);
  if (object != Py_True) break_graph("CD0400", "requires_grad_()");
  return made_leaf(ex, self);
}

// x.type() is a str; x.type(torch.float16) is a conversion, as is x.type("torch.HalfTensor").
ValuePtr type_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  PyObject* wanted = args.positional.empty() ? nullptr : args.positional[0]->real_object();
  graph::DType dtype;
  if (args.positional.size() == 1 && args.keywords.empty() && wanted && dtype_of_torch_object(wanted, &dtype))
    return recorded_call(ex, "call_method", PyRef::borrow(interned("type")), all,
                         [&] { return call_named(ex, "to", {self, args.positional[0]}); });
  return polyfill(ex, PythonSide::kTorchPolyfills, "type_of_tensor")->call(ex, all);
}

// x.cuda(device=None, ...) is x.to(device).
ValuePtr cuda_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return recorded_call(ex, "call_method", PyRef::borrow(interned("cuda")), all, [&] {
    std::vector<ValuePtr> given =
        bind_arguments(ex, "cuda", args, {"device?", "non_blocking?", "memory_format?"});
    if (given[2] && !is_none(given[2])) break_graph("CD0402", "cuda() with a memory format");
    const bool is_current = !given[0] || is_none(given[0]);
    return call_named(ex, "to", {self, is_current ? ex.constant(PyRef::borrow(interned("cuda"))) : given[0]});
  });
}

// With a tensor of counts its size depends on data; else it is the operator.
ValuePtr repeat_interleave_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return repeat_interleave(ex, "call_method", PyRef::borrow(interned("repeat_interleave")), all,
                           Convention::kTorchMethod);
}

// x.numpy(*, force=False)
ValuePtr numpy_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const ValuePtr force = bind_arguments(ex, "numpy", args, {"*force?"})[0];
  PyObject* wanted = force ? constant_object(force) : Py_False;
  if (wanted != Py_True && wanted != Py_False) break_graph("CD0409", "numpy() with this argument");
  return array_of_tensor(ex, self, wanted == Py_True);
}

constexpr char kComplexFloat[] = "cfloat", kComplexDouble[] = "cdouble";
template <const char* name>
ValuePtr complex_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, name, args, 0, 0);
  return complex_rule(ex, name, positional({self}));
}

ValuePtr itself_method(Executor&, const ValuePtr& self, const CallArgs&) { return self; }

constexpr BuiltinMethodRow kTensorMethods[] = {
    {"size", size_method},
    {"stride", stride_method},
    {"dim", dim_method},
    {"ndimension", dim_method},
    {"numel", numel_method},
    {"nelement", numel_method},
    {"element_size", element_size_method},
    {"is_contiguous", is_contiguous_method},
    {"is_floating_point", is_floating_point_method},
    {"is_signed", is_signed_method},
    {"is_complex", false_method},
    {"is_conj", false_method},
    {"is_neg", false_method},
    {"is_pinned", is_pinned_method},
    {"is_inference", is_inference_method},
    {"is_same_size", same_size_method},
    {"get_device", get_device_method},
    {"has_names", false_method},
    {"item", number_method<read_item, kItem>},
    {"tolist", number_method<read_list, kToList>},
    {"numpy", numpy_method},
    {"is_nonzero", number_method<read_bool, kNonZero>},
    {"repeat_interleave", repeat_interleave_method},
    {"data_ptr", value_method<kDataPointer>},
    {"__float__", number_method<read_float, kFloat>},
    {"__int__", number_method<read_int, kInt>},
    {"__bool__", number_method<read_bool, kBool>},
    {"__index__", number_method<read_index, kIndex>},
    {"__complex__", value_method<kFloat>},
    {"__format__", value_method<kFormat>},
    {"__repr__", value_method<kFormat>},
    {"__str__", value_method<kFormat>},
    {"requires_grad_", requires_grad_method},
    {"backward", backward_method},
    {"retain_grad", retain_grad_method},
    {"register_hook", register_hook_method},
    {"register_post_accumulate_grad_hook", register_post_accumulate_hook_method},
    {"type", type_method},
    {"cuda", cuda_method},
    {"new_tensor", new_tensor_method},
    {"cfloat", complex_method<kComplexFloat>},
    {"cdouble", complex_method<kComplexDouble>},
    {"resolve_conj", itself_method},
    {"resolve_neg", itself_method},
    {"__len__", [](Executor& ex, const ValuePtr& self, const CallArgs&) { return self->length(ex); }},
    {"__iter__", [](Executor& ex, const ValuePtr& self, const CallArgs&) { return self->iterate(ex); }},
    {"__getitem__",
     [](Executor& ex, const ValuePtr& self, const CallArgs& args) {
       return self->get_item(ex, bind_arguments(ex, "__getitem__", args, {"key"})[0]);
     }},
    {"__setitem__",
     [](Executor& ex, const ValuePtr& self, const CallArgs& args) {
       std::vector<ValuePtr> given = bind_arguments(ex, "__setitem__", args, {"key", "value"});
       self->set_item(ex, given[0], given[1]);
       return ex.none();
     }},
};

}  // namespace

ValuePtr tensor_property(Executor& ex, TensorValue& self, std::string_view name) {
  for (const PropertyRow& row : kProperties)
    if (name == row.name) return row.read(ex, self);
  for (const char* no : kFalse)
    if (name == no) return ex.constant_bool(false);
  return nullptr;
}

namespace {

// A method that was read where no mode was on, and may be called in one.
class TensorMethod final : public SymbolicValue {
 public:
  TensorMethod(ValuePtr self, const BuiltinMethodRow& row)
      : self_(std::move(self)), name_(row.name), plain_(std::make_shared<BuiltinMethodValue>(self_, row)) {}
  PyTypeObject* type() const override { return plain_->type(); }
  std::string describe() const override { return plain_->describe(); }
  std::optional<bool> truth(Executor& ex) override { return plain_->truth(ex); }
  RecipePtr recipe(Executor& ex) override { return plain_->recipe(ex); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override { return plain_->get_attribute(ex, name); }
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override {
    const auto* method = dynamic_cast<TensorMethod*>(other.get());
    return plain_->compare(ex, py_op, method ? method->plain_ : other);
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (in_function_mode(ex)) return self_->get_attribute(ex, interned(name_))->call(ex, args);
    return plain_->call(ex, args);
  }

 private:
  ValuePtr self_;
  const char* name_;
  ValuePtr plain_;
};

}  // namespace

ValuePtr tensor_method(Executor& ex, const ValuePtr& self, std::string_view name) {
  for (const BuiltinMethodRow& row : kTensorMethods)
    if (name == row.name) return std::make_shared<TensorMethod>(self, row);
  return nullptr;
}

}  // namespace cdynamo::symbolic
