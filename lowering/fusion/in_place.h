// Kernels that write where they read. Mutations: a value that replaces an input's content is stored straight into the
// input, where nothing reads the old content afterwards. Intermediates: what a kernel writes takes the place of what
// it reads for the last time, element by element.
#pragma once

#include <map>

#include "lowering/fusion/fusion.h"
#include "lowering/fusion/memory_plan.h"

namespace cdynamo::lowering {

// The kernel checks indices.
bool may_fail(const Kernel& kernel);

// Makes the kernel that stores `value` write into the input's memory and returns true; false where some step
// still reads the input later, or reads it elsewhere than where it writes, or may fail from there on. Inputs do not overlap each other
// where one is written.
bool write_in_place(const LoweringContext& context, Steps& steps, const Value& value, const Value& input);

// `uses`: of the buffers of the arena; those that take another one's place are gone from it afterwards. Returns in whose
// place each of them is.
std::map<int, int> overwrite_last_reads(Steps& steps, std::map<int, BufferUse>& uses);

}  // namespace cdynamo::lowering
