#include "symbolic/interop/moving_call.h"

#include <utility>

namespace cdynamo::symbolic {
namespace {

thread_local std::vector<PyObject*>* moved = nullptr;
thread_local PyCodeObject* moved_into = nullptr;

void drop(std::vector<PyObject*>& arguments) {
  for (PyObject*& argument : arguments) Py_CLEAR(argument);
}

PyObject* call_from_stack(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 0 || !PyFunction_Check(args[0]))
    return PyErr_Format(PyExc_TypeError, "moving_call: a function expected");
  std::vector<PyObject*> arguments;
  arguments.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 1; i < count; ++i)  // the caller drops what stands there afterwards
    arguments.push_back(std::exchange(const_cast<PyObject**>(args)[i], Py_NewRef(Py_None)));
  return call_moving(args[0], arguments).release();
}

}  // namespace

PyObject* moving_call() {
  static PyMethodDef definition = {
      "moving_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_from_stack)),
      METH_FASTCALL, "moving_call(function, *args) -> function(*args): the caller keeps no reference."};
  static PyObject* function = PyCFunction_New(&definition, nullptr);
  return function;
}

PyRef call_moving(PyObject* function, std::vector<PyObject*>& arguments) {
  auto* outer = std::exchange(moved, &arguments);
  auto* outer_code =
      std::exchange(moved_into, reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
  PyRef result = PyRef::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  moved = outer;
  moved_into = outer_code;
  drop(arguments);
  return result;
}

void drop_moved_arguments(PyCodeObject* code) {
  if (code != moved_into) return;
  moved_into = nullptr;
  drop(*moved);
}

}  // namespace cdynamo::symbolic
