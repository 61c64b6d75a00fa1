#include "symbolic/bytecode/control_flow.h"

#include <algorithm>
#include <initializer_list>

namespace cdynamo::symbolic {

namespace {

using Slots = std::vector<bool>;

int count_of(const Program& program) { return static_cast<int>(program.code.size()); }

// Calls visit(next) for each instruction that may come after `at`; exceptions are left out.
template <typename F>
void for_each_successor(const Program& program, int at, F&& visit) {
  const Instruction& instruction = program.code[at];
  if (falls_through(instruction.op) && at + 1 < count_of(program)) visit(at + 1);
  if (is_jump(instruction.op)) visit(instruction.arg);
}

int handler_of(const Program& program, int at) {
  int handler = program.code[at].handler;
  return handler < 0 ? -1 : program.handlers[handler].target;
}

std::vector<std::vector<int>> predecessors(const Program& program) {
  std::vector<std::vector<int>> from(program.code.size());
  for (int i = 0; i < count_of(program); ++i) {
    for_each_successor(program, i, [&](int next) { from[next].push_back(i); });
    if (int handler = handler_of(program, i); handler >= 0) from[handler].push_back(i);
  }
  return from;
}

// ---- liveness

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

constexpr std::initializer_list<const char*> kFrameGetters = {"locals", "_getframe", "currentframe"};
// What shows which objects plain Python would have made: how many, how large, who refers to them.
constexpr std::initializer_list<const char*> kMemoryReaders = {"getsizeof", "getrefcount", "get_referrers",
                                                               "get_objects", "getallocatedblocks"};

bool is_one_of(PyObject* name, std::initializer_list<const char*> names) {
  return std::ranges::any_of(
      names, [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; });
}

bool names_one_of(PyCodeObject* code, std::initializer_list<const char*> names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    if (is_one_of(PyTuple_GET_ITEM(code->co_names, i), names)) return true;
  return false;
}

bool reads_frame(PyCodeObject* code) { return sees_locals(code) || names_super(code); }

bool merge(Slots& into, const Slots& from) {
  bool changed = false;
  for (size_t i = 0; i < into.size(); ++i)
    if (from[i] && !into[i]) into[i] = changed = true;
  return changed;
}

// What is live before one instruction, given what is live after it.
Slots live_before(const Instruction& instruction, Slots after) {
  if (instruction.op == Op::STORE_FAST) after[instruction.arg] = false;
  if (reads_slot(instruction.op)) after[instruction.arg] = true;
  return after;
}

Slots live_after(const Program& program, int at, const std::vector<Slots>& live) {
  Slots after(live[at].size(), false);
  for_each_successor(program, at, [&](int next) { merge(after, live[next]); });
  return after;
}

std::vector<Slots> liveness(PyCodeObject* code, const Program& program) {
  std::vector<Slots> live(program.code.size(), Slots(static_cast<size_t>(code->co_nlocalsplus), false));
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = count_of(program) - 1; i >= 0; --i) {
      Slots before = live_before(program.code[i], live_after(program, i, live));
      if (int handler = handler_of(program, i); handler >= 0) merge(before, live[handler]);
      changed |= merge(live[i], before);
    }
  }
  return live;
}

// ---- which variables are assigned

struct Assignments {
  const Program& program;
  std::vector<bool> refilled;  // by instruction: see unread_deletes
  // Slots of which LOAD_FAST_AND_CLEAR may have found nothing, which a STORE_FAST then puts back.
  Slots emptied;

  Slots after(int at, Slots assigned) const {
    const Instruction& instruction = program.code[at];
    if (instruction.op == Op::STORE_FAST) assigned[instruction.arg] = !emptied[instruction.arg];
    if ((instruction.op == Op::DELETE_FAST && !refilled[at]) || instruction.op == Op::LOAD_FAST_AND_CLEAR)
      assigned[instruction.arg] = false;
    return assigned;
  }
};

// Before each instruction of the region: the slots that are assigned on every way there from `entry`.
std::vector<Slots> assigned_in(const Assignments& assignments, const std::vector<bool>& region, int entry,
                               const Slots& bound) {
  const Program& program = assignments.program;
  std::vector<Slots> assigned(program.code.size(), Slots(bound.size(), true));
  std::vector<bool> reached(program.code.size(), false);
  assigned[entry] = bound;
  reached[entry] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count_of(program); ++i) {
      if (!region[i] || !reached[i]) continue;
      const Slots after = assignments.after(i, assigned[i]);
      auto reach = [&](int next, const Slots& state) {
        if (!reached[next]) reached[next] = changed = true;
        for (size_t slot = 0; slot < state.size(); ++slot)
          if (assigned[next][slot] && !state[slot]) {
            assigned[next][slot] = false;
            changed = true;
          }
      };
      for_each_successor(program, i, [&](int next) { reach(next, after); });
      if (int handler = handler_of(program, i); handler >= 0) {
        Slots either = after;
        for (size_t slot = 0; slot < either.size(); ++slot) either[slot] = after[slot] && assigned[i][slot];
        reach(handler, either);
      }
    }
  }
  return assigned;
}

// Finds the slots that an inlined comprehension of the region may find empty and leave empty.
void find_emptied(Assignments& assignments, const std::vector<bool>& region, int entry, const Slots& bound) {
  const Program& program = assignments.program;
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<Slots> assigned = assigned_in(assignments, region, entry, bound);
    for (int i = 0; i < count_of(program); ++i) {
      if (!region[i] || program.code[i].op != Op::LOAD_FAST_AND_CLEAR) continue;
      const int slot = program.code[i].arg;
      if (!assigned[i][slot] && !assignments.emptied[slot]) assignments.emptied[slot] = changed = true;
    }
  }
}

Slots cell_slots(PyCodeObject* code, const Program& program) {
  Slots cells(static_cast<size_t>(code->co_nlocalsplus), false);
  for (int slot = code->co_nlocalsplus - code->co_nfreevars; slot < code->co_nlocalsplus; ++slot)
    cells[slot] = true;
  for (const Instruction& instruction : program.code)
    if (instruction.op == Op::MAKE_CELL) cells[instruction.arg] = true;
  return cells;
}

// Whether the jump back from `latch` to `header` closes a loop: one leads to the other between the two. The code of an
// exception handler stands behind all other code on 3.12 and later, and goes back from there to what follows its block.
bool closes_loop(const Program& program, int header, int latch) {
  std::vector<bool> reached(program.code.size(), false);
  std::vector<int> work{header};
  while (!work.empty() && !reached[latch]) {
    const int at = work.back();
    work.pop_back();
    if (at < header || at > latch || reached[at]) continue;
    reached[at] = true;
    for_each_successor(program, at, [&](int next) { work.push_back(next); });
    if (int handler = handler_of(program, at); handler >= 0) work.push_back(handler);
  }
  return reached[latch];
}

}  // namespace

static std::vector<bool> unread_deletes(const Program& program, const std::vector<Slots>& live) {
  std::vector<bool> unread(program.code.size(), false);
  for (int i = 0; i < count_of(program); ++i)
    unread[i] = program.code[i].op == Op::DELETE_FAST && !live_after(program, i, live)[program.code[i].arg];
  return unread;
}

std::vector<bool> unread_deletes(PyCodeObject* code, const Program& program) {
  return unread_deletes(program, liveness(code, program));
}

bool sees_locals(PyCodeObject* code) {
  return names_one_of(code, kFrameGetters) || names_one_of(code, {"vars", "eval", "exec", "dir"});
}

bool writes_locals(PyCodeObject* code, const Program& program) {
  if (PY_VERSION_HEX >= 0x030D0000 || !names_one_of(code, {"eval", "exec"})) return false;
  return std::ranges::any_of(program.code, [&](const Instruction& instruction) {
    return instruction.op == Op::LOAD_GLOBAL && !instruction.value &&
           is_one_of(PyTuple_GET_ITEM(code->co_names, instruction.arg), {"eval", "exec"});
  });
}

bool keeps_frame(PyCodeObject* code, const Program& program) {
  if (!names_one_of(code, kFrameGetters) && !names_one_of(code, kMemoryReaders)) return false;
  for (int at = 0; at < count_of(program); ++at) {
    const Instruction& instruction = program.code[at];
    if (symbolic::op_arg_kind(instruction.op) != ArgKind::kName || instruction.value) continue;
    PyObject* name = PyTuple_GetItem(code->co_names, instruction.arg);
    if (!name) throw PythonError{};
    const bool looks = is_one_of(name, kFrameGetters) || is_one_of(name, kMemoryReaders);
    if (looks && !only_raises(program, at)) return true;
  }
  return false;
}

bool names_super(PyCodeObject* code) { return names_one_of(code, {"super"}); }

std::vector<Loop> find_loops(const Program& program) {
  std::vector<Loop> loops;
  std::vector<std::vector<int>> from;
  for (int i = 0; i < count_of(program); ++i) {
    if (!is_jump(program.code[i].op) || program.code[i].arg > i) continue;
    int header = program.code[i].arg;
    if (!closes_loop(program, header, i)) continue;
    if (from.empty()) from = predecessors(program);
    auto known =
        std::find_if(loops.begin(), loops.end(), [&](const Loop& loop) { return loop.header == header; });
    if (known == loops.end()) {
      loops.push_back({header, std::vector<bool>(program.code.size(), false)});
      known = loops.end() - 1;
      known->body[header] = true;
    }
    std::vector<int> work{i};
    while (!work.empty()) {
      int at = work.back();
      work.pop_back();
      if (known->body[at]) continue;
      known->body[at] = true;
      work.insert(work.end(), from[at].begin(), from[at].end());
    }
  }
  return loops;
}

namespace {

// Which instructions of the region can be come to from `entry` without leaving it.
std::vector<bool> reached_in(const Program& program, const std::vector<bool>& region, int entry) {
  std::vector<bool> reached(program.code.size(), false);
  std::vector<int> work{entry};
  while (!work.empty()) {
    const int at = work.back();
    work.pop_back();
    if (!region[at] || reached[at]) continue;
    reached[at] = true;
    for_each_successor(program, at, [&](int next) { work.push_back(next); });
    if (int handler = handler_of(program, at); handler >= 0) work.push_back(handler);
  }
  return reached;
}

}  // namespace

std::vector<bool> assigned_slots(PyCodeObject* code, const Program& program, int at) {
  Slots assigned(static_cast<size_t>(code->co_nlocalsplus), false);
  const std::vector<bool> reached = reached_in(program, std::vector<bool>(program.code.size(), true), at);
  for (int i = 0; i < count_of(program); ++i)
    if (const Op op = program.code[i].op; reached[i] && (op == Op::STORE_FAST || op == Op::STORE_DEREF))
      assigned[program.code[i].arg] = true;
  return assigned;
}

std::vector<bool> live_slots(PyCodeObject* code, const Program& program, int at) {
  if (reads_frame(code)) return Slots(static_cast<size_t>(code->co_nlocalsplus), true);
  return liveness(code, program)[at];
}

namespace {

// Exceptions that are being handled at each instruction; what they stand for is the thread's, not on the value stack alone.
std::vector<int> handled_exceptions(const Program& program) {
  std::vector<int> handled(program.code.size(), -1), work;
  const auto reach = [&](int at, int count) {
    if (at < 0 || at >= count_of(program) || handled[at] >= 0) return;
    handled[at] = count;
    work.push_back(at);
  };
  reach(0, 0);
  while (!work.empty()) {
    const int at = work.back();
    work.pop_back();
    const Op op = program.code[at].op;
    reach(handler_of(program, at), handled[at]);
    // A resume function may be entered inside of a handler, whose beginning it jumps over.
    const int after = std::max(handled[at] + (op == Op::PUSH_EXC_INFO) - (op == Op::POP_EXCEPT), 0);
    for_each_successor(program, at, [&](int next) { reach(next, after); });
  }
  return handled;
}

}  // namespace

bool handles_exception(const Program& program, int at) { return handled_exceptions(program)[at] > 0; }

bool only_raises(const Program& program, int at) {
  constexpr size_t kMost = 256;  // instructions looked at
  std::vector<int> waiting = {at};
  std::vector<bool> seen(program.code.size());
  for (size_t looked = 0; !waiting.empty(); ++looked) {
    const int now = waiting.back();
    waiting.pop_back();
    if (seen[now]) continue;
    seen[now] = true;
    const Op op = program.code[now].op;
    const bool raises = op == Op::RAISE_VARARGS || op == Op::RERAISE;
    if (looked >= kMost || (!raises && !falls_through(op) && !is_jump(op))) return false;
    bool goes_back = false;
    for_each_successor(program, now, [&](int next) {
      goes_back |= next < at;
      waiting.push_back(next);
    });
    if (goes_back) return false;
  }
  return true;
}

namespace {

// What can be reached from a jump without going back, and where these ways end: headers of loops, and the function's end.
struct WaysOn {
  std::vector<int> order;  // instructions, as they are met; empty where they are too many
  std::vector<int> ends;
};

WaysOn ways_on(const Program& program, int jump_at, int avoided) {
  constexpr size_t kMost = 512;
  WaysOn ways;
  std::vector<bool> seen(program.code.size());
  std::vector<int> waiting = {jump_at};
  while (!waiting.empty() && ways.order.size() < kMost) {
    const int at = waiting.back();
    waiting.pop_back();
    if (at == avoided || seen[at]) continue;
    seen[at] = true;
    if (at != jump_at) ways.order.push_back(at);
    const Op op = program.code[at].op;
    if (op == Op::RAISE_VARARGS || op == Op::RERAISE) continue;
    if (!falls_through(op) && !is_jump(op)) ways.ends.push_back(kEndOfFunction);
    for_each_successor(program, at, [&](int next) {
      if (next > jump_at)
        waiting.push_back(next);
      else if (next != avoided)
        ways.ends.push_back(next);
    });
  }
  if (!waiting.empty()) ways.order.clear();
  return ways;
}

}  // namespace

int meeting_of(const Program& program, int jump_at) {
  const WaysOn all = ways_on(program, jump_at, kNoMeeting);
  if (all.order.empty() || all.ends.empty()) return kNoMeeting;
  std::vector<int> candidates = all.order;
  std::ranges::sort(candidates);
  for (int at : candidates)
    if (const WaysOn others = ways_on(program, jump_at, at); others.ends.empty()) return at;
  const bool one_end = std::ranges::all_of(all.ends, [&](int end) { return end == all.ends[0]; });
  return one_end ? all.ends[0] : kNoMeeting;
}

std::vector<WayOut> ways_out(PyCodeObject* code, const Program& program, const std::vector<bool>& region,
                             int entry, const std::vector<int>& bound, bool& complete, bool by_exception) {
  std::vector<WayOut> ways;
  complete = !reads_frame(code);
  if (!complete) return ways;
  Slots bound_slots(static_cast<size_t>(code->co_nlocalsplus), false);
  for (int slot : bound) bound_slots[slot] = true;
  const Slots cells = cell_slots(code, program);
  const std::vector<Slots> live = liveness(code, program);
  for (int i = 0; i < count_of(program); ++i)
    if (const int slot = program.code[i].arg;
        region[i] && program.code[i].op == Op::STORE_FAST && !live[entry][slot])
      bound_slots[slot] = true;
  const int first = by_exception ? handler_of(program, entry) : entry;
  Assignments assignments{program, unread_deletes(program, live), Slots(bound_slots.size(), false)};
  find_emptied(assignments, region, first, bound_slots);
  const std::vector<Slots> assigned = assigned_in(assignments, region, first, bound_slots);
  const std::vector<int> depths = stack_depths(program), handled = handled_exceptions(program);
  const std::vector<bool> reached = reached_in(program, region, first);
  for (int i = 0; i < count_of(program); ++i) {
    if (!reached[i]) continue;
    const Slots after = assignments.after(i, assigned[i]);
    for_each_successor(program, i, [&](int next) {
      if (region[next] || depths[next] < 0) return;
      bool known = depths[next] <= depths[entry] && handled[next] <= 0;
      WayOut way{i, next, {}};
      for (int slot = 0; slot < code->co_nlocalsplus; ++slot) {
        if (cells[slot]) continue;
        known &= after[slot] || !live[next][slot];
        // What is not read again is handed on too: it dies with the function, in the order of its locals.
        if (after[slot]) way.locals.push_back(slot);
      }
      complete &= known;
      if (known) ways.push_back(std::move(way));
    });
  }
  return ways;
}

}  // namespace cdynamo::symbolic
