// Entered code: the code of a function, entered in the middle with a given stack and given locals.
//
// Its parameters are its own cells and the live locals, in the order of the original's slots, in which a frame lets go of them at
// its end, and the stack's items. A local that is unbound there, and bound later, has its place among them: it is given None, and deleted
// before anything else. An argument that is captured by inner functions has a cell's slot, which MAKE_CELL fills:
// entered code comes in behind that, with the cell itself for argument. A short prologue pushes the stack and jumps to the place;
// what follows is the original code, slots renumbered, so its line table, its exception table and its loops are the original's.
// Resume functions are made this way, and so are continuations, which differ in one thing: on each way out of the instruction that
// they enter at, a stub calls a resume function.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "symbolic/bytecode/bytecode.h"
#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

using symbolic::Program;
using symbolic::PyRef;

// Where to enter: an instruction of the original code, which stack slots are empty, which locals hold values.
struct EntryPoint {
  int target = 0;
  std::vector<bool> empty_slots;  // one for each stack slot, from the bottom; true: NULL
  std::vector<int> locals;        // slots of the original code, ascending; cells and free variables left out
  std::vector<int> unbound;       // below the last of these, bound later (slots_bound_later), ascending
  bool has_empty_slots() const {
    return std::find(empty_slots.begin(), empty_slots.end(), true) != empty_slots.end();
  }
  friend auto operator<=>(const EntryPoint&, const EntryPoint&) = default;
};

// The names of a code object's slots: co_varnames, then the cells that are none of them, then the free variables. One of these may have
// the name of a local: that of a comprehension that 3.12 and later compile in its function.
struct SlotNames {
  std::vector<std::string> names;
  int first_free = 0;
};
SlotNames slot_names(PyCodeObject* code);

// A code object as the user wrote it, decoded once. It holds a copy of the code object, so that nothing
// refers back to the caches that hang on the original.
struct OriginalCode {
  PyRef code;
  Program program;
  std::vector<int> depths;         // stack depth before each instruction
  std::vector<std::string> names;  // of the slots (co_localsplusnames)
  int first_free = 0;              // slots from here on are free variables
  int num_plain = 0;               // slots below this are in co_varnames (some may be cells as well)
  std::vector<int> cells;          // slots that are cells, then those that are free variables
  int num_own_cells = 0;           // those that are cells: the function makes them
  bool names_super = false;        // super() looks for the first argument in the first slot
  std::vector<symbolic::Loop> loops;
  std::vector<symbolic::LoopCut> cuts;            // what captures have learnt of them (loop_cuts.h)
  std::map<EntryPoint, PyObject*> resume_points;  // borrowed: each takes itself out when it goes

  PyCodeObject* object() const { return reinterpret_cast<PyCodeObject*>(code.get()); }
  bool is_cell(int slot) const;
  std::span<const int> own_cells() const { return std::span(cells).first(num_own_cells); }
  // The slot that another code object made of this one has as `slot`; -1: none.
  int slot_of(const SlotNames& other, int slot) const;
};

// The first instruction from `at` on that is no landing (END_FOR, END_SEND). Entered code is never entered at a
// landing: by itself, CPython's takes items off the stack that only its FOR_ITER or SEND puts there.
int after_landing(const Program& program, int at);

// What a code object is: itself, or code entered in the middle of another.
struct CodeOrigin {
  std::shared_ptr<OriginalCode> original;
  // By instruction: the one of the original that it stands for, -1 in the prologue. Empty: this is the original.
  std::vector<int> instructions;
  int entered_at = -1;       // where a resume function begins, in the original
  int first_stack = 0;       // its parameters before this one are cells and locals
  std::vector<int> unbound;  // those of them that are given None, ascending
  // The instruction that calls the resume function of what is resumed inside (-1: there is none), which stands for the call at
  // `entered_at`, and how deep the stack is below its operands.
  int inner_call = -1, below_inner_call = 0;

  int in_original(int at) const { return instructions.empty() ? at : instructions.at(at); }
};
CodeOrigin origin_of(PyCodeObject* code);
const CodeOrigin* known_origin(PyCodeObject* code);  // null: nobody has asked for it yet

// The locals that hold nothing at `entry`, and that code may bind which goes on at `from`, below one that holds something.
std::vector<int> slots_bound_later(const OriginalCode& original, const EntryPoint& entry, int from);

// The slots of the original that entered code has for parameters, ascending: its own cells, and the locals of `entry`.
std::vector<int> parameter_slots(const OriginalCode& original, const EntryPoint& entry);

// The name of the parameter of entered code for a stack slot.
std::string stack_parameter(int depth);

// Entered code for a resume function; its origin is registered.
PyRef make_resume_code(const std::shared_ptr<OriginalCode>& original, EntryPoint entry);

// The same, entered at a call whose function is resumed as well: its resume function and the arguments of that, whose code is
// `inner`, are the last parameters, and are called in place of what the program called. `entry.target` is the instruction that
// calls, with its operands off the stack.
PyRef make_resume_code_at_call(const std::shared_ptr<OriginalCode>& original, EntryPoint entry,
                               PyCodeObject* inner);

// What Python executes before the function is resumed: the one instruction at `entry.target` if `whole_loop`
// is false, else a loop, with the ways out of it that are resumed (in instructions and slots of the
// original). is_call: the instruction is a call with its operands off the stack, and the last parameter is called instead.
struct BrokenCode {
  bool is_call = false;
  bool whole_loop = false;
  std::vector<symbolic::WayOut> ways_out;
};

// Entered code for a continuation. `resume(entry)` gives the callable for a way out (a new reference); it is
// called with a list of the closure's cells, the function's own cells and locals (parameter_slots), and the non-empty stack items.
using ResumeFactory = PyRef (*)(const std::shared_ptr<OriginalCode>&, const EntryPoint&);
PyRef make_continuation_code(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry,
                             const BrokenCode& broken, ResumeFactory resume);

}  // namespace cdynamo::frame_eval
