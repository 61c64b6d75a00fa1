#include "runtime/host/jit.h"

#include <absl/strings/str_cat.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/MemoryBuffer.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace cdynamo::runtime {
namespace {

using namespace llvm;
using namespace llvm::orc;

using Symbols = std::map<std::string, void*>;

// Sessions are never destroyed: code may be dropped during interpreter exit, after static destructors would have run.
struct Session {
  std::unique_ptr<ExecutionSession> session;
  std::unique_ptr<ObjectLinkingLayer> layer;
  JITDylib* helpers = nullptr;
  std::atomic<uint64_t> next_id{0};
  // An exception went through LLVM's frames, which may have held the session's lock: nothing more is asked of it.
  std::atomic<bool> broken{false};
  static inline thread_local std::string reported;  // what LLVM said since the last load on this thread

  Session() {
    auto control = SelfExecutorProcessControl::Create(std::make_shared<SymbolStringPool>(),
                                                      std::make_unique<InPlaceTaskDispatcher>());
    check_llvm(control.takeError(), "starting the JIT");
    session = std::make_unique<ExecutionSession>(std::move(*control));
    // lookup() says only that it failed; why is said here, on the same thread since linking happens in place.
    session->setErrorReporter(
        [](Error error) { reported += (reported.empty() ? "" : "; ") + toString(std::move(error)); });
    layer = std::make_unique<ObjectLinkingLayer>(*session);
    helpers = &session->createBareJITDylib("helpers");
  }
  void define(const Symbols& symbols) {
    SymbolMap map;
    for (const auto& [name, address] : symbols)
      map[session->intern(name)] = {ExecutorAddr::fromPtr(address),
                                    JITSymbolFlags::Exported | JITSymbolFlags::Callable};
    if (!map.empty())
      check_llvm(helpers->define(absoluteSymbols(std::move(map))), "defining helper functions");
  }
};

// One session at a time, and another where it broke.
struct CurrentSession {
  std::mutex mutex;
  Session* session = nullptr;
  Symbols symbols;  // that every session has

  static CurrentSession& process() {
    static auto* instance = new CurrentSession;
    return *instance;
  }
  Session& get() {  // with `mutex` held
    if (session && !session->broken) return *session;
    auto fresh = std::make_unique<Session>();
    fresh->define(symbols);
    return *(session = fresh.release());
  }
};

Session& session() {
  CurrentSession& current = CurrentSession::process();
  std::lock_guard lock(current.mutex);
  return current.get();
}

// Runs `work` inside LLVM's session.
template <typename F>
auto inside(Session& session, F work) {
  try {
    return work();
  } catch (const FatalError&) {
    session.broken = true;
    throw;
  } catch (const std::bad_alloc&) {
    session.broken = true;
    throw JitError("LLVM: out of memory");
  }
}

class Loaded final : public LoadedCode {
 public:
  Loaded(Session& session, JITDylib& dylib) : session_(session), dylib_(dylib) {}
  ~Loaded() override {
    if (session_.broken) return;
    try {
      inside(session_, [&] { consumeError(session_.session->removeJITDylib(dylib_)); });
    } catch (const JitError&) {
      // The code stays.
    }
  }
  void add(void* address) { addresses_.push_back(address); }

 private:
  Session& session_;
  JITDylib& dylib_;
};

// Linux perf reads /tmp/perf-PID.map. Sizes are not known here: each function reaches to the next, the last
// one 16 KiB.
void write_perf_map(const std::string& name, const LoadedCode& code) {
  static const bool enabled = std::getenv("CDYNAMO_PERF_MAP") != nullptr;
  if (!enabled) return;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  FILE* file = std::fopen(path.c_str(), "a");
  if (!file) return;
  for (size_t i = 0; i < code.size(); ++i) {
    auto start = reinterpret_cast<uintptr_t>(code.address(i));
    uintptr_t size = 0x4000;
    for (size_t j = 0; j < code.size(); ++j) {
      auto other = reinterpret_cast<uintptr_t>(code.address(j));
      if (other > start) size = std::min(size, other - start);
    }
    std::fprintf(file, "%lx %lx cdynamo::%s\n", static_cast<unsigned long>(start),
                 static_cast<unsigned long>(size), name.c_str());
  }
  std::fclose(file);
}

}  // namespace

void define_symbols(std::span<const std::pair<const char*, void*>> symbols) {
  CurrentSession& current = CurrentSession::process();
  std::lock_guard lock(current.mutex);
  Symbols added;
  for (const auto& [name, address] : symbols)
    if (!current.symbols.contains(name)) added[name] = address;
  if (added.empty()) return;
  Session& session = current.get();
  inside(session, [&] { session.define(added); });
  current.symbols.merge(added);
}

std::unique_ptr<LoadedCode> load_object(std::string_view object, const std::vector<std::string>& symbols,
                                        const std::string& display_name) {
  Session& s = session();
  std::unique_ptr<Loaded> loaded;  // removes the dylib on every way out
  inside(s, [&] {
    JITDylib& dylib = s.session->createBareJITDylib(absl::StrCat("code", s.next_id++));
    loaded = std::make_unique<Loaded>(s, dylib);
    dylib.addToLinkOrder(*s.helpers);
    auto buffer = MemoryBuffer::getMemBufferCopy(StringRef(object.data(), object.size()), "kernels");
    check_llvm(s.layer->add(dylib, std::move(buffer)), "adding object code");
    SymbolLookupSet set;
    for (const std::string& name : symbols) set.add(s.session->intern(name));
    Session::reported.clear();
    auto found = s.session->lookup(makeJITDylibSearchOrder(&dylib), std::move(set));
    check_llvm(found.takeError(), absl::StrCat("linking object code (", Session::reported, ")").c_str());
    for (const std::string& name : symbols)
      loaded->add(found->find(s.session->intern(name))->second.getAddress().toPtr<void*>());
  });
  write_perf_map(display_name, *loaded);
  return loaded;
}

}  // namespace cdynamo::runtime
