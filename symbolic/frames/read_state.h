// Whether a function of the program's, called in Python now, would miss what captured code has changed: that happens when the graph has
// run. What it may read is looked for from what its code names, its closure, its defaults and its arguments, without running it.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

bool may_read_changes(Executor& ex, PyObject* function, const CallArgs& args);

}  // namespace cdynamo::symbolic
