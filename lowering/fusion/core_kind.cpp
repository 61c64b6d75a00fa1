#include "lowering/fusion/core_kind.h"

#include <unordered_map>

namespace cdynamo::lowering {
namespace {

using enum CoreKind;

// Families say the rest: pointwise, reductions and scans are not listed.
const std::unordered_map<std::string_view, CoreKind>& named_kinds() {
  static const auto* const kinds = new std::unordered_map<std::string_view, CoreKind>{
      {"core.cast", kCast},
      {"core.full", kFull},
      {"core.iota", kIota},
      {"core.expand", kExpand},
      {"core.permute", kPermute},
      {"core.reshape", kReshape},
      {"core.slice", kSlice},
      {"core.diagonal", kDiagonal},
      {"core.window", kWindow},
      {"core.pad", kPad},
      {"core.concat", kConcat},
      {"core.gather", kGather},
      {"core.index", kIndex},
      {"core.slice_scatter", kSliceScatter},
      {"core.diagonal_scatter", kDiagonalScatter},
      {"core.scatter", kScatter},
      {"core.index_put", kIndexPut},
      {"core.sum", kReduction},
      {"core.prod", kReduction},
      {"core.amax", kReduction},
      {"core.max", kReduction},
      {"core.amin", kReduction},
      {"core.min", kReduction},
      {"core.any", kReduction},
      {"core.all", kReduction},
      {"core.argmax", kReduction},
      {"core.argmin", kReduction},
      {"core.cumsum", kScan},
      {"core.cumprod", kScan},
      {"core.cummax_values", kScan},
      {"core.cummin_values", kScan},
      {"core.mm", kMatmul},
      {"core.bmm", kBatchMatmul},
      {"core.convolution", kConvolution},
      {"core.convolution_weight_grad", kConvolutionWeightGrad},
      {"core.sdpa", kAttention},
      {"core.sdpa_backward", kAttentionBackward},
      {"core.draw", kDraw},
      {"core.library", kLibrary},
      {"core.library_backward", kLibrary},
  };
  return *kinds;
}

}  // namespace

CoreKind core_kind(const graph::OpDef& op) {
  auto found = named_kinds().find(op.name);
  if (found != named_kinds().end()) return found->second;
  return op.family == graph::Family::kPointwise && op.scalar ? kPointwise : kUnknown;
}

bool is_view(CoreKind kind) { return kind >= kFull && kind <= kPad; }

bool is_elementwise(CoreKind kind) {
  return kind == kPointwise || kind == kCast || (kind >= kConcat && kind <= kDiagonalScatter);
}

bool is_library_call(CoreKind kind) { return kind >= kMatmul && kind <= kLibrary; }

}  // namespace cdynamo::lowering
