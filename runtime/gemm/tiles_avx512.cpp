#include "runtime/gemm/tiles_prelude.h"

#pragma GCC optimize("O3,fp-contract=fast")
#if defined(__x86_64__)
#pragma GCC target("arch=x86-64-v4")
#endif
#define CDYNAMO_TILE_NAMESPACE tiles_avx512
#define CDYNAMO_VECTOR_BYTES 64
#define CDYNAMO_TILE_ROWS 14
#include "runtime/gemm/tiles.inc"
// after it:
#include "runtime/gemm/depthwise.inc"
#include "runtime/gemm/gathered.inc"
#include "runtime/gemm/sums.inc"

namespace cdynamo::runtime {

const TiledGemm& tiled_gemm_avx512() {
  static constexpr TiledGemm kKernels{tiles_avx512::gemm<float>,        tiles_avx512::gemm<double>,
                                      tiles_avx512::gathered<float>,    tiles_avx512::gathered<double>,
                                      tiles_avx512::kSumKernels<float>, tiles_avx512::kSumKernels<double>,
                                      tiles_avx512::copy_lines<float>,  tiles_avx512::copy_lines<double>,
                                      tiles_avx512::depthwise<float>,   tiles_avx512::depthwise<double>};
  return kKernels;
}

}  // namespace cdynamo::runtime
