#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <unordered_map>

#include "graph/op.h"
#include "lowering/emit.h"
#include "lowering/emit/kernel_emitter.h"
#include "lowering/kernel_hash.h"
#include "runtime/jit.h"

namespace cdynamo::lowering {
namespace {

class Module final : public CompiledModule {
 public:
  std::vector<std::shared_ptr<runtime::LoadedCode>> code;
};

}  // namespace

std::unique_ptr<CompiledModule> emit_cpu(std::span<const Kernel> kernels, const graph::SymContext& context,
                                         const EmitOptions& options) {
  math::define_libm_symbols();
  const runtime::HostTarget& host = runtime::host_target();
  auto out = std::make_unique<Module>();
  llvm::LLVMContext llvm_context;
  llvm::Module module("cdynamo", llvm_context);
  std::vector<std::string> names;
  for (size_t i = 0; i < kernels.size(); ++i) {
    emit::KernelPlan plan = emit::plan_kernel(kernels[i], context, host);
    names.push_back("kernel_" + std::to_string(i));
    emit::KernelEmitter(module, kernels[i], plan, host).emit(names.back());
    out->kernels.push_back({nullptr, plan.work, plan.scratch_bytes, plan.cost_per_item});
  }
  std::string object = runtime::compile_to_object(module, options.assembly, options.llvm_ir);
  out->code.push_back(runtime::load_object(object, names));
  for (size_t i = 0; i < kernels.size(); ++i)
    out->kernels[i].run = reinterpret_cast<KernelFn>(out->code[0]->address(i));
  return out;
}

}  // namespace cdynamo::lowering
