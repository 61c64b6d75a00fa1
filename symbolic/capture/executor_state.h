// What an Executor holds; shared by the files that implement it.
#pragma once

#include <climits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

struct SourceHash {
  size_t operator()(const SourcePtr& source) const { return hash_source(*source); }
};
struct SourceEqual {
  bool operator()(const SourcePtr& a, const SourcePtr& b) const { return same_source(*a, *b); }
};
template <typename T>
using SourceMap = absl::flat_hash_map<SourcePtr, T, SourceHash, SourceEqual>;

// The capture's budget. What exceeds it is left to Python.
constexpr int kMaxInlineDepth = 200;
constexpr int64_t kMaxInstructions = 2'000'000;
constexpr size_t kMaxNodes = 20'000;

struct FollowedBranches;  // symbolic/entry/branches.h

struct AbandonedGenerator;  // symbolic/frames/abandoned_generators.h

struct DecimalContext;

struct Executor::State {
  explicit State(const CaptureRequest& request);
  ~State();

  const CaptureRequest& request;
  CaptureResult result;
  graph::Builder builder;

  // ---- objects that have a value
  SourceMap<ValuePtr> by_source;
  SourceMap<double> computed_inputs;  // floats that Python computes, as they are in this call
  std::unordered_map<PyObject*, ValuePtr> by_object;
  std::vector<PyObject*> being_wrapped;  // from the outside in
  std::vector<PyRef> kept;               // objects whose address is a key above

  // ---- guards
  absl::flat_hash_set<PyTypeObject*> named_classes;  // all keys of their namespaces are strings
  absl::flat_hash_map<size_t, absl::InlinedVector<size_t, 1>>
      guard_index;  // hash of a guard: indices in result.guards
  SourceMap<graph::Value*> inputs;
  SourceMap<int> int_symbols;  // symbol of an int argument
  absl::flat_hash_map<std::pair<size_t, int>, graph::Sym>
      size_symbols;  // by tensor source (index in size_sources) and dim
  SourceMap<size_t> size_sources;
  struct SizeSymbol {
    int symbol;
    SourcePtr source;
    int dim;
  };
  std::vector<SizeSymbol> symbols;  // one for each symbol of the graph

  // ---- side effects
  std::vector<ValuePtr> mutated;  // in the order of their first mutation
  absl::flat_hash_set<const SymbolicValue*> mutated_set;
  // Objects that the program has told from others by identity: each is none of the others of its type.
  absl::flat_hash_set<const SymbolicValue*> identities;
  // Names of namespaces that were assigned: dict and name to value (null: deleted).
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, ValuePtr> globals;
  std::vector<std::pair<PyObject*, PyObject*>> globals_order;

  // Attributes of classes that were there before, as the program has assigned them (values/class_writes.h).
  std::unordered_map<PyTypeObject*, std::vector<std::pair<PyRef, ValuePtr>>> class_attributes;

  // Calls of __hash__ and __eq__ of keys (values/instance_key.h).
  struct KeyCalls {
    int running = 0;
    bool reads_changed = false;  // one has read what was changed of a live object
    bool hashes_identity =
        false;            // one has hashed an object by its identity: a number that is none of the program's
    bool writes = false;  // something has been changed
  } key_calls;
  std::vector<Executor::IsolatedRegion> isolated_regions;  // outermost first
  std::unordered_set<ValuePtr> made_in_region;  // lists and cells that the innermost pure region has made
  // What was read in a region that runs later, and was made here: the step before which the graph breaks where it is changed.
  std::unordered_map<ValuePtr, int64_t> read_later;
  std::shared_ptr<FollowedBranches> branches;  // null: what depends on data is not followed

  int64_t live_changes = 0;  // of what was there before, and other effects: how many there were
  int64_t input_writes = 0;  // to tensors that came in

  // Calls of functions under functools.lru_cache (frames/cached_calls.cpp).
  struct CachedCalls {
    absl::flat_hash_set<PyObject*>
        that_drop;  // functions that have dropped results by now for those of captured calls
    // Of calls whose result is not held: by function and key what it is, and who may read at the end what has changed since.
    std::unordered_map<PyObject*, std::pair<PyRef, std::vector<ValuePtr>>> computed;
    struct Late {
      PyRef function;
      CallArgs args;
      int64_t step;  // of the root
      std::vector<UserFrame> stack;
    };
    std::vector<Late> late;
    int64_t unheld = 0;  // calls whose result is not held, or was not when the first of them was captured
  } cached_calls;
  std::shared_ptr<DecimalContext> decimal_context;  // null: no Decimal was met (values/decimal_context.h)

  // ---- random numbers (values/random_generator.h)
  struct Draws {
    std::unordered_map<PyObject*, PyRef>
        stand_ins;              // of generators, in the same states: capture draws from them
    std::vector<bool> symbols;  // of the graph: whether it is random
    int64_t ways = 1;           // that the program may go, each an entry, by what it has drawn
  } draws;

  // ---- classes that are made here (frames/made_classes.h)
  struct MadeClasses {
    std::unordered_map<PyObject*, ValuePtr> values;  // by the real object that stands for each
    std::unordered_map<ValuePtr, PyRef> stand_ins;
    absl::flat_hash_set<PyObject*> own;       // whatever else was made for a class: it is the capture's own
    absl::flat_hash_set<PyObject*> faithful;  // classes into which Python may look (StandIns::are_faithful)
    int64_t first_step = -1;                  // of the root, in which the first one was made; -1: none was
    std::string first_name;
    std::vector<UserFrame> first_stack;
  } made_classes;

  // ---- running
  SymbolicFrame* frame = nullptr;  // innermost
  int depth = 0;
  int64_t instructions = 0;
  // Operators with the sizes of their results, of the first `nodes_seen` nodes (hashes).
  std::unordered_set<size_t> sizes_seen;
  size_t nodes_seen = 0;
  ValuePtr handled;  // the exception that is being handled; null: none
  ValuePtr none_value;
  std::unordered_set<PyObject*> let_go;  // by a local or a container; whether they live is for Python to say
  bool let_go_of_holder = false;         // likewise of one that may have held others
  // weakref.ref(object) of objects that are made here: one for each (values/made_weak_reference.h).
  std::unordered_map<const SymbolicValue*, ValuePtr> weak_references;
  // Those with a callback of the program's: their objects may not die while capturing.
  std::vector<ValuePtr> watched_references;
  // Live objects whose end runs code, and that the stacks of frames may be alone in holding.
  std::vector<ValuePtr> held_by_stacks;
  // A live container, or a name, lets go of the object (null: of none).
  void note_let_go(PyObject* object);
  // What was changed, and so may hold itself: a list in itself, a cell and its function.
  std::unordered_map<const SymbolicValue*, std::weak_ptr<SymbolicValue>> cyclic;
  // Those that have died where a handler was waiting for them to be closed; null: no generator has started.
  std::shared_ptr<std::vector<AbandonedGenerator>> abandoned_generators;
  ValuePtr last_raised;  // the exception that was raised last, and where
  std::vector<UserFrame> raise_stack;

  // ---- where the capture stops
  // Before the last of these steps: of the root, and then of the linked frames that are called there
  // (SymbolicFrame::is_linked). Empty: where the graph breaks.
  std::vector<int64_t> stop_path;
  std::vector<std::shared_ptr<SymbolicFrame>> stopped_frames;  // that were run there, innermost first
  const SymbolicValue* callee = nullptr;  // what an instruction of a linked frame calls, for what it returns

  // Another value that is called in place of `callee`, its result unchanged.
  void hand_call_on(const SymbolicValue& from, const SymbolicValue& to) {
    if (callee == &from) callee = &to;
  }

  // ---- the root frame
  std::vector<int> root_trace;          // instructions executed, oldest first
  std::vector<int> root_handler_steps;  // steps that raised what is being handled
  int root_raise_step = -1;             // step that raised, outside of any handler
  std::vector<bool> cut_headers;        // stop before these instructions (LoopCut)
  std::vector<int> root_values;         // by step: the next value's id when it began
  static constexpr int kHandlesNothing = INT_MAX;
  std::vector<int> root_handled;  // ... the first of the steps in root_handler_steps
  int64_t break_step = -1;        // a graph break stops before this step, not where it was met

  // Inputs on which hooks were registered.
  absl::flat_hash_set<const graph::Value*> hooked;

  // ---- where nodes come from
  absl::flat_hash_map<std::pair<PyCodeObject*, int>, int> locations;  // code and line to Graph::locations
  absl::flat_hash_map<std::pair<PyCodeObject*, int>, std::string> location_texts;
  int user_call = -1;  // the call whose nodes are being made
  int open_calls = 0;  // calls that are being recorded, one inside of the other
};

// Assigns a name of a namespace; null: deletes it. An effect at the end of capture.
void assign_name(Executor& ex, PyObject* namespace_, PyObject* name, ValuePtr value);
// What was assigned to the name; null: nothing was.
const ValuePtr* assigned_name(Executor& ex, PyObject* namespace_, PyObject* name);

}  // namespace cdynamo::symbolic
