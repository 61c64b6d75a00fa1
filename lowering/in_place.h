// Mutations without a copy: a value that replaces an input's content is stored straight into the input, where
// nothing reads the old content afterwards.
#pragma once

#include "lowering/fusion.h"

namespace cdynamo::lowering {

// Makes the kernel that stores `value` write into the input's memory and returns true; false where some step
// still reads the input later, or reads it elsewhere than where it writes. Inputs do not overlap each other
// where one is written.
bool write_in_place(const LoweringContext& context, Steps& steps, const Value& value, const Value& input);

}  // namespace cdynamo::lowering
