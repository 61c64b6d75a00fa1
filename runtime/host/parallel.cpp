#include "runtime/host/parallel.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cdynamo::runtime {
namespace {

// How many libraries the process has ever loaded: what was not found need not be looked for again until this
// grows.
uint64_t libraries_loaded() {
  uint64_t count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t size, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

// Python loads extension modules privately, so that the default search does not see what they brought.
void* search_libraries(const char* name) {
  if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        std::string path = info->dlpi_name ? info->dlpi_name : "";
        std::string file = path.substr(path.rfind('/') + 1);
        if (file.find("torch") != std::string::npos || file.find("omp") != std::string::npos)
          static_cast<std::vector<std::string>*>(out)->push_back(path);
        return 0;
      },
      &paths);
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) continue;
    void* found = dlsym(library, name);
    // The handle's count is given back; the library was loaded before and frameworks are never unloaded.
    dlclose(library);
    if (found) return found;
  }
  return nullptr;
}

struct SymbolCache {
  struct Entry {
    void* address = nullptr;
    uint64_t searched_at = 0;
  };
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

SymbolCache& symbol_cache() {
  static auto* instance = new SymbolCache;
  return *instance;
}

// The OpenMP runtime's C entry points, which GNU's, LLVM's and Intel's all export.
struct OpenMP {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  void (*barrier)() = nullptr;
  int (*max_threads)() = nullptr;
  int (*thread_num)() = nullptr;
  int (*team_size)() = nullptr;
  int (*in_parallel)() = nullptr;
  bool complete() const {
    return parallel && barrier && max_threads && thread_num && team_size && in_parallel;
  }
};

template <typename F>
void bind(F& function, void* address) {
  function = reinterpret_cast<F>(address);
}

template <typename Find>
OpenMP bind_openmp(const Find& find) {
  OpenMP omp;
  bind(omp.parallel, find("GOMP_parallel"));
  bind(omp.barrier, find("GOMP_barrier"));
  bind(omp.max_threads, find("omp_get_max_threads"));
  bind(omp.thread_num, find("omp_get_thread_num"));
  bind(omp.team_size, find("omp_get_num_threads"));
  bind(omp.in_parallel, find("omp_in_parallel"));
  return omp;
}

// All functions have to come from one library, the one whose GOMP_parallel is found first.
OpenMP openmp_of_process() {
  void* parallel = find_process_symbol("GOMP_parallel");
  Dl_info where;
  if (!parallel || !dladdr(parallel, &where)) return {};
  void* library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return {};
  return bind_openmp([&](const char* name) { return dlsym(library, name); });
}

OpenMP openmp_of_system() {
  void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return {};
  return bind_openmp([&](const char* name) { return dlsym(library, name); });
}

// Found at the first region. Without one in the process the system's is opened: a framework that comes later
// finds it there.
const OpenMP* openmp() {
  static const OpenMP* instance = [] {
    OpenMP found = openmp_of_process();
    if (!found.complete()) found = openmp_of_system();
    return found.complete() ? new OpenMP(found) : nullptr;
  }();
  return instance;
}

std::atomic<bool> forked{false};

void watch_forks() {
  static const int watching =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  (void)watching;
}

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

// OpenMP runtimes are built without ThreadSanitizer, which is told here what they order.
#ifdef CDYNAMO_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
void happens_before(void* address) { __tsan_release(address); }
void happens_after(void* address) { __tsan_acquire(address); }
#else
void happens_before(void*) {}
void happens_after(void*) {}
#endif

struct Region {
  void (*body)(void*, const Team&);
  void* context;
  const OpenMP* omp;
  std::mutex mutex;
  std::exception_ptr error;
  // Of the caller's thread: nanoseconds in its part of the body, and of these at barriers.
  int64_t inside = 0, at_barriers = 0;
};

// Whether the threads come when they are called. Each region that would have been done sooner by the caller alone
// doubles the time until the next try.
class Contention {
 public:
  bool is_expected(int64_t now) const { return now < alone_until_.load(std::memory_order_relaxed); }

  void note(int64_t elapsed, int64_t worked, int threads, int64_t now) {
    constexpr int64_t kSlack = 200'000, kShortest = 5'000'000, kLongest = 640'000'000;
    if (elapsed <= threads * worked + kSlack) {
      pause_.store(kShortest, std::memory_order_relaxed);
      return;
    }
    const int64_t pause = pause_.load(std::memory_order_relaxed);
    alone_until_.store(now + pause, std::memory_order_relaxed);
    pause_.store(std::min(2 * pause, kLongest), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> alone_until_{0}, pause_{5'000'000};
};
Contention contention;

#ifdef CDYNAMO_TSAN
thread_local Region* current_region = nullptr;
void barrier_of_region() {
  happens_before(current_region);
  current_region->omp->barrier();
  happens_after(current_region);
}
#endif

void region_entry(void* data) {
  auto& region = *static_cast<Region*>(data);
  happens_after(&region);
  const int index = region.omp->thread_num();
  auto barrier = region.omp->barrier;
#ifdef CDYNAMO_TSAN
  current_region = &region;
  barrier = barrier_of_region;
#endif
  Team team(index, region.omp->team_size(), barrier, index == 0 ? &region.at_barriers : nullptr);
  const int64_t start = index == 0 ? clock_now() : 0;
  try {
    region.body(region.context, team);
  } catch (...) {
    std::lock_guard lock(region.mutex);
    if (!region.error) region.error = std::current_exception();
  }
  if (index == 0) region.inside = clock_now() - start;
  happens_before(&region);
}

}  // namespace

void* find_process_symbol(const char* name) {
  SymbolCache& cache = symbol_cache();
  uint64_t loaded = libraries_loaded();
  {
    std::lock_guard lock(cache.mutex);
    auto& entry = cache.entries[name];
    if (entry.address || entry.searched_at == loaded) return entry.address;
  }
  void* found = search_libraries(name);
  std::lock_guard lock(cache.mutex);
  cache.entries[name] = {found, loaded};
  return found;
}

int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int num_threads() {
  using TorchThreads = int32_t (*)(uint32_t*);
  // PyTorch says 1 inside one of its own parallel regions.
  static std::atomic<TorchThreads> torch_threads{nullptr};
  TorchThreads ask = torch_threads.load(std::memory_order_relaxed);
  if (!ask) {
    bind(ask, find_process_symbol("torch_get_num_threads"));
    if (ask) torch_threads.store(ask, std::memory_order_relaxed);
  }
  uint32_t count = 0;
  if (ask && ask(&count) == 0 && count > 0) return static_cast<int>(count);
  if (const OpenMP* omp = openmp()) return std::max(1, omp->max_threads());
  return processors();
}

void run_region(int threads, void (*body)(void*, const Team&), void* context) {
  watch_forks();
  const OpenMP* omp = threads > 1 && !forked.load(std::memory_order_relaxed) ? openmp() : nullptr;
  if (!omp || omp->in_parallel()) return body(context, Team(0, 1, nullptr));
  const int64_t start = clock_now();
  if (contention.is_expected(start)) return body(context, Team(0, 1, nullptr));
  Region region{.body = body, .context = context, .omp = omp};
  happens_before(&region);
  omp->parallel(region_entry, &region, static_cast<unsigned>(threads), 0);
  happens_after(&region);
  const int64_t end = clock_now();
  contention.note(end - start, region.inside - region.at_barriers, threads, end);
  if (region.error) std::rethrow_exception(region.error);
}

}  // namespace cdynamo::runtime
