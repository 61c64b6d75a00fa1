// When live objects die whose end runs code: Python lets go of them, in its order.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// The graph breaks: Python lets go of the object, whose end runs code.
[[noreturn]] void break_before_end(PyObject* object);

// A live object that a stack may be alone in holding from here on: an argument of a frame that goes on after a graph break, an item
// that is taken out of a live container. Where its end runs code, the graph breaks at the step after which nothing holds it.
void note_held_by_stack(Executor& ex, const ValuePtr& value);
// After a step.
void require_held_by_stacks(Executor& ex);

}  // namespace cdynamo::symbolic
