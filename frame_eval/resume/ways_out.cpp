#include "frame_eval/resume/ways_out.h"

#include <algorithm>

namespace cdynamo::frame_eval {
namespace {

using symbolic::Instruction;
using symbolic::Op;
using symbolic::WayOut;

// The locals (ascending) that hold values after the instruction at `entry.target` has run.
std::vector<int> locals_after(const OriginalCode& original, const EntryPoint& entry) {
  const Instruction& instruction = original.program.code[entry.target];
  std::vector<int> locals = entry.locals;
  // What a comprehension puts back may be nothing (LOAD_FAST_AND_CLEAR).
  const bool stores =
      instruction.op == Op::STORE_FAST && !entry.empty_slots.back() && !original.is_cell(instruction.arg);
  if (instruction.op == Op::DELETE_FAST || instruction.op == Op::LOAD_FAST_AND_CLEAR ||
      (instruction.op == Op::STORE_FAST && !stores))
    std::erase(locals, instruction.arg);
  if (stores) {
    auto place = std::lower_bound(locals.begin(), locals.end(), instruction.arg);
    if (place == locals.end() || *place != instruction.arg) locals.insert(place, instruction.arg);
  }
  return locals;
}

// Whether a comprehension that `entry` stands in may leave one of the locals empty, as it has found it: an exception takes
// what it has found off the stack and puts it back.
bool may_put_nothing_back(const OriginalCode& original, const EntryPoint& entry, const WayOut& way) {
  if (!entry.has_empty_slots()) return false;
  return std::ranges::any_of(original.program.code, [&](const Instruction& instruction) {
    return instruction.op == Op::LOAD_FAST_AND_CLEAR &&
           std::ranges::find(way.locals, instruction.arg) != way.locals.end();
  });
}

// Whether the frame may come back to the loop at `header`, which Python executes as a whole, after an exception of its body.
bool comes_back_by_exception(const OriginalCode& original, int header) {
  const std::vector<Instruction>& code = original.program.code;
  const auto loop = std::ranges::find(original.loops, header, &symbolic::Loop::header);
  std::vector<bool> seen(code.size(), false);
  std::vector<int> open;
  const auto go_to = [&](int at) {
    if (seen.at(at)) return;
    seen[at] = true;
    open.push_back(at);
  };
  const auto go_to_handler = [&](int at) {
    if (code[at].handler >= 0) go_to(original.program.handlers[code[at].handler].target);
  };
  for (int i = 0; i < static_cast<int>(code.size()); ++i)
    if (loop == original.loops.end() || loop->body[i]) go_to_handler(i);
  while (!open.empty() && !seen[header]) {
    const int at = open.back();
    open.pop_back();
    if (symbolic::falls_through(code[at].op)) go_to(at + 1);
    if (symbolic::is_jump(code[at].op)) go_to(code[at].arg);
    go_to_handler(at);
  }
  return seen[header];
}

// The stubs of a loop that is left whole know which slots below it are empty. What a comprehension has found in its variable
// is another thing where it is entered again.
bool may_find_another(const OriginalCode& original, const EntryPoint& entry) {
  const auto clears = [](const Instruction& instruction) {
    return instruction.op == Op::LOAD_FAST_AND_CLEAR;
  };
  return entry.has_empty_slots() && std::ranges::any_of(original.program.code, clears) &&
         comes_back_by_exception(original, entry.target);
}

}  // namespace

std::vector<WayOut> ways_out_of(const OriginalCode& original, const EntryPoint& entry) {
  const Instruction& instruction = original.program.code[entry.target];
  const std::vector<int> locals = locals_after(original, entry);
  std::vector<WayOut> ways;
  if (symbolic::falls_through(instruction.op)) ways.push_back({entry.target, entry.target + 1, locals});
  if (symbolic::is_jump(instruction.op)) ways.push_back({entry.target, instruction.arg, locals});
  return ways;
}

std::vector<WayOut> ways_of_whole_loop(const OriginalCode& original, const EntryPoint& entry,
                                       const BrokenCode& broken) {
  return may_find_another(original, entry) ? std::vector<WayOut>() : broken.ways_out;
}

std::vector<WayOut> ways_to_cut_loops(const OriginalCode& original, const EntryPoint& entry) {
  std::vector<bool> region(original.program.code.size(), true);
  bool any = false;
  for (const symbolic::Loop& loop : original.loops) {
    const auto cut = std::ranges::find(original.cuts, loop.header, &symbolic::LoopCut::header);
    if (!loop.body[entry.target] || cut == original.cuts.end() || cut->whole || loop.header == entry.target)
      continue;
    region[loop.header] = false;
    any = true;
  }
  if (!any || original.program.code[entry.target].handler < 0) return {};
  auto* code = original.object();
  bool complete = false;
  std::vector<WayOut> ways =
      symbolic::ways_out(code, original.program, region, entry.target, entry.locals, complete, true);
  // Where Python goes through a header by itself, all that follows is its own: what is known of the others holds no more.
  if (!complete) return {};
  const auto is_doubtful = [&](const WayOut& way) { return may_put_nothing_back(original, entry, way); };
  return std::ranges::any_of(ways, is_doubtful) ? std::vector<WayOut>() : ways;
}

}  // namespace cdynamo::frame_eval
