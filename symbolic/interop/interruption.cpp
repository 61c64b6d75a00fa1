#include "symbolic/interop/interruption.h"

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {
namespace {

PyObject* g_interruption = nullptr;  // owned; with the GIL held

}  // namespace

void interrupt_later() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const PyRef old_type = PyRef::steal(type), old_traceback = PyRef::steal(traceback),
              replaced = PyRef::steal(std::exchange(g_interruption, value));
}

bool raise_interruption() {
  if (!g_interruption) return false;
  const PyRef exception = PyRef::steal(std::exchange(g_interruption, nullptr));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return true;
}

}  // namespace cdynamo::symbolic
