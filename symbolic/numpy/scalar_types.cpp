// NumPy's scalars that are constants, and its scalar types, which convert.
#include <string>

#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/numpy/number.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::Sym;
using graph::Value;

bool is_numpy_scalar_type(PyObject* object) {
  const numpy_access::Api* api = numpy_access::api();
  return api && PyType_Check(object) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), api->generic_type);
}

namespace {

// A constant NumPy scalar as a 0-dim value of its own dtype.
Value* scalar_constant(Executor& ex, PyObject* scalar) {
  PyRef dtype_object = PyRef::steal(PyObject_GetAttrString(scalar, "dtype"));
  PyRef item = PyRef::steal(PyObject_CallMethod(scalar, "item", nullptr));
  DType dtype;
  if (!dtype_object || !item || !dtype_of_numpy_object(dtype_object.get(), &dtype)) {
    PyErr_Clear();
    return nullptr;
  }
  const ValuePtr known = ex.constant(std::move(item));
  if (is_upper_uint64(known)) return upper_uint64(ex, known);
  std::optional<Arg> number = number_argument(known);
  return number ? append_call1(ex, "core.full", {std::vector<Sym>{}, *number, dtype}) : nullptr;
}

// numpy.float32, numpy.int64 ...: calls convert.
class ScalarTypeValue final : public SymbolicValue {
 public:
  // `dtype`: unset for complex numbers.
  ScalarTypeValue(PyRef object, std::optional<DType> dtype, SourcePtr from)
      : object_(std::move(object)), dtype_(dtype) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override {
    return std::string("numpy.") + (dtype_ ? runtime::info(*dtype_).name : "complex number");
  }
  PyObject* real_object() const override { return object_.get(); }
  std::optional<PyRef> as_constant() const override { return object_; }
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  // type's own: a class is equal to itself; a dtype, which may be asked next, says whether it is this one.
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override {
    if ((py_op != Py_EQ && py_op != Py_NE) || !is_same_object(*other)) return nullptr;
    return ex.constant_bool(py_op == Py_EQ);
  }
  RecipePtr recipe(Executor&) override {
    if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
    return recipe_;
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    PyRef value = PyRef::steal(PyObject_GetAttr(object_.get(), name));
    if (value) return ex.constant(std::move(value));
    PyErr_Clear();
    return SymbolicValue::get_attribute(ex, name);
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (only_constants(args)) return made_by_numpy(ex, object_.get(), args);
    ValuePtr given = args.positional.size() == 1 ? args.positional[0] : nullptr;
    if (!dtype_ || (given && is_complex_operand(ex, given))) {
      if (dtype_ || !given || !args.keywords.empty()) break_graph("CD0500", describe());
      return complex_polyfill(ex, "number", {given, shared_from_this()});
    }
    if (given && dtype_ == DType::kI64 && ex.state().request.is_native)
      if (const ValuePtr index = given->as_index(ex)) return make_numpy_number(ex, index, *dtype_);
    if (given && is_tensor(given)) given = array_of_tensor(ex, given);
    auto* array = dynamic_cast<NumpyValue*>(given.get());
    auto* number = dynamic_cast<DynamicFloatValue*>(given.get());
    if (!number && !(array && args.keywords.empty())) break_graph("CD0500", describe());
    if (array && array->rank() > 0 && array->array_type().dtype == *dtype_) return given;  // not a copy
    return numpy_call(ex, "call_function", object_, args, [&] {
      return make_numpy_result(
          ex, append_call1(ex, "core.cast", {array ? array->value() : number->value(), *dtype_}));
    });
  }

 private:
  PyRef object_;
  std::optional<DType> dtype_;
  RecipePtr recipe_;
};

}  // namespace

bool is_upper_uint64(const ValuePtr& value) {
  PyObject* object = constant_object(value);
  if (!object || !PyLong_CheckExact(object) || as_sym(value)) return false;
  PyLong_AsUnsignedLongLong(object);
  const bool fits = !PyErr_Occurred();
  PyErr_Clear();
  return fits;
}

// The upper half of uint64 is the lower one of int64, converted.
Value* upper_uint64(Executor& ex, const ValuePtr& value) {
  const auto bits = static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(constant_object(value)));
  return append_call1(
      ex, "core.cast",
      {append_call1(ex, "core.full", {std::vector<Sym>{}, Sym(bits), DType::kI64}), DType::kU64});
}

Value* numpy_graph_value(Executor& ex, const ValuePtr& value) {
  if (Value* held = graph_value(value)) return held;
  if (Value* number = graph_value_of_number(ex, value)) return number;
  PyObject* object = constant_object(value);
  return object && numpy_access::is_scalar(object) ? scalar_constant(ex, object) : nullptr;
}

bool is_numpy_scalar_constant(const ValuePtr& value) {
  if (dynamic_cast<NumpyNumberValue*>(value.get())) return true;
  PyObject* object = constant_object(value);
  return object && numpy_access::is_scalar(object);
}

bool numpy_dtype_like(PyObject* object, DType* dtype) {
  if (!numpy_is_loaded()) return false;
  if (dtype_of_numpy_object(object, dtype)) return true;
  if (!PyUnicode_Check(object) && !is_numpy_scalar_type(object) &&
      object != reinterpret_cast<PyObject*>(&PyFloat_Type) &&
      object != reinterpret_cast<PyObject*>(&PyLong_Type) &&
      object != reinterpret_cast<PyObject*>(&PyBool_Type))
    return false;
  PyRef made = PyRef::steal(PyObject_CallOneArg(library_object("numpy", "dtype"), object));
  if (!made) return PyErr_Clear(), false;
  return dtype_of_numpy_object(made.get(), dtype);
}

ValuePtr wrap_scalar_type(Executor& ex, PyObject* object, const SourcePtr& source) {
  DType dtype;
  const bool is_real = numpy_dtype_like(object, &dtype);
  if (!is_real && object != library_object("numpy", "complex64") &&
      object != library_object("numpy", "complex128"))
    return nullptr;
  add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<ScalarTypeValue>(PyRef::borrow(object),
                                           is_real ? std::optional(dtype) : std::nullopt, source);
}

}  // namespace cdynamo::symbolic
