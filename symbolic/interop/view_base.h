// PyTorch counts the writes to a tensor and to all views of it together, whether or not they share elements: a view that was made
// under no_grad, or with others, has no history any more once another one was written to.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Is the tensor `view` a view of `other`, or of what `other` is a view of?
bool is_view_beside(PyObject* view, PyObject* other);

}  // namespace cdynamo::symbolic
