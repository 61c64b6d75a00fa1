// A torch.Generator as PyTorch's C interface knows it.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// AtenGeneratorHandle, which lives as long as the object. Null: no generator, or a PyTorch whose interface takes none.
void* generator_handle(PyObject* object);

}  // namespace cdynamo::symbolic
