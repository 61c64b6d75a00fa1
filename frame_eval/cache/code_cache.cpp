#include "frame_eval/cache/code_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frame_eval/cache/entry_pool.h"
#include "frame_eval/cache/owner.h"
#include "frame_eval/cache/passes_arrays.h"
#include "frame_eval/cache/unused_draws.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/hook/stance.h"
#include "frame_eval/reports/events.h"
#include "frame_eval/resume/continuation.h"
#include "frame_eval/resume/entered_code.h"
#include "frame_eval/resume/loop_cuts.h"
#include "graph/autograd/autograd.h"
#include "graph/op.h"
#include "graph/time_budget.h"
#include "symbolic/entry/capture.h"
#include "symbolic/interop/counters.h"
#include "symbolic/interop/interruption.h"
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
  BindingsLease() : pool_(pool_of_thread()) {
    if (pool_.depth == pool_.all.size()) pool_.all.push_back(std::make_unique<Bindings>());
    bindings_ = pool_.all[pool_.depth++].get();
  }
  ~BindingsLease() {
    bindings_->owned.clear();
    bindings_->outputs.clear();
    bindings_->generators.clear();
    --pool_.depth;
  }
  Bindings& operator*() { return *bindings_; }

 private:
  struct Pool {
    std::vector<std::unique_ptr<Bindings>> all;
    size_t depth = 0;
  };
  static Pool& pool_of_thread() {
    static thread_local Pool pool;
    return pool;
  }
  Pool& pool_;
  Bindings* bindings_;
};

void count(std::atomic<int64_t>& counter) {
  // The GIL is held: no read-modify-write is needed.
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool is_empty(const CaptureResult& capture) {
  return !capture.graph || (capture.graph->nodes.empty() && capture.graph->outputs.empty());
}

void bring_to_front(std::vector<std::shared_ptr<Entry>>& entries, const std::shared_ptr<Entry>& entry) {
  const auto found = std::find(entries.begin(), entries.end(), entry);
  if (found != entries.end()) std::rotate(entries.begin(), found, found + 1);
}

std::string class_name(PyTypeObject* type) {
  const std::string qualified = type->tp_name;
  return qualified.substr(qualified.rfind('.') + 1);
}

// "Block (model.py:30)": the place is that of its forward.
std::string name_of_module(PyTypeObject* type) {
  static PyObject* forward = PyUnicode_InternFromString("forward");
  const std::string name = class_name(type);
  PyObject* method = _PyType_Lookup(type, forward);
  if (!method || !PyFunction_Check(method)) return name;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method));
  return is_library_code(code) ? name : absl::StrCat(name, " (", place(code), ")");
}

// The methods of torch.nn.Module that a call of it goes through.
bool is_call_of_module(PyCodeObject* code) {
  for (const char* name : {"forward", "_wrapped_call_impl", "_call_impl"})
    if (PyUnicode_CompareWithASCIIString(code->co_name, name) == 0) return true;
  return false;
}

// What the user knows the code by: the module's class where a module is called, or its method where that is torch's.
std::string name_of(PyCodeObject* code, PyObject* receiver, const std::string& owner) {
  if (receiver && is_call_of_module(code)) return name_of_module(Py_TYPE(receiver));
  if (!is_library_code(code)) return where(code);
  if (!receiver) return owner;
  return absl::StrCat(class_name(Py_TYPE(receiver)), ".", PyUnicode_AsUTF8(code->co_name));
}

void set_graph_break_error(const std::string& message) {
  PyObject* make_class = symbolic::find_python_side(symbolic::PythonSide::kGraphBreakErrorClass);
  PyRef type = make_class ? PyRef::steal(PyObject_CallNoArgs(make_class)) : PyRef();
  if (type) PyErr_SetString(type.get(), message.c_str());
}

// Up to 3.11 a function of its own, whose argument is the iterator.
bool is_comprehension(PyCodeObject* code) {
  if (code->co_argcount == 0) return false;
  PyRef names = PyRef::steal(PyCode_GetVarnames(code));
  if (!names) throw symbolic::PythonError{};
  return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), 0), ".0") == 0;
}

}  // namespace

CodeCache::CodeCache(Owner& owner, PyCodeObject* code, PyObject* receiver, bool is_root)
    : owner_(owner),
      code_(code),
      name_(is_root ? owner.name() : name_of(code, receiver, owner.name())),
      is_root_(is_root),
      has_receiver_(receiver != nullptr),
      pool_(entry_pool(code, owner.config(), receiver ? Py_TYPE(receiver) : nullptr)) {}

std::string CodeCache::full_name() const {
  return name_ == owner_.name() ? name_ : absl::StrCat(name_, ", called by ", owner_.name(), ",");
}

void CodeCache::clear() {
  std::vector<std::unique_ptr<CallSignature>> dropped;
  for (auto& signature : signatures_) {
    if (signature->compiling) continue;
    auto emptied = std::make_unique<CallSignature>();
    emptied->form = signature->form;
    std::swap(*emptied, *signature);
    dropped.push_back(std::move(emptied));
  }
  forget_loop_cuts(code_);
}

void CodeCache::retire() {
  for (auto& signature : signatures_)
    for (auto& entry : signature->entries) pool_->retire(entry);
}

CallSignature& CodeCache::signature_for(Py_ssize_t num_positional, PyObject* kwnames, bool bound) {
  for (auto& signature : signatures_)
    if (signature->form.is(num_positional, kwnames, bound)) return *signature;
  signatures_.push_back(std::make_unique<CallSignature>());
  CallSignature& signature = *signatures_.back();
  signature.form = {num_positional, PyRef::borrow(kwnames), bound};
  return signature;
}

// What the stance says of a call that nothing is compiled for; nothing: to compile it.
std::optional<Outcome> CodeCache::instead_of_compiling(CallSignature& signature) {
  switch (current_stance()) {
    case Stance::kDefault: return std::nullopt;
    case Stance::kForceEager:
    case Stance::kEagerOnRecompile: return Outcome::kSkipFrameAndCallees;
    case Stance::kFailOnRecompile:
      PyErr_SetString(
          PyExc_RuntimeError,
          absl::StrCat("Detected recompile when the stance is 'fail_on_recompile'. function: ", full_name())
              .c_str());
      return Outcome::kDone;
    case Stance::kEagerThenCompile:
      if (std::exchange(signature.called, true)) return std::nullopt;
      return Outcome::kSkipFrameAndCallees;
  }
  return std::nullopt;
}

Outcome CodeCache::call(const symbolic::Roots& roots, Py_ssize_t num_positional, PyObject* kwnames,
                        bool bound, OwnedArguments owned, PyRef& result) {
  CallSignature& signature = signature_for(num_positional, kwnames, bound);
  if (signature.skip)
    return signature.callees_too || signature.quiet.passes() ? Outcome::kSkipFrameAndCallees
                                                             : Outcome::kSkipFrame;
  if (is_loss(signature)) {
    if (symbolic::log_enabled(Topic::kPerf))
      symbolic::log(
          Topic::kPerf,
          full_name() + " is left to Python: it computes little for what its graph breaks and guards cost");
    signature.skip = true;
    return Outcome::kSkipFrame;
  }
  BindingsLease bindings;
  for (size_t i = 0; i < signature.entries.size(); ++i) {
    // Held: another thread, or reset(), may drop it while it is checked or runs.
    std::shared_ptr<Entry> entry = signature.entries[i];
    if (!entry->guards.check(roots, *bindings)) {
      count(counters().guard_failures);
      continue;
    }
    if (i) bring_to_front(signature.entries, entry);
    signature.searches.found(i, entry->gain);
    if (yield_) yield_->ran(entry->gain, entry->cost);
    count(counters().cache_hits);
    return run(std::move(entry), signature, roots, *bindings, owned, result);
  }
  if (signature.compiling) return Outcome::kSkipFrame;
  if (std::shared_ptr<Entry> entry = take_over(signature, roots, *bindings)) {
    count(counters().cache_hits);
    return run(std::move(entry), signature, roots, *bindings, owned, result);
  }
  if (const std::optional<Outcome> instead = instead_of_compiling(signature)) return *instead;
  if (signature.wait > 0) {
    --signature.wait;
    return Outcome::kSkipFrame;
  }
  drop_dead(signature);
  if (!signature.limit_reported || log_enabled(Topic::kRecompiles)) explain_miss(signature, roots);
  if (at_limit(signature)) {
    signature.searches.found(signature.entries.size(), 0);
    return Outcome::kSkipFrame;
  }
  bool failed = false;
  std::shared_ptr<Entry> entry = compile(signature, roots, failed);
  if (failed || symbolic::raise_interruption()) return Outcome::kDone;
  if (!entry)
    return signature.skip && signature.callees_too ? Outcome::kSkipFrameAndCallees : Outcome::kSkipFrame;
  if (entry->guards.check(roots, *bindings))
    return run(std::move(entry), signature, roots, *bindings, owned, result);
  symbolic::log_warning(absl::StrCat("internal error in ", full_name(),
                                     ": the guards of a new entry do not hold (",
                                     entry->guards.first_failure(roots).text, "); it runs in Python"));
  signature.skip = true;
  entry->cache_fills.reset();
  return Outcome::kSkipFrame;
}

void CodeCache::note_call_in_python(Py_ssize_t num_positional, int64_t activity) {
  CallSignature& signature = signature_for(num_positional, nullptr, true);
  if (signature.skip) signature.quiet.note(activity, owner_.activity());
}

bool CodeCache::is_loss(const CallSignature& signature) const {
  if (owner_.config()->fullgraph || owner_.config()->evicts) return false;
  return signature.searches.are_loss() || (yield_ && begins_frame_ && yield_->is_loss());
}

void CodeCache::note_yield(const CaptureResult& capture) {
  const CodeOrigin* origin = known_origin(code_);
  if (!origin || global_config().keep_empty_graphs) return;  // it has not broken
  begins_frame_ = origin->instructions.empty();
  if (!yield_) yield_ = owner_.yield_of(origin->original);
  yield_->add(capture);
}

// Numbers of tensors that keep being others than what was compiled for: the graph is to break where they are read. Not where
// the program demands one graph.
void CodeCache::give_up_reading(CallSignature& signature, const std::shared_ptr<Entry>& entry) {
  constexpr int kMostUnexpected = 8;
  if (++signature.unexpected_numbers < kMostUnexpected || owner_.config()->fullgraph) return;
  signature.reads_data = false;
  std::erase(signature.entries, entry);
}

Outcome CodeCache::run(std::shared_ptr<Entry> entry, CallSignature& signature, const symbolic::Roots& roots,
                       Bindings& bindings, OwnedArguments owned, PyRef& result) {
  if (entry->end == End::kSkipFrame) {
    bindings.generators.put_back();
    return entry->callees_too ? Outcome::kSkipFrameAndCallees : Outcome::kSkipFrame;
  }
  owner_.note_activity();
  try {
    result = entry->run(owner_, roots, bindings, owned);
    if (signature.unexpected_numbers) signature.unexpected_numbers = 0;
  } catch (const RunInPython& rerun) {
    bindings.generators.put_back();
    entry->cache_fills.reset();
    count(counters().calls_in_python);
    if (symbolic::log_enabled(symbolic::Topic::kPerf) && !rerun.why.empty())
      symbolic::log(symbolic::Topic::kPerf,
                    absl::StrCat(full_name(), ": this call runs in Python: ", rerun.why));
    if (entry->graph && entry->graph->stale) std::erase(signature.entries, entry);
    if (rerun.unexpected_number) give_up_reading(signature, entry);
    return Outcome::kSkipFrame;
  } catch (const MissingSource& missing) {
    bindings.generators.put_back();
    entry->cache_fills.reset();
    bool failed = false;
    signature.skip = true;
    report_internal_error(("no guard says that there is " + missing.name).c_str(), failed);
    return failed ? Outcome::kDone : Outcome::kSkipFrame;
  }
  return Outcome::kDone;
}

std::shared_ptr<Entry> CodeCache::take_over(CallSignature& signature, const symbolic::Roots& roots,
                                            Bindings& bindings) {
  if (signature.limit_reported) return nullptr;
  for (const std::shared_ptr<Entry>& entry : pool_->entries(signature.form)) {
    if (std::find(signature.entries.begin(), signature.entries.end(), entry) != signature.entries.end())
      continue;
    if ((entry->graph && entry->graph->stale) || !entry->guards.check(roots, bindings, false)) continue;
    signature.entries.insert(signature.entries.begin(), entry);
    return entry;
  }
  return nullptr;
}

int CodeCache::limit() const {
  constexpr int kWays = 8;  // through the program, each an entry, where branches are followed
  return global_config().recompile_limit * (owner_.config()->evicts ? kWays : 1);
}

// What was compiled for classes and objects that are gone. It goes on to count: a class that is made for each call is
// not worth a compile each.
void CodeCache::drop_dead(CallSignature& signature) {
  const auto dead = std::ranges::stable_partition(signature.entries,
                                                  [](const auto& entry) { return !entry->guards.is_dead(); });
  const std::vector<std::shared_ptr<Entry>> dropped(dead.begin(), dead.end());
  signature.entries.erase(dead.begin(), dead.end());
  signature.dead += static_cast<int>(dropped.size());
}

bool CodeCache::at_limit(CallSignature& signature) {
  if (static_cast<int>(signature.entries.size()) + signature.dead < limit()) return false;
  if (owner_.config()->evicts) {
    if (signature.entries.empty()) return false;
    const std::shared_ptr<Entry> dropped = std::move(signature.entries.back());
    signature.entries.pop_back();
    return false;
  }
  if (!signature.limit_reported) {
    signature.limit_reported = true;
    symbolic::log_warning(
        absl::StrCat(full_name(), " was compiled ", limit(),
                     " times, which is config.recompile_limit; calls that fit none of these run in Python. "
                     "CDYNAMO_LOGS=recompiles names the reasons."));
  }
  return true;
}

// What has to become dynamic for `entry` to fit the call; its text is the reason where there is none yet.
bool CodeCache::learn_from(const Entry& entry, CallSignature& signature, const symbolic::Roots& roots,
                           std::string& text) const {
  bool dynamic = false;
  const GuardFailure failure = entry.guards.first_failure(roots);
  if (text.empty()) text = failure.text;
  for (const symbolic::DynamicHint& hint : failure.now_dynamic) {
    const bool known =
        std::any_of(signature.dynamic.begin(), signature.dynamic.end(),
                    [&](const auto& other) { return other.source == hint.source && other.dim == hint.dim; });
    if (known || owner_.config()->is_static) continue;
    signature.dynamic.push_back(hint);
    dynamic = true;
  }
  return dynamic;
}

void CodeCache::explain_miss(CallSignature& signature, const symbolic::Roots& roots) {
  std::string text;
  bool dynamic = false;
  // The function may have been made for this call alone: what its predecessors have seen counts as seen.
  if (signature.entries.empty())
    for (const auto& entry : pool_->retired(signature.form)) learn_from(*entry, signature, roots, text);
  for (const auto& entry : std::vector(signature.entries))
    dynamic |= learn_from(*entry, signature, roots, text);
  if (signature.entries.empty() || !log_enabled(Topic::kRecompiles)) return;
  const bool no_more =
      static_cast<int>(signature.entries.size()) + signature.dead >= limit() && !owner_.config()->evicts;
  log(Topic::kRecompiles,
      absl::StrCat(full_name(), no_more ? " is not compiled again: " : " is compiled again: ", text,
                   dynamic && !no_more ? "; made dynamic" : ""));
}

// Logged, and the call runs in Python; or, as config.suppress_errors says, raised.
void CodeCache::report_internal_error(const char* what, bool& failed) const {
  const std::string text = absl::StrCat("internal error while compiling ", full_name(), ": ", what);
  if (!global_config().suppress_errors) {
    failed = true;
    PyErr_SetString(PyExc_RuntimeError, ("cdynamo: " + text).c_str());
    return;
  }
  symbolic::log_warning(text +
                        "; it runs in Python. Please report this with the function that shows it "
                        "(config.suppress_errors = False raises it).");
}

std::shared_ptr<Entry> CodeCache::compile(CallSignature& signature, const symbolic::Roots& roots,
                                          bool& failed) {
  struct Compiling {
    bool& flag;
    explicit Compiling(bool& f) : flag(f) { flag = true; }
    ~Compiling() { flag = false; }
  } compiling(signature.compiling);
  HookScope no_hook(nullptr);
  const PyRef code_lives = PyRef::borrow(reinterpret_cast<PyObject*>(code_));
  count(counters().frames_seen);
  owner_.note_activity();
  try {
    symbolic::CaptureRequest request;
    request.code = code_;
    request.roots = roots;
    request.num_positional = signature.form.num_positional;
    request.kwnames = signature.form.kwnames.get();
    request.bound = signature.form.bound;
    request.assume_dynamic = owner_.config()->dynamic;
    request.assume_static = owner_.config()->is_static;
    request.dynamic = signature.dynamic;
    request.leaves_loops = !owner_.config()->fullgraph;
    request.is_native = owner_.config()->backend == BackendKind::kNative;
    request.reads_data = request.is_native && signature.reads_data;
    request.compiles = [](PyCodeObject* code) { return code_verdict(code) == CodeVerdict::kCompile; };
    // Where one graph is demanded, a loop in which others have met a break is not cut: it may break no more, or is an error.
    if (!(owner_.config()->fullgraph && is_root_)) add_loop_cuts(code_, request);
    constexpr size_t kMaxRefusals = 32;
    for (;;) {
      const graph::TimeBudget budget(global_config().compile_seconds);
      bool may_unroll_less = false, has_read_data = false;
      try {
        CaptureResult capture = symbolic::capture(request);
        may_unroll_less = capture.unrolls_long_loop && request.leaves_loops;
        has_read_data = capture.graph &&
                        std::ranges::any_of(capture.graph->sym->symbols(), &graph::SymbolInfo::from_data);
        return make_entry(signature, std::move(capture), roots, failed);
      } catch (const graph::NoDerivative& refused) {
        if (refused.user_call < 0 || request.refused_calls.size() == kMaxRefusals) throw;
        request.refused_calls.emplace_back(refused.user_call, refused.message);
      } catch (const graph::TimeExceeded&) {
        // Once more, without the loops that made the graph so large.
        if (request.leaves_long_loops || !may_unroll_less) throw;
        request.leaves_long_loops = true;
      } catch (const graph::Unsupported&) {
        // Once more, in parts that know the numbers.
        if (!has_read_data || !request.reads_data) throw;
        request.reads_data = signature.reads_data = false;
      }
    }
  } catch (const symbolic::PythonError&) {
    failed = PyErr_Occurred() != nullptr;
    if (!failed) report_internal_error("a Python error was lost", failed);
  } catch (const graph::Unsupported& unsupported) {
    signature.skip = true;
    symbolic::log_warning(absl::StrCat(full_name(), " runs in Python: ", unsupported.message));
  } catch (const graph::DataDependent& unknown) {
    signature.skip = true;
    symbolic::log_warning(absl::StrCat(
        full_name(), " runs in Python: it depends on a number that is read from a tensor: ", unknown.text));
  } catch (const graph::UserError& refused) {  // a write that turns out to be none once views are worked out
    signature.skip = true;
    symbolic::log_warning(absl::StrCat(full_name(), " runs in Python: ", refused.message));
  } catch (const StackIsFull&) {  // another call may be less deep
  } catch (const std::exception& error) {
    signature.skip = true;
    report_internal_error(error.what(), failed);
  }
  return nullptr;
}

// What is not worth an entry, or cannot have one.
bool CodeCache::is_left_to_python(const CaptureResult& capture, const CallSignature& signature,
                                  const symbolic::Roots& roots) const {
  if (capture.end == End::kSkipFrame) return true;
  if (!is_empty(capture) || global_config().keep_empty_graphs) return false;
  // What else Python runs meanwhile (finalizers, import hooks) would be taken for the program's, which is to be one graph.
  if (owner_.config()->fullgraph && !signature.form.bound) return false;
  // A helper without tensors is as well off in Python; replaying its side effects would need guards on what
  // it changes.
  if (capture.end == End::kReturn) return signature.form.bound || capture.effects.empty();
  if (!signature.form.bound || !capture.inputs.empty()) return false;
  // What the turns of a comprehension compute is not known yet. The turns of other loops may call layer after layer: these have
  // entries of their own.
  const bool has_turns = std::ranges::any_of(capture.cuts, [](const auto& cut) { return !cut.whole; });
  return !(has_turns && is_comprehension(code_) && passes_arrays(roots));
}

std::unique_ptr<CompiledGraph> CodeCache::compile_graph(const CaptureResult& capture, const Entry& entry,
                                                        const symbolic::Roots& roots,
                                                        NativeReport& report) const {
  std::vector<OutputForm> forms = entry.rebuild.output_forms(entry.num_outputs);
  if (owner_.config()->backend == BackendKind::kNative)
    return compile_native(capture, std::move(forms), owner_.config()->mode, report);
  Bindings example;
  if (!entry.guards.check(roots, example)) throw graph::Unsupported(entry.guards.first_failure(roots).text);
  example.generators.put_back();
  return compile_with_callable(capture, *owner_.config(), example, roots.globals, std::move(forms));
}

std::shared_ptr<Entry> CodeCache::make_entry(CallSignature& signature, CaptureResult capture,
                                             const symbolic::Roots& roots, bool& failed) {
  const auto start = std::chrono::steady_clock::now();
  CompileEvent event{.code = code_, .name = name_, .is_root = is_root_, .capture = &capture};
  if (owner_.config()->fullgraph && capture.end != End::kReturn && !capture.breaks.empty() &&
      !capture.breaks.back().is_error_of_program()) {
    const std::string report = break_report(capture.breaks.back());
    tell(event);
    set_graph_break_error("fullgraph=True, and " + report);
    failed = true;
    return nullptr;
  }
  if (owner_.config()->fullgraph && capture.refused) {
    tell(event);
    set_graph_break_error(
        absl::StrCat("fullgraph=True, and ", full_name(), " runs in Python: ", capture.skip_reason));
    failed = true;
    return nullptr;
  }
  const char* stays = capture.end == End::kBreak ? Continuation::reason_not_to_enter(capture) : nullptr;
  if (stays) {
    capture.end = End::kSkipFrame;
    capture.skip_reason = stays;
  }
  if (is_left_to_python(capture, signature, roots)) {
    // Where there is nothing to compute, nothing is broken.
    if (signature.form.bound && is_empty(capture) && !passes_arrays(roots)) capture.breaks.clear();
    capture.end = End::kSkipFrame;
    if (capture.skip_reason.empty()) capture.skip_reason = "it has no tensor operators";
    tell(event);
    if (capture.retry_later) {
      signature.capture_later();
      return nullptr;
    }
    drop_unused_draws(capture);
    if (!capture.uses_torch && capture.inputs.empty() && capture.draws.empty()) {
      signature.skip = true;
      signature.callees_too = capture.callees_too;
      return nullptr;
    }
    // The sizes of what was an input are those of a tensor that is only looked at.
    for (symbolic::SymbolBinding& symbol : capture.symbols)
      if (symbol.input >= 0) symbol.source = capture.inputs[std::exchange(symbol.input, -1)].source;
    capture.inputs.clear();
    capture.results.clear();
    capture.effects.clear();
  }
  auto entry = std::make_shared<Entry>(capture, roots);
  entry->form = signature.form;
  entry->callees_too = capture.callees_too;
  entry->gain = gain_of(capture);
  entry->cost = cost_of(capture);
  if (capture.end != End::kSkipFrame) {
    event.guards = &entry->guards;
    NativeReport report;
    if (!is_empty(capture)) {
      entry->graph = compile_graph(capture, *entry, roots, report);
      if (owner_.config()->backend == BackendKind::kNative) event.report = &report;
      count(counters().graphs_compiled);
    }
    if (capture.end == End::kBreak) entry->continuation = Continuation::make(capture);
    note_loop_cuts(code_, capture);
    note_yield(capture);
    if (!signature.entries.empty()) count(counters().recompiles);
    count(counters().frames_compiled);
    if (has_receiver_ && !is_root_) owner_.count_entry_of_receiver(code_);
    event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tell(event);
  }
  if (capture.end != End::kSkipFrame) entry->cache_fills = std::move(capture.cache_fills);
  signature.entries.insert(signature.entries.begin(), entry);
  signature.put_off = 0;
  pool_->add(entry);
  return entry;
}

void CodeCache::tell(CompileEvent& event) {
  // Each place once: what is below it on the stack breaks there as well.
  CaptureResult& capture = *event.capture;
  std::erase_if(capture.breaks, [&](const symbolic::BreakRecord& record) { return !owner_.is_new(record); });
  counters().graph_breaks += static_cast<int64_t>(capture.breaks.size());
  report_compile(event);
}

}  // namespace cdynamo::frame_eval
