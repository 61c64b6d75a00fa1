// contextvars.ContextVar: what a variable has in the context of this thread.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Token.MISSING where the context has none; the variable's default does not count. Null, without an error, where `variable` is no
// ContextVar.
PyRef context_value(PyObject* variable);
PyObject* missing_in_context();  // Token.MISSING, borrowed

}  // namespace cdynamo::symbolic
