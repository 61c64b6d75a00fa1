#include "symbolic/interop/complex_access.h"

#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {

PyRef real_view(PyObject* object) {
  constexpr int32_t kComplex64 = 9, kComplex128 = 10;  // c10::ScalarType
  const torch_access::Api* api = torch_is_loaded() ? torch_access::api() : nullptr;
  if (!api || (Py_TYPE(object) != api->tensor_type && Py_TYPE(object) != api->parameter_type)) return {};
  int32_t dtype = -1;
  if (api->get_dtype(torch_access::handle(object), &dtype) || (dtype != kComplex64 && dtype != kComplex128))
    return {};
  PyObject* view = library_object("torch", "view_as_real");
  PyRef result = view ? PyRef::steal(PyObject_CallOneArg(view, object)) : PyRef();
  PyErr_Clear();
  return result;
}

}  // namespace cdynamo::symbolic
