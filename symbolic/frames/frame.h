// SymbolicFrame: one activation of a Python function, stepped through instruction by instruction on symbolic
// values. What an opcode does is in frame_*.cpp, one file for each group; frame.cpp has the loop and the
// exception table.
//
//   SymbolicFrame frame(decoded(code), globals, builtins);
//   frame.locals[0] = value; ...
//   run_frame(ex, frame);          // until it returns or yields; an exception it does not handle comes out
//   as PythonRaise frame.result
//
// A generator is a frame that is run again after it has yielded.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "symbolic/bytecode/control_flow.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value.h"
#include "symbolic/frames/unrolling.h"

namespace cdynamo::symbolic {

class DictValue;  // symbolic/values/dict.h

// A code object in the form that frames step through. Shared by all frames of the code and kept for later
// captures.
struct DecodedCode {
  PyRef code;
  Program program;
  std::vector<Loop> loops;
  PyCodeObject* object() const { return reinterpret_cast<PyCodeObject*>(code.get()); }
  const char* name() const { return PyUnicode_AsUTF8(object()->co_name); }
  const char* file() const { return PyUnicode_AsUTF8(object()->co_filename); }
  bool is_library =
      false;  // torch's, NumPy's or cdynamo's own Python: reports name the caller's line instead
};
std::shared_ptr<const DecodedCode> decoded(PyCodeObject* code);

enum class FrameExit : uint8_t { kNone, kReturn, kYield, kGenerator };

class SymbolicFrame {
 public:
  SymbolicFrame(std::shared_ptr<const DecodedCode> code, PyRef globals, PyRef builtins);

  std::shared_ptr<const DecodedCode> code;
  PyRef globals, builtins;        // dicts
  std::vector<ValuePtr> closure;  // cells, copied to the free variables' slots by COPY_FREE_VARS
  // co_localsplus: locals, cells and free variables. Null: unbound.
  std::vector<ValuePtr> locals;
  // Arguments that no instruction has looked at: wrapped when one does, so that what is not used is not
  // guarded.
  std::vector<SourcePtr> pending;
  std::vector<ValuePtr> stack;  // null: an empty slot (PUSH_NULL)
  int pc = 0, next_pc = 0;      // instruction that is executed, and the one after it
  bool is_root = false;
  // The root, or what such a frame calls for the result of its CALL: Python can be given the frames up to it as they are.
  bool is_linked = false;
  int64_t step = -1;  // linked: how many instructions came before
  bool is_resumed =
      false;       // by the root, an inlined frame that was in Python's hands: it alone may hold its locals
  int level = -1;  // linked, and the capture stops in it or in what it calls: its place in stop_path
  FrameExit exit = FrameExit::kNone;
  ValuePtr result;                   // what it returned or yielded
  std::shared_ptr<DictValue> names;  // of a class body: the namespace that it fills
  ValuePtr injected;              // an exception that is raised where the frame is resumed (generator.throw)
  bool is_iterator = false;       // of a generator that stands for an iterator in C
  SymbolicFrame* back = nullptr;  // the caller, while it runs
  Unrolling unrolling;

  void push(ValuePtr value) { stack.push_back(std::move(value)); }
  ValuePtr pop() {
    ValuePtr value = std::move(stack.back());
    stack.pop_back();
    return value;
  }
  // peek(1) is the top of the stack.
  ValuePtr& peek(size_t depth) { return stack[stack.size() - depth]; }
  // What is called, in the upper or the lower of a call's two slots (`depth`: of the upper one); the other one is empty.
  ValuePtr& callable(size_t depth) { return peek(depth + 1) ? peek(depth + 1) : peek(depth); }
  std::vector<ValuePtr> pop_many(size_t count);
  void jump(int target) { next_pc = target; }

  // The value in a slot; null where it is unbound.
  const ValuePtr& local(Executor& ex, int slot);
  void set_local(int slot, ValuePtr value);
  bool is_bound(int slot) const { return locals[slot] || pending[slot]; }
  const char* slot_name(int slot) const;
  int line() const;
  UserFrame describe() const;
};

// Runs until the frame returns, yields, or raises what it has no handler for. Sets frame.exit and
// frame.result.
void run_frame(Executor& ex, SymbolicFrame& frame);
// Runs one way of a branch, up to the instruction where the other one comes by, too; it may not go back on the way, nor raise.
void run_until(Executor& ex, SymbolicFrame& frame, int meeting);

// Runs `work` and turns errors of ours, and Python's that are not the user's, into graph breaks with the
// user's stack.
void with_errors_as_breaks(Executor& ex, const std::function<void()>& work);

// frame_names.cpp: the name that an instruction is about, and what LOAD_GLOBAL finds; null: there is no such name.
PyObject* name_of(const SymbolicFrame& frame, const Instruction& in);
[[noreturn]] void raise_unknown_name(Executor& ex, PyObject* name);
ValuePtr find_global(Executor& ex, SymbolicFrame& frame, const Instruction& in);
ValuePtr find_builtin(Executor& ex, SymbolicFrame& frame, PyObject* name);

// Before a frame ends that was in Python's hands: breaks the graph where what a local holds may die and runs code then.
void let_go_of_locals(Executor& ex, SymbolicFrame& frame);

// As a resumed root returns, whose locals end in the order of their slots: breaks the graph where one holds an object whose end runs
// code, besides the argument by which it came in.
void require_ends_in_order(Executor& ex, const SymbolicFrame& root);

// Where one way of the jump does nothing but raise an error, which depends on data: the condition's truth on the other way, which
// is taken from here on (Python raises the error). Nothing otherwise, or where there is no such jump.
std::optional<bool> asserted_truth(Executor& ex, const SymbolicFrame& frame, int jump_at,
                                   const ValuePtr& condition);

// Thrown in a linked frame at the end of stop_path, and in the root at a loop that is cut.
struct StopReached {};

// An argument of entered code that it hands on as it is, to the function that it resumes: an instruction of that one looks
// at it, or none does.
class UnseenArgument final : public SymbolicValue {
 public:
  explicit UnseenArgument(SourcePtr argument) { source = std::move(argument); }
  PyTypeObject* type() const override { return &PyBaseObject_Type; }
  RecipePtr recipe(Executor& ex) override;
};

// For one run of a frame: makes it the innermost one.
class FrameScope {
 public:
  FrameScope(Executor& ex, SymbolicFrame& frame);
  ~FrameScope();
  FrameScope(const FrameScope&) = delete;

 private:
  Executor::State& state_;
};

// Records the effects on names of namespaces, at the end of a capture (frame_names.cpp).
void emit_global_effects(Executor& ex);

using OpHandler = void (*)(Executor&, SymbolicFrame&, const Instruction&);
struct OpRow {
  Op op;
  OpHandler handler;
};
inline void no_operation(Executor&, SymbolicFrame&, const Instruction&) {}
// The tables of the groups of opcodes.
std::span<const OpRow> stack_ops();
std::span<const OpRow> name_ops();
std::span<const OpRow> class_ops();
std::span<const OpRow> operator_ops();
std::span<const OpRow> build_ops();
std::span<const OpRow> call_ops();
std::span<const OpRow> control_ops();
std::span<const OpRow> exception_ops();
std::span<const OpRow> match_ops();
std::span<const OpRow> generator_ops();

}  // namespace cdynamo::symbolic
