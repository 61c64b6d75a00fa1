#include "runtime/gemm/tiles_prelude.h"

#pragma GCC optimize("O3,fp-contract=fast")
#if defined(__x86_64__)
#pragma GCC target("arch=x86-64-v3")
#endif
#define CDYNAMO_TILE_NAMESPACE tiles_avx2
#define CDYNAMO_VECTOR_BYTES 32
#define CDYNAMO_TILE_ROWS 6
#include "runtime/gemm/tiles.inc"
// after it:
#include "runtime/gemm/depthwise.inc"
#include "runtime/gemm/gathered.inc"
#include "runtime/gemm/sums.inc"

namespace cdynamo::runtime {

const TiledGemm& tiled_gemm_avx2() {
  static constexpr TiledGemm kKernels{tiles_avx2::gemm<float>,        tiles_avx2::gemm<double>,
                                      tiles_avx2::gathered<float>,    tiles_avx2::gathered<double>,
                                      tiles_avx2::kSumKernels<float>, tiles_avx2::kSumKernels<double>,
                                      tiles_avx2::copy_lines<float>,  tiles_avx2::copy_lines<double>,
                                      tiles_avx2::depthwise<float>,   tiles_avx2::depthwise<double>};
  return kKernels;
}

}  // namespace cdynamo::runtime
