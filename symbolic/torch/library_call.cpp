#include "symbolic/torch/library_call.h"

#include <algorithm>

#include "graph/core.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/user_call.h"
#include "symbolic/torch/library_numbers.h"
#include "symbolic/torch/return_type.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

int next_id() {
  static int last = 0;
  return last += 1 << graph::kMostLibraryResults;
}

// ---- capture

PyRef constant_sizes(const std::vector<graph::Sym>& sizes) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant()) break_graph("CD0405", "an operand's sizes change from call to call");
    PyTuple_SET_ITEM(tuple.get(), d, checked(PyLong_FromLongLong(sizes[d].constant())).release());
  }
  return tuple;
}

PyRef type_tuple(const graph::TensorType& type) {
  PyObject* dtype = torch_dtype_object(type.dtype);
  if (type.weak || !dtype) break_graph("CD0405", "an operand is no plain tensor");
  return checked(PyTuple_Pack(4, dtype, constant_sizes(type.sizes).get(), constant_sizes(type.strides).get(),
                              torch_device_object(type.device).get()));
}

// The graph values in a record's argument, in order (user_call.h has the form).
void collect_values(Executor& ex, PyObject* encoded, PyObject* types, std::vector<graph::Value*>& values) {
  const char* tag = PyUnicode_AsUTF8(PyTuple_GET_ITEM(encoded, 0));
  PyObject* content = PyTuple_GET_ITEM(encoded, 1);
  if (std::string_view(tag) == "value") {
    if (PyDict_GetItemWithError(types, content)) return;
    graph::Value* value = ex.graph().value(static_cast<int>(PyLong_AsLong(content)));
    if (PyDict_SetItem(types, content, type_tuple(value->type).get()) < 0) throw PythonError{};
    values.push_back(value);
  } else if ((std::string_view(tag) == "tuple" || std::string_view(tag) == "list") && PyList_Check(content)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
      collect_values(ex, PyList_GET_ITEM(content, i), types, values);
  }
}

std::vector<graph::Value*> values_of_record(Executor& ex, PyObject* record, PyObject* types) {
  std::vector<graph::Value*> values;
  PyObject* args = PyTuple_GET_ITEM(record, 2);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    collect_values(ex, PyTuple_GET_ITEM(args, i), types, values);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(PyTuple_GET_ITEM(record, 3), &at, &key, &value);)
    collect_values(ex, value, types, values);
  return values;
}

std::vector<graph::Sym> read_sizes(PyObject* tuple) {
  std::vector<graph::Sym> sizes;
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(tuple); ++d)
    sizes.emplace_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, d)));
  return sizes;
}

// Results are where the operands are (_library.py sees to it), or where a call without operands says.
graph::Device read_device(PyObject* object) {
  const std::string type = text_attribute(object, "type");
  if (type == "cpu") return {};
  return {runtime::DeviceType::kCUDA, static_cast<int8_t>(integer_attribute(object, "index"))};
}

graph::TensorType read_type(PyObject* tuple) {
  graph::TensorType type;
  type.device = read_device(PyTuple_GET_ITEM(tuple, 3));
  if (!dtype_of_torch_object(PyTuple_GET_ITEM(tuple, 0), &type.dtype))
    break_graph("CD0405", "a result is of a dtype that is not captured");
  type.sizes = read_sizes(PyTuple_GET_ITEM(tuple, 1));
  type.strides = read_sizes(PyTuple_GET_ITEM(tuple, 2));
  return type;
}

std::vector<graph::TensorType> result_types(PyObject* call) {
  PyRef list = checked(PyObject_GetAttrString(call, "types"));
  std::vector<graph::TensorType> types;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    types.push_back(read_type(PyList_GET_ITEM(list.get(), i)));
  return types;
}

// `tree`: as _library._tree_of makes it.
ValuePtr wrap_tree(Executor& ex, PyObject* tree, const std::vector<graph::Value*>& results) {
  PyObject *tag = PyTuple_GET_ITEM(tree, 0), *content = PyTuple_GET_ITEM(tree, 1);
  if (content == Py_None) return ex.none();
  if (PyLong_Check(content)) return make_tensor(ex, results.at(PyLong_AsSize_t(content)));
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
    items.push_back(wrap_tree(ex, PyList_GET_ITEM(content, i), results));
  auto* type = reinterpret_cast<PyTypeObject*>(tag);
  if (type == &PyTuple_Type) return make_tuple(ex, std::move(items));
  if (type == &PyList_Type) return make_list(ex, std::move(items));
  return std::make_shared<ReturnTypeValue>(type, std::move(items));
}

// ---- running

// None for what is absent. Over what has no elements there is no memory: it is a tensor of PyTorch's own.
PyRef tensor_over(const runtime::TensorView& view) {
  if (!view.data) return PyRef::borrow(Py_None);
  if (std::find(view.sizes, view.sizes + view.rank, 0) != view.sizes + view.rank) {
    void* data = nullptr;
    return make_torch_tensor(view.dtype, view.device, view.sizes, view.strides, view.rank, &data);
  }
  const torch_access::Api* api = torch_access::api();
  torch_access::TensorHandle tensor = nullptr;
  const int32_t dtype = torch_access::kScalarTypes[static_cast<int>(view.dtype)];
  const bool cuda = view.device.type == runtime::DeviceType::kCUDA;
  if (!api || !api->tensor_from_memory ||
      api->tensor_from_memory(view.data, view.rank, view.sizes, view.strides, 0, dtype,
                              cuda ? torch_access::kCuda : torch_access::kCpu, cuda ? view.device.index : -1,
                              &tensor, 0, nullptr, 0) != 0) {
    PyErr_SetString(PyExc_RuntimeError, "torch cannot make a tensor over given memory");
    return {};
  }
  PyRef object = PyRef::steal(api->wrap(tensor));
  api->delete_tensor(tensor);
  return object;
}

PyRef tuple_of(const int64_t* numbers, int count) {
  PyRef tuple = PyRef::steal(PyTuple_New(count));
  for (int i = 0; tuple && i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (!number) return {};
    PyTuple_SET_ITEM(tuple.get(), i, number);
  }
  return tuple;
}

// What a tensor that the call brings has to be like: dtype, sizes, strides, device.
PyRef type_of(const runtime::TensorView& view) {
  const PyRef sizes = tuple_of(view.sizes, view.rank), strides = tuple_of(view.strides, view.rank),
              device = torch_device_object(view.device);
  if (!sizes || !strides || !device) return {};
  return PyRef::steal(
      PyTuple_Pack(4, torch_dtype_object(view.dtype), sizes.get(), strides.get(), device.get()));
}

void free_object(void* object) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(object));
  PyGILState_Release(gil);
}

// `brought`: null, or by tensor.
PyRef tensors_over(const runtime::TensorView* views, int count,
                   runtime::BroughtMemory* const* brought = nullptr) {
  PyRef list = PyRef::steal(PyList_New(count));
  for (int i = 0; list && i < count; ++i) {
    PyRef tensor = brought && brought[i] ? type_of(views[i]) : tensor_over(views[i]);
    if (!tensor) return {};
    PyList_SET_ITEM(list.get(), i, tensor.release());
  }
  return list;
}

}  // namespace

// cdynamo._attention.Attention.native: kernel, is_causal, scale, gives_logsumexp.
static std::optional<runtime::FusedAttention> attention_of(PyObject* call) {
  const PyRef native = PyRef::steal(PyObject_GetAttrString(call, "native"));
  PyErr_Clear();
  if (!native || !PyTuple_Check(native.get())) return std::nullopt;
  const auto item = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(native.get(), i); };
  return runtime::FusedAttention{
      .kernel = static_cast<runtime::FusedAttention::Kernel>(PyLong_AsLong(item(0))),
      .is_causal = item(1) == Py_True,
      .gives_logsumexp = item(3) == Py_True,
      .scale = PyFloat_AsDouble(item(2)),
      .settings = runtime::FusedAttention::current_settings()};
}

LibraryCall::LibraryCall(PyRef call)
    : id(next_id()),
      object(std::move(call)),
      attention(attention_of(object.get())),
      differentiable(integer_attribute(object.get(), "differentiable")) {}

bool LibraryCall::is_stale() const {
  PyRef stale = PyRef::steal(PyObject_GetAttrString(object.get(), "stale"));
  PyErr_Clear();
  return stale.get() == Py_True;
}

constexpr int64_t kNumbers = int64_t{1} << graph::kMostLibraryResults;  // of one call and its derivatives

LibraryCalls::LibraryCalls(const std::vector<std::shared_ptr<LibraryCall>>& calls) {
  for (const std::shared_ptr<LibraryCall>& call : calls) calls_.emplace(call->id, call);
}

PyObject* LibraryCalls::find(int64_t number) const {
  const auto found = calls_.find(number / kNumbers * kNumbers);
  if (found == calls_.end()) throw graph::InternalError("a graph names a library call that it does not hold");
  return found->second->object.get();
}

bool LibraryCalls::run_native(int64_t number, const runtime::TensorView* inputs, int num_inputs,
                              int num_outputs, runtime::BroughtMemory* const* brought) const {
  const auto found = calls_.find(number / kNumbers * kNumbers);
  if (found == calls_.end() || !found->second->attention) return false;
  const runtime::LibraryArgs args{.operands = inputs,
                                  .num_inputs = num_inputs,
                                  .num_operands = num_inputs + num_outputs,
                                  .brought = brought};
  return number % kNumbers == 0 ? torch_fused_attention(*found->second->attention, args)
                                : torch_fused_attention_backward(*found->second->attention, args);
}

bool LibraryCalls::run(int64_t number, const runtime::TensorView* inputs, int num_inputs,
                       const runtime::TensorView* outputs, int num_outputs,
                       runtime::BroughtMemory* const* brought) const {
  const auto found = calls_.find(number / kNumbers * kNumbers);
  if (found == calls_.end()) {
    PyErr_SetString(PyExc_RuntimeError,
                    "cdynamo: a compiled graph names a library call that it does not hold");
    return false;
  }
  const PyRef call = found->second->object;
  const PyRef from = tensors_over(inputs, num_inputs), to = tensors_over(outputs, num_outputs, brought);
  if (!from || !to) return false;
  const PyRef given = PyRef::steal(PyObject_CallMethod(
      call.get(), "run", "LOO", static_cast<long long>(number % kNumbers), from.get(), to.get()));
  if (!given) return false;
  const torch_access::Api* api = torch_access::api();
  for (int i = 0; brought && i < num_outputs; ++i) {
    if (!brought[i]) continue;
    PyObject* tensor = PyList_GetItem(given.get(), i);
    void* data = nullptr;
    if (!tensor || api->get_data_ptr(torch_access::handle(tensor), &data) != 0) return false;
    *brought[i] =
        runtime::BroughtMemory(data, Py_NewRef(tensor), runtime::BroughtMemory::kObject, free_object);
  }
  return true;
}

namespace {

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

}  // namespace

ValuePtr call_library(Executor& ex, const CallArgs& args) {
  const FrameworkRules rules(ex, graph::Framework::kTorch);
  const TensorCapture& capture = torch_capture(ex);
  const torch_access::Api* api = torch_access::api();
  if (!capture.autocast.known || capture.autocast.enabled()) break_graph("CD0405", "called under autocast");
  if (!api || !api->tensor_from_memory) break_graph("CD0405", "this PyTorch gives no way to call it");
  const auto [record, numbers] = record_of_call(ex, args);
  PyRef types = checked(PyDict_New());
  std::vector<graph::Value*> operands = values_of_record(ex, record.get(), types.get());
  for (const graph::Value* operand : operands)
    if (const auto object = capture.objects.find(operand);
        object != capture.objects.end() && !is_tensor(object->second))
      break_graph("CD0409", object->second->describe() + " as an argument of PyTorch's");
  PyObject* describe = find_python_side(PythonSide::kDescribeLibraryCall);
  if (!describe) {  // what it imports of PyTorch's is not there in this version
    PyErr_Clear();
    break_graph("CD0405", "this PyTorch gives no way to call it");
  }
  PyRef call =
      checked(PyObject_CallFunctionObjArgs(describe, record.get(), types.get(), numbers.get(), nullptr));
  if (PyUnicode_Check(call.get())) break_graph("CD0405", PyUnicode_AsUTF8(call.get()));
  std::vector<graph::TensorType> found = result_types(call.get());
  PyRef tree = checked(PyObject_GetAttrString(call.get(), "tree"));
  const std::string name = text_attribute(call.get(), "name"),
                    attributes = text_attribute(call.get(), "attributes");
  auto held = std::make_shared<LibraryCall>(call);
  const std::vector<graph::Value*> results = append_library_call(
      ex, std::move(operands), name, attributes, held->id, held->differentiable, std::move(found));
  ex.add_library_call(std::move(held));
  return wrap_tree(ex, tree.get(), results);
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
