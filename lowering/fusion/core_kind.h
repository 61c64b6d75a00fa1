// The core operators as lowering sorts them: what a node's name means for loops (graph/core.h has the
// vocabulary).
#pragma once

#include <string_view>

#include "graph/op.h"
#include "runtime/executable.h"

namespace cdynamo::lowering {

enum class CoreKind : uint8_t {
  kPointwise,
  kCast,
  kFull,
  kIota,
  kExpand,
  kPermute,
  kReshape,
  kSlice,
  kDiagonal,
  kWindow,
  kPad,
  kConcat,
  kGather,
  kIndex,
  kSliceScatter,
  kDiagonalScatter,
  kScatter,
  kIndexPut,
  kReduction,
  kScan,
  kMatmul,
  kBatchMatmul,
  kConvolution,
  kConvolutionWeightGrad,
  kAttention,
  kAttentionBackward,
  kDraw,
  kLibrary,
  kUnknown,
};

CoreKind core_kind(const graph::OpDef& op);

// An index map with at most a fill value: costs nothing, is always repeated where it is read.
bool is_view(CoreKind kind);
// Computed element by element in a loop over its own sizes: may be a member of a fused kernel.
bool is_elementwise(CoreKind kind);
// A step of its own with operands in memory.
bool is_library_call(CoreKind kind);

inline graph::Args args_of(const graph::Node& node) {
  return graph::Args(node.op->parsed.at(node.overload), node.args);
}

// What an indexing node reports for an index out of range.
inline int index_error_kind(const graph::Args& args) {
  const bool runtime_error = args.schema().find("error") >= 0 && args.string("error") == "RuntimeError";
  return runtime_error ? runtime::RunError::kRuntimeError : runtime::RunError::kIndexError;
}

}  // namespace cdynamo::lowering
