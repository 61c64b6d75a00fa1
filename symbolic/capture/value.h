// Symbolic values: what stands on the stack of a SymbolicFrame instead of Python objects. One class for each
// kind, with the Python data model as its methods; the defaults break the graph with a record that names the
// operation and the type.
//
// Methods may throw GraphBreak (capture stops before the current instruction of the root frame), SkipFrame,
// PythonRaise (the user's program raises here, and a handler of its own may catch it), PythonError (a real
// CPython error that ends capture).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "symbolic/capture/capture_result.h"

namespace cdynamo::symbolic {

class
    Executor;  // the state of one capture: graph, guards, effects, inlined frames (symbolic/capture/executor.h)
class SymbolicValue;
using ValuePtr = std::shared_ptr<SymbolicValue>;

struct Keyword {
  PyRef name;  // str
  ValuePtr value;
};
struct CallArgs {
  std::vector<ValuePtr> positional;
  std::vector<Keyword> keywords;
};

// CPython's NB_* codes (opcode.h, whose macros collide with Op): the argument of BINARY_OP. In-place codes
// follow in the same order.
enum NumberOperation : int {
  kNbAdd,
  kNbAnd,
  kNbFloorDivide,
  kNbLshift,
  kNbMatrixMultiply,
  kNbMultiply,
  kNbRemainder,
  kNbOr,
  kNbPower,
  kNbRshift,
  kNbSubtract,
  kNbTrueDivide,
  kNbXor,
  kNbInplaceAdd,
  kNbInplaceAnd,
  kNbInplaceFloorDivide,
  kNbInplaceLshift,
  kNbInplaceMatrixMultiply,
  kNbInplaceMultiply,
  kNbInplaceRemainder,
  kNbInplaceOr,
  kNbInplacePower,
  kNbInplaceRshift,
  kNbInplaceSubtract,
  kNbInplaceTrueDivide,
  kNbInplaceXor,
};

struct GraphBreak {
  BreakRecord record;
  // The steps that linked frames have come to (SymbolicFrame::is_linked), outermost first, without the root's.
  std::vector<int64_t> inner_steps;
};
// The row of graph_breaks.def, its `what` completed by `detail`; without the user's stack.
BreakRecord break_record(const char* id, const std::string& detail);
// Looks the row up in graph_breaks.def and throws; `detail` completes its `what`.
[[noreturn]] void break_graph(const char* id, std::string detail);

// Breaks the graph where the C stack is low: Python itself runs into its recursion limit.
void check_stack();

// Leaves the whole frame to Python: End::kSkipFrame with these fields of CaptureResult.
struct SkipFrame {
  std::string reason;
  bool callees_too = false, retry_later = false;
  std::shared_ptr<CaptureResult> seen = nullptr;  // the guards up to there; filled in by capture()
};

struct PythonRaise {
  ValuePtr exception;  // an exception instance
};

class SymbolicValue : public std::enable_shared_from_this<SymbolicValue> {
 public:
  virtual ~SymbolicValue() = default;

  // The exact type that the object has at run time. Borrowed, never null.
  virtual PyTypeObject* type() const = 0;
  // For break reports: "list of 3", "tensor f32[8, 16]".
  virtual std::string describe() const;
  // The object itself where it is known and immutable (constants; tuples of constants): folding uses it.
  virtual std::optional<PyRef> as_constant() const { return std::nullopt; }
  // The live Python object that this stands for, where there is one (arguments, globals, modules, functions).
  virtual PyObject* real_object() const { return nullptr; }

  virtual ValuePtr get_attribute(Executor& ex, PyObject* name);
  virtual void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value);  // null value: delete
  virtual ValuePtr call(Executor& ex, const CallArgs& args);
  // operator.index(x) as an int that is known when the call begins; null: x is no integer, or only the graph knows it.
  virtual ValuePtr as_index(Executor& ex) { return nullptr; }
  virtual ValuePtr get_item(Executor& ex, const ValuePtr& key);
  virtual void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value);  // null value: delete
  virtual bool contains(Executor& ex, const ValuePtr& item);
  virtual ValuePtr length(Executor& ex);
  virtual ValuePtr iterate(Executor& ex);  // iter(x)
  virtual ValuePtr next(Executor& ex);     // null: exhausted
  virtual std::optional<bool> truth(
      Executor& ex);  // nullopt: known only at run time (a tensor): a branch on it breaks
  virtual ValuePtr unary(Executor& ex, Op op);
  // nullptr: NotImplemented. `reflected`: this is the right operand. NB_* as in CPython's opcode.h, in-place
  // ones included
  virtual ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected);
  virtual ValuePtr compare(Executor& ex, int py_op,
                           const ValuePtr& other);  // Py_LT ...; nullptr: NotImplemented
  virtual bool is_same_object(const SymbolicValue& other) const { return this == &other; }
  // Items of a sequence or iterator that is finite and known; nullopt otherwise.
  virtual std::optional<std::vector<ValuePtr>> unpack(Executor& ex);

  // An object that hashes and compares as this does, for use as a key of dicts and sets during capture; null:
  // not known.
  virtual PyRef hash_key(Executor& ex);

  // A real object with the same contents, for pure C functions: containers are copied, symbolic ints
  // specialised. Null (no error set) where something in it is known only at run time.
  virtual PyRef materialize(Executor& ex);

  // How the object is made after the graph has run. The same recipe each time, so that identity is kept.
  virtual RecipePtr recipe(Executor& ex) = 0;
  // Records the effects that bring the live object to the state it has here. Called once, at the end of
  // capture, for the values that were registered with Executor::mutated, in the order of their first
  // mutation.
  virtual void emit_effects(Executor& ex) {}

  // Lets go of what it holds, when the capture has ended: for values that may hold themselves
  // (Executor::State::cyclic).
  virtual void forget() {}

  SourcePtr source;  // null for what was made during capture
};

}  // namespace cdynamo::symbolic
