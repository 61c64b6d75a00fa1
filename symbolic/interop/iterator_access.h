// CPython's own iterators, looked at without being advanced: what they hold and what they give next. They tell
// both by `__reduce__`, as `copy` and `pickle` ask for it.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// How an iterator is looked into.
enum class IteratorKind {
  kOther,     // not without running it: a generator, map, what other modules have
  kSequence,  // a place in a list, tuple, range, str or bytes
  kEntries,   // a place among the entries of a dict or the items of a set
  kNested,    // enumerate, zip, map, filter: iterators in an iterator
  kCount,     // itertools.count, by steps of 1
};
IteratorKind iterator_kind(PyObject* iterator);

// All give null, without an error, where there is no such thing.
// What makes it, the arguments of that, and its state where it has one.
PyRef reduced(PyObject* iterator);
// kSequence, kCount: the item that it gives after so many others.
PyRef upcoming_item(PyObject* iterator, Py_ssize_t after);
// kSequence: how many are left, as an int.
PyRef upcoming_count(PyObject* iterator);
// What it is made of: the sequence; the list of the entries that are left; the iterators (of enumerate the
// count after it, of map and filter the function before them).
PyRef iterator_part(PyObject* iterator, Py_ssize_t index);

// kNested: which of its parts are iterators, and whether it is zip(strict=True).
struct InnerIterators {
  Py_ssize_t first = 0, count = 0;
  bool strict = false;
};
InnerIterators inner_iterators(PyObject* iterator);
constexpr Py_ssize_t kInnerIterators = -1;  // the part that says the same, as a tuple of ints

}  // namespace cdynamo::symbolic
