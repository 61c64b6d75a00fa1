#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "runtime/host/jit.h"

namespace cdynamo::runtime {
namespace {

using namespace llvm;

// LLVM's last words. Throwing unwinds through LLVM's frames, which have unwind tables and no cleanups: what
// they held leaks, and the process lives.
[[noreturn]] void on_fatal_error(void*, const char* reason, bool) {
  throw JitError(std::string("LLVM: ") + reason);
}

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_fatal_error_handler(on_fatal_error);
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
}

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

std::unique_ptr<TargetMachine> make_machine() {
  initialize_llvm();
  const HostTarget& host = host_target();
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(host.triple, error);
  if (!target) throw JitError("LLVM has no target for " + host.triple + ": " + error);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  options.EmulatedTLS = false;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(host.triple, host.cpu, host.features,
                                                                     options, Reloc::PIC_, CodeModel::Small,
                                                                     CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) throw JitError("LLVM refused to make a target machine for " + host.cpu);
  return machine;
}

struct MachinePool {
  std::mutex mutex;
  std::vector<std::unique_ptr<TargetMachine>> idle;
};
MachinePool& pool() {
  static MachinePool* instance = new MachinePool;
  return *instance;
}

// Emission leaves little to do: loops, vectors, unrolling and hoisting are already as they should be. What
// pays is the removal of repeated and constant work.
void optimize(Module& module, TargetMachine& machine) {
  FunctionAnalysisManager functions;
  functions.registerPass([&] { return machine.getTargetIRAnalysis(); });
  LoopAnalysisManager loops;
  CGSCCAnalysisManager cgscc;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  FunctionPassManager passes;
  passes.addPass(PromotePass());
  passes.addPass(EarlyCSEPass());
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  for (Function& function : module)
    if (!function.isDeclaration()) passes.run(function, functions);
}

std::string emit(Module& module, TargetMachine& machine, CodeGenFileType type) {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    throw JitError("LLVM cannot emit code for this target");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace

const HostTarget& host_target() {
  static const HostTarget* target = new HostTarget(detect_host());
  return *target;
}

std::string HostTarget::key() const {
  return triple + "|" + cpu + "|" + features + "|" + std::to_string(vector_bytes);
}

MachineLease::MachineLease() {
  MachinePool& p = pool();
  {
    std::lock_guard lock(p.mutex);
    if (!p.idle.empty()) {
      machine_ = std::move(p.idle.back());
      p.idle.pop_back();
    }
  }
  if (!machine_) machine_ = make_machine();
}

MachineLease::~MachineLease() {
  MachinePool& p = pool();
  std::lock_guard lock(p.mutex);
  p.idle.push_back(std::move(machine_));
}

std::string compile_to_object(Module& module, std::string* assembly, std::string* optimized_ir) {
  MachineLease machine;
  std::string broken;
  raw_string_ostream broken_stream(broken);
  if (verifyModule(module, &broken_stream)) throw JitError("generated IR is invalid: " + broken);
  module.setTargetTriple((*machine).getTargetTriple().str());
  module.setDataLayout((*machine).createDataLayout());
  optimize(module, *machine);
  if (optimized_ir) {
    raw_string_ostream stream(*optimized_ir);
    module.print(stream, nullptr);
  }
  if (assembly) {
    // Code generation changes the module, so the text is made from a copy.
    std::unique_ptr<Module> copy = CloneModule(module);
    *assembly += emit(*copy, *machine, CodeGenFileType::AssemblyFile);
  }
  return emit(module, *machine, CodeGenFileType::ObjectFile);
}

}  // namespace cdynamo::runtime
