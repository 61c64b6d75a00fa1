// How the hash table of a set is laid out (Include/cpython/setobject.h): its size, the place of each element, what was discarded
// and where pop() goes on. It is the order of iteration and decides that of every operation to come.
#pragma once

#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

struct SetLayout {
  struct Element {
    Py_ssize_t place;
    Py_hash_t hash;
  };
  Py_ssize_t slots = 0, finger = 0;
  std::vector<Element> elements;      // in the order of iteration
  std::vector<Py_ssize_t> discarded;  // places that are taken by nothing
};

// Two sets of as many elements, of which those in the same place are the same.
bool same_layout(PyObject* set, PyObject* other, bool (*same_element)(PyObject*, PyObject*));

SetLayout layout_of(PyObject* set);  // a set or frozenset, or an instance of a subclass

// A list of what the set holds, in the order of iteration, whatever a subclass's __iter__ gives.
PyObject* elements_of(PyObject* set);

// A new set or frozenset with these elements, a list or tuple, in these places. Where the hash of one is another than the layout's
// they are added one by one. Null with an exception where hashing or comparing raises.
PyObject* laid_out_set(const SetLayout& layout, PyObject* elements, PyTypeObject* type);

// The same, where each element is taken to have the layout's hash: none is asked for its own.
PyObject* placed_set(const SetLayout& layout, PyObject* elements, PyTypeObject* type);

PyObject* copy_as_laid_out(PyObject* set, PyTypeObject* type);  // its elements in their places

void swap_contents(PyObject* set, PyObject* other);  // of two sets, as they are laid out

}  // namespace cdynamo::symbolic
