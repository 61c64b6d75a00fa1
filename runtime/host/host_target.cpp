// What the host's code is generated for.
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/host/jit.h"

namespace cdynamo::runtime {
namespace {

using namespace llvm;

bool has(const StringMap<bool>& features, const char* name) {
  auto it = features.find(name);
  return it != features.end() && it->second;
}

// CDYNAMO_SIMD=sse|avx2|avx512 holds generated code to less than the processor has: to compare, and to test.
enum class Simd { kSse, kAvx2, kAvx512 };
Simd simd_limit() {
  const char* text = std::getenv("CDYNAMO_SIMD");
  std::string limit = text ? text : "avx512";
  return limit == "sse" ? Simd::kSse : limit == "avx2" ? Simd::kAvx2 : Simd::kAvx512;
}

HostTarget detect_host() {
  HostTarget target;
  target.triple = sys::getProcessTriple();
  target.cpu = sys::getHostCPUName().str();
  const Simd limit = simd_limit();
  StringMap<bool> features = sys::getHostCPUFeatures();
  for (auto& feature : features) {
    StringRef name = feature.first();
    bool avx512 = name.starts_with("avx512") || name.starts_with("avx10");
    bool avx = name.starts_with("avx") || name == "fma" || name == "f16c" || name == "vaes" ||
               name == "vpclmulqdq" || name == "xop" || name == "fma4";
    if ((avx512 && limit < Simd::kAvx512) || (avx && limit < Simd::kAvx2)) feature.second = false;
  }
  std::vector<std::string> names;
  for (const auto& feature : features) names.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) target.features += (target.features.empty() ? "" : ",") + name;
  target.has_fma = has(features, "fma");
  target.has_avx512 = has(features, "avx512f") && has(features, "avx512bw") && has(features, "avx512dq") &&
                      has(features, "avx512vl");
  target.vector_bytes = target.has_avx512 ? 64 : has(features, "avx2") ? 32 : 16;
  return target;
}

}  // namespace

const HostTarget& host_target() {
  static const HostTarget* target = new HostTarget(detect_host());
  return *target;
}

std::string compile(const std::string& name, absl::FunctionRef<void(llvm::Module&)> emit,
                    std::string* assembly, std::string* optimized_ir) {
  return compile(host_target(), CodeForm::kObject, name, emit, assembly, optimized_ir);
}

}  // namespace cdynamo::runtime
