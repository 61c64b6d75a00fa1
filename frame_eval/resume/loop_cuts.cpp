#include "frame_eval/resume/loop_cuts.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "frame_eval/resume/entered_code.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::Loop;
using symbolic::LoopCut;
using symbolic::Op;

// The loops of the original as they stand in a resume function.
std::shared_ptr<const std::vector<Loop>> loops_in(const CodeOrigin& origin) {
  auto loops = std::make_shared<std::vector<Loop>>();
  for (const Loop& loop : origin.original->loops) {
    Loop moved{-1, std::vector<bool>(origin.instructions.size(), false)};
    for (size_t i = 0; i < origin.instructions.size(); ++i) {
      const int at = origin.instructions[i];
      if (at < 0) continue;
      if (at == loop.header && moved.header < 0) moved.header = static_cast<int>(i);
      moved.body[i] = loop.body[at];
    }
    if (moved.header >= 0) loops->push_back(std::move(moved));
  }
  return loops;
}

int place_of(const CodeOrigin& origin, int original) {
  if (origin.instructions.empty()) return original;
  const auto found = std::ranges::find(origin.instructions, original);
  return found == origin.instructions.end() ? -1 : static_cast<int>(found - origin.instructions.begin());
}

LoopCut* find_cut(OriginalCode& original, int header) {
  const auto found = std::ranges::find(original.cuts, header, &LoopCut::header);
  return found == original.cuts.end() ? nullptr : &*found;
}

// What the loop assigns, and what lies on the stack.
void note_counters(const OriginalCode& original, const Loop& loop, std::vector<std::string>& counters) {
  for (size_t i = 0; i < loop.body.size(); ++i)
    if (loop.body[i] && original.program.code[i].op == Op::STORE_FAST)
      counters.push_back(original.names[original.program.code[i].arg]);
  for (int depth = 0; depth <= *std::ranges::max_element(original.depths); ++depth)
    counters.push_back(stack_parameter(depth));
}

}  // namespace

void add_loop_cuts(PyCodeObject* code, symbolic::CaptureRequest& request) {
  const CodeOrigin* origin = known_origin(code);
  if (!origin) return;
  OriginalCode& original = *origin->original;
  request.owns_arguments = !origin->instructions.empty();
  if (request.owns_arguments) request.loops = loops_in(*origin);
  for (const LoopCut& cut : original.cuts) {
    const int header = place_of(*origin, cut.header);
    if (header < 0) continue;
    request.cuts.push_back(cut);
    request.cuts.back().header = header;
    for (const Loop& loop : original.loops)
      if (loop.header == cut.header && origin->entered_at >= 0 && loop.body[origin->entered_at])
        note_counters(original, loop, request.counters);
  }
}

void note_loop_cuts(PyCodeObject* code, const symbolic::CaptureResult& capture) {
  if (capture.cuts.empty()) return;
  const CodeOrigin origin = origin_of(code);
  OriginalCode& original = *origin.original;
  for (const LoopCut& cut : capture.cuts) {
    const int header = origin.in_original(cut.header);
    LoopCut* known = find_cut(original, header);
    if (!known) known = &original.cuts.emplace_back(LoopCut{.header = header});
    known->pays |= cut.pays;
    known->whole |= cut.whole;
  }
  if (origin.entered_at < 0 || !capture.graph || capture.graph->nodes.empty()) return;
  for (const Loop& loop : original.loops)
    if (LoopCut* cut = loop.body[origin.entered_at] ? find_cut(original, loop.header) : nullptr)
      cut->pays = true;
}

void forget_loop_cuts(PyCodeObject* code) {
  if (const CodeOrigin* origin = known_origin(code)) origin->original->cuts.clear();
}

}  // namespace cdynamo::frame_eval
