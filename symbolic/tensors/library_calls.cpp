#include "symbolic/tensors/library_calls.h"

#include <algorithm>

#include "graph/core.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {
namespace {

int next_id() {
  static int last = 0;
  return last += 1 << graph::kMostLibraryResults;
}

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

PyRef arrays_over(const runtime::TensorView* views, int count, runtime::BroughtMemory* const* brought) {
  PyRef list = PyRef::steal(PyList_New(count));
  for (int i = 0; list && i < count; ++i) {
    if (brought && brought[i]) PyErr_SetString(PyExc_RuntimeError, "NumPy brings no memory");
    PyRef array = brought && brought[i] ? PyRef() : array_over(views[i]);
    if (!array) return {};
    PyList_SET_ITEM(list.get(), i, array.release());
  }
  return list;
}

}  // namespace

// A flag that an object need not have.
static bool is_true(PyObject* object, const char* name) {
  const PyRef flag = PyRef::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return flag.get() == Py_True;
}

// cdynamo._library.attention.Attention.native: kernel, is_causal, scale, gives_logsumexp.
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

std::vector<graph::Sym> read_sizes(PyObject* tuple) {
  std::vector<graph::Sym> sizes;
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(tuple); ++d)
    sizes.emplace_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, d)));
  return sizes;
}

// Of a call that need not say any.
static std::vector<graph::Sym> gradient_strides_of(PyObject* call) {
  const PyRef strides = PyRef::steal(PyObject_GetAttrString(call, "gradient_strides"));
  PyErr_Clear();
  return strides && PyTuple_Check(strides.get()) ? read_sizes(strides.get()) : std::vector<graph::Sym>();
}

LibraryCall::LibraryCall(PyRef call)
    : id(next_id()),
      object(std::move(call)),
      attention(attention_of(object.get())),
      differentiable(integer_attribute(object.get(), "differentiable")),
      gradient_strides(gradient_strides_of(object.get())),
      takes_arrays(is_true(object.get(), "takes_arrays")),
      numpy(NumpyCall::of(object.get())) {}

bool LibraryCall::is_stale() const { return is_true(object.get(), "stale"); }

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
  if (found->second->numpy) {
    const NumpyCall::Outcome outcome = found->second->numpy->run({inputs, static_cast<size_t>(num_inputs)},
                                                                 {outputs, static_cast<size_t>(num_outputs)});
    if (outcome != NumpyCall::Outcome::kOther) return outcome == NumpyCall::Outcome::kWritten;
  }
  const PyRef call = found->second->object;
  const bool of_arrays = found->second->takes_arrays;
  const PyRef from = of_arrays ? arrays_over(inputs, num_inputs, nullptr) : tensors_over(inputs, num_inputs),
              to = of_arrays ? arrays_over(outputs, num_outputs, brought)
                             : tensors_over(outputs, num_outputs, brought);
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

}  // namespace cdynamo::symbolic
