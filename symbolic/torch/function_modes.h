// __torch_function__ modes that captured code enters (`with MyMode(): ...`). What PyTorch would hand to the innermost mode is handed to
// it here, with that mode taken off the stack for as long as its __torch_function__ runs; the method is inlined like any other.
// Capture does not begin where a mode is on, and ends where none is: a region that breaks the graph is left to Python as a whole.
#pragma once

#include "symbolic/torch/tensor.h"

namespace cdynamo::symbolic {

bool in_function_mode(Executor& ex);

// What the innermost mode makes of a call of a torch function; null: no mode is on, or PyTorch does not ask one.
ValuePtr call_through_mode(Executor& ex, const ValuePtr& callable, PyObject* function, const CallArgs& args);

// Of an operation on tensors that is written `operator.name(*operands)`, or "len", "getattr". Null: likewise.
ValuePtr operate_through_mode(Executor& ex, const char* name, const std::vector<ValuePtr>& operands);

// Tensor.name within a mode: a property's value, or the method. Null: no mode is on, or there is nothing to ask about.
ValuePtr attribute_through_mode(Executor& ex, TensorValue& self, PyObject* name);

// Breaks the graph within a mode.
void refuse_in_mode(Executor& ex, const char* what);

}  // namespace cdynamo::symbolic
