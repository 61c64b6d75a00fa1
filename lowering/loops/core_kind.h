// What lowering asks of a node's operator: its kind (graph/op.h), its arguments.
#pragma once

#include "graph/op.h"
#include "runtime/executable.h"

namespace cdynamo::lowering {

using graph::CoreKind;
using graph::is_elementwise;
using graph::is_library_call;
using graph::is_view;

inline graph::Args args_of(const graph::Node& node) {
  return graph::Args(node.op->parsed.at(node.overload), node.args);
}

// What an indexing node reports for an index out of range.
inline int index_error_kind(const graph::Args& args) {
  const bool runtime_error = args.schema().find("error") >= 0 && args.string("error") == "RuntimeError";
  return runtime_error ? runtime::RunError::kRuntimeError : runtime::RunError::kIndexError;
}

}  // namespace cdynamo::lowering
