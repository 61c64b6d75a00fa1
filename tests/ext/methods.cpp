#include "tests/ext/methods.h"

#include "symbolic/interop/python_side.h"
#include "tests/ext/bytecode_debug.h"
#include "tests/ext/capture_debug.h"
#include "tests/ext/emulated_target.h"
#include "tests/ext/frame_debug.h"

namespace cdynamo::test_hooks {
namespace {

using symbolic::PyRef;

PyObject* capture(PyObject*, PyObject* args) {
  PyObject *function, *arguments;
  if (!PyArg_ParseTuple(args, "OO!", &function, &PyTuple_Type, &arguments)) return nullptr;
  return symbolic::debug_capture(function, arguments);
}

PyObject* decode(PyObject*, PyObject* code) { return symbolic::debug_decode(code); }
PyObject* roundtrip(PyObject*, PyObject* code) { return symbolic::debug_roundtrip(code); }
PyObject* reencode(PyObject*, PyObject* arguments) {
  PyObject* code;
  int nops;
  return PyArg_ParseTuple(arguments, "Oi", &code, &nops) ? symbolic::debug_reencode(code, nops) : nullptr;
}
PyObject* opcodes(PyObject*, PyObject*) { return symbolic::debug_opcodes(); }
PyObject* run_in_place(PyObject*, PyObject* arguments, PyObject* keywords) {
  if (PyTuple_GET_SIZE(arguments) < 2) {
    PyErr_SetString(PyExc_TypeError, "a function and its replacement are expected");
    return nullptr;
  }
  const PyRef rest = PyRef::steal(PyTuple_GetSlice(arguments, 2, PyTuple_GET_SIZE(arguments)));
  if (!rest) return nullptr;
  return frame_eval::debug_run_in_place(PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_ITEM(arguments, 1),
                                        rest.get(), keywords);
}
PyObject* dict_version(PyObject*, PyObject* dict) { return frame_eval::debug_dict_version(dict); }
PyObject* is_tracing(PyObject*, PyObject*) { return frame_eval::debug_is_tracing(); }

PyObject* python_side(PyObject*, PyObject*) { return symbolic::python_side_rows(); }

PyMethodDef table[] = {
    {"_capture", capture, METH_VARARGS, nullptr},
    {"_decode", decode, METH_O, nullptr},
    {"_roundtrip", roundtrip, METH_O, nullptr},
    {"_reencode", reencode, METH_VARARGS, nullptr},
    {"_opcodes", opcodes, METH_NOARGS, nullptr},
    {"_run_in_place", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_in_place)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_dict_version", dict_version, METH_O, nullptr},
    {"_python_side", python_side, METH_NOARGS, nullptr},
    {"_is_tracing", is_tracing, METH_NOARGS, nullptr},
    {},
};

}  // namespace

PyMethodDef* methods() {
  choose_target();  // asked once, as the module is made
  return table;
}

}  // namespace cdynamo::test_hooks
