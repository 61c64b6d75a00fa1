// The host's executable of a plan. Consecutive kernels run in one parallel region, with barriers only where one reads what
// another wrote; regions too small for threads run on the caller's.
#pragma once

#include <memory>

#include "runtime/executable.h"
#include "runtime/plan.h"

namespace cdynamo::runtime {

std::unique_ptr<Executable> make_plan_executable(Plan plan);

}  // namespace cdynamo::runtime
