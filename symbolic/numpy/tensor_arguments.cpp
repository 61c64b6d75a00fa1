// NumPy's functions with tensors among their arguments.
#include <algorithm>
#include <string_view>

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// These ask a tensor for its method, which refuses their keywords, and go on with an array (numpy._core.fromnumeric._wrapit).
constexpr std::string_view kWrapped[] = {"argmax", "argmin",    "argsort", "around", "clip",  "cumprod",
                                         "cumsum", "transpose", "reshape", "repeat", "round", "take"};
// Python, of which the first step makes arrays.
constexpr std::string_view kArrays[] = {
    "allclose",    "array",      "array_equal", "asanyarray", "asarray",      "ascontiguousarray",
    "atleast_1d",  "atleast_2d", "atleast_3d",  "average",    "broadcast_to", "column_stack",
    "copy",        "cov",        "diagonal",    "diff",       "dstack",       "empty_like",
    "expand_dims", "full_like",  "hstack",      "isclose",    "median",       "moveaxis",
    "norm",        "ones_like",  "outer",       "percentile", "quantile",     "ravel",
    "roll",        "sort",       "split",       "stack",      "tensordot",    "tile",
    "trace",       "triu",       "tril",        "unique",     "vstack",       "zeros_like"};

bool is_ufunc(PyObject* function) {
  return reinterpret_cast<PyObject*>(Py_TYPE(function)) == library_object("numpy", "ufunc");
}

// NumPy writes to `out` alone where it is given.
bool has_out(const CallArgs& args) {
  return std::ranges::any_of(args.keywords, [](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), "out") == 0 && !is_none(keyword.value);
  });
}

}  // namespace

ValuePtr wrapped_for_tensor(Executor& ex, const ValuePtr& result) {
  if (result->type() == &PyTuple_Type) {
    std::vector<ValuePtr> items = items_of(ex, result);
    for (ValuePtr& item : items) item = wrapped_for_tensor(ex, item);
    return make_tuple(ex, std::move(items));
  }
  auto* array = dynamic_cast<NumpyValue*>(result.get());
  if (!array) break_graph("CD0409", result->describe());
  ValuePtr given = result;
  if (array->array_type().dtype == graph::DType::kBool)
    given = call_method(ex, given, "astype", {ex.constant(numpy_dtype_object(graph::DType::kU8))});
  if (array->is_scalar()) {
    PyObject* as_array = library_object("numpy", "asarray");
    given = ex.wrap(as_array, constant_source(as_array))->call(ex, positional({given}));
  }
  return tensor_of_array(ex, given);
}

ValuePtr call_with_tensors(Executor& ex, PyObject* function, const CallArgs& args,
                           const std::function<ValuePtr(const CallArgs&)>& call) {
  PyRef name_object = PyRef::steal(PyObject_GetAttrString(function, "__name__"));
  PyErr_Clear();
  const char* text =
      name_object && PyUnicode_Check(name_object.get()) ? PyUnicode_AsUTF8(name_object.get()) : "";
  const std::string_view name = text;
  if (has_out(args)) break_graph("CD0409", "out= beside tensors");
  if (is_ufunc(function) || std::ranges::find(kWrapped, name) != std::end(kWrapped))
    return wrapped_for_tensor(ex, call(with_arrays(ex, args)));
  PyRef implementation = PyRef::steal(PyObject_GetAttrString(function, "_implementation"));
  PyErr_Clear();
  const bool is_python =
      PyFunction_Check(function) || (implementation && PyFunction_Check(implementation.get()));
  if (!is_python || std::ranges::find(kArrays, name) != std::end(kArrays)) return call(with_arrays(ex, args));
  return nullptr;
}

}  // namespace cdynamo::symbolic
