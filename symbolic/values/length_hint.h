// PyObject_LengthHint: how many items an object says that it has, which is asked before a list or tuple is made of them.
#pragma once

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Runs __len__ or __length_hint__ of an object of the program's; what they give does not matter.
void ask_length_hint(Executor& ex, const ValuePtr& iterable);
// The items, as a list or tuple is made of them (list_extend, PySequence_Tuple).
std::vector<ValuePtr> listed_items(Executor& ex, const ValuePtr& iterable);

}  // namespace cdynamo::symbolic
