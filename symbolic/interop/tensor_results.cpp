// New tensors, arrays, views and scalars, as tensor_access.h offers them.
#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/tensor_access.h"

#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {

using runtime::Device;
using runtime::DeviceType;
using runtime::DType;

namespace {

PyRef error(PyObject* type, const char* message) {
  PyErr_SetString(type, message);
  return {};
}

// c10::OutOfMemoryError
bool is_out_of_memory(const std::exception& e) {
  return std::string_view(e.what()).find("out of memory") != std::string_view::npos;
}

// The shim writes what went wrong to stderr and returns a code only.
PyRef wrap_and_release(const torch_access::Api& api, torch_access::TensorHandle tensor) {
  PyRef object = PyRef::steal(api.wrap(tensor));
  api.delete_tensor(tensor);
  return object;
}

// float16 and bfloat16 bits as a double.
double half_to_double(uint16_t bits, bool brain) {
  uint32_t wide;
  if (brain) {
    wide = static_cast<uint32_t>(bits) << 16;
  } else {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             mantissa = bits & 1023;
    if (exponent == 0) {
      double value = mantissa * 0x1p-24;
      return sign ? -value : value;
    }
    wide = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
  }
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <typename T>
T load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

PyRef wrap_torch_handle(const void* handle) {
  const torch_access::Api* api = torch_access::api();
  if (!api) return error(PyExc_RuntimeError, "torch is not loaded");
  return PyRef::steal(api->wrap(handle));
}

PyObject* device_memory_error() {
  PyObject* type = library_object("torch", "OutOfMemoryError");
  PyErr_Clear();
  return type ? type : PyExc_MemoryError;
}

static bool is_row_major(const int64_t* sizes, const int64_t* strides, int rank) {
  int64_t expected = 1;
  for (int d = rank; d-- > 0;) {
    if (strides[d] != expected) return false;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

PyRef make_torch_tensor(DType dtype, Device device, const int64_t* sizes, const int64_t* strides, int rank,
                        void** data) {
  const torch_access::Api* api = torch_access::api();
  if (!api) return error(PyExc_RuntimeError, "torch is not loaded");
  const int scalar_type = torch_access::kScalarTypes[static_cast<int>(dtype)];
  PyRef object;
  if (device.type == DeviceType::kCPU && api->empty_strided_cpu) {
    try {
      size_t count = static_cast<size_t>(rank);
      const auto type = static_cast<int8_t>(scalar_type);
      torch_access::OwnedTensor tensor =
          api->empty_cpu && is_row_major(sizes, strides, rank)
              ? api->empty_cpu({sizes, count}, type, false, {})
              : api->empty_strided_cpu({sizes, count}, {strides, count}, type, false);
      object = PyRef::steal(api->wrap_moved(tensor));
    } catch (const std::exception& e) {
      return error(PyExc_RuntimeError, e.what());
    }
  } else if (device.type == DeviceType::kCUDA && api->empty_strided_cuda) {
    try {
      const size_t count = static_cast<size_t>(rank);
      torch_access::OwnedTensor tensor =
          api->empty_strided_cuda({sizes, count}, {strides, count}, static_cast<int8_t>(scalar_type),
                                  {.type = torch_access::kCuda, .index = device.index, .has_value = true});
      object = PyRef::steal(api->wrap_moved(tensor));
    } catch (const std::exception& e) {
      return error(is_out_of_memory(e) ? device_memory_error() : PyExc_RuntimeError, e.what());
    }
  } else {
    torch_access::TensorHandle tensor = nullptr;
    int device_type = device.type == DeviceType::kCPU ? 0 : 1;
    if (api->empty_strided(rank, sizes, strides, scalar_type, device_type, device.index, &tensor))
      return error(PyExc_RuntimeError, "torch.empty_strided failed: out of memory");
    object = wrap_and_release(*api, tensor);
  }
  if (object && api->get_data_ptr(torch_access::handle(object.get()), data))
    return error(PyExc_RuntimeError, "a new tensor has no memory");
  return object;
}

PyRef make_numpy_array(DType dtype, const int64_t* sizes, const int64_t* strides, int rank, void** data) {
  const numpy_access::Api* api = numpy_access::api();
  if (!api) return error(PyExc_RuntimeError, "numpy is not loaded");
  const int number = numpy_access::kTypeNumbers[static_cast<int>(dtype)];
  if (number < 0) return error(PyExc_TypeError, "NumPy has no such dtype");
  if (rank > kMaxRank) return error(PyExc_ValueError, "an array of too many dims");
  intptr_t shape[kMaxRank], step[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    shape[d] = sizes[d];
    step[d] = strides[d] * runtime::bytes(dtype);
  }
  PyRef object = PyRef::steal(api->new_from_descr(api->array_type, api->descr_from_type(number), rank, shape,
                                                  step, nullptr, 0, nullptr));
  if (object) *data = numpy_access::array(object.get())->data;
  return object;
}

namespace {

PyRef numpy_view(PyObject* base, const int64_t* sizes, const int64_t* strides, int rank, int64_t offset,
                 std::optional<DType> as) {
  const numpy_access::Api& api = *numpy_access::api();
  numpy_access::Array* from = numpy_access::array(base);
  DType dtype;
  if (!numpy_access::dtype_of_descr(from->descr, &dtype))
    return error(PyExc_TypeError, "a view of an array of another dtype");
  dtype = as.value_or(dtype);
  const int64_t item = runtime::bytes(dtype);
  if (rank > kMaxRank) return error(PyExc_ValueError, "an array of too many dims");
  intptr_t shape[kMaxRank], step[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    shape[d] = sizes[d];
    step[d] = strides[d] * item;
  }
  numpy_access::Descr* descr = from->descr;
  if (as)
    descr = api.descr_from_type(numpy_access::kTypeNumbers[static_cast<int>(dtype)]);
  else
    Py_INCREF(descr);
  int flags = from->flags & (numpy_access::kAligned | numpy_access::kWriteable);
  PyRef view = PyRef::steal(api.new_from_descr(api.array_type, descr, rank, shape, step,
                                               from->data + offset * item, flags, nullptr));
  if (!view) return view;
  Py_INCREF(base);
  if (api.set_base(view.get(), base) < 0) return {};
  return view;
}

// What of the tensor's storage the view of elements of `dtype` looks at, as a row of those: PyTorch takes bytes for elements of another
// width along a contiguous dim that holds as many as there are of them.
PyRef typed_row(PyObject* base, const int64_t* sizes, const int64_t* strides, int rank, int64_t offset,
                DType dtype, int width) {
  static PyObject* const view = PyUnicode_InternFromString("view");
  const int64_t wanted = runtime::bytes(dtype);
  const bool is_empty = std::find(sizes, sizes + rank, 0) != sizes + rank;
  int64_t end = offset + 1;
  for (int d = 0; d < rank; ++d) end += (sizes[d] - 1) * strides[d];
  const int64_t count = is_empty ? 0 : (end * wanted + width - 1) / width, step = 1;
  const PyRef row = as_strided_view(base, &count, &step, 1, 0);
  return row ? PyRef::steal(PyObject_CallMethodOneArg(row.get(), view, torch_dtype_object(dtype))) : PyRef();
}

}  // namespace

PyRef as_strided_view(PyObject* base, const int64_t* sizes, const int64_t* strides, int rank, int64_t offset,
                      std::optional<DType> dtype) {
  if (tensor_kind(base) == TensorKind::kNumpy) return numpy_view(base, sizes, strides, rank, offset, dtype);
  const torch_access::Api* api = torch_access::api();
  if (!api) return error(PyExc_RuntimeError, "torch is not loaded");
  torch_access::TensorHandle h = torch_access::handle(base);
  if (dtype) {
    int32_t scalar_type = 0;
    DType own;
    if (api->get_dtype(h, &scalar_type) || !torch_access::dtype_of_scalar_type(scalar_type, &own))
      return error(PyExc_TypeError, "a view of a tensor of another dtype");
    const PyRef row = typed_row(base, sizes, strides, rank, offset, *dtype, runtime::bytes(own));
    return row ? as_strided_view(row.get(), sizes, strides, rank, offset) : PyRef();
  }
  int64_t base_offset = 0;
  if (api->get_storage_offset(h, &base_offset)) return error(PyExc_RuntimeError, "a tensor without storage");
  if (api->as_strided) {
    try {
      const torch_access::OptionalSize where{base_offset + offset, true};
      size_t count = static_cast<size_t>(rank);
      torch_access::OwnedTensor view = api->as_strided(h, {sizes, count}, {strides, count}, &where);
      return PyRef::steal(api->wrap_moved(view));
    } catch (const std::exception&) {
      // Raised again below, as Python sees it: this one's text is a report on C++.
    }
  }
  PyRef size_tuple = PyRef::steal(PyTuple_New(rank)), stride_tuple = PyRef::steal(PyTuple_New(rank));
  if (!size_tuple || !stride_tuple) return {};
  for (int d = 0; d < rank; ++d) {
    PyTuple_SET_ITEM(size_tuple.get(), d, PyLong_FromLongLong(sizes[d]));
    PyTuple_SET_ITEM(stride_tuple.get(), d, PyLong_FromLongLong(strides[d]));
  }
  return PyRef::steal(PyObject_CallMethod(base, "as_strided", "OOL", size_tuple.get(), stride_tuple.get(),
                                          static_cast<long long>(base_offset + offset)));
}

PyRef alias_with_history(PyObject* tensor) {
  static PyObject* const is_leaf = PyUnicode_InternFromString("is_leaf");
  static PyObject* const detach = PyUnicode_InternFromString("detach");
  const torch_access::Api* api = torch_access::api();
  if (!api || !api->set_gradient_edge || !Py_IS_TYPE(tensor, api->tensor_type) || !requires_grad(tensor))
    return PyRef::borrow(tensor);
  PyRef leaf = PyRef::steal(PyObject_GetAttr(tensor, is_leaf));
  if (!leaf && PyErr_ExceptionMatches(PyExc_RuntimeError)) PyErr_Clear();  // a view that was written to since
  if (!leaf || leaf.get() == Py_True) return PyErr_Occurred() ? PyRef() : PyRef::borrow(tensor);
  PyRef alias = PyRef::steal(PyObject_CallMethodNoArgs(tensor, detach));
  if (!alias) return {};
  try {
    torch_access::GradientEdge edge = api->gradient_edge(torch_access::handle(tensor));
    api->set_gradient_edge(torch_access::handle(alias.get()), edge);
  } catch (const std::exception&) {
    return PyRef::borrow(tensor);
  }
  return alias;
}

const void* autograd_node_of(PyObject* tensor) {
  const torch_access::Api* api = torch_access::api();
  if (!api || !api->engine_goes_along || tensor_kind(tensor) != TensorKind::kTorch) return nullptr;
  return api->node_behind(torch_access::handle(tensor));
}

bool engine_goes_along(const void* node, size_t edge) {
  return torch_access::api()->engine_goes_along(node, edge);
}

namespace {
using ScalarName = std::pair<std::string_view, DType>;

bool is_scalar_named(PyObject* object, std::span<const ScalarName> names, DType* dtype) {
  if (!numpy_access::is_scalar(object)) return false;
  const auto found = std::ranges::find(names, Py_TYPE(object)->tp_name, &ScalarName::first);
  if (found == names.end()) return false;
  if (dtype) *dtype = found->second;
  return true;
}
}  // namespace

bool is_numpy_number_type(PyTypeObject* type) {
  const numpy_access::Api* api = numpy_access::api();
  if (!api || !PyType_IsSubtype(type, api->generic_type)) return false;
  return std::ranges::any_of(numpy_access::kTypeNumbers, [&](int number) {
    return number >= 0 && api->descr_from_type(number)->scalar_type == type;
  });
}

bool is_numpy_real(PyObject* object, DType* dtype) {
  static constexpr ScalarName kReals[] = {
      {"numpy.float64", DType::kF64}, {"numpy.float32", DType::kF32}, {"numpy.float16", DType::kF16}};
  return is_scalar_named(object, kReals, dtype);
}

bool is_numpy_integer(PyObject* object, DType* dtype) {
  static constexpr ScalarName kIntegers[] = {{"numpy.int64", DType::kI64},  {"numpy.int32", DType::kI32},
                                             {"numpy.int16", DType::kI16},  {"numpy.int8", DType::kI8},
                                             {"numpy.uint64", DType::kU64}, {"numpy.uint32", DType::kU32},
                                             {"numpy.uint16", DType::kU16}, {"numpy.uint8", DType::kU8}};
  return is_scalar_named(object, kIntegers, dtype);
}

void read_numpy_scalar(PyObject* scalar, void* memory) {
  numpy_access::api()->scalar_as_ctype(scalar, memory);
}

PyRef make_numpy_scalar(DType dtype, const void* data) {
  const numpy_access::Api* api = numpy_access::api();
  const int number = numpy_access::kTypeNumbers[static_cast<int>(dtype)];
  if (!api || number < 0) return error(PyExc_TypeError, "NumPy has no such scalar");
  numpy_access::Descr* descr = api->descr_from_type(number);
  PyRef object = PyRef::steal(api->scalar(const_cast<void*>(data), descr, nullptr));
  Py_DECREF(descr);
  return object;
}

PyRef make_python_scalar(DType dtype, const void* data) {
  switch (dtype) {
    case DType::kBool: return PyRef::steal(PyBool_FromLong(load<uint8_t>(data) != 0));
    case DType::kU8: return PyRef::steal(PyLong_FromLong(load<uint8_t>(data)));
    case DType::kI8: return PyRef::steal(PyLong_FromLong(load<int8_t>(data)));
    case DType::kU16: return PyRef::steal(PyLong_FromLong(load<uint16_t>(data)));
    case DType::kI16: return PyRef::steal(PyLong_FromLong(load<int16_t>(data)));
    case DType::kU32: return PyRef::steal(PyLong_FromLong(load<uint32_t>(data)));
    case DType::kI32: return PyRef::steal(PyLong_FromLong(load<int32_t>(data)));
    case DType::kU64: return PyRef::steal(PyLong_FromUnsignedLongLong(load<uint64_t>(data)));
    case DType::kI64: return PyRef::steal(PyLong_FromLongLong(load<int64_t>(data)));
    case DType::kF16: return PyRef::steal(PyFloat_FromDouble(half_to_double(load<uint16_t>(data), false)));
    case DType::kBF16: return PyRef::steal(PyFloat_FromDouble(half_to_double(load<uint16_t>(data), true)));
    case DType::kF32: return PyRef::steal(PyFloat_FromDouble(load<float>(data)));
    case DType::kF64: return PyRef::steal(PyFloat_FromDouble(load<double>(data)));
  }
  return error(PyExc_TypeError, "unknown dtype");
}

void bump_version(PyObject* tensor) {
  if (tensor_kind(tensor) != TensorKind::kTorch) return;
  const torch_access::Api* api = torch_access::api();
  if (!api || torch_access::key_set(*api, tensor) == api->inference_keys) return;
  PyObject* increment = library_object("torch._C", "_increment_version");
  PyRef list = PyRef::steal(PyList_New(1));
  if (increment && list) {
    PyList_SET_ITEM(list.get(), 0, PyRef::borrow(tensor).release());
    PyRef done = PyRef::steal(PyObject_CallOneArg(increment, list.get()));
  }
  PyErr_Clear();
}

PyRef torch_device_object(Device device) {
  PyObject* make = library_object("torch", "device");
  return checked(device.type == DeviceType::kCPU
                     ? PyObject_CallFunction(make, "s", "cpu")
                     : PyObject_CallFunction(make, "si", "cuda", int{device.index}));
}

PyObject* torch_dtype_object(DType dtype) {
  const torch_access::Api* api = torch_access::api();
  return api ? api->dtypes[static_cast<int>(dtype)] : nullptr;
}

bool dtype_of_torch_object(PyObject* object, DType* dtype) {
  const torch_access::Api* api = torch_access::api();
  for (int i = 0; api && i < runtime::kNumDTypes; ++i)
    if (api->dtypes[i] == object) {
      *dtype = static_cast<DType>(i);
      return true;
    }
  return false;
}

PyRef numpy_dtype_object(DType dtype) {
  const numpy_access::Api* api = numpy_access::api();
  const int number = numpy_access::kTypeNumbers[static_cast<int>(dtype)];
  if (!api || number < 0) return {};
  return PyRef::steal(reinterpret_cast<PyObject*>(api->descr_from_type(number)));
}

bool dtype_of_numpy_object(PyObject* numpy_dtype, DType* dtype) {
  const numpy_access::Api* api = numpy_access::api();
  if (!api || !PyObject_TypeCheck(numpy_dtype, api->descr_type)) return false;
  return numpy_access::dtype_of_descr(reinterpret_cast<numpy_access::Descr*>(numpy_dtype), dtype);
}

}  // namespace cdynamo::symbolic
