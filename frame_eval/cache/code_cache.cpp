#include "frame_eval/cache/code_cache.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "frame_eval/hook/hook.h"
#include "frame_eval/reports/events.h"
#include "frame_eval/resume/continuation.h"
#include "frame_eval/resume/entered_code.h"
#include "graph/autograd/autograd.h"
#include "graph/op.h"
#include "symbolic/entry/capture.h"
#include "symbolic/interop/counters.h"
#include "symbolic/interop/logs.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::CaptureResult;
using symbolic::counters;
using symbolic::End;
using symbolic::Topic;

// Bindings are reused from call to call; calls nest, so there is one for each depth.
class BindingsLease {
 public:
  BindingsLease() {
    if (depth_ == pool_.size()) pool_.push_back(std::make_unique<Bindings>());
    bindings_ = pool_[depth_++].get();
  }
  ~BindingsLease() {
    bindings_->owned.clear();
    --depth_;
  }
  Bindings& operator*() { return *bindings_; }

 private:
  static thread_local std::vector<std::unique_ptr<Bindings>> pool_;
  static thread_local size_t depth_;
  Bindings* bindings_;
};
thread_local std::vector<std::unique_ptr<Bindings>> BindingsLease::pool_;
thread_local size_t BindingsLease::depth_ = 0;

void count(std::atomic<int64_t>& counter) {
  // The GIL is held: no read-modify-write is needed.
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool same_kwnames(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

bool is_empty(const CaptureResult& capture) {
  return !capture.graph || (capture.graph->nodes.empty() && capture.graph->outputs.empty());
}

void set_graph_break_error(const std::string& message) {
  PyObject* make_class = symbolic::find_python_side(symbolic::PythonSide::kGraphBreakErrorClass);
  PyRef type = make_class ? PyRef::steal(PyObject_CallNoArgs(make_class)) : PyRef();
  if (type) PyErr_SetString(type.get(), message.c_str());
}

// The entries of all codes, for reset(); a cache unregisters itself when its code object is freed.
std::unordered_set<CodeCache*>& all_caches() {
  static auto* caches = new std::unordered_set<CodeCache*>();
  return *caches;
}

// What hangs in the code object's extra slot.
struct CodeExtra {
  std::vector<std::pair<ConfigPtr, std::shared_ptr<CodeCache>>> caches;
};

void free_extra(void* pointer) {
  auto* extra = static_cast<CodeExtra*>(pointer);
  if (!extra) return;  // CPython asks for every code object that has any extra
  for (auto& [config, cache] : extra->caches) all_caches().erase(cache.get());
  delete extra;
}

Py_ssize_t extra_index() {
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(free_extra);
  return index;
}

}  // namespace

std::shared_ptr<CodeCache> code_cache(PyCodeObject* code, const ConfigPtr& config) {
  PyObject* object = reinterpret_cast<PyObject*>(code);
  void* pointer = nullptr;
  if (_PyCode_GetExtra(object, extra_index(), &pointer) < 0) PyErr_Clear();
  auto* extra = static_cast<CodeExtra*>(pointer);
  if (!extra) {
    extra = new CodeExtra();
    if (_PyCode_SetExtra(object, extra_index(), extra) < 0) {
      delete extra;
      throw symbolic::PythonError{};
    }
  }
  for (auto& [key, cache] : extra->caches)
    if (key == config) return cache;
  auto cache = std::make_shared<CodeCache>(code, config);
  extra->caches.emplace_back(config, cache);
  all_caches().insert(cache.get());
  return cache;
}

void reset_all_caches() {
  // Dropping entries may run Python code (destructors) that adds caches: work on a copy.
  std::vector<CodeCache*> caches(all_caches().begin(), all_caches().end());
  for (CodeCache* cache : caches)
    if (all_caches().count(cache)) cache->clear();
}

void CodeCache::clear() {
  std::vector<std::unique_ptr<CallSignature>> dropped;
  for (auto& signature : signatures_) {
    if (signature->compiling) continue;
    auto emptied = std::make_unique<CallSignature>();
    emptied->bound = signature->bound;
    emptied->num_positional = signature->num_positional;
    emptied->kwnames = signature->kwnames;
    std::swap(*emptied, *signature);
    dropped.push_back(std::move(emptied));
  }
}

CallSignature& CodeCache::signature_for(Py_ssize_t num_positional, PyObject* kwnames, bool bound) {
  for (auto& signature : signatures_)
    if (signature->num_positional == num_positional && signature->bound == bound &&
        same_kwnames(signature->kwnames.get(), kwnames))
      return *signature;
  signatures_.push_back(std::make_unique<CallSignature>());
  CallSignature& signature = *signatures_.back();
  signature.num_positional = num_positional;
  signature.bound = bound;
  signature.kwnames = PyRef::borrow(kwnames);
  return signature;
}

Outcome CodeCache::call(const symbolic::Roots& roots, Py_ssize_t num_positional, PyObject* kwnames,
                        bool bound, OwnedArguments owned, PyRef& result) {
  CallSignature& signature = signature_for(num_positional, kwnames, bound);
  if (signature.skip) return signature.callees_too ? Outcome::kSkipFrameAndCallees : Outcome::kSkipFrame;
  BindingsLease bindings;
  auto run = [&](std::shared_ptr<Entry> entry) {  // held: reset() may drop it while it runs
    if (entry->end == End::kSkipFrame)
      return entry->callees_too ? Outcome::kSkipFrameAndCallees : Outcome::kSkipFrame;
    try {
      result = entry->run(roots, *bindings, owned);
    } catch (const RunInPython&) {
      if (entry->graph && entry->graph->stale) std::erase(signature.entries, entry);
      return Outcome::kSkipFrame;
    }
    return Outcome::kDone;
  };
  for (size_t i = 0; i < signature.entries.size(); ++i) {
    if (!signature.entries[i]->guards.check(roots, *bindings)) {
      count(counters().guard_failures);
      continue;
    }
    if (i)
      std::rotate(signature.entries.begin(), signature.entries.begin() + i,
                  signature.entries.begin() + i + 1);
    count(counters().cache_hits);
    return run(signature.entries[0]);
  }
  if (signature.compiling) return Outcome::kSkipFrame;
  if (!signature.entries.empty() && (!signature.limit_reported || log_enabled(Topic::kRecompiles)))
    explain_miss(signature, roots);
  if (at_limit(signature)) return Outcome::kSkipFrame;
  bool failed = false;
  std::shared_ptr<Entry> entry = compile(signature, roots, failed);
  if (failed) return Outcome::kDone;
  if (!entry)
    return signature.skip && signature.callees_too ? Outcome::kSkipFrameAndCallees : Outcome::kSkipFrame;
  if (entry->guards.check(roots, *bindings)) return run(entry);
  symbolic::log_warning("internal error in " + where(code_) + ": the guards of a new entry do not hold (" +
                        entry->guards.first_failure(roots).text + "); it runs in Python");
  signature.skip = true;
  return Outcome::kSkipFrame;
}

bool CodeCache::at_limit(CallSignature& signature) {
  constexpr int kWays = 8;  // through the program, each an entry, where branches are followed
  const int limit = global_config().recompile_limit * (config_->evicts ? kWays : 1);
  if (static_cast<int>(signature.entries.size()) < limit) return false;
  if (config_->evicts) {
    signature.entries.pop_back();
    return false;
  }
  if (!signature.limit_reported) {
    signature.limit_reported = true;
    symbolic::log_warning(
        where(code_) + " was compiled " + std::to_string(limit) +
        " times, which is config.recompile_limit; calls that fit none of these run in Python. "
        "CDYNAMO_LOGS=recompiles names the reasons.");
  }
  return true;
}

void CodeCache::explain_miss(CallSignature& signature, const symbolic::Roots& roots) {
  std::string text;
  bool dynamic = false;
  for (const auto& entry : signature.entries) {
    const GuardFailure failure = entry->guards.first_failure(roots);
    if (text.empty()) text = failure.text;
    for (const symbolic::DynamicHint& hint : failure.now_dynamic) {
      const bool known = std::any_of(
          signature.dynamic.begin(), signature.dynamic.end(),
          [&](const auto& other) { return other.source == hint.source && other.dim == hint.dim; });
      if (!known && !config_->is_static) {
        signature.dynamic.push_back(hint);
        dynamic = true;
      }
    }
  }
  if (!log_enabled(Topic::kRecompiles)) return;
  const bool limit = static_cast<int>(signature.entries.size()) >= global_config().recompile_limit;
  log(Topic::kRecompiles, where(code_) + (limit ? " is not compiled again: " : " is compiled again: ") +
                              text + (dynamic && !limit ? "; made dynamic" : ""));
}

std::shared_ptr<Entry> CodeCache::compile(CallSignature& signature, const symbolic::Roots& roots,
                                          bool& failed) {
  struct Compiling {
    bool& flag;
    explicit Compiling(bool& f) : flag(f) { flag = true; }
    ~Compiling() { flag = false; }
  } compiling(signature.compiling);
  HookScope no_hook(nullptr);
  count(counters().frames_seen);
  try {
    symbolic::CaptureRequest request;
    request.code = code_;
    request.roots = roots;
    request.num_positional = signature.num_positional;
    request.kwnames = signature.kwnames.get();
    request.bound = signature.bound;
    request.assume_dynamic = config_->dynamic;
    request.assume_static = config_->is_static;
    request.dynamic = signature.dynamic;
    constexpr size_t kMaxRefusals = 32;
    for (;;) {
      const int64_t breaks = counters().graph_breaks.load();
      try {
        return make_entry(signature, symbolic::capture(request), roots, failed);
      } catch (const graph::NoDerivative& refused) {
        if (refused.user_call < 0 || request.refused_calls.size() == kMaxRefusals) throw;
        request.refused_calls.emplace_back(refused.user_call, refused.message);
        counters().graph_breaks.store(breaks);
      }
    }
  } catch (const symbolic::PythonError&) {
    failed = true;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "cdynamo: an error was lost");
  } catch (const graph::Unsupported& unsupported) {
    signature.skip = true;
    symbolic::log_warning(where(code_) + " runs in Python: " + unsupported.message);
  } catch (const graph::UserError& refused) {  // a write that turns out to be none once views are worked out
    signature.skip = true;
    symbolic::log_warning(where(code_) + " runs in Python: " + refused.message);
  } catch (const std::exception& error) {
    signature.skip = true;
    const std::string text = "internal error while compiling " + where(code_) + ": " + error.what();
    if (!global_config().suppress_errors) {
      failed = true;
      PyErr_SetString(PyExc_RuntimeError, ("cdynamo: " + text).c_str());
    } else {
      symbolic::log_warning(text +
                            "; it runs in Python. Please report this with the function that shows it "
                            "(config.suppress_errors = False raises it).");
    }
  }
  return nullptr;
}

std::shared_ptr<Entry> CodeCache::make_entry(CallSignature& signature, CaptureResult capture,
                                             const symbolic::Roots& roots, bool& failed) {
  const auto start = std::chrono::steady_clock::now();
  CompileEvent event{.code = code_, .capture = &capture};
  if (capture.end != End::kReturn) counters().graph_breaks += capture.end == End::kBreak;
  if (config_->fullgraph && capture.end != End::kReturn && !capture.breaks.empty()) {
    report_compile(event);
    set_graph_break_error("fullgraph=True, and " + break_report(capture.breaks.back()));
    failed = true;
    return nullptr;
  }
  // A break before the first instruction of the function's own: what entered code begins with was all.
  if (capture.end == End::kBreak && capture.break_at < origin_of(code_).prologue)
    capture.end = End::kSkipFrame;
  const bool empty = is_empty(capture) && !global_config().keep_empty_graphs;
  // A helper without tensors is as well off in Python; replaying its side effects would need guards on what
  // it changes.
  if (capture.end == End::kReturn && empty && (signature.bound || capture.effects.empty()))
    capture.end = End::kSkipFrame;
  if (capture.end == End::kBreak && empty && signature.bound && capture.inputs.empty())
    capture.end = End::kSkipFrame;
  const char* stays =
      capture.end == End::kBreak ? Continuation::reason_not_to_enter(code_, capture) : nullptr;
  if (stays) {
    capture.end = End::kSkipFrame;
    capture.skip_reason = stays;
  }
  if (capture.end == End::kSkipFrame) {
    if (capture.skip_reason.empty()) capture.skip_reason = "it has no tensor operators";
    report_compile(event);
    if (capture.retry_later) return nullptr;
    if (!capture.uses_torch && capture.inputs.empty()) {
      signature.skip = true;
      signature.callees_too = capture.callees_too;
      return nullptr;
    }
    capture.inputs.clear();
    capture.results.clear();
    capture.effects.clear();
  }
  auto entry = std::make_shared<Entry>(capture, roots);
  event.guards = &entry->guards;
  lowering::CompileReport report;
  if (capture.end != End::kSkipFrame && !is_empty(capture)) {
    std::vector<OutputForm> forms = entry->rebuild.output_forms(entry->num_outputs);
    if (config_->backend == BackendKind::kNative) {
      entry->graph = compile_native(capture, std::move(forms), report);
      event.report = &report;
    } else {
      Bindings example;
      if (!entry->guards.check(roots, example))
        throw graph::InternalError("the guards of a new entry do not hold");
      entry->graph = compile_with_callable(capture, *config_, example, std::move(forms));
    }
    count(counters().graphs_compiled);
  }
  if (capture.end == End::kBreak) entry->continuation = Continuation::make(code_, capture, config_);
  if (capture.end != End::kSkipFrame) {
    if (!signature.entries.empty()) count(counters().recompiles);
    count(counters().frames_compiled);
    event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report_compile(event);
  }
  entry->callees_too = capture.callees_too;
  signature.entries.insert(signature.entries.begin(), entry);
  return entry;
}

}  // namespace cdynamo::frame_eval
