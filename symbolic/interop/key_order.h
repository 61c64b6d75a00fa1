// The order of a dict's keys. An OrderedDict keeps one of its own, which move_to_end changes and PyDict_Next does not see.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// A tuple. Of an OrderedDict with keys that Python hashes in Python it is the order that they were added in: asking for the other
// would run that. Null with an error.
PyRef keys_in_order(PyObject* dict);

}  // namespace cdynamo::symbolic
