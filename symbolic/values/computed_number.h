// Numbers that Python computes at each call from numbers that change from call to call, where the graph has no operator that
// says just the same: 0.9 ** step, math.cos(angle), round(n * 0.3), rate < 0.1. A float becomes an input of the graph, an int a
// symbol, a bool is guarded: only a call where it is another one is compiled again.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Whether it is a pure function of C from numbers to a number: of math, abs, round, int, float.
bool is_numeric_function(PyObject* callable);
// operator.add, operator.lt ...: of an operation that the interpreter numbers.
PyObject* operator_function(int nb_op);
PyObject* comparison_function(int py_op);

// Where the result of the call is found in another call. Null: an operand is no number that is known when the call begins, or none
// changes, or it has become too much to compute.
SourcePtr computed_source(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands);
// The result; null where it has no source, or is no number in this call.
ValuePtr computed_number(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands);

}  // namespace cdynamo::symbolic
