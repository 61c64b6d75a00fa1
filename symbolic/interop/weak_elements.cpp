#include "symbolic/interop/weak_elements.h"

#include "symbolic/interop/set_layout.h"

namespace cdynamo::symbolic {

namespace {

// A class of its own: a set of the program's may hold weak references. They hash as what they refer to.
PyTypeObject* weak_element_type() {
  static PyObject* type = PyObject_CallFunction(as_object(&PyType_Type), "s(O){s()}", "weak_element",
                                                as_object(&_PyWeakref_RefType), "__slots__");
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool is_instance_of_program(PyObject* object) {
  return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
         !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE) && !PyType_Check(object);
}

PyObject* weak_element(PyObject* element) {
  if (!is_instance_of_program(element) || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(element)))
    return Py_NewRef(element);
  PyTypeObject* type = weak_element_type();
  return type ? PyObject_CallOneArg(as_object(type), element) : nullptr;
}

PyObject* copy_with_weak_elements(PyObject* set) {
  const PyRef elements = PyRef::steal(elements_of(set));
  if (!elements) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) {
    PyObject* element = weak_element(PyList_GET_ITEM(elements.get(), i));
    if (!element) return nullptr;
    PyList_SetItem(elements.get(), i, element);
  }
  return placed_set(layout_of(set), elements.get(), &PySet_Type);
}

bool is_weak_element(PyObject* element) { return Py_TYPE(element) == weak_element_type(); }

PyObject* stood_for(PyObject* element) {
  if (!is_weak_element(element)) return element;
  PyObject* object = PyWeakref_GET_OBJECT(element);
  return object == Py_None ? nullptr : object;
}

}  // namespace cdynamo::symbolic
