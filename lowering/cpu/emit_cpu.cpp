// From kernels to callable code: plan, look up what exists (in this graph, in this process, on disk), compile
// the rest.
#include <dlfcn.h>
#include <llvm/IR/Module.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "graph/op.h"
#include "graph/time_budget.h"
#include "lowering/cpu/emit.h"
#include "lowering/cpu/kernel_emitter.h"
#include "lowering/loops/kernel_hash.h"
#include "runtime/host/hash.h"
#include "runtime/host/jit.h"
#include "runtime/host/kernel_cache.h"

namespace cdynamo::lowering {
namespace {

using runtime::Hash128;
using Code = std::shared_ptr<runtime::LoadedCode>;

constexpr const char* kFunctionName = "kernel";

// Every kernel that this process has loaded and still holds, by the hash of its key.
class Registry {
 public:
  static Registry& process() {
    static auto* instance = new Registry;
    return *instance;
  }
  Code find(const Hash128& hash) {
    std::lock_guard lock(mutex_);
    auto it = loaded_.find(hash);
    return it == loaded_.end() ? nullptr : it->second.lock();
  }
  void add(const Hash128& hash, const Code& code) {
    std::lock_guard lock(mutex_);
    if (loaded_.size() > 2 * live_ + 64) {
      std::erase_if(loaded_, [](const auto& entry) { return entry.second.expired(); });
      live_ = loaded_.size();
    }
    loaded_[hash] = code;
  }

 private:
  std::mutex mutex_;
  std::map<Hash128, std::weak_ptr<runtime::LoadedCode>> loaded_;
  size_t live_ = 0;
};

// Tells this build of the emitter from others: the file it was loaded from.
const std::string& emitter_version() {
  static const auto* version = [] {
    Dl_info info;
    struct stat file;
    std::string text = "1";
    if (dladdr(reinterpret_cast<void*>(&emit_cpu), &info) && info.dli_fname &&
        stat(info.dli_fname, &file) == 0)
      text += "/" + std::to_string(file.st_size) + "/" + std::to_string(file.st_mtim.tv_sec) + "/" +
              std::to_string(file.st_mtim.tv_nsec);
    return new std::string(text);
  }();
  return *version;
}

class Module final : public CompiledModule {
 public:
  std::vector<Code> code;
};

// One distinct kernel of the graph.
struct Unit {
  const ScheduledKernel* kernel;
  const emit::KernelPlan* plan;
  std::string key;
  Hash128 hash;
  Code code;
  std::string object, llvm_ir, assembly;
};

void compile_unit(Unit& unit, bool keep_text) {
  auto emit = [&](llvm::Module& module) {
    emit::KernelEmitter(module, *unit.kernel, *unit.plan, runtime::host_target()).emit(kFunctionName);
  };
  unit.object = runtime::compile(unit.kernel->name, emit, keep_text ? &unit.assembly : nullptr,
                                 keep_text ? &unit.llvm_ir : nullptr);
}

// On as many threads as there is work for: each kernel is a module of its own.
void compile_units(const std::vector<Unit*>& units, bool keep_text) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  graph::TimeBudget* const budget = graph::TimeBudget::current();
  const std::thread::id owner = std::this_thread::get_id();
  auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++) {
      try {
        const int64_t start = graph::processor_nanoseconds();
        compile_unit(*units[i], keep_text);
        graph::TimeBudget::check();
        if (budget && std::this_thread::get_id() != owner) {
          budget->charge(graph::processor_nanoseconds() - start);
          if (budget->spent_by_others()) throw graph::TimeExceeded();
        }
      } catch (...) {
        next = units.size();
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  size_t helpers =
      std::min<size_t>({units.size() / 2, std::max(1u, std::thread::hardware_concurrency()) - 1, 15});
  std::vector<std::thread> threads;
  try {
    for (size_t i = 0; i < helpers; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do it.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

Code load(const std::string& object, const Unit& unit) {
  return runtime::load_object(object, {kFunctionName}, unit.kernel->name);
}

// True when the unit's code came from the disk.
bool load_from_disk(Unit& unit) {
  auto object = runtime::KernelCache::process().get(unit.key);
  if (!object) return false;
  try {
    unit.code = load(*object, unit);
    return true;
  } catch (const runtime::JitError&) {
    return false;  // whole, and yet not what this linker takes: compiled anew
  }
}

}  // namespace

std::unique_ptr<CompiledModule> emit_cpu(std::span<const ScheduledKernel> kernels,
                                         const graph::SymContext& context, const EmitOptions& options) {
  math::define_libm_symbols();
  const runtime::HostTarget& host = runtime::host_target();
  auto out = std::make_unique<Module>();
  std::vector<emit::KernelPlan> plans;
  plans.reserve(kernels.size());
  std::vector<Unit> units;
  std::map<Hash128, size_t> unit_of_hash;
  std::vector<size_t> unit_of_kernel;
  for (const ScheduledKernel& kernel : kernels) {
    plans.push_back(emit::plan_kernel(kernel, context, host));
    std::string key = emitter_version() + "\n" + host.key() + "\n" + serialize(kernel);
    Hash128 hash = runtime::hash_bytes(key);
    auto [it, is_new] = unit_of_hash.try_emplace(hash, units.size());
    if (is_new) units.push_back({&kernel, &plans.back(), std::move(key), hash, nullptr, {}, {}, {}});
    unit_of_kernel.push_back(it->second);
  }

  std::vector<Unit*> missing;
  for (Unit& unit : units) {
    if (!options.keep_text) unit.code = Registry::process().find(unit.hash);
    if (unit.code) continue;
    if (options.use_disk_cache && !options.keep_text && load_from_disk(unit)) {
      ++out->kernels_from_disk;
      Registry::process().add(unit.hash, unit.code);
    } else {
      missing.push_back(&unit);
    }
  }
  compile_units(missing, options.keep_text);
  for (Unit* unit : missing) {
    unit->code = load(unit->object, *unit);
    Registry::process().add(unit->hash, unit->code);
    if (options.use_disk_cache) runtime::KernelCache::process().put(unit->key, unit->object);
    if (options.llvm_ir) *options.llvm_ir += unit->llvm_ir;
    if (options.assembly) *options.assembly += unit->assembly;
    ++out->kernels_compiled;
  }

  for (size_t i = 0; i < kernels.size(); ++i) {
    const Code& code = units[unit_of_kernel[i]].code;
    const emit::KernelPlan& plan = plans[i];
    out->kernels.push_back(
        {reinterpret_cast<const void*>(code->address(0)), plan.work, plan.scratch_bytes, plan.cost_per_item});
    out->code.push_back(code);
  }
  return out;
}

}  // namespace cdynamo::lowering
