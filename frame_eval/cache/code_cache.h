// The compiled entries of one code object under one Config, a list for each signature of arguments.
//
//   look up: the guards of each entry in turn, the one that held last first
//   miss:    the reason in the user's terms, what changed becomes dynamic, capture and compile a new entry
//   limit:   after config.recompile_limit entries the old ones still serve and the rest runs eagerly
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/execution/rebuild.h"
#include "frame_eval/hook/owned_arguments.h"

namespace cdynamo::frame_eval {

class Continuation;

// One compiled way through a function: to its end, or to a graph break and on in Python. An entry that ends
// in kSkipFrame only says that such calls run in Python.
struct Entry {
  Entry(const symbolic::CaptureResult& capture, const symbolic::Roots& roots);
  ~Entry();

  // The function's result; a new reference, null with a Python error.
  // `owned` is dropped before Python goes on after a graph break.
  PyRef run(const symbolic::Roots& roots, Bindings& bindings, OwnedArguments owned);

  symbolic::End end;
  GuardTree guards;
  Rebuild rebuild;
  std::unique_ptr<CompiledGraph> graph;        // null: nothing to compute
  std::unique_ptr<Continuation> continuation;  // kBreak
  size_t num_outputs = 0;
  bool callees_too = false;  // kSkipFrame: kSkipFrameAndCallees
};

// Entries for calls that pass their arguments in the same way.
struct CallSignature {
  bool bound = false;  // the arguments are a frame's slots
  Py_ssize_t num_positional = 0;
  PyRef kwnames;  // tuple or null

  std::vector<std::shared_ptr<Entry>> entries;
  std::vector<symbolic::DynamicHint> dynamic;
  bool callees_too = false;  // with skip: kSkipFrameAndCallees
  bool skip = false;         // nothing can be captured: always Python
  bool limit_reported = false;
  bool compiling = false;  // a thread is at it: the others run eagerly
};

enum class Outcome : uint8_t {
  kDone,
  kSkipFrame,            // run the function in Python; what it calls may be compiled
  kSkipFrameAndCallees,  // run it in Python, and what it calls too
};

class CodeCache {
 public:
  CodeCache(PyCodeObject* code, ConfigPtr config) : code_(code), config_(std::move(config)) {}

  // Runs a compiled entry for the call, compiling one where that is possible. kDone: `result` is the
  // function's, null with a Python error set.
  Outcome call(const symbolic::Roots& roots, Py_ssize_t num_positional, PyObject* kwnames, bool bound,
               OwnedArguments owned, PyRef& result);

  PyCodeObject* code() const { return code_; }
  const ConfigPtr& config() const { return config_; }
  void clear();

 private:
  CallSignature& signature_for(Py_ssize_t num_positional, PyObject* kwnames, bool bound);
  // Null: run in Python, or (failed) a Python error is set.
  std::shared_ptr<Entry> compile(CallSignature& signature, const symbolic::Roots& roots, bool& failed);
  std::shared_ptr<Entry> make_entry(CallSignature& signature, symbolic::CaptureResult capture,
                                    const symbolic::Roots& roots, bool& failed);
  void explain_miss(CallSignature& signature, const symbolic::Roots& roots);
  bool at_limit(CallSignature& signature);

  PyCodeObject* code_;  // borrowed: the cache lives in the code object's extra slot
  ConfigPtr config_;
  std::vector<std::unique_ptr<CallSignature>> signatures_;
};

// The cache of a code object under a config, made at the first call.
std::shared_ptr<CodeCache> code_cache(PyCodeObject* code, const ConfigPtr& config);
// Drops every entry of every code object.
void reset_all_caches();

}  // namespace cdynamo::frame_eval
