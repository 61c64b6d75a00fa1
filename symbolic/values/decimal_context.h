// The thread's context of decimal: with which precision, and how, Decimal's operations round. It is theirs to read, so captured code
// that meets a Decimal is guarded by it.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

void guard_decimal_context(Executor& ex, PyObject* object);  // where the object is a Decimal

}  // namespace cdynamo::symbolic
