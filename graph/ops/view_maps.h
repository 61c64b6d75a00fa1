// The ViewDefs of the core's views.
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

extern const ViewDef kExpandView, kPermuteView, kReshapeView, kSliceView, kDiagonalView, kWindowView,
    kDetachView, kUnitStridesView, kBitcastView, kRegroupView;

}  // namespace cdynamo::graph
