// x.view(dtype) of a wider dtype: PyTorch takes it only where x begins, in its storage, at a multiple of the new elements' size.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

// Of what came in, where it begins is looked at in each call; where that does not fit, the graph breaks.
void require_offset_of_view(Executor& ex, const graph::Value* viewed, graph::DType dtype);

}  // namespace cdynamo::symbolic
