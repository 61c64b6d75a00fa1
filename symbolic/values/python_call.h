// Calls of Python's while capturing, with objects for the arguments.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// callable(*args, **keywords), where `object_of` gives the object that each argument is. Null, with the error set, where it raises.
template <typename ObjectOf>
PyRef call_with_objects(PyObject* callable, const CallArgs& args, ObjectOf&& object_of) {
  const PyRef positional = checked(PyTuple_New(std::ssize(args.positional))),
              keywords = checked(PyDict_New());
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i),
                     PyRef(object_of(args.positional[i])).release());
  for (const Keyword& keyword : args.keywords)
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), PyRef(object_of(keyword.value)).get()) < 0)
      throw PythonError{};
  return PyRef::steal(PyObject_Call(callable, positional.get(), keywords.get()));
}

}  // namespace cdynamo::symbolic
