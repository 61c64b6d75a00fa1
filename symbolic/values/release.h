// Letting go of a value within the destructor of what held it. A chain of values (a filter of a filter, a list in
// a list) may be as long as the program's loops, so it is not taken apart by recursion.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

void release(ValuePtr value);
void release(std::vector<ValuePtr>& values);

}  // namespace cdynamo::symbolic
