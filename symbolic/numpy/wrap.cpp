// Values for NumPy's arrays, scalars and dtypes: what capture asks for (capture/value_factories.h).
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/number.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/numpy/random_generator.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::DType;
using graph::Sym;

std::shared_ptr<ArrayValue> make_array_input(graph::Value* value, const SourcePtr& source, PyObject*) {
  return std::make_shared<NumpyValue>(value, false, source);
}

namespace {

// An integer that changes from call to call is a symbol, as Python's are. Null: it is a constant.
ValuePtr wrap_numpy_integer(Executor& ex, PyObject* object, const SourcePtr& source) {
  DType dtype;
  if (!ex.state().request.is_native || !is_numpy_integer(object, &dtype) || dtype == DType::kU64)
    return nullptr;
  const int64_t number = PyLong_AsLongLong(object);
  if (number == -1 && PyErr_Occurred()) throw PythonError{};
  const Sym symbol = ex.size_symbol(source, -1, number);
  if (symbol.is_constant()) return nullptr;
  guard_exact_type(ex, object, source);
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  add_guard(ex, GuardKind::kDynamicInt, source, type, symbol.node()->symbol);
  use_framework(ex, graph::Framework::kNumpy);
  return std::make_shared<NumpyNumberValue>(make_int(ex, symbol), dtype, source);
}

}  // namespace

ValuePtr wrap_numpy_array(Executor& ex, PyObject* object, const SourcePtr& source) {
  SourcePtr from = source ? source : constant_source(object);
  if (ValuePtr complex = wrap_complex_array(ex, object, from)) return complex;
  TensorInfo info;
  read_tensor(object, &info);
  if (!info.obstacle.empty()) return make_opaque_tensor(ex, object, info.obstacle, from);
  return wrap_array_input(ex, object, from, make_array_input);
}

ValuePtr wrap_numpy_object(Executor& ex, PyObject* object, const SourcePtr& source) {
  const numpy_access::Api* api = numpy_access::api();
  if (!api) return nullptr;
  if (ValuePtr generator = wrap_numpy_generator(ex, object, source)) return generator;
  const bool scalar = numpy_access::is_scalar(object);
  DType dtype;
  if (!scalar && !dtype_of_numpy_object(object, &dtype) && !is_complex_dtype_object(object)) return nullptr;
  if (ValuePtr number = wrap_numpy_integer(ex, object, source)) return number;
  // A float that changes from call to call is an input, as Python's are; so is a uint64, for which symbols are too small.
  graph::TensorType type;
  const bool is_input = is_numpy_real(object, &type.dtype) ||
                        (is_numpy_integer(object, &type.dtype) && type.dtype == DType::kU64);
  if (is_input && ex.is_dynamic(source)) {
    guard_exact_type(ex, object, source);
    use_framework(ex, graph::Framework::kNumpy);
    const InputKind kind = type.dtype == DType::kF64 ? InputKind::kFloat : InputKind::kNumpyScalar;
    return std::make_shared<NumpyValue>(ex.add_input(kind, source, type), true, source);
  }
  // 0.0 and -0.0 are equal and different.
  const bool zero = scalar && !is_numpy_integer(object) && PyObject_IsTrue(object) == 0;
  PyErr_Clear();
  add_guard(ex, zero ? GuardKind::kIdentity : GuardKind::kEquals, source, object);
  return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
}

}  // namespace cdynamo::symbolic
