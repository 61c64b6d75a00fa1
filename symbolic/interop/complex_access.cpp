#include "symbolic/interop/complex_access.h"

#include "symbolic/interop/grad_mode.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {

namespace {

PyRef real_view_of_array(const numpy_access::Api& api, PyObject* object) {
  constexpr int kComplex64 = 14, kComplex128 = 15, kMostDims = 63;  // NPY_CFLOAT, NPY_CDOUBLE
  const numpy_access::Array& array = *numpy_access::array(object);
  const int number = array.descr->type_number;
  if ((number != kComplex64 && number != kComplex128) || array.descr->byteorder == '>' || api.major < 2 ||
      !(array.flags & numpy_access::kAligned) || array.rank > kMostDims)
    return {};
  const runtime::DType part = number == kComplex64 ? runtime::DType::kF32 : runtime::DType::kF64;
  const intptr_t width = runtime::bytes(part);
  intptr_t sizes[kMostDims + 1], strides[kMostDims + 1];
  for (int d = 0; d < array.rank; ++d) {
    if (array.strides[d] % (2 * width) != 0) return {};
    sizes[d] = array.sizes[d], strides[d] = array.strides[d];
  }
  sizes[array.rank] = 2, strides[array.rank] = width;
  PyRef view = PyRef::steal(api.new_from_descr(
      api.array_type, api.descr_from_type(numpy_access::kTypeNumbers[static_cast<int>(part)]), array.rank + 1,
      sizes, strides, array.data, numpy_access::kAligned | (array.flags & numpy_access::kWriteable),
      nullptr));
  if (view && api.set_base(view.get(), Py_NewRef(object)) != 0) view = {};
  PyErr_Clear();
  return view;
}

}  // namespace

PyRef real_view(PyObject* object) {
  if (const numpy_access::Api* numpy = numpy_access::api(); numpy && Py_TYPE(object) == numpy->array_type)
    return real_view_of_array(*numpy, object);
  constexpr int32_t kComplex64 = 9, kComplex128 = 10;  // c10::ScalarType
  const torch_access::Api* api = torch_is_loaded() ? torch_access::api() : nullptr;
  if (!api || (Py_TYPE(object) != api->tensor_type && Py_TYPE(object) != api->parameter_type)) return {};
  int32_t dtype = -1;
  if (api->get_dtype(torch_access::handle(object), &dtype) || (dtype != kComplex64 && dtype != kComplex128))
    return {};
  PyObject* view = library_object("torch", "view_as_real");
  // It is made before the graph runs: under no_grad what it is a view of could not be written to, once that is over.
  const WithGradMode with_history;
  PyRef result = view ? PyRef::steal(PyObject_CallOneArg(view, object)) : PyRef();
  PyErr_Clear();
  return result;
}

}  // namespace cdynamo::symbolic
