#include "symbolic/torch/tensor.h"

#include "absl/strings/str_cat.h"
#include "graph/op.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/tensor_indexing.h"
#include "symbolic/torch/autocast_policy.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/data_assignment.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/leaf_gradients.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tensor_key.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

ValuePtr self_of(ArrayValue& array) { return array.shared_from_this(); }

ValuePtr make_tensor(Executor& ex, graph::Value* value) {
  TensorCapture& capture = tensor_capture(ex);
  auto [it, inserted] = capture.objects.try_emplace(value);
  if (inserted) it->second = std::make_shared<TensorValue>(value, torch_access::tensor_type());
  return it->second;
}

// ---- tensors that come in

namespace {

// A tensor or array that is not compiled: it may be handed around, and any use of it is Python's. Its guard
// is its type: whatever else comes in its place may be handed around too.
class OpaqueTensor final : public SymbolicValue {
 public:
  OpaqueTensor(PyObject* object, std::string obstacle, SourcePtr from)
      : object_(PyRef::borrow(object)), obstacle_(std::move(obstacle)) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override { return "tensor: " + obstacle_; }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor&, PyObject*) override { refuse(); }
  void set_attribute(Executor&, PyObject*, const ValuePtr&) override { refuse(); }
  ValuePtr call(Executor&, const CallArgs&) override { refuse(); }
  ValuePtr get_item(Executor&, const ValuePtr&) override { refuse(); }
  void set_item(Executor&, const ValuePtr&, const ValuePtr&) override { refuse(); }
  bool contains(Executor&, const ValuePtr&) override { refuse(); }
  ValuePtr length(Executor&) override { refuse(); }
  ValuePtr iterate(Executor&) override { refuse(); }
  std::optional<bool> truth(Executor&) override { refuse(); }
  ValuePtr unary(Executor&, Op) override { refuse(); }
  ValuePtr binary(Executor&, int, const ValuePtr&, bool) override { refuse(); }
  ValuePtr compare(Executor&, int, const ValuePtr&) override { refuse(); }
  RecipePtr recipe(Executor&) override {
    if (!recipe_) recipe_ = source_recipe(source);
    return recipe_;
  }
  // By identity, as that of every tensor.
  PyRef hash_key(Executor& ex) override {
    if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object_.get());
    const Py_hash_t hash = PyObject_Hash(object_.get());
    if (hash == -1) raise_current_error(ex);
    return tensor_key(object_.get(), hash);
  }

 private:
  [[noreturn]] void refuse() const { break_graph("CD0407", obstacle_); }
  PyRef object_;
  std::string obstacle_;
  RecipePtr recipe_;
};

}  // namespace

std::shared_ptr<ArrayValue> make_tensor_input(graph::Value* value, const SourcePtr& source,
                                              PyObject* object) {
  return std::make_shared<TensorValue>(value, Py_TYPE(object), source);
}

ValuePtr make_opaque_tensor(Executor& ex, PyObject* object, std::string obstacle, const SourcePtr& source) {
  guard_exact_type(ex, object, source);
  return std::make_shared<OpaqueTensor>(object, std::move(obstacle), source);
}

ValuePtr wrap_torch_tensor(Executor& ex, PyObject* object, const SourcePtr& source) {
  TensorInfo info;
  read_tensor(object, &info);
  SourcePtr from = source ? source : constant_source(object);
  if (!info.obstacle.empty()) {
    if (ValuePtr complex = wrap_complex_tensor(ex, object, from)) return complex;
    return make_opaque_tensor(ex, object, info.obstacle, from);
  }
  if (info.requires_grad &&
      !runtime::is_float(info.view.dtype))  // what a number with a history was written to
    return make_opaque_tensor(ex, object, "a tensor of integers with a history", from);
  torch_capture(ex);
  return wrap_array_input(ex, object, from, make_tensor_input);
}

// ---- attributes

namespace {

// A method that was read where no mode was on, called in one: the tensor's method there. `all`: the arguments, itself the first.
ValuePtr call_in_mode(Executor& ex, const PyRef& name, CallArgs all) {
  const ValuePtr self = all.positional.at(0);
  all.positional.erase(all.positional.begin());
  return self->get_attribute(ex, name.get())->call(ex, all);
}

// A method that is an operator: x.add, x.add_.
class BoundOperator final : public BoundMethod {
 public:
  BoundOperator(ValuePtr self, OperatorCallable callable, PyRef name)
      : BoundMethod(std::move(self), std::move(name)), callable_(callable) {}
  std::string describe() const override { return std::string("Tensor.") + PyUnicode_AsUTF8(name().get()); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (in_function_mode(ex)) return call_in_mode(ex, name(), with_self(args));
    return call_operator(ex, *callable_.op, callable_.in_place, "call_method", name(), with_self(args),
                         Convention::kTorchMethod);
  }

 private:
  OperatorCallable callable_;
};

// A method that a polyfill states; after a graph break Python has the tensor's own.
class PolyfilledMethod final : public BoundMethod {
 public:
  PolyfilledMethod(ValuePtr self, PyRef name, const char* function)
      : BoundMethod(std::move(self), std::move(name)), function_(function) {}
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (in_function_mode(ex)) return call_in_mode(ex, name(), with_self(args));
    check_autocast_of_polyfill(ex, function_);
    return polyfill(ex, PythonSide::kTorchPolyfills, function_)->call(ex, with_self(args));
  }

 private:
  const char* function_;
};

ValuePtr call_unknown(Executor& ex, const CallArgs& args) {
  refuse_in_mode(ex, "a method that was read before it");
  return call_library(ex, args);
}

// The attribute of torch.Tensor's classes, without running descriptors; borrowed.
PyObject* class_attribute(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

// The object that came in as this tensor, borrowed; null: it is made in the graph.
PyObject* object_of_input(Executor& ex, const TensorValue& tensor) {
  for (const auto& input : tensor_capture(ex).inputs)
    if (input->array.get() == &tensor) return input->object.get();
  return nullptr;
}

}  // namespace

ValuePtr TensorValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__class__")
    return ex.wrap(reinterpret_cast<PyObject*>(type_), constant_source(reinterpret_cast<PyObject*>(type_)));
  if (text == "__dict__" && object_of_input(ex, *this)) return own_dict(ex);
  if (ValuePtr through = attribute_through_mode(ex, *this, name)) return through;
  if (ValuePtr property = tensor_property(ex, *this, text)) return property;
  if (ValuePtr method = tensor_method(ex, shared_from_this(), text)) return method;
  PyObject* attribute = class_attribute(type_, name);
  if (!attribute) return instance_attribute(ex, name);
  if (OperatorCallable callable = find_tensor_operator(text); callable.op)
    return std::make_shared<BoundOperator>(shared_from_this(), callable, PyRef::borrow(name));
  if (const char* function = find_tensor_polyfill(text))
    return std::make_shared<PolyfilledMethod>(shared_from_this(), PyRef::borrow(name), function);
  if (PyFunction_Check(attribute))
    return make_bound_method(ex, ex.wrap(attribute, constant_source(attribute)), shared_from_this());
  if (Py_IS_TYPE(attribute, &PyMethodDescr_Type))
    return make_unknown_method(shared_from_this(), name, call_unknown);
  break_graph("CD0408", std::string(text) + " of " + describe());
}

// What somebody has set on this very object; results have nothing of their own.
ValuePtr TensorValue::instance_attribute(Executor& ex, PyObject* name) {
  if (PyObject* object = object_of_input(ex, *this)) {
    PyObject** dict = _PyObject_GetDictPtr(object);
    DictValue* shown = looked_at_dict(ex, dict ? *dict : nullptr);
    if (ValuePtr own = shown ? shown->lookup_string(ex, name) : nullptr) return own;
    if (PyObject* value = !shown && dict && *dict ? PyDict_GetItem(*dict, name) : nullptr)
      return ex.wrap(value, key_source(instance_dict_source(source), name));
    if (!shown) add_guard(ex, GuardKind::kAttributeAbsent, source, name);
  }
  raise_error(ex, PyExc_AttributeError,
              absl::StrCat("'", type_->tp_name, "' object has no attribute '", PyUnicode_AsUTF8(name), "'"));
}

void TensorValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  refuse_in_mode(ex, "an assignment to an attribute of a tensor");
  if (value && PyUnicode_CompareWithASCIIString(name, "grad") == 0)
    return set_leaf_gradient(ex, *this, value);
  if (value && PyUnicode_CompareWithASCIIString(name, "data") == 0) return assign_data(ex, *this, value);
  if (value && PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0) {
    get_attribute(ex, interned("requires_grad_"))->call(ex, positional({value}));
    return;
  }
  if (!class_attribute(type_, name) && object_of_input(ex, *this)) return set_own_attribute(ex, name, value);
  break_graph("CD0408", std::string("assignment to ") + PyUnicode_AsUTF8(name));
}

ValuePtr TensorValue::own_dict(Executor& ex) {
  const PyRef dict = checked(PyObject_GenericGetDict(object_of_input(ex, *this), nullptr));
  return ex.wrap(dict.get(), instance_dict_source(source));
}

// Into the dict of an object that came in.
void TensorValue::set_own_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (!value) instance_attribute(ex, name);  // raises where there is none
  own_dict(ex)->set_item(ex, ex.constant(PyRef::borrow(name)), value);
}

// ---- items

ValuePtr TensorValue::get_item(Executor& ex, const ValuePtr& key) {
  if (ValuePtr through = operate_through_mode(ex, "getitem", {shared_from_this(), key})) return through;
  CallArgs args{.positional = {shared_from_this(), key}, .keywords = {}};
  return recorded_call(
      ex, "call_function", PyRef::borrow(library_object("operator", "getitem")), args, [&]() -> ValuePtr {
        Selection selection = select_items(ex, value(), key, graph::Framework::kTorch);
        graph::Value* result = read_selection(ex, selection);
        // x[...] and x[:] are new tensors on the same storage.
        return result == value() ? call_named(ex, "alias", {shared_from_this()}) : make_tensor(ex, result);
      });
}

namespace {

// float32 and the like; a float64 is a float of Python's, too.
bool is_float_of_numpy_alone(const ValuePtr& value) {
  if (!is_numpy_number(value)) return false;
  const PyTypeObject* type = value->type();
  return !PyType_IsSubtype(value->type(), &PyFloat_Type) &&
         std::string_view(type->tp_name).find("float") != std::string_view::npos;
}

}  // namespace

void TensorValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& given) {
  if (!given) break_graph("CD0403", "deletion of a tensor's item");
  if (operate_through_mode(ex, "setitem", {shared_from_this(), key, given})) return;
  if (is_numpy_array(given) || is_float_of_numpy_alone(given))
    break_graph("CD0409", "what is assigned to an item of a tensor");
  CallArgs args{.positional = {shared_from_this(), key, given}, .keywords = {}};
  recorded_call(ex, "call_function", PyRef::borrow(library_object("operator", "setitem")), args,
                [&]() -> ValuePtr {
                  note_write(ex, value());
                  ValuePtr source_value = without_numpy_scalar(ex, given);
                  if (auto* scalar = dynamic_cast<ArrayValue*>(given.get()); scalar && scalar->is_scalar())
                    source_value = make_tensor(ex, number_of_scalar(ex, *scalar));
                  write_selection(ex, select_items(ex, value(), key, graph::Framework::kTorch), source_value,
                                  graph::Framework::kTorch);
                  return nullptr;
                });
}

// ---- sequences

ValuePtr TensorValue::length(Executor& ex) {
  if (ValuePtr through = operate_through_mode(ex, "len", {shared_from_this()})) return through;
  if (rank() == 0) break_graph("CD0403", "len: a 0-d tensor has no length");
  return make_int(ex, array_type().sizes[0]);
}

std::optional<std::vector<ValuePtr>> TensorValue::unpack(Executor& ex) {
  refuse_in_mode(ex, "an iteration over a tensor");
  if (rank() == 0) break_graph("CD0403", "iteration: a 0-d tensor is not iterable");
  CallArgs args{.positional = {shared_from_this()}, .keywords = {}};
  ValuePtr items =
      recorded_call(ex, "call_function", PyRef::borrow(library_object("torch", "unbind")), args,
                    [&] { return call_named(ex, "unbind", {shared_from_this(), ex.constant_int(0)}); });
  return items->unpack(ex);
}

std::optional<bool> TensorValue::truth(Executor& ex) {
  refuse_in_mode(ex, "the truth of a tensor");
  return known_truth(ex, *this);
}

ValuePtr TensorValue::iterate(Executor& ex) { return make_tuple(ex, *unpack(ex))->iterate(ex); }

}  // namespace cdynamo::symbolic
