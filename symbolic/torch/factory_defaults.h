// What the program sets for the functions that make tensors: torch.device as a context, torch.set_default_device,
// torch.set_default_dtype. Their calls get it as an argument, as torch's own mode does it for devices.
#pragma once

#include <optional>

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// The arguments of a call with the device and the dtype that it does not name; nothing where it gets neither.
std::optional<CallArgs> with_factory_defaults(Executor& ex, const TensorCapture& capture, PyObject* callable,
                                              const CallArgs& args);

}  // namespace cdynamo::symbolic
