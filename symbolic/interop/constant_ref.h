// ConstantRef: how a capture, and what is compiled from it, refers to an object of the program. It owns the object,
// but a class or a function that Python code has made, which it refers to weakly: these die when the program lets go of
// them, whatever was compiled for them, and nothing that was compiled for them is of use any more.
//
//   ConstantRef constant = ConstantRef::to(object);
//   constant.get();                                   // borrowed; null once the object is gone
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

class ConstantRef {
 public:
  ConstantRef() = default;
  static ConstantRef to(PyObject* object) {
    const bool comes_and_goes =
        object && (PyFunction_Check(object) ||
                   (PyType_Check(object) &&
                    PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE)));
    return comes_and_goes ? weakly(object) : owning(object);
  }
  // Weak where the object's class allows that: for what only ever is compared.
  static ConstantRef weakly(PyObject* object) {
    if (!object || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return owning(object);
    ConstantRef constant;
    constant.held_ = PyRef::steal(PyWeakref_NewRef(object, nullptr));
    constant.is_weak_ = static_cast<bool>(constant.held_);
    if (constant.is_weak_) return constant;
    PyErr_Clear();
    return owning(object);
  }

  PyObject* get() const {
    if (!is_weak_) return owned_;
    PyObject* object = *place();
    return object != Py_None && Py_REFCNT(object) > 0 ? object : nullptr;
  }
  bool is_weak() const { return is_weak_; }
  // Was there ever an object?
  explicit operator bool() const { return static_cast<bool>(held_); }
  // Where the object's address stands as long as it lives, afterwards None's: to be compared with what is not None.
  PyObject* const* place() const {
    return is_weak_ ? &reinterpret_cast<PyWeakReference*>(held_.get())->wr_object : &owned_;
  }

 private:
  static ConstantRef owning(PyObject* object) {
    ConstantRef constant;
    constant.held_ = PyRef::borrow(object);
    constant.owned_ = object;
    return constant;
  }

  PyRef held_;  // the object, or a weak reference to it
  PyObject* owned_ = nullptr;
  bool is_weak_ = false;
};

}  // namespace cdynamo::symbolic
