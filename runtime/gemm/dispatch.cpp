#include "runtime/gemm/kernels.h"

namespace cdynamo::runtime {

const TiledGemm& tiled_gemm() {
#if defined(__x86_64__)
  static const TiledGemm& best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
          ? tiled_gemm_avx512()
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? tiled_gemm_avx2()
                                                                        : tiled_gemm_generic();
  return best;
#else
  return tiled_gemm_generic();
#endif
}

}  // namespace cdynamo::runtime
