// Facts about a program's control flow: its loops, which variables may still be read, and how a loop is left.
#pragma once

#include <vector>

#include "symbolic/bytecode/bytecode.h"

namespace cdynamo::symbolic {

// A natural loop: what can come back to the header without passing it.
struct Loop {
  int header = 0;
  std::vector<bool> body;  // by instruction, the header included
};
std::vector<Loop> find_loops(const Program& program);

// Whether it names a function that sees all of its caller's locals (eval, vars, sys._getframe ...).
bool sees_locals(PyCodeObject* code);
// Whether it calls eval or exec by these names and they write to a dict of its frame, which is read again later (before 3.13).
bool writes_locals(PyCodeObject* code, const Program& program);

// Whether it names a function whose result shows the locals of the frame later on. Where it is about to raise an exception does not
// count (what pytest makes of `assert` looks at locals() there).
bool keeps_frame(PyCodeObject* code, const Program& program);

// Whether it names super, which reads the first local and __class__.
bool names_super(PyCodeObject* code);

// Whether an exception is being handled at the instruction.
bool handles_exception(const Program& program, int at);

// Whether all that the program can do from the instruction on is to raise an exception; handlers of it are not looked at.
bool only_raises(const Program& program, int at);

// Where the two ways of a conditional jump meet: the first instruction that all ways on come by, those left out that only raise an
// exception. Loops are not followed: the header of one that the jump is in may be it.
constexpr int kEndOfFunction = -1, kNoMeeting = -3;
int meeting_of(const Program& program, int jump_at);

// Slots of co_localsplus, cells among them, that are assigned somewhere from instruction `at` on, by slot.
std::vector<bool> assigned_slots(PyCodeObject* code, const Program& program, int at);

// Slots of co_localsplus that may be read from instruction `at` on, by slot.
std::vector<bool> live_slots(PyCodeObject* code, const Program& program, int at);

// By instruction: whether it deletes a local that is not read again, nor deleted, before it is assigned.
std::vector<bool> unread_deletes(PyCodeObject* code, const Program& program);

// One way on from the instructions that Python executes after a break.
struct WayOut {
  int from, to;  // instructions: the last one that Python executes, and the next
  // co_localsplus slots that hold values at `to`, cells left out. What the region may or may not assign or delete, and nobody
  // reads before, counts: whoever runs the region puts something into it first, and after unread_deletes.
  std::vector<int> locals;
};

// The ways out of `region` (by instruction) for a frame that enters it at `entry` with `bound` slots
// assigned. What an exception leaves by is left out, and ways to where one is handled, and ways where it is not known
// which variables are assigned: then not `complete`, and once Python has gone such a way and comes back to the region, the
// others say nothing any more. `by_exception`: it goes from `entry` to that instruction's handler, and nowhere else.
std::vector<WayOut> ways_out(PyCodeObject* code, const Program& program, const std::vector<bool>& region,
                             int entry, const std::vector<int>& bound, bool& complete,
                             bool by_exception = false);

}  // namespace cdynamo::symbolic
