#include "symbolic/torch/library_call.h"

#include <algorithm>

#include "graph/core.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/library_sizes.h"
#include "symbolic/tensors/user_call.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/library_numbers.h"
#include "symbolic/torch/return_type.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

PyRef type_tuple(const graph::TensorType& type, const PyRef& sizes, const PyRef& layout) {
  PyObject* dtype = torch_dtype_object(type.dtype);
  if (type.weak || !dtype) break_graph("CD0405", "an operand is no plain tensor");
  return checked(PyTuple_Pack(4, dtype, sizes.get(), layout.get(), torch_device_object(type.device).get()));
}

// By the number of the value: dtype, sizes, strides and device; where sizes change, the forms of both.
PyRef types_of(Executor& ex, const std::vector<graph::Value*>& values, const OperandSizes& changing) {
  PyRef types = checked(PyDict_New());
  for (size_t i = 0; i < values.size(); ++i) {
    const graph::TensorType& type = values[i]->type;
    const PyRef id = checked(PyLong_FromLong(values[i]->id));
    const PyRef tuple =
        changing.are_known()
            ? type_tuple(type, constant_extents(ex, type.sizes), constant_extents(ex, type.strides))
            : type_tuple(type, changing.forms()[i].first, changing.forms()[i].second);
    if (PyDict_SetItem(types.get(), id.get(), tuple.get()) < 0) throw PythonError{};
  }
  return types;
}

// The graph values in a record's argument, in order (user_call.h has the form).
void collect_values(Executor& ex, PyObject* encoded, std::vector<graph::Value*>& values) {
  const char* tag = PyUnicode_AsUTF8(PyTuple_GET_ITEM(encoded, 0));
  PyObject* content = PyTuple_GET_ITEM(encoded, 1);
  if (std::string_view(tag) == "value") {
    graph::Value* value = ex.graph().value(static_cast<int>(PyLong_AsLong(content)));
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  } else if ((std::string_view(tag) == "tuple" || std::string_view(tag) == "list") && PyList_Check(content)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
      collect_values(ex, PyList_GET_ITEM(content, i), values);
  }
}

std::vector<graph::Value*> values_of_record(Executor& ex, PyObject* record) {
  std::vector<graph::Value*> values;
  PyObject* args = PyTuple_GET_ITEM(record, 2);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    collect_values(ex, PyTuple_GET_ITEM(args, i), values);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(PyTuple_GET_ITEM(record, 3), &at, &key, &value);)
    collect_values(ex, value, values);
  return values;
}

// Results are where the operands are (_library/call.py sees to it), or where a call without operands says.
graph::Device read_device(PyObject* object) {
  const std::string type = text_attribute(object, "type");
  if (type == "cpu") return {};
  return {runtime::DeviceType::kCUDA, static_cast<int8_t>(integer_attribute(object, "index"))};
}

graph::TensorType read_type(PyObject* tuple, const OperandSizes& changing) {
  graph::TensorType type;
  type.device = read_device(PyTuple_GET_ITEM(tuple, 3));
  PyObject* dtype = PyTuple_GET_ITEM(tuple, 0);
  constexpr const char* kObstacle = "a result is of a dtype that is not captured";
  if (dtype == library_object("torch", "complex64") || dtype == library_object("torch", "complex128"))
    throw ComplexResult{{break_record("CD0405", kObstacle), {}}};
  if (!dtype_of_torch_object(dtype, &type.dtype)) break_graph("CD0405", kObstacle);
  PyObject *sizes = PyTuple_GET_ITEM(tuple, 1), *layout = PyTuple_GET_ITEM(tuple, 2);
  if (!changing.are_known()) return changing.read(sizes, layout, type), type;
  type.sizes = read_sizes(sizes);
  type.strides = read_sizes(layout);
  return type;
}

std::vector<graph::TensorType> result_types(PyObject* call, const OperandSizes& changing) {
  PyRef list = checked(PyObject_GetAttrString(call, "types"));
  std::vector<graph::TensorType> types;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    types.push_back(read_type(PyList_GET_ITEM(list.get(), i), changing));
  return types;
}

// `tree`: as tree_of in _library/tensors.py makes it; `written` are the arguments that are written to.
ValuePtr wrap_tree(Executor& ex, PyObject* tree, const std::vector<graph::Value*>& results,
                   const std::vector<ValuePtr>& written) {
  PyObject *tag = PyTuple_GET_ITEM(tree, 0), *content = PyTuple_GET_ITEM(tree, 1);
  if (content == Py_None) return ex.none();
  if (PyLong_Check(content)) {
    const size_t index = PyLong_AsSize_t(content);
    return PyUnicode_CompareWithASCIIString(tag, "written") == 0 ? written.at(index)
                                                                 : make_tensor(ex, results.at(index));
  }
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
    items.push_back(wrap_tree(ex, PyList_GET_ITEM(content, i), results, written));
  auto* type = reinterpret_cast<PyTypeObject*>(tag);
  if (type == &PyTuple_Type) return make_tuple(ex, std::move(items));
  if (type == &PyList_Type) return make_list(ex, std::move(items));
  return std::make_shared<ReturnTypeValue>(type, std::move(items));
}

// The call that is being recorded, as its node has it, and the types of the numbers among its operands. What is pinned is
// recorded so: a backend in Python is given the call.
std::pair<PyRef, PyRef> record_of_call(Executor& ex, const CallArgs& args) {
  PyObject* records = ex.user_calls();
  const Py_ssize_t last = PyList_GET_SIZE(records) - 1;
  PyRef record = PyRef::borrow(PyList_GET_ITEM(records, last));
  SettledNumbers numbers = settle_numbers(ex, args);
  if (numbers.changed) {
    const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(record.get(), 0));
    record = make_user_call(ex, kind, PyTuple_GET_ITEM(record.get(), 1), numbers.args);
    if (PyDict_GET_SIZE(numbers.types.get()) == 0 &&
        PyList_SetItem(records, last, Py_NewRef(record.get())) < 0)
      throw PythonError{};
  }
  return {std::move(record), std::move(numbers.types)};
}

// Of an operator that selects elements along `dim`: the values once more, gathered, so that their gradient needs the indices alone,
// where the derivative of the call would make it again.
graph::Value* gather_selected(Executor& ex, graph::Value* operand, graph::Value* indices, int64_t dim) {
  const graph::Sym along{dim};
  const bool is_kept = indices->type.rank() == operand->type.rank();
  if (!is_kept) indices = append_call1(ex, "unsqueeze", {indices, along});
  graph::Value* values = append_call1(ex, "gather", {operand, along, indices});
  return is_kept ? values : append_call1(ex, "select", {values, along, graph::Sym(int64_t{0})});
}

// The call as a node, where its operands' sizes are known or, where `changing` has those that change, for all of them. A string says
// why there is none.
PyRef described(Executor& ex, const PyRef& record, const PyRef& numbers,
                const std::vector<graph::Value*>& operands, const OperandSizes& changing) {
  PyObject* describe = find_python_side(PythonSide::kDescribeLibraryCall);
  if (!describe) {  // what it imports of PyTorch's is not there in this version
    PyErr_Clear();
    break_graph("CD0405", "this PyTorch gives no way to call it");
  }
  const PyRef types = types_of(ex, operands, changing),
              hints = changing.are_known() ? PyRef::borrow(Py_None) : changing.hints();
  return checked(
      PyObject_CallFunctionObjArgs(describe, record.get(), types.get(), numbers.get(), hints.get(), nullptr));
}

// The operands that an operator writes to: it is called on copies, so none may share memory with another operand.
std::vector<graph::Value*> written_operands(Executor& ex, PyObject* call,
                                            const std::vector<graph::Value*>& operands) {
  const auto& bases = tensor_capture(ex).base_of;
  const auto base = [&](const graph::Value* value) {
    const auto found = bases.find(value);
    return found == bases.end() ? value : found->second;
  };
  const PyRef list = checked(PyObject_GetAttrString(call, "writes"));
  std::vector<graph::Value*> written;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    graph::Value* operand = operands.at(PyLong_AsSize_t(PyList_GET_ITEM(list.get(), i)));
    for (const graph::Value* other : operands)
      if (other != operand && base(other) == base(operand))
        break_graph("CD0405", "it writes to an argument that shares memory with another one");
    if (operand->requires_grad && tensor_capture(ex).grad_mode)
      break_graph("CD0405", "it writes to an argument that requires a gradient");
    written.push_back(operand);
  }
  return written;
}

}  // namespace

ValuePtr call_library(Executor& ex, const CallArgs& args) {
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  const TensorCapture& capture = torch_capture(ex);
  const torch_access::Api* api = torch_access::api();
  if (!capture.autocast.known || capture.autocast.enabled()) break_graph("CD0405", "called under autocast");
  if (!api || !api->tensor_from_memory) break_graph("CD0405", "this PyTorch gives no way to call it");
  const auto [record, numbers] = record_of_call(ex, args);
  std::vector<graph::Value*> operands = values_of_record(ex, record.get());
  for (const graph::Value* operand : operands)
    if (const auto object = capture.objects.find(operand);
        object != capture.objects.end() && !is_tensor(object->second))
      break_graph("CD0409", object->second->describe() + " as an argument of PyTorch's");
  OperandSizes changing(ex, operands);
  PyRef call = described(ex, record, numbers, operands, changing);
  const bool wants_gradient =
      capture.grad_mode && std::ranges::any_of(operands, &graph::Value::requires_grad);
  const auto fits = [&] {
    return !PyUnicode_Check(call.get()) &&
           !(wants_gradient && integer_attribute(call.get(), "differentiable") == graph::kNoDerivative);
  };
  if (!changing.are_known() && !fits() && changing.take_equal_sizes(ex)) {
    changing = OperandSizes(ex, operands);
    call = described(ex, record, numbers, operands, changing);
  }
  if (!changing.are_known() && !fits()) {
    changing = OperandSizes();
    call = described(ex, record, numbers, operands, changing);
  }
  if (PyUnicode_Check(call.get())) break_graph("CD0405", PyUnicode_AsUTF8(call.get()));
  std::vector<graph::TensorType> found = result_types(call.get(), changing);
  PyRef tree = checked(PyObject_GetAttrString(call.get(), "tree"));
  const std::string name = text_attribute(call.get(), "name"),
                    attributes = text_attribute(call.get(), "attributes");
  const std::vector<graph::Value*> written = written_operands(ex, call.get(), operands);
  auto held = std::make_shared<LibraryCall>(call);
  PyRef dim = checked(PyObject_GetAttrString(call.get(), "selected_dim"));
  graph::Value* selected =
      dim.get() != Py_None && capture.grad_mode && operands.at(0)->requires_grad ? operands[0] : nullptr;
  if (selected) operands[0] = append_call1(ex, "detach", {selected});
  std::vector<graph::Value*> results =
      append_library_call(ex, std::move(operands), name, attributes, *held, std::move(found));
  ex.add_library_call(std::move(held));
  if (selected) results[0] = gather_selected(ex, selected, results.at(1), PyLong_AsLongLong(dim.get()));
  std::vector<ValuePtr> arguments;
  for (size_t i = 0; i < written.size(); ++i) {
    arguments.push_back(make_tensor(ex, written[i]));
    append_call1(ex, "copy", {written[i], results.at(results.size() - written.size() + i)},
                 /*in_place=*/true);
  }
  return wrap_tree(ex, tree.get(), results, arguments);
}

ValuePtr try_library(Executor& ex, const CallArgs& args) {
  try {
    return call_library(ex, args);
  } catch (const GraphBreak&) {
    return nullptr;
  }
}

ValuePtr call_library_after(Executor& ex, const GraphBreak& broken, const CallArgs& args) {
  const bool wants_constant = broken.record.id == "CD0406";
  const bool has_no_rule = broken.record.id == "CD0401" || broken.record.id == "CD0404" || wants_constant;
  if (ValuePtr result = has_no_rule ? try_library(ex, args) : nullptr) return result;
  throw broken;
}

bool may_be_library_operator(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = reinterpret_cast<PyCFunctionObject*>(callable)->m_self;
    PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
    if (self && PyType_Check(self))
      return std::string_view(reinterpret_cast<PyTypeObject*>(self)->tp_name)
          .ends_with("_VariableFunctionsClass");
    const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
    return name && std::string_view(name).starts_with("torch._C._");
  }
  const std::string_view type = Py_TYPE(callable)->tp_name;
  return ((type == "OpOverload" || type == "OpOverloadPacket") &&
          reinterpret_cast<PyObject*>(Py_TYPE(callable)) ==
              library_object("torch._ops", std::string(type).c_str())) ||
         (type == "CustomOpDef" && reinterpret_cast<PyObject*>(Py_TYPE(callable)) ==
                                       library_object("torch._library.custom_ops", "CustomOpDef"));
}

}  // namespace cdynamo::symbolic
