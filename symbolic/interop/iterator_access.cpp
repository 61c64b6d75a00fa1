#include "symbolic/interop/iterator_access.h"

#include <iterator>

namespace cdynamo::symbolic {

namespace {

struct LayoutRow {
  PyTypeObject* type;
  IteratorKind kind;
};

PyTypeObject* type_of_iterator_over(PyRef items) {
  PyRef iterator = PyRef::steal(items ? PyObject_GetIter(items.get()) : nullptr);
  if (!iterator) {
    PyErr_Clear();
    return nullptr;
  }
  return Py_TYPE(iterator.get());  // a static type
}

// countobject (Modules/itertoolsmodule.c): the same in 3.11, 3.12 and 3.13.
struct Count {
  PyObject_HEAD Py_ssize_t next;  // PY_SSIZE_T_MAX: what comes next is the number below
  PyObject *number, *step;
};

bool is_count(PyObject* iterator) {
  static PyTypeObject* type = nullptr;
  if (!type) {
    const PyRef module = PyRef::steal(PyImport_ImportModule("itertools"));
    PyRef found = PyRef::steal(module ? PyObject_GetAttrString(module.get(), "count") : nullptr);
    if (!found) return PyErr_Clear(), false;
    type = reinterpret_cast<PyTypeObject*>(found.release());
  }
  return Py_IS_TYPE(iterator, type) && reinterpret_cast<Count*>(iterator)->next != PY_SSIZE_T_MAX;
}

PyRef upcoming_number(PyObject* iterator, Py_ssize_t after) {
  const Py_ssize_t next = reinterpret_cast<Count*>(iterator)->next;
  if (after < 0 || next > PY_SSIZE_T_MAX - 1 - after) return {};
  PyRef number = PyRef::steal(PyLong_FromSsize_t(next + after));
  if (!number) PyErr_Clear();
  return number;
}

const LayoutRow* find(PyTypeObject* type) {
  static const LayoutRow rows[] = {
      {&PyListIter_Type, IteratorKind::kSequence},
      {&PyTupleIter_Type, IteratorKind::kSequence},
      {&PyRangeIter_Type, IteratorKind::kSequence},
      {&PyBytesIter_Type, IteratorKind::kSequence},
      {&PyListRevIter_Type, IteratorKind::kSequence},
      {type_of_iterator_over(PyRef::steal(PyUnicode_FromString("a"))), IteratorKind::kSequence},
      {type_of_iterator_over(PyRef::steal(PyUnicode_FromString("\u00fc\u4e00"))), IteratorKind::kSequence},
      {&PyDictIterKey_Type, IteratorKind::kEntries},
      {&PyDictIterValue_Type, IteratorKind::kEntries},
      {&PyDictIterItem_Type, IteratorKind::kEntries},
      {&PyDictRevIterKey_Type, IteratorKind::kEntries},
      {&PyDictRevIterValue_Type, IteratorKind::kEntries},
      {&PyDictRevIterItem_Type, IteratorKind::kEntries},
      {&PySetIter_Type, IteratorKind::kEntries},
      {&PyEnum_Type, IteratorKind::kNested},
      {&PyZip_Type, IteratorKind::kNested},
      {&PyMap_Type, IteratorKind::kNested},
      {&PyFilter_Type, IteratorKind::kNested},
  };
  for (const LayoutRow& row : rows)
    if (row.type == type) return &row;
  return nullptr;
}

// `__reduce__` looks for `iter` among the builtins: where keys there are no strings, they may have an __eq__ of the program's.
bool may_reduce() {
  if (PyArg_ValidateKeywordArguments(PyEval_GetBuiltins())) return true;
  PyErr_Clear();
  return false;
}

struct Place {
  PyRef sequence;
  Py_ssize_t index = 0, left = 0;
  int step = 1;
};

bool find_place(PyObject* iterator, Place& place) {
  PyRef parts = reduced(iterator);
  if (!parts || PyTuple_GET_SIZE(PyTuple_GET_ITEM(parts.get(), 1)) != 1) return false;
  place.sequence = PyRef::borrow(PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts.get(), 1), 0));
  if (PyTuple_GET_SIZE(parts.get()) > 2 && PyLong_Check(PyTuple_GET_ITEM(parts.get(), 2)))
    place.index = PyLong_AsSsize_t(PyTuple_GET_ITEM(parts.get(), 2));
  const Py_ssize_t size = PyErr_Occurred() ? -1 : PySequence_Size(place.sequence.get());
  if (place.index < 0 || size < 0) return PyErr_Clear(), false;
  const bool is_inside = place.index < size;
  // What is left of an exhausted one is an iterator over an empty list.
  if (Py_IS_TYPE(iterator, &PyListRevIter_Type)) place.step = -1;
  place.left = !is_inside ? 0 : place.step < 0 ? place.index + 1 : size - place.index;
  return true;
}

PyRef shape_of(const InnerIterators& inner) {
  PyRef shape = PyRef::steal(Py_BuildValue("(nni)", inner.first, inner.count, inner.strict));
  if (!shape) PyErr_Clear();
  return shape;
}

}  // namespace

PyRef reduced(PyObject* iterator) {
  static PyObject* name = PyUnicode_InternFromString("__reduce__");
  // Python code runs all the same where a key is of a class derived from str.
  thread_local bool is_looking = false;
  if (is_looking || !may_reduce()) return {};
  is_looking = true;
  PyRef parts = PyRef::steal(PyObject_CallMethodNoArgs(iterator, name));
  is_looking = false;
  if (!parts) PyErr_Clear();
  const bool is_known = parts && PyTuple_CheckExact(parts.get()) && PyTuple_GET_SIZE(parts.get()) >= 2 &&
                        PyTuple_CheckExact(PyTuple_GET_ITEM(parts.get(), 1));
  return is_known ? std::move(parts) : PyRef();
}

IteratorKind iterator_kind(PyObject* iterator) {
  const LayoutRow* row = find(Py_TYPE(iterator));
  if (row) return row->kind;
  return is_count(iterator) ? IteratorKind::kCount : IteratorKind::kOther;
}

PyRef upcoming_item(PyObject* iterator, Py_ssize_t after) {
  if (iterator_kind(iterator) == IteratorKind::kCount) return upcoming_number(iterator, after);
  Place place;
  if (iterator_kind(iterator) != IteratorKind::kSequence || !find_place(iterator, place)) return {};
  if (after < 0 || after >= place.left) return {};
  PyRef item = PyRef::steal(PySequence_GetItem(place.sequence.get(), place.index + place.step * after));
  if (!item) PyErr_Clear();
  return item;
}

PyRef upcoming_count(PyObject* iterator) {
  Place place;
  if (iterator_kind(iterator) != IteratorKind::kSequence || !find_place(iterator, place)) return {};
  PyRef count = PyRef::steal(PyLong_FromSsize_t(place.left));
  if (!count) PyErr_Clear();
  return count;
}

PyRef iterator_part(PyObject* iterator, Py_ssize_t index) {
  const IteratorKind kind = iterator_kind(iterator);
  if (kind == IteratorKind::kOther || kind == IteratorKind::kCount) return {};
  if (index == kInnerIterators) return shape_of(inner_iterators(iterator));
  PyRef parts = reduced(iterator);
  if (!parts) return {};
  PyObject* arguments = PyTuple_GET_ITEM(parts.get(), 1);
  return index < PyTuple_GET_SIZE(arguments) ? PyRef::borrow(PyTuple_GET_ITEM(arguments, index)) : PyRef();
}

InnerIterators inner_iterators(PyObject* iterator) {
  if (Py_IS_TYPE(iterator, &PyEnum_Type)) return {.count = 1};
  const PyRef parts = reduced(iterator);
  if (!parts) return {};
  InnerIterators inner;
  inner.first = Py_IS_TYPE(iterator, &PyZip_Type) ? 0 : 1;
  inner.count = PyTuple_GET_SIZE(PyTuple_GET_ITEM(parts.get(), 1)) - inner.first;
  inner.strict = PyTuple_GET_SIZE(parts.get()) == 3;  // which is zip's state
  return inner;
}

}  // namespace cdynamo::symbolic
