// The object at a dotted path ("torch.Tensor.add") among what is loaded already: no module is imported, and no module's
// __getattr__ (which may import) is asked, unless its class is one of its own.
#pragma once

#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Null without an error where a part of the path is missing.
PyRef loaded_object(const std::string& path);

// An interned str that lives as long as the process. Borrowed.
PyObject* interned(const char* text);
// Attribute `name` ("f", "Class.method") of an importable module, kept for the life of the process; null where it is missing.
// Borrowed.
PyObject* library_object(const char* module, const char* name);

}  // namespace cdynamo::symbolic
