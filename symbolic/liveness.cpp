// Which local variables may still be read: what is not is left out when a frame is handed over to Python.
#include <cstring>

#include "symbolic/frame.h"

namespace cdynamo::symbolic {

namespace {

bool reads_slot(Op op) {
  switch (op) {
    case Op::LOAD_FAST:
    case Op::LOAD_FAST_CHECK:
    case Op::LOAD_FAST_AND_CLEAR:
    case Op::DELETE_FAST:
    case Op::MAKE_CELL:
    case Op::LOAD_CLOSURE:
    case Op::LOAD_DEREF:
    case Op::STORE_DEREF:  // the cell is read
    case Op::DELETE_DEREF:
    case Op::LOAD_FROM_DICT_OR_DEREF: return true;
    default: return false;
  }
}

// Functions that see all of the caller's locals, and super(), which reads the first one and __class__.
bool reads_frame(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_names, i));
    for (const char* reader : {"locals", "vars", "eval", "exec", "dir", "super", "_getframe"})
      if (std::strcmp(name, reader) == 0) return true;
  }
  return false;
}

using Slots = std::vector<bool>;

bool merge(Slots& into, const Slots& from) {
  bool changed = false;
  for (size_t i = 0; i < into.size(); ++i)
    if (from[i] && !into[i]) into[i] = changed = true;
  return changed;
}

// What is live before one instruction, given what is live after it.
Slots transfer(const Instruction& instruction, Slots after) {
  if (instruction.op == Op::STORE_FAST) after[instruction.arg] = false;
  if (reads_slot(instruction.op)) after[instruction.arg] = true;
  return after;
}

}  // namespace

std::vector<bool> live_slots(const DecodedCode& code, int at) {
  size_t count = static_cast<size_t>(code.object()->co_nlocalsplus);
  if (reads_frame(code.object())) return Slots(count, true);
  const std::vector<Instruction>& instructions = code.program.code;
  std::vector<Slots> live(instructions.size(), Slots(count, false));
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = static_cast<int>(instructions.size()) - 1; i >= 0; --i) {
      const Instruction& instruction = instructions[i];
      Slots after(count, false);
      if (falls_through(instruction.op) && i + 1 < static_cast<int>(instructions.size())) after = live[i + 1];
      if (is_jump(instruction.op)) merge(after, live[instruction.arg]);
      Slots before = transfer(instruction, std::move(after));
      if (instruction.handler >= 0) merge(before, live[code.program.handlers[instruction.handler].target]);
      changed |= merge(live[i], before);
    }
  }
  return live[at];
}

}  // namespace cdynamo::symbolic
