// A pointer that hangs in code objects: one of CPython's extra slots (PEP 523), whose functions 3.12 renamed.
//
//   static const CodeSlot slot([](void* pointer) { delete static_cast<Thing*>(pointer); });
//   slot.set(code, new Thing);
#pragma once

#include <Python.h>

namespace cdynamo::frame_eval {

class CodeSlot {
 public:
  // `free` gets what hangs in a code object that dies: null where nothing does, and another slot has something.
  explicit CodeSlot(freefunc free) : index_(request(free)) {}

  // Null: nothing hangs there.
  void* get(PyCodeObject* code) const {
    void* pointer = nullptr;
#if PY_VERSION_HEX >= 0x030c0000
    const int status = PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), index_, &pointer);
#else
    const int status = _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), index_, &pointer);
#endif
    if (status < 0) PyErr_Clear();
    return pointer;
  }

  // False with a Python error set.
  [[nodiscard]] bool set(PyCodeObject* code, void* pointer) const {
#if PY_VERSION_HEX >= 0x030c0000
    return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index_, pointer) == 0;
#else
    return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index_, pointer) == 0;
#endif
  }

 private:
  static Py_ssize_t request(freefunc free) {
#if PY_VERSION_HEX >= 0x030c0000
    return PyUnstable_Eval_RequestCodeExtraIndex(free);
#else
    return _PyEval_RequestCodeExtraIndex(free);
#endif
  }

  Py_ssize_t index_;
};

}  // namespace cdynamo::frame_eval
