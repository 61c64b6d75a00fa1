// The reductions that scans share with the core's reductions.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

extern const ReductionDef kSumReduction, kProdReduction, kGreatest, kLeast, kLogSumExp;

}  // namespace cdynamo::graph
