#include "symbolic/interop/key_order.h"

namespace cdynamo::symbolic {
namespace {

bool is_hashed_in_c(PyObject* key) {
  if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyFloat_CheckExact(key) || PyBool_Check(key) ||
      PyBytes_CheckExact(key) || key == Py_None)
    return true;
  if (!PyTuple_CheckExact(key)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (!is_hashed_in_c(PyTuple_GET_ITEM(key, i))) return false;
  return true;
}

}  // namespace

PyRef keys_in_order(PyObject* dict) {
  const PyRef list = PyRef::steal(PyDict_Keys(dict));
  if (!list) return {};
  const PyRef keys = PyRef::steal(PyList_AsTuple(list.get()));
  if (!keys || !PyODict_Check(dict) || !is_hashed_in_c(keys.get())) return keys;
  const PyRef iterator = PyRef::steal(PyODict_Type.tp_iter(dict));
  return iterator ? PyRef::steal(PySequence_Tuple(iterator.get())) : PyRef();
}

}  // namespace cdynamo::symbolic
