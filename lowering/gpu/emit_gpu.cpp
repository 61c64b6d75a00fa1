// From scheduled kernels to functions on a device. What is kept on disk is the assembled kernel and, before it, what only
// emission knows.
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "lowering/codegen/kernel_store.h"
#include "lowering/gpu/emit.h"
#include "lowering/loops/kernel_hash.h"
#include "runtime/cuda/module.h"
#include "runtime/host/kernel_cache.h"

namespace cdynamo::lowering::gpu {
namespace {

namespace cuda = runtime::cuda;

class Module final : public CompiledModule {
 public:
  std::vector<std::shared_ptr<void>> code;
};

struct LoadedGpuKernel {
  LoadedGpuKernel(std::string_view cubin, const std::string& function, const cuda::DeviceInfo& device,
                  int64_t shared_bytes)
      : shared_bytes(shared_bytes), kernel(cubin, function.c_str(), device, shared_bytes) {}
  int64_t shared_bytes;
  cuda::LoadedKernel kernel;
};

// What a kernel is given, which its code and its plan say alike.
std::string describe(const ThreadPlan& plan) {
  std::string text =
      absl::StrCat(plan.lanes_outer, " ", plan.scans, " ", plan.outer_threads, " ", plan.inner_threads, " ",
                   plan.outer_vector, " ", plan.inner_vector, " ", plan.tiles, " ", plan.whole_row, " ",
                   plan.narrow, " ", plan.resident_blocks);
  for (const ScratchPlace& place : plan.scratch) absl::StrAppend(&text, " ", place.where);
  return text;
}

emit::KernelSource source_of(const ScheduledKernel& kernel, const ThreadPlan& plan, const SizeFacts& facts,
                             const Architecture& architecture, const cuda::DeviceInfo& device) {
  constexpr size_t kHeader = sizeof(int64_t);
  return {.key = absl::StrCat(emit::emitter_version(), "\ncuda ", architecture.cpu(), " ",
                              device.compute_capability, " ",
                              reinterpret_cast<uintptr_t>(device.context) != 0, " ", describe(plan), " ",
                              function_name(kernel), "\n", serialize(kernel), facts.about(kernel)),
          .device = device.index,
          .compile =
              [&](std::string* llvm_ir, std::string* assembly) {
                KernelCode code;
                const std::string ptx = emit_ptx(kernel, plan, architecture, &code, llvm_ir);
                if (assembly) *assembly += ptx;
                std::string object(kHeader, '\0');
                std::memcpy(object.data(), &code.shared_bytes, kHeader);
                try {
                  return object + cuda::assemble(ptx, device);
                } catch (const cuda::CudaError& error) {
                  throw runtime::JitError(error.message);
                }
              },
          .load = [&](const std::string& object) -> std::shared_ptr<void> {
            int64_t shared_bytes = 0;
            if (object.size() <= kHeader) throw runtime::JitError("a kernel without code");
            std::memcpy(&shared_bytes, object.data(), kHeader);
            try {
              return std::make_shared<LoadedGpuKernel>(std::string_view(object).substr(kHeader),
                                                       function_name(kernel), device, shared_bytes);
            } catch (const cuda::CudaError& error) {
              throw runtime::JitError(error.message);
            }
          }};
}

// Of plans one of which is known to be the fastest, that one.
void keep_known(std::vector<ThreadPlan>& plans, const std::string& key) {
  const std::optional<std::string> known = runtime::KernelCache::process().get(key);
  size_t number = 0;
  if (!known || !absl::SimpleAtoi(*known, &number) || number >= plans.size()) return;
  plans = {ThreadPlan(plans[number])};
}

CompiledKernel describe(const ScheduledKernel& kernel, const ThreadPlan& plan,
                        const LoadedGpuKernel& loaded) {
  return {.code = loaded.kernel.function(),
          .grid = {plan.blocks},
          .scratch_bytes = plan.global_scratch,
          .block = {.threads = plan.threads(),
                    .shared_bytes = loaded.shared_bytes,
                    .symbols = symbols_of(kernel, plan),
                    .takes_scratch = !(plan.global_scratch == Sym()),
                    .takes_error = checks_indices(kernel)}};
}

}  // namespace

std::string function_name(const ScheduledKernel& kernel) {
  std::string name = absl::StrCat("cdynamo_", kernel.name);
  for (char& c : name)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

runtime::CodeTarget code_target(const Architecture& architecture) {
  return {"nvptx64-nvidia-cuda", architecture.cpu(), architecture.features()};
}

std::string emit_ptx(const ScheduledKernel& kernel, const ThreadPlan& plan, const Architecture& architecture,
                     KernelCode* code, std::string* llvm_ir) {
  return runtime::compile(
      code_target(architecture), runtime::CodeForm::kAssembly, kernel.name,
      [&](llvm::Module& module) { *code = KernelEmitter(module, kernel, plan).emit(function_name(kernel)); },
      nullptr, llvm_ir);
}

std::unique_ptr<CompiledModule> emit_gpu(std::span<const ScheduledKernel> kernels,
                                         const graph::SymContext& context, const Architecture& architecture,
                                         const cuda::DeviceInfo& device, const EmitOptions& options) {
  auto out = std::make_unique<Module>();
  std::vector<std::vector<ThreadPlan>> plans;  // of each kernel: the one to begin with, and others
  std::vector<std::string> keys;
  std::vector<emit::KernelSource> sources;
  const SizeFacts facts(context);
  plans.reserve(kernels.size());
  for (const ScheduledKernel& kernel : kernels) {
    plans.push_back(options.offers_variants
                        ? plan_variants(kernel, context, architecture)
                        : std::vector<ThreadPlan>{plan_threads(kernel, context, architecture)});
    keys.push_back(absl::StrCat("fastest of ", plans.back().size(), ", ", device.processors, "\n",
                                source_of(kernel, plans.back()[0], facts, architecture, device).key));
    if (plans.back().size() > 1) keep_known(plans.back(), keys.back());
    for (const ThreadPlan& plan : plans.back())
      sources.push_back(source_of(kernel, plan, facts, architecture, device));
  }
  out->code = emit::obtain_kernels(sources, options, *out);
  size_t next = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::vector<CompiledKernel> ways;
    for (const ThreadPlan& plan : plans[i])
      ways.push_back(
          describe(kernels[i], plan, *static_cast<const LoadedGpuKernel*>(out->code[next++].get())));
    CompiledKernel& kernel = out->kernels.emplace_back(std::move(ways[0]));
    ways.erase(ways.begin());
    kernel.variants = std::move(ways);
    kernel.variants_key = keys[i];
  }
  return out;
}

}  // namespace cdynamo::lowering::gpu
