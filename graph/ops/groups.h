// The files of the table, one function each; graph/op_table.cpp puts them together.
#pragma once

#include <vector>

#include "graph/op.h"

namespace cdynamo::graph {

using GroupFn = std::vector<OpDef> (*)();

#define CDYNAMO_GROUP(name) std::vector<OpDef> name();
#include "graph/ops/groups.def"
#undef CDYNAMO_GROUP

inline constexpr GroupFn kGroups[] = {
#define CDYNAMO_GROUP(name) name,
#include "graph/ops/groups.def"
#undef CDYNAMO_GROUP
};

}  // namespace cdynamo::graph
