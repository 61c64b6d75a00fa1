// The thread's context of decimal: with which precision, and how, Decimal's operations round, and which of their signals raise an
// exception. It is theirs to read, so captured code that meets a Decimal is guarded by it. Operations also set flags in it. From the
// first Decimal on, capture has a context of its own, which is like the thread's but for its flags: those that are set there are set
// in the thread's when the graph has run. A block of decimal.localcontext() has another one, which is known.
#pragma once

#include <span>

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

struct BuiltinRow;  // values/builtins.h

void meet_decimal(Executor& ex, PyTypeObject* type);  // an object of this type, where it is Decimal
void emit_decimal_flags(Executor& ex);                // at the end of capture
std::span<const BuiltinRow> decimal_functions();      // localcontext, getcontext

}  // namespace cdynamo::symbolic
