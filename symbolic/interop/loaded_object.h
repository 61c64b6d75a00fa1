// The object at a dotted path ("torch.Tensor.add") among what is loaded already: no module is imported, and
// no module's
// __getattr__ (which may import) is asked.
#pragma once

#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Null without an error where a part of the path is missing.
PyRef loaded_object(const std::string& path);

}  // namespace cdynamo::symbolic
