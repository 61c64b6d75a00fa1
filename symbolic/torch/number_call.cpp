// Functions of Python's on numbers that the graph reads from tensors, where it has no operator that does all that Python does
// (raises, has ints of any size): math.log(loss.item()), round(x.item(), 2), n ** 2. Python computes them while the graph runs:
// nodes as PyTorch's own operators have (library_call.h), of python/cdynamo/_library/numbers.py.
#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Value;

bool is_float_value(const ValuePtr& value) { return PyType_IsSubtype(value->type(), &PyFloat_Type); }

// What the function gives; null: no number, or one whose type depends on what the operands are.
PyTypeObject* type_of_result(PyObject* function, const std::vector<ValuePtr>& operands) {
  if (PyType_Check(function)) return reinterpret_cast<PyTypeObject*>(function);
  const auto* definition = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = definition->m_ml->ml_name;
  const bool any_float = std::ranges::any_of(operands, is_float_value);
  if (function == library_object("builtins", "round"))
    return operands.size() == 1 || !is_float_value(operands[0]) ? &PyLong_Type : &PyFloat_Type;
  if (PyUnicode_CompareWithASCIIString(definition->m_module, "math") != 0) {
    for (const char* compares : {"lt", "le", "eq", "ne", "gt", "ge"})
      if (name == compares) return &PyBool_Type;
    return any_float || name == "truediv" ? &PyFloat_Type : &PyLong_Type;
  }
  for (const char* whole : {"ceil", "floor", "trunc", "gcd", "lcm", "isqrt"})
    if (name == whole) return &PyLong_Type;
  for (const char* asks : {"isnan", "isinf", "isfinite", "isclose"})
    if (name == asks) return &PyBool_Type;
  for (const char* pair : {"frexp", "modf"})
    if (name == pair) return nullptr;
  return &PyFloat_Type;
}

bool is_known_number(const ValuePtr& operand) {
  PyObject* constant = constant_object(operand);
  return constant && (PyFloat_CheckExact(constant) || PyLong_CheckExact(constant));
}

ValuePtr result_value(Executor& ex, Value* result) {
  if (result->type.dtype == DType::kBool) return make_data_bool(ex, result);
  if (result->type.dtype == DType::kI64) return make_int(ex, read_data_symbol(ex, result, -kLargestSymbol));
  result->type.weak = true;
  return std::make_shared<DynamicFloatValue>(result);
}

}  // namespace

ValuePtr number_when_run(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands) {
  const Executor::State& state = ex.state();
  const torch_access::Api* api = torch_access::api();
  if (ex.graph().framework != graph::Framework::kTorch || !api || !api->tensor_from_memory) return nullptr;
  if (!state.request.reads_data || ex.isolated_region() || state.branches) return nullptr;
  PyTypeObject* type = type_of_result(function, operands);
  PyObject* make = type ? find_python_side(PythonSide::kNumberCall) : nullptr;
  if (!make) return nullptr;
  PyRef given = checked(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_known = is_known_number(operands[i]);
    if (!is_known && !dynamic_cast<SymIntValue*>(operands[i].get()) &&
        !dynamic_cast<DynamicFloatValue*>(operands[i].get()))
      return nullptr;
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(is_known ? constant_object(operands[i]) : Py_None));
  }
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  return recorded_call(ex, "call_function", PyRef::borrow(function), positional(operands), [&] {
    const WithoutGradient no_gradient(ex);
    std::vector<Value*> numbers;
    for (const ValuePtr& operand : operands)
      if (Value* number = is_known_number(operand) ? nullptr : graph_number(ex, operand))
        numbers.push_back(number);
    PyRef call = checked(PyObject_CallFunctionObjArgs(make, function, given.get(), type, nullptr));
    auto held = std::make_shared<LibraryCall>(call);
    graph::TensorType result;
    result.dtype = type == &PyFloat_Type ? DType::kF64 : type == &PyBool_Type ? DType::kBool : DType::kI64;
    const PyRef name = checked(PyObject_GetAttrString(call.get(), "name"));
    const std::vector<Value*> results =
        append_library_call(ex, std::move(numbers), PyUnicode_AsUTF8(name.get()), "", *held, {result});
    ex.add_library_call(std::move(held));
    return result_value(ex, results.at(0));
  });
}

}  // namespace cdynamo::symbolic
