#include "runtime/gemm/tiles_prelude.h"

#pragma GCC optimize("O3,fp-contract=fast")
#define CDYNAMO_TILE_NAMESPACE tiles_generic
#define CDYNAMO_VECTOR_BYTES 16
#define CDYNAMO_TILE_ROWS 4
#include "runtime/gemm/tiles.inc"
// after it:
#include "runtime/gemm/depthwise.inc"
#include "runtime/gemm/gathered.inc"
#include "runtime/gemm/sums.inc"

namespace cdynamo::runtime {

const TiledGemm& tiled_gemm_generic() {
  static constexpr TiledGemm kKernels{tiles_generic::gemm<float>,        tiles_generic::gemm<double>,
                                      tiles_generic::gathered<float>,    tiles_generic::gathered<double>,
                                      tiles_generic::kSumKernels<float>, tiles_generic::kSumKernels<double>,
                                      tiles_generic::copy_lines<float>,  tiles_generic::copy_lines<double>,
                                      tiles_generic::depthwise<float>,   tiles_generic::depthwise<double>};
  return kKernels;
}

}  // namespace cdynamo::runtime
