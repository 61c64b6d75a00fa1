// PyRef: a Python reference that is owned. A plain PyObject* anywhere in cdynamo is borrowed.
//
//   PyRef a = PyRef::steal(PyList_New(0));   // takes over a new reference (null allowed: an error is set)
//   PyRef b = PyRef::borrow(object);         // adds a reference
//   return b.release();                      // hands the reference to the caller
#pragma once

#include <Python.h>

#include <utility>

namespace cdynamo::symbolic {

class PyRef {
 public:
  PyRef() = default;
  static PyRef steal(PyObject* object) { return PyRef(object); }
  static PyRef borrow(PyObject* object) {
    Py_XINCREF(object);
    return PyRef(object);
  }
  PyRef(const PyRef& other) : object_(other.object_) { Py_XINCREF(object_); }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }
  // The address of an empty reference, for CPython functions that fill one in.
  PyObject** out() {
    Py_CLEAR(object_);
    return &object_;
  }

 private:
  explicit PyRef(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// Thrown by C++ code of ours when a CPython call failed and its exception is set in the thread state. It
// never crosses a CPython frame: each entry point from Python turns it back into a null return.
struct PythonError {};

inline PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

// Checks a new reference: throws PythonError when it is null.
inline PyRef checked(PyObject* new_reference) {
  if (!new_reference) throw PythonError{};
  return PyRef::steal(new_reference);
}

}  // namespace cdynamo::symbolic
