// Which function of the runtime computes a core operator that is a step of its own.
#pragma once

#include "graph/op.h"
#include "runtime/library/library.h"

namespace cdynamo::lowering {

// For the kinds of which graph::is_library_call holds.
runtime::LibraryFn cpu_library(graph::CoreKind kind);

}  // namespace cdynamo::lowering
