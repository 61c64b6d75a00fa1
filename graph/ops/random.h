// Operators that draw random numbers, core.random and those that it is the body of.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

bool draws_random_numbers(const OpDef& op);

}  // namespace cdynamo::graph
