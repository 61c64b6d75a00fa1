#include "runtime/host/jit.h"

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
#include <mutex>
#include <set>

namespace cdynamo::runtime {
namespace {

using namespace llvm;
using namespace llvm::orc;

// One session for the life of the process. It is never destroyed: code may be dropped during interpreter
// exit, after static destructors would have run.
struct Session {
  std::unique_ptr<ExecutionSession> session;
  std::unique_ptr<ObjectLinkingLayer> layer;
  JITDylib* helpers = nullptr;
  std::mutex mutex;  // guards `defined`
  std::set<std::string> defined;
  std::atomic<uint64_t> next_id{0};
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
};

Session& session() {
  static Session* instance = new Session;
  return *instance;
}

class Loaded final : public LoadedCode {
 public:
  explicit Loaded(JITDylib& dylib) : dylib_(&dylib) {}
  ~Loaded() override { consumeError(session().session->removeJITDylib(*dylib_)); }
  void add(void* address) { addresses_.push_back(address); }

 private:
  JITDylib* dylib_;
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

void check_llvm(Error error, const char* what) {
  if (!error) return;
  throw JitError(std::string(what) + ": " + toString(std::move(error)));
}

void define_symbols(std::span<const std::pair<const char*, void*>> symbols) {
  Session& s = session();
  std::lock_guard lock(s.mutex);
  SymbolMap map;
  for (const auto& [name, address] : symbols) {
    if (!s.defined.insert(name).second) continue;
    map[s.session->intern(name)] = {ExecutorAddr::fromPtr(address),
                                    JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  }
  if (!map.empty())
    check_llvm(s.helpers->define(absoluteSymbols(std::move(map))), "defining helper functions");
}

std::unique_ptr<LoadedCode> load_object(std::string_view object, const std::vector<std::string>& symbols,
                                        const std::string& display_name) {
  Session& s = session();
  JITDylib& dylib = s.session->createBareJITDylib("code" + std::to_string(s.next_id++));
  auto loaded = std::make_unique<Loaded>(dylib);  // removes the dylib on every way out
  dylib.addToLinkOrder(*s.helpers);
  auto buffer = MemoryBuffer::getMemBufferCopy(StringRef(object.data(), object.size()), "kernels");
  check_llvm(s.layer->add(dylib, std::move(buffer)), "adding object code");
  SymbolLookupSet set;
  for (const std::string& name : symbols) set.add(s.session->intern(name));
  Session::reported.clear();
  auto found = s.session->lookup(makeJITDylibSearchOrder(&dylib), std::move(set));
  check_llvm(found.takeError(), ("linking object code (" + Session::reported + ")").c_str());
  for (const std::string& name : symbols)
    loaded->add(found->find(s.session->intern(name))->second.getAddress().toPtr<void*>());
  write_perf_map(display_name, *loaded);
  return loaded;
}

}  // namespace cdynamo::runtime
