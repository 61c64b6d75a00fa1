// Integers that a captured graph computes from nothing but constants: torch.arange(2, 4).tolist(), np.prod(x.shape) of sizes that
// are known. Python may use them as it uses its own, where those that depend on data break the graph.
//
//   std::optional<int64_t> axis = known_integer(captured, element, contents);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "graph/interpreter.h"

namespace cdynamo::graph {

// What an input holds whenever the graph runs; nullopt: that changes.
using KnownContents = std::function<std::optional<DenseTensor>(const Value* input)>;

// The value of an element of one, of integers or bools, as the graph stands: of few nodes and few elements, all of them integers
// or bools (what eager would round in another order is left to it). nullopt: it is not known, or may still be written to.
std::optional<int64_t> known_integer(const Graph& captured, const Value* element,
                                     const KnownContents& contents);

}  // namespace cdynamo::graph
