// From scheduled kernels to callable code.
#include <llvm/IR/Module.h>

#include "graph/op.h"
#include "lowering/codegen/kernel_store.h"
#include "lowering/cpu/emit.h"
#include "lowering/cpu/kernel_emitter.h"
#include "lowering/loops/kernel_hash.h"
#include "runtime/host/jit.h"

namespace cdynamo::lowering {
namespace {

constexpr const char* kFunctionName = "kernel";

class Module final : public CompiledModule {
 public:
  std::vector<std::shared_ptr<void>> code;
};

emit::KernelSource source_of(const ScheduledKernel& kernel, const emit::KernelPlan& plan,
                             const SizeFacts& facts) {
  const runtime::HostTarget& host = runtime::host_target();
  return {.key = emit::emitter_version() + "\n" + host.key() + "\n" + serialize(kernel) + facts.about(kernel),
          .compile =
              [&](std::string* llvm_ir, std::string* assembly) {
                auto emit = [&](llvm::Module& module) {
                  emit::KernelEmitter(module, kernel, plan, host).emit(kFunctionName);
                };
                return runtime::compile(kernel.name, emit, assembly, llvm_ir);
              },
          .load = [&](const std::string& object) -> std::shared_ptr<void> {
            return runtime::load_object(object, {kFunctionName}, kernel.name);
          }};
}

}  // namespace

std::unique_ptr<CompiledModule> emit_cpu(std::span<const ScheduledKernel> kernels,
                                         const graph::SymContext& context, const EmitOptions& options) {
  math::define_libm_symbols();
  auto out = std::make_unique<Module>();
  std::vector<emit::KernelPlan> plans;
  plans.reserve(kernels.size());
  std::vector<emit::KernelSource> sources;
  const SizeFacts facts(context);
  for (const ScheduledKernel& kernel : kernels) {
    plans.push_back(emit::plan_kernel(kernel, context, runtime::host_target()));
    sources.push_back(source_of(kernel, plans.back(), facts));
  }
  out->code = emit::obtain_kernels(sources, options, *out);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto& code = *static_cast<const runtime::LoadedCode*>(out->code[i].get());
    const emit::KernelPlan& plan = plans[i];
    out->kernels.push_back({.code = reinterpret_cast<const void*>(code.address(0)),
                            .grid = plan.work,
                            .scratch_bytes = plan.scratch_bytes,
                            .cost_per_item = plan.cost_per_item});
  }
  return out;
}

}  // namespace cdynamo::lowering
