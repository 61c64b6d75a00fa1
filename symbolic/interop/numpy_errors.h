// NumPy's treatment of floating-point errors (numpy.errstate, numpy.seterr). Compiled code computes NaN and
// infinity and neither warns nor raises, so it is run only where NumPy is not asked to raise or to call back.
#pragma once

#include <Python.h>

namespace cdynamo::symbolic {

// Is any of the errors to be raised, printed, logged or handed to a function?
bool numpy_reports_errors();
// The context variable that says so.
bool is_numpy_error_settings(PyObject* variable);

}  // namespace cdynamo::symbolic
