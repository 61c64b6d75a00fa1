// torch.view_as_real, of what comes into a graph.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// The real tensor over the memory of a complex torch.Tensor or Parameter, with its history. Null, no error set: it is none, or its
// parts are no plain floats (complex32, a lazy conjugate, a subclass).
PyRef real_view(PyObject* object);

}  // namespace cdynamo::symbolic
