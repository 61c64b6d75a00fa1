// Executor: the state of one capture. Frames (symbolic/frames/frame.h) step through bytecode and call it; values
// call it to make nodes, guards and effects.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/builder.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class SymbolicFrame;  // symbolic/frames/frame.h

class Executor {
 public:
  explicit Executor(const CaptureRequest& request);
  ~Executor();

  // ---- objects to values
  // The value for a live object reached by `source`: installs the guards that its kind needs. The same object
  // (by identity) gives the same value, so aliasing is seen. Dispatches to the kinds in order: constants,
  // tensors and arrays (symbolic/torch, symbolic/numpy), containers, functions, classes, modules, user
  // objects.
  ValuePtr wrap(PyObject* object, SourcePtr source);
  ValuePtr constant(
      PyRef object);  // an immutable object known at capture, or a C-level object that is used as is
  ValuePtr constant_int(int64_t value);
  ValuePtr constant_bool(bool value);
  ValuePtr none();

  // ---- guards, effects, graph
  void guard(Guard guard);  // duplicates are dropped
  void effect(Effect effect);
  // Registers a value whose live object has to be changed after the graph has run: its emit_effects is called
  // at the end.
  void mutated(const ValuePtr& value);
  // A container or cell is about to change; `is_live`: it stands for a live object.
  void changing(const ValuePtr& value, bool is_live);
  graph::Graph& graph();
  // Its location is kept at the current user line. Nodes are made inside of a recorded call only (UserCall,
  // recorded_operator): what a backend in Python is given is made from the calls.
  graph::Builder& builder();
  // Registers a tensor, array, float or int input of the graph; the same source gives the same input.
  graph::Value* add_input(InputKind kind, SourcePtr source, graph::TensorType type);
  // A symbol for a size or int that is to be dynamic, or its constant: follows the request's dynamic hints, and marks of the
  // program's (torch._dynamo.mark_dynamic).
  graph::Sym size_symbol(const SourcePtr& source, int dim, int64_t value, bool marked = false);
  // An earlier miss has shown that this int or float changes from call to call.
  bool is_dynamic(const SourcePtr& source) const;
  // Records one Python-level call for FX export, as make_user_call (tensors/user_call.h) describes it; returns the
  // index for Node::user_call.
  int record_user_call(const PyRef& record);
  PyObject* user_calls();  // the list that CaptureResult gets; borrowed
  void uses_torch();
  void add_library_call(std::shared_ptr<LibraryCall> call);
  void changes_autocast();

  // A region of the program that eager runs again, or later: a checkpoint, the backward of a Function. It may
  // change nothing but what it makes itself: anything else breaks the graph.
  struct IsolatedRegion {
    std::string what;     // "a checkpoint"
    int region = 0;       // Node::region of what it appends
    int first_value = 0;  // the graph's values from here on are its own
    bool pure = false;    // eager runs it later only: what was made outside of it may not be changed either
    bool may_be_left_out = false;    // eager may not run it at all
    bool may_write_objects = false;  // of Python's, from outside of it
    // When gradients come: the step of the root frame before which the graph would break. -1: it runs where it stands.
    int64_t runs_later = -1;
    int first_gradient =
        0;  // such a region's gradients, and what it makes of them, are the graph's values from here on
  };
  const IsolatedRegion* isolated_region() const;  // the innermost; null: none
  void enter_isolated_region(std::string what, int region, bool pure = false);
  void leave_isolated_region();
  // An iterator is about to give an item.
  void advancing() const;
  // The program's own code asks for what may be another thing by the time that the region runs (IsolatedRegion::runs_later): the graph
  // breaks. Where one graph is demanded it is what it is now.
  void asks_later(const std::string& what) const;
  // Reads what a list, dict or cell holds, likewise. Of one that is made here the graph breaks when it is changed.
  void reads_later(SymbolicValue& container, bool is_live);

  // ---- running
  SymbolicFrame* frame();  // innermost
  std::vector<UserFrame> user_stack() const;

  // What symbolic/torch and symbolic/numpy keep for this capture.
  std::shared_ptr<void> framework_state;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Python's operations on values, with the slot algorithms of CPython (which method is asked first, reflected
// operands).
ValuePtr binary_operation(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right);
ValuePtr compare_operation(Executor& ex, int py_op, const ValuePtr& left, const ValuePtr& right);
bool is_true(Executor& ex, const ValuePtr& value);  // breaks the graph where it is known only at run time

}  // namespace cdynamo::symbolic
