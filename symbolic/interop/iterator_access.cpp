#include "symbolic/interop/iterator_access.h"

#include <iterator>

namespace cdynamo::symbolic {

namespace {

struct Row {
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

const Row* find(PyTypeObject* type) {
  static const Row rows[] = {
      {&PyListIter_Type, IteratorKind::kSequence},
      {&PyTupleIter_Type, IteratorKind::kSequence},
      {&PyRangeIter_Type, IteratorKind::kSequence},
      {&PyBytesIter_Type, IteratorKind::kSequence},
      {type_of_iterator_over(PyRef::steal(PyUnicode_FromString("a"))), IteratorKind::kSequence},
      {type_of_iterator_over(PyRef::steal(PyUnicode_FromString("\u00fc\u4e00"))), IteratorKind::kSequence},
      {&PyDictIterKey_Type, IteratorKind::kEntries},
      {&PyDictIterValue_Type, IteratorKind::kEntries},
      {&PyDictIterItem_Type, IteratorKind::kEntries},
      {&PySetIter_Type, IteratorKind::kEntries},
      {&PyEnum_Type, IteratorKind::kNested},
      {&PyZip_Type, IteratorKind::kNested},
  };
  for (const Row& row : rows)
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
  Py_ssize_t index = 0, size = 0;
};

bool find_place(PyObject* iterator, Place& place) {
  PyRef parts = reduced(iterator);
  if (!parts || PyTuple_GET_SIZE(PyTuple_GET_ITEM(parts.get(), 1)) != 1) return false;
  place.sequence = PyRef::borrow(PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts.get(), 1), 0));
  if (PyTuple_GET_SIZE(parts.get()) > 2 && PyLong_Check(PyTuple_GET_ITEM(parts.get(), 2)))
    place.index = PyLong_AsSsize_t(PyTuple_GET_ITEM(parts.get(), 2));
  place.size = PyErr_Occurred() ? -1 : PySequence_Size(place.sequence.get());
  if (place.index >= 0 && place.size >= 0) return true;
  PyErr_Clear();
  return false;
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
  const Row* row = find(Py_TYPE(iterator));
  return row ? row->kind : IteratorKind::kOther;
}

PyRef upcoming_item(PyObject* iterator, Py_ssize_t after) {
  Place place;
  if (iterator_kind(iterator) != IteratorKind::kSequence || !find_place(iterator, place)) return {};
  if (after < 0 || after >= place.size - place.index) return {};
  PyRef item = PyRef::steal(PySequence_GetItem(place.sequence.get(), place.index + after));
  if (!item) PyErr_Clear();
  return item;
}

PyRef upcoming_count(PyObject* iterator) {
  Place place;
  if (iterator_kind(iterator) != IteratorKind::kSequence || !find_place(iterator, place)) return {};
  PyRef count = PyRef::steal(PyLong_FromSsize_t(place.index < place.size ? place.size - place.index : 0));
  if (!count) PyErr_Clear();
  return count;
}

PyRef iterator_part(PyObject* iterator, Py_ssize_t index) {
  if (iterator_kind(iterator) == IteratorKind::kOther) return {};
  PyRef parts = reduced(iterator);
  if (!parts) return {};
  PyObject* arguments = PyTuple_GET_ITEM(parts.get(), 1);
  return index < PyTuple_GET_SIZE(arguments) ? PyRef::borrow(PyTuple_GET_ITEM(arguments, index)) : PyRef();
}

Py_ssize_t inner_iterators(PyObject* iterator) {
  if (Py_IS_TYPE(iterator, &PyEnum_Type)) return 1;
  PyRef parts = reduced(iterator);
  // zip(strict=True) says so in its state.
  return parts && PyTuple_GET_SIZE(parts.get()) == 2 ? PyTuple_GET_SIZE(PyTuple_GET_ITEM(parts.get(), 1)) : 0;
}

}  // namespace cdynamo::symbolic
