// What stands for a tensor as a key of the dicts and sets that capture keeps: equal for one tensor, and hashed as the live one
// where there is one, so that sets lie in memory, and go through their elements, as the program's do.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// `identity`: the same for one tensor, as long as the capture lasts.
PyRef tensor_key(const void* identity, Py_hash_t hash);
bool is_tensor_key(PyObject* object);

}  // namespace cdynamo::symbolic
