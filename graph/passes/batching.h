// What a core graph computes of one example, computed of a batch of them: torch.vmap. Each core operator has a rule
// that gives its node a first dim, that of the batch; what depends on nothing batched is computed once.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace cdynamo::graph {

// Appends to `builder`'s core graph. `inputs`: one for each of the example's; those of the first `batched` have the
// batch as their first dim. The results have it too. Throws Unsupported.
std::vector<Value*> expand_batched(Builder& builder, const Graph& example, const std::vector<Value*>& inputs,
                                   size_t batched, const Sym& batch);

}  // namespace cdynamo::graph
