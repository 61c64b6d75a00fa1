#include "symbolic/values/dataclass_key.h"

#include <cmath>

#include "symbolic/interop/python_side.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// The class of the MRO that has the attribute itself.
PyTypeObject* owner_of(PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (own_type_entry(cls, name)) return cls;
  }
  return nullptr;
}

bool is_true_attribute(PyObject* object, const char* name) {
  const PyRef value = checked(PyObject_GetAttrString(object, name));
  return value.get() == Py_True;
}

// Written by dataclasses, not by the program: compiled from a string, in a class that has fields.
bool is_written_by_dataclass(PyObject* method) {
  if (!method || !PyFunction_Check(method)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method));
  return PyUnicode_CompareWithASCIIString(code->co_filename, "<string>") == 0;
}

}  // namespace

PyRef dataclass_key(Executor& ex, UserObjectValue& instance, PyObject* hash, PyObject* equal) {
  PyTypeObject* owner = owner_of(instance.type(), interned("__hash__"));
  if (!is_written_by_dataclass(hash) || !is_written_by_dataclass(equal) || !owner ||
      owner != owner_of(instance.type(), interned("__eq__")))
    return {};
  PyObject* parameters = own_type_entry(owner, interned("__dataclass_params__"));
  PyObject* fields = own_type_entry(owner, interned("__dataclass_fields__"));
  if (!parameters || !fields || !PyDict_CheckExact(fields) || !is_true_attribute(parameters, "frozen"))
    return {};
  PyObject* marker = library_object("dataclasses", "_FIELD");
  PyRef values = checked(PyList_New(0));
  PyObject *name, *field;
  for (Py_ssize_t at = 0; PyDict_Next(fields, &at, &name, &field);) {
    const PyRef kind = checked(PyObject_GetAttrString(field, "_field_type"));
    if (kind.get() != marker) continue;  // a ClassVar, an InitVar
    const PyRef hashed = checked(PyObject_GetAttrString(field, "hash"));
    const bool compared = is_true_attribute(field, "compare");
    if (hashed.get() != Py_None && (hashed.get() == Py_True) != compared) return {};
    if (!compared) continue;
    const PyRef part = instance.get_attribute(ex, name)->hash_key(ex);
    // Whether it is equal to itself differs between versions of Python.
    if (PyFloat_Check(part.get()) && std::isnan(PyFloat_AS_DOUBLE(part.get()))) return {};
    if (PyList_Append(values.get(), part.get()) < 0) throw PythonError{};
  }
  const PyRef key = checked(PySequence_Tuple(values.get()));
  return checked(PyObject_CallFunctionObjArgs(python_side(PythonSide::kInstanceKey), instance.type(),
                                              key.get(), nullptr));
}

}  // namespace cdynamo::symbolic
