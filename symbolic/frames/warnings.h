// What other rooms ask about the warnings module.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

// Whether the program, in what is captured, has said what becomes of warnings: a call that warns when the graph runs would not find
// it said.
bool has_changed_filters(Executor& ex);

}  // namespace cdynamo::symbolic
