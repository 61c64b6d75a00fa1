#include "symbolic/interop/grad_mode.h"

#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/py_ref.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::symbolic {

bool grad_mode_is_enabled() { return read_torch_state().grad_mode(); }

static bool set_grad_mode(bool enabled) {
  PyObject* set = library_object("torch._C", "_set_grad_enabled");
  return set && PyRef::steal(PyObject_CallOneArg(set, enabled ? Py_True : Py_False));
}

WithGradMode::WithGradMode(bool enabled) : enabled_(enabled) {
  if (grad_mode_is_enabled() == enabled) return;
  changed_ = set_grad_mode(enabled);
  failed_ = !changed_;
}

WithGradMode::~WithGradMode() {
  if (!changed_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!set_grad_mode(!enabled_)) PyErr_WriteUnraisable(nullptr);
  PyErr_Restore(type, value, traceback);
}

}  // namespace cdynamo::symbolic
