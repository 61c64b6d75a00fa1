// A comparison of ints that the graph reads from tensors: a bool of the graph, which a program may also take for granted
// (`torch._check(n > 3)`).
#pragma once

#include "graph/sizes/sym.h"
#include "symbolic/values/data_bool.h"

namespace cdynamo::symbolic {

ValuePtr data_relation(Executor& ex, graph::Relation relation, const graph::Sym& left,
                       const graph::Sym& right);

// A comparison that is not known: from here on it holds, and a call where it does not runs in Python; where `holds` is false,
// that it does not hold. False: it is nothing of the kind.
bool require_relation(Executor& ex, const ValuePtr& condition, bool holds, const char* reason);

}  // namespace cdynamo::symbolic
