// What guards compare sets and the keys of dicts with: it does not keep the program's instances, which are told by identity, alive.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// An instance of a class of the program's: what it hashes and compares by may be Python.
bool is_instance_of_program(PyObject* object);

// A new reference to what stands for the element: a weak reference for an instance, where its class allows that, else itself. Null
// with an exception.
PyObject* weak_element(PyObject* element);

// A new set laid out as `set` is, in which references to instances stand for these, where their classes allow that. No element
// is hashed. Null with an exception.
PyObject* copy_with_weak_elements(PyObject* set);

bool is_weak_element(PyObject* element);
// The object that the element stands for, which may be itself; null: it has died. Borrowed.
PyObject* stood_for(PyObject* element);

}  // namespace cdynamo::symbolic
