#include "symbolic/interop/set_layout.h"

#include <algorithm>
#include <utility>

namespace cdynamo::symbolic {
namespace {

PySetObject* fields(PyObject* set) { return reinterpret_cast<PySetObject*>(set); }

// What stands in the place of a discarded element; headers do not name it on every version. It is never counted as a reference.
PyObject* discarded_mark() {
  static PyObject* mark = [] {
    PyRef set = PyRef::steal(PySet_New(nullptr));
    if (!set || PySet_Add(set.get(), Py_None) < 0 || PySet_Discard(set.get(), Py_None) < 0)
      return static_cast<PyObject*>(nullptr);
    const PySetObject* table = fields(set.get());
    return std::find_if(table->table, table->table + table->mask + 1,
                        [](const setentry& entry) { return entry.key; })
        ->key;
  }();
  return mark;
}

PyObject* new_set_of(PyTypeObject* type, PyObject* elements) {
  return type == &PyFrozenSet_Type ? PyFrozenSet_New(elements) : PySet_New(elements);
}

}  // namespace

SetLayout layout_of(PyObject* set) {
  const PySetObject* table = fields(set);
  SetLayout layout;
  layout.slots = table->mask + 1;
  layout.finger = table->finger;
  for (Py_ssize_t place = 0; place < layout.slots; ++place) {
    const setentry& entry = table->table[place];
    if (!entry.key) continue;
    if (entry.hash == -1)
      layout.discarded.push_back(place);
    else
      layout.elements.push_back({place, entry.hash});
  }
  return layout;
}

bool same_layout(PyObject* set, PyObject* other, bool (*same_element)(PyObject*, PyObject*)) {
  const PySetObject *a = fields(set), *b = fields(other);
  if (a->fill != b->fill || a->used != b->used || a->mask != b->mask || a->finger != b->finger) return false;
  for (Py_ssize_t place = 0; place <= a->mask; ++place) {
    const setentry &mine = a->table[place], &theirs = b->table[place];
    if (!mine.key != !theirs.key || mine.hash != theirs.hash) return false;
    if (mine.key && mine.hash != -1 && !same_element(mine.key, theirs.key)) return false;
  }
  return true;
}

PyObject* elements_of(PyObject* set) {
  const PySetObject* table = fields(set);
  PyObject* list = PyList_New(table->used);
  Py_ssize_t count = 0;
  for (Py_ssize_t place = 0; list && place <= table->mask; ++place) {
    const setentry& entry = table->table[place];
    if (entry.key && entry.hash != -1) PyList_SET_ITEM(list, count++, Py_NewRef(entry.key));
  }
  return list;
}

PyObject* laid_out_set(const SetLayout& layout, PyObject* elements, PyTypeObject* type) {
  PyObject** items = PySequence_Fast_ITEMS(elements);
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(elements));
  bool fits = count == layout.elements.size();
  for (size_t i = 0; fits && i < count; ++i) {
    const Py_hash_t hash = PyObject_Hash(items[i]);
    if (hash == -1) return nullptr;
    fits = hash == layout.elements[i].hash;
  }
  return fits ? placed_set(layout, elements, type) : new_set_of(type, elements);
}

PyObject* placed_set(const SetLayout& layout, PyObject* elements, PyTypeObject* type) {
  PyObject** items = PySequence_Fast_ITEMS(elements);
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(elements));
  if (count != layout.elements.size() || !discarded_mark()) return new_set_of(type, elements);
  PyRef set = PyRef::steal(new_set_of(type, nullptr));
  if (!set) return nullptr;
  PySetObject* table = fields(set.get());
  if (layout.slots > PySet_MINSIZE) {
    auto* entries = static_cast<setentry*>(PyMem_Calloc(static_cast<size_t>(layout.slots), sizeof(setentry)));
    if (!entries) return PyErr_NoMemory();
    table->table = entries;
    table->mask = layout.slots - 1;
  }
  for (size_t i = 0; i < count; ++i)
    table->table[layout.elements[i].place] = {Py_NewRef(items[i]), layout.elements[i].hash};
  for (Py_ssize_t place : layout.discarded) table->table[place] = {discarded_mark(), -1};
  table->used = static_cast<Py_ssize_t>(count);
  table->fill = table->used + static_cast<Py_ssize_t>(layout.discarded.size());
  table->finger = layout.finger;
  return set.release();
}

PyObject* copy_as_laid_out(PyObject* set, PyTypeObject* type) {
  const PyRef elements = PyRef::steal(elements_of(set));
  return elements ? laid_out_set(layout_of(set), elements.get(), type) : nullptr;
}

void swap_contents(PyObject* set, PyObject* other) {
  PySetObject *a = fields(set), *b = fields(other);
  const bool a_is_small = a->table == a->smalltable, b_is_small = b->table == b->smalltable;
  std::swap(a->fill, b->fill);
  std::swap(a->used, b->used);
  std::swap(a->mask, b->mask);
  std::swap(a->table, b->table);
  std::swap(a->finger, b->finger);
  std::swap(a->smalltable, b->smalltable);
  if (b_is_small) a->table = a->smalltable;
  if (a_is_small) b->table = b->smalltable;
}

}  // namespace cdynamo::symbolic
