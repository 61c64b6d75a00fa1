#include "lowering/codegen/kernel_store.h"

#include <absl/strings/str_cat.h>

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "graph/time_budget.h"
#include "runtime/codegen/llvm_compile.h"
#include "runtime/host/hash.h"
#include "runtime/host/kernel_cache.h"

namespace cdynamo::lowering::emit {
namespace {

using runtime::Hash128;
using Code = std::shared_ptr<void>;

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
  std::map<Hash128, std::weak_ptr<void>> loaded_;
  size_t live_ = 0;
};

// One distinct kernel of the graph.
struct Unit {
  const KernelSource* source;
  Hash128 hash;
  Code code;
  std::string object, llvm_ir, assembly;
};

void compile_unit(Unit& unit, bool keep_text) {
  unit.object =
      unit.source->compile(keep_text ? &unit.llvm_ir : nullptr, keep_text ? &unit.assembly : nullptr);
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

// True when the unit's code came from the disk.
bool load_from_disk(Unit& unit) {
  auto object = runtime::KernelCache::process().get(unit.source->key);
  if (!object) return false;
  try {
    unit.code = unit.source->load(*object);
    return true;
  } catch (const runtime::JitError&) {
    return false;  // whole, and yet not what this process takes: compiled anew
  }
}

}  // namespace

const std::string& emitter_version() {
  static const auto* version = [] {
    Dl_info info;
    struct stat file;
    std::string text = "1";
    if (dladdr(reinterpret_cast<void*>(&obtain_kernels), &info) && info.dli_fname &&
        stat(info.dli_fname, &file) == 0)
      text += "/" + std::to_string(file.st_size) + "/" + std::to_string(file.st_mtim.tv_sec) + "/" +
              std::to_string(file.st_mtim.tv_nsec);
    return new std::string(text);
  }();
  return *version;
}

std::vector<std::shared_ptr<void>> obtain_kernels(const std::vector<KernelSource>& sources,
                                                  const EmitOptions& options, CompiledModule& counts) {
  std::vector<Unit> units;
  std::map<Hash128, size_t> unit_of_hash;
  std::vector<size_t> unit_of_source;
  for (const KernelSource& source : sources) {
    const Hash128 hash = runtime::hash_bytes(
        source.device == 0 ? source.key : absl::StrCat(source.key, "\ndevice ", source.device));
    auto [it, is_new] = unit_of_hash.try_emplace(hash, units.size());
    if (is_new) units.push_back({&source, hash, nullptr, {}, {}, {}});
    unit_of_source.push_back(it->second);
  }
  std::vector<Unit*> missing;
  for (Unit& unit : units) {
    if (!options.keep_text) unit.code = Registry::process().find(unit.hash);
    if (unit.code) continue;
    if (options.use_disk_cache && !options.keep_text && load_from_disk(unit)) {
      ++counts.kernels_from_disk;
      Registry::process().add(unit.hash, unit.code);
    } else {
      missing.push_back(&unit);
    }
  }
  compile_units(missing, options.keep_text);
  for (Unit* unit : missing) {
    unit->code = unit->source->load(unit->object);
    Registry::process().add(unit->hash, unit->code);
    if (options.use_disk_cache) runtime::KernelCache::process().put(unit->source->key, unit->object);
    if (options.llvm_ir) *options.llvm_ir += unit->llvm_ir;
    if (options.assembly) *options.assembly += unit->assembly;
    ++counts.kernels_compiled;
  }
  std::vector<std::shared_ptr<void>> result;
  for (size_t unit : unit_of_source) result.push_back(units[unit].code);
  return result;
}

}  // namespace cdynamo::lowering::emit
