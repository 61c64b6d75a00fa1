// The compiled entries that one owner has of one code object (of a module's method: for one module), a list for
// each form of arguments.
//
//   look up: the guards of each entry in turn, the one that held last first
//   miss:    an entry of another owner's that fits is taken over; else the reason in the user's terms, what
//            changed becomes dynamic, capture and compile a new entry
//   limit:   after config.recompile_limit entries the old ones still serve and the rest runs eagerly
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frame_eval/cache/entry.h"
#include "frame_eval/cache/frame_yield.h"
#include "frame_eval/hook/config.h"

namespace cdynamo::frame_eval {

class EntryPool;
struct CompileEvent;

// Entries for calls that pass their arguments in the same way.
struct CallSignature {
  ArgumentForm form;
  std::vector<std::shared_ptr<Entry>> entries;
  int dead = 0;  // entries that were dropped because the classes or objects that they were for are gone
  std::vector<symbolic::DynamicHint> dynamic;
  bool callees_too = false;  // with skip: kSkipFrameAndCallees
  bool skip = false;         // nothing can be captured: always Python
  bool limit_reported = false;
  Searches searches;
  bool called = false;         // under Stance::kEagerThenCompile
  bool compiling = false;      // a thread is at it: the others run eagerly
  bool reads_data = true;      // CaptureRequest::reads_data
  QuietCalls quiet;            // with skip
  int unexpected_numbers = 0;  // calls in a row that ended in CallFailure::kUnexpectedNumber
  // Captures in a row that were put off to another call (CaptureResult::retry_later), and how many calls are not worth another one.
  int put_off = 0, wait = 0;

  void capture_later() {
    constexpr int kAtOnce = 4, kMostDoublings = 9;
    if (++put_off > kAtOnce) wait = 1 << std::min(put_off - kAtOnce, kMostDoublings);
  }
};

enum class Outcome : uint8_t {
  kDone,
  kSkipFrame,            // run the function in Python; what it calls may be compiled
  kSkipFrameAndCallees,  // run it in Python, and what it calls too
};

class CodeCache {
 public:
  // `receiver`: the module whose method the code is, or null. `is_root`: the code is that of what was optimized.
  CodeCache(Owner& owner, PyCodeObject* code, PyObject* receiver, bool is_root);

  // Runs a compiled entry for the call, compiling one where that is possible. kDone: `result` is the
  // function's, null with a Python error set. Its owner lives meanwhile.
  Outcome call(const symbolic::Roots& roots, Py_ssize_t num_positional, PyObject* kwnames, bool bound,
               OwnedArguments owned, PyRef& result);

  // A call was left to Python, which has run it; `activity`: the owner's before.
  void note_call_in_python(Py_ssize_t num_positional, int64_t activity);

  void clear();
  void retire();  // hands all entries to the pool: the owner is gone

  // A call of the cache that runs: it may be given up meanwhile.
  class Running {
   public:
    explicit Running(CodeCache& cache) : cache_(cache) { ++cache.num_running_; }
    ~Running() {
      if (--cache_.num_running_ == 0 && cache_.itself_) {
        const std::shared_ptr<CodeCache> last = std::move(cache_.itself_);
      }
    }
    Running(const Running&) = delete;

   private:
    CodeCache& cache_;
  };
  // Drops it, once no call of it runs. Dropping entries may run Python code.
  static void give_up(std::shared_ptr<CodeCache> cache) {
    if (CodeCache* running = cache && cache->num_running_ > 0 ? cache.get() : nullptr)
      running->itself_ = std::move(cache);
  }

 private:
  std::optional<Outcome> instead_of_compiling(CallSignature& signature);
  void give_up_reading(CallSignature& signature, const std::shared_ptr<Entry>& entry);
  CallSignature& signature_for(Py_ssize_t num_positional, PyObject* kwnames, bool bound);
  Outcome run(std::shared_ptr<Entry> entry, CallSignature& signature, const symbolic::Roots& roots,
              Bindings& bindings, OwnedArguments owned, PyRef& result);
  // Null: none fits.
  std::shared_ptr<Entry> take_over(CallSignature& signature, const symbolic::Roots& roots,
                                   Bindings& bindings);
  // Null: run in Python, or (failed) a Python error is set.
  std::shared_ptr<Entry> compile(CallSignature& signature, const symbolic::Roots& roots, bool& failed);
  std::shared_ptr<Entry> make_entry(CallSignature& signature, symbolic::CaptureResult capture,
                                    const symbolic::Roots& roots, bool& failed);
  void report_internal_error(const char* what, bool& failed) const;
  bool is_left_to_python(const symbolic::CaptureResult& capture, const CallSignature& signature,
                         const symbolic::Roots& roots) const;
  std::unique_ptr<CompiledGraph> compile_graph(const symbolic::CaptureResult& capture, const Entry& entry,
                                               const symbolic::Roots& roots, NativeReport& report) const;
  bool learn_from(const Entry& entry, CallSignature& signature, const symbolic::Roots& roots,
                  std::string& text) const;
  void explain_miss(CallSignature& signature, const symbolic::Roots& roots);
  bool at_limit(CallSignature& signature);
  // It costs more than it gains. Not where the program demands one graph.
  bool is_loss(const CallSignature& signature) const;
  void note_yield(const symbolic::CaptureResult& capture);
  static void drop_dead(CallSignature& signature);
  int limit() const;
  std::string full_name() const;  // with that of what was optimized, where it is another
  void tell(CompileEvent& event);

  Owner& owner_;
  PyCodeObject* code_;  // borrowed: the owner forgets this cache when the code object goes
  std::string name_;    // as reports call what is compiled here
  bool is_root_, has_receiver_;
  std::shared_ptr<FrameYield>
      yield_;                  // of the function, shared with its resumed pieces; null: nothing has broken
  bool begins_frame_ = false;  // with yield_: this is the function, no resumed piece
  std::shared_ptr<EntryPool> pool_;
  std::vector<std::unique_ptr<CallSignature>> signatures_;
  int num_running_ = 0;
  std::shared_ptr<CodeCache> itself_;  // given up while it runs
};

}  // namespace cdynamo::frame_eval
