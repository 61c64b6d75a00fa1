#include "symbolic/interop/generator_handle.h"

#include "runtime/library/torch_shim.h"
#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {

void* generator_handle(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (reinterpret_cast<PyObject*>(type) != library_object("torch", "Generator")) return nullptr;
  // THPGenerator (torch/csrc/Generator.h): the head of an object, an at::Generator, and perhaps a list of weak references.
  constexpr Py_ssize_t kHead = sizeof(PyObject), kPointer = sizeof(void*);
  if (type->tp_basicsize < kHead + kPointer || type->tp_basicsize > kHead + 2 * kPointer) return nullptr;
  static const bool takes_generators = runtime::torch_takes_generators();
  if (!takes_generators) return nullptr;
  return reinterpret_cast<char*>(object) + kHead;
}

}  // namespace cdynamo::symbolic
