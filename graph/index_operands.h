// Operators that read or write where a tensor of indices says: an index out of range is found when they run. So is what is no probability.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

// Whether it may fail by what its operands hold.
bool checks_elements(const OpDef& op, size_t overload, const std::vector<Arg>& args);

// Indices where a tensor has no elements: each framework refuses some of them, in words of its own.
bool indexes_nothing(const OpDef& op, size_t overload, const std::vector<Arg>& args);

// What nobody reads but may fail becomes an output of the captured graph, without a history.
void output_unread_lookups(Graph& captured);
// The same for lookups, and writes in place, that the core graph does not compute whole, since what they gave is overwritten or only
// its sizes or some of its elements are read: a copy becomes an output. True where there are any.
bool output_dropped_lookups(Graph& captured, const Graph& core);

}  // namespace cdynamo::graph
