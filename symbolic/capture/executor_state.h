// What an Executor holds; shared by the files that implement it.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "symbolic/capture/branches.h"
#include "symbolic/capture/executor.h"
#include "symbolic/frames/frame.h"

namespace cdynamo::symbolic {

struct SourceHash {
  size_t operator()(const SourcePtr& source) const { return hash_source(*source); }
};
struct SourceEqual {
  bool operator()(const SourcePtr& a, const SourcePtr& b) const { return same_source(*a, *b); }
};
template <typename T>
using SourceMap = std::unordered_map<SourcePtr, T, SourceHash, SourceEqual>;

// The capture's budget. What exceeds it is left to Python.
constexpr int kMaxInlineDepth = 200;
constexpr int64_t kMaxInstructions = 2'000'000;
constexpr size_t kMaxNodes = 20'000;

class CellValue;

struct Executor::State {
  explicit State(const CaptureRequest& request);
  ~State();

  const CaptureRequest& request;
  CaptureResult result;
  graph::Builder builder;

  // ---- objects that have a value
  SourceMap<ValuePtr> by_source;
  std::unordered_map<PyObject*, ValuePtr> by_object;
  std::vector<PyRef> kept;  // objects whose address is a key above

  // ---- guards
  std::unordered_multimap<size_t, size_t> guard_index;  // hash of a guard: its index in result.guards
  SourceMap<graph::Value*> inputs;
  SourceMap<int> int_symbols;  // symbol of an int argument
  std::map<std::pair<size_t, int>, graph::Sym>
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
  std::unordered_set<const SymbolicValue*> mutated_set;
  // Names of namespaces that were assigned: dict and name to value (null: deleted).
  std::map<std::pair<PyObject*, PyObject*>, ValuePtr> globals;
  std::vector<std::pair<PyObject*, PyObject*>> globals_order;

  std::vector<Executor::Part> parts;           // outermost first
  std::unique_ptr<FollowedBranches> branches;  // null: what depends on data is not followed

  // ---- running
  SymbolicFrame* frame = nullptr;  // innermost
  int depth = 0;
  int64_t instructions = 0;
  ValuePtr handled;  // the exception that is being handled; null: none
  ValuePtr none_value;
  std::vector<std::weak_ptr<CellValue>> cells;  // made during capture
  ValuePtr last_raised;                         // the exception that was raised last, and where
  std::vector<UserFrame> raise_stack;

  // ---- the root frame
  std::vector<int> root_trace;          // instructions executed, oldest first
  std::vector<int> root_handler_steps;  // steps that raised what is being handled
  int root_raise_step = -1;             // step that raised, outside of any handler
  int64_t stop_at_step = -1;            // stop before the instruction of this step
  std::vector<int> root_values;         // by step: the next value's id when it began
  int64_t break_step = -1;              // a graph break stops before this step, not where it was met

  // Inputs on which hooks were registered.
  std::unordered_set<const graph::Value*> hooked;

  // ---- where nodes come from
  std::map<std::pair<PyCodeObject*, int>, int> locations;  // code and line to Graph::locations
  std::map<std::pair<PyCodeObject*, int>, std::string> location_texts;
  int user_call = -1;  // the call whose nodes are being made
};

// Runs `work` and turns errors of ours, and Python's that are not the user's, into graph breaks with the
// user's stack.
void with_errors_as_breaks(Executor& ex, const std::function<void()>& work);

// Thrown in the root frame where it reaches stop_at_step.
struct StopReached {};

// For one run of a frame: makes it the innermost one.
class FrameScope {
 public:
  FrameScope(Executor& ex, SymbolicFrame& frame);
  ~FrameScope();
  FrameScope(const FrameScope&) = delete;

 private:
  Executor::State& state_;
};

}  // namespace cdynamo::symbolic
