// What a compiled function saves for its backward: errors and checks that both of TrainingFunction's files need.
#pragma once

#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

// Null, with a Python error set.
symbolic::PyRef raise(PyObject* type, const std::string& message);
symbolic::PyRef raise_second_time();
// Counts the writes to a tensor; -1 where it has no such count.
int64_t version_of(PyObject* tensor);

}  // namespace cdynamo::frame_eval
