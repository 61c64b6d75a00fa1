// Complex tensors and arrays that come into a graph, as the real ones that they are there.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// The real tensor over the memory of a complex torch.Tensor or Parameter, with its history. Null, no error set: it is none, or its
// parts are no plain floats (complex32, a lazy conjugate, a subclass).
// Of a complex numpy.ndarray the real array over its memory, with one more dim, likewise (NumPy 2; no subclass).
PyRef real_view(PyObject* object);

}  // namespace cdynamo::symbolic
