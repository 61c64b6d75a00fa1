// capture(): runs the root frame until it returns or cannot go on, and makes a CaptureResult of what was
// found.
//
// A break anywhere, also deep in inlined calls, goes back to before the instruction of the root frame: the
// capture is run again from nothing and told to stop there, so that no trace of the half-done instruction is
// left. Where the frame cannot be handed over at that instruction, an earlier one is taken.
#include "symbolic/entry/capture.h"

#include <algorithm>
#include <new>
#include <unordered_map>

#include "graph/time_budget.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/entry/kept_locals.h"
#include "symbolic/entry/root_frame.h"
#include "symbolic/frames/abandoned_generators.h"
#include "symbolic/frames/exceptions.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/generators.h"
#include "symbolic/frames/made_classes.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/interop/logs.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/torch/freed_histories.h"
#include "symbolic/torch/made_leaves.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/decimal_context.h"
#include "symbolic/values/list.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_proxy.h"

namespace cdynamo::symbolic {

namespace {

constexpr int kMaxAttempts = 14;

// ---- one run

struct Outcome {
  bool finished = false;
  bool arguments_fit = true;
  BreakRecord record;                // not finished: why
  int64_t step = 0;                  // and the step of the root frame where
  std::vector<int64_t> inner_steps;  // and of the frames inside, if Python can be given those as well
  bool at_handover = false;          // the instructions ran; a value could not be handed over
  bool stopped = false;              // they ran up to where the frame was to stop
  std::vector<int> trace;
  std::vector<int> handled;  // Executor::State::root_handled
};

// Opcodes that only move values about. A frame is not handed over before one of these where it could be
// later: each graph break is to bring the program forward.
bool only_moves_values(Op op) {
  switch (op) {
    case Op::NOP:
    case Op::RESUME:
    case Op::POP_TOP:
    case Op::PUSH_NULL:
    case Op::COPY:
    case Op::SWAP:
    case Op::LOAD_CONST:
    case Op::LOAD_FAST:
    case Op::LOAD_FAST_CHECK:
    case Op::LOAD_FAST_AND_CLEAR:
    case Op::STORE_FAST:
    case Op::DELETE_FAST:
    case Op::MAKE_CELL:
    case Op::COPY_FREE_VARS:
    case Op::LOAD_CLOSURE:
    case Op::MAKE_FUNCTION:  // before 3.13 one instruction with the next
    case Op::SET_FUNCTION_ATTRIBUTE:
    case Op::JUMP:
    case Op::END_FOR: return true;
    default: return false;
  }
}

// Nothing is left to do at `at` but to return.
bool only_returns(const Program& program, int at) {
  while (only_moves_values(program.code[at].op) && program.code[at].op != Op::JUMP) ++at;
  return program.code[at].op == Op::RETURN_VALUE;
}

const std::vector<Loop>& loops_of(const CaptureRequest& request, const DecodedCode& code) {
  return request.loops ? *request.loops : code.loops;
}

const LoopCut* find_cut(const std::vector<LoopCut>& cuts, int header) {
  const auto found = std::ranges::find(cuts, header, &LoopCut::header);
  return found == cuts.end() ? nullptr : &*found;
}

class Attempt {
 public:
  // Stops at `stop_path` (Executor::State), and before the headers of loops that are cut.
  Attempt(const CaptureRequest& request, std::vector<int64_t> stop_path, std::vector<LoopCut>& cuts)
      : request_(request), cuts_(cuts), ex_(request) {
    ex_.state().stop_path = std::move(stop_path);
  }

  Outcome run() {
    Outcome outcome;
    Executor::State& state = ex_.state();
    auto code = decoded(request_.code);
    SymbolicFrame frame(code, PyRef::borrow(request_.roots.globals), PyRef::borrow(request_.roots.builtins));
    frame.is_root = frame.is_linked = true;
    frame.level = 0;
    if (!cuts_.empty()) state.cut_headers.resize(code->program.code.size());
    for (const LoopCut& cut : cuts_) state.cut_headers[cut.header] = true;
    bool running = true;
    try {
      if (!bind_root_frame(ex_, frame, request_)) {
        outcome.arguments_fit = false;
        return outcome;
      }
      bool returned = execute(frame);
      if (returned) frame.locals.clear();
      refuse_abandoned_generators(ex_);
      running = false;
      outcome.stopped = !returned;
      hand_over(frame, returned);
      outcome.finished = true;
    } catch (GraphBreak& broken) {
      outcome.record = std::move(broken.record);
      if (running && state.root_handler_steps.empty()) outcome.inner_steps = std::move(broken.inner_steps);
    } catch (const PythonRaise& raised) {
      outcome.record = break_record("CD0101", exception_text(ex_, raised.exception));
      outcome.record.stack = state.raise_stack;
      // Handlers have let it through: Python raises it where it came from, and its traceback begins there.
      if (frame.code->program.code[state.root_trace.back()].op == Op::RERAISE && state.root_raise_step >= 0)
        state.break_step = state.root_raise_step;
    } catch (SkipFrame& left) {
      // What was looked at so far says for which calls this holds.
      bind_symbols(state.result);
      left.seen = std::make_shared<CaptureResult>(std::move(state.result));
      throw;
    }
    outcome.at_handover = !running;
    outcome.step = static_cast<int64_t>(state.root_trace.size()) - 1;
    if (outcome.step < 0 && outcome.finished) outcome.step = 0;
    outcome.trace = state.root_trace;
    if (!outcome.finished && state.break_step >= 0) {
      outcome.inner_steps.clear();
      if (state.break_step < outcome.step) {
        outcome.step = state.break_step;
        outcome.at_handover = false;
      }
    }
    outcome.handled = state.root_handled;
    return outcome;
  }

  CaptureResult take_result() { return std::move(ex_.state().result); }

 private:
  // True: the function returned; false: the step to stop at is reached.
  bool execute(SymbolicFrame& frame) {
    FrameScope scope(ex_, frame);
    try {
      run_frame(ex_, frame);
      return true;
    } catch (const StopReached&) {
      return false;
    }
  }

  void hand_over(SymbolicFrame& frame, bool returned) {
    FrameScope scope(ex_, frame);
    with_errors_as_breaks(ex_, [&] {
      CaptureResult& result = ex_.state().result;
      result.end = returned ? End::kReturn : End::kBreak;
      if (returned)
        result.results.push_back(frame.result->recipe(ex_));
      else
        hand_over_frames(frame, result);
      emit_effects();
      check_made_leaves(ex_);
      result.freed_calls = freed_calls(ex_);
      refuse_outputs_of_possible_aliases(ex_);
      guard_distinct_objects();
      keep_classes_inside(ex_, returned);
      bind_symbols(result);
      if (result.graph->framework == graph::Framework::kTorch && !result.graph->nodes.empty())
        result.uses_torch = true;
    });
  }

  void hand_over_frames(SymbolicFrame& root, CaptureResult& result) {
    std::vector<std::shared_ptr<SymbolicFrame>>& inner = ex_.state().stopped_frames;
    std::vector<SymbolicFrame*> frames{&root};
    for (auto frame = inner.rbegin(); frame != inner.rend(); ++frame) frames.push_back(frame->get());
    const auto slots = locals_handed_on(
        ex_, frames, [this](const SymbolicFrame& frame, int slot) { return dies_unseen(frame, slot); });
    for (size_t i = 0; i < frames.size(); ++i) {
      hand_over_frame(*frames[i], slots[i], result);
      if (i > 0) result.results.push_back(make_recipe(RecipeKind::kConstant, frames[i]->globals.get()));
    }
    const bool is_root_alone = inner.empty();
    if (is_root_alone) leave_loop(root, result);
    result.cuts = cuts_;
  }

  void hand_over_frame(SymbolicFrame& frame, const std::vector<int>& slots, CaptureResult& result) {
    BrokenFrame& broken = result.frames.emplace_back();
    broken.code = frame.code->code;
    broken.at = frame.pc;
    broken.stack_depth = static_cast<int>(frame.stack.size());
    for (const ValuePtr& value : frame.stack)
      result.results.push_back(value ? value->recipe(ex_) : make_recipe(RecipeKind::kNull));
    broken.local_slots = slots;
    for (int slot : slots)
      result.results.push_back(frame.pending[slot] ? source_recipe(frame.pending[slot])
                                                   : frame.locals[slot]->recipe(ex_));
  }

  void leave_loop(const SymbolicFrame& frame, CaptureResult& result) {
    const std::vector<bool>* loop = loop_left_whole(frame);
    if (!loop) return;
    result.whole_loop = true;
    bool complete = false;
    const Program& program = frame.code->program;
    result.ways_out =
        ways_out(request_.code, program, *loop, frame.pc, result.frames[0].local_slots, complete);
    const std::vector<Loop>& loops = loops_of(request_, *frame.code);
    const bool comes_back = std::ranges::any_of(
        loops, [&](const Loop& other) { return other.header != frame.pc && other.body[frame.pc]; });
    if (!complete && comes_back) result.ways_out.clear();
    std::erase_if(result.ways_out, [&](const WayOut& way) { return only_returns(program, way.to); });
  }

  // The loop that is cut here, if it does not pay: a turn of it has ended, in which nothing was computed.
  const std::vector<bool>* loop_left_whole(const SymbolicFrame& frame) {
    const auto cut = std::ranges::find(cuts_, frame.pc, &LoopCut::header);
    if (cut == cuts_.end()) return nullptr;
    const auto loop = std::ranges::find(loops_of(request_, *frame.code), frame.pc, &Loop::header);
    const std::vector<int>& trace = ex_.state().root_trace;
    const bool has_turned = !trace.empty() && loop->body[trace.back()];
    if (has_turned) {
      cut->pays |= !ex_.state().result.graph->nodes.empty();
      cut->whole |= !cut->pays;
    }
    return cut->whole ? &loop->body : nullptr;
  }

  // A number, a string or a tensor that no instruction has looked at, and none will: where a loop is cut it is not handed on,
  // for in the first turn it may not have been there.
  bool dies_unseen(const SymbolicFrame& frame, int slot) {
    if (!frame.is_root || !find_cut(cuts_, frame.pc)) return false;
    const PyRef object = follow(*frame.pending[slot], request_.roots);
    PyTypeObject* type = object ? Py_TYPE(object.get()) : nullptr;
    const bool is_plain =
        (type && is_number_or_text(type)) || (object && tensor_kind(object.get()) != TensorKind::kNone);
    if (is_plain) add_guard(ex_, GuardKind::kType, frame.pending[slot], reinterpret_cast<PyObject*>(type));
    return is_plain;
  }

  // Effects may make further values change: recipes of new objects set their attributes this way.
  void emit_effects() {
    Executor::State& state = ex_.state();
    emit_global_effects(ex_);
    emit_decimal_flags(ex_);
    for (size_t i = 0; i < state.mutated.size(); ++i) {
      ValuePtr value = state.mutated[i];
      value->emit_effects(ex_);
    }
    replay_last(ex_);
  }

  // An object that is written to, or told from others, is none of the others of its type that were looked at, by
  // whatever way they came in: another call might pass one twice.
  void guard_distinct_objects() {
    Executor::State& state = ex_.state();
    std::unordered_map<PyTypeObject*, int> written, looked_at;
    std::vector<ValuePtr> values;
    const auto is_written = [&](const ValuePtr& value) {
      auto* object = dynamic_cast<UserObjectValue*>(value.get());
      return state.mutated_set.contains(value.get()) || state.identities.contains(value.get()) ||
             (object && state.mutated_set.contains(object->known_instance_dict()));
    };
    for (const PyRef& object : state.kept) {
      const auto known = state.by_object.find(object.get());
      if (known == state.by_object.end() || !known->second->source) continue;
      values.push_back(known->second);
      ++looked_at[values.back()->type()];
      if (is_written(values.back())) ++written[values.back()->type()];
    }
    for (const ValuePtr& value : values) {
      if (!written.contains(value->type()) || looked_at[value->type()] < 2) continue;
      Guard guard;
      guard.kind = GuardKind::kDistinctObjects;
      guard.source = value->source;
      guard.index = is_written(value);
      ex_.guard(std::move(guard));
    }
  }

  void bind_symbols(CaptureResult& result) {
    for (const auto& symbol : ex_.state().symbols) {
      SymbolBinding binding;
      binding.dim = symbol.dim;
      binding.source = symbol.source;
      for (size_t i = 0; symbol.dim >= 0 && i < result.inputs.size(); ++i)
        if (same_source(*result.inputs[i].source, *symbol.source)) binding.input = static_cast<int>(i);
      result.symbols.push_back(std::move(binding));
    }
  }

  const CaptureRequest& request_;
  std::vector<LoopCut>& cuts_;
  Executor ex_;
};

// ---- where to stop instead

// What unrolling would cost too much is executed by Python as a whole.
bool leaves_loop_whole(const BreakRecord& record) {
  const bool costs = record.id == "CD0013" || record.id == "CD0014" || record.id == "CD0015";
  return costs && record.stack.size() == 1;  // the loop is the root frame's
}

// A break in a loop cuts it, and all loops around it: stops where the first of them begins.
void cut_loops(PyCodeObject* code, const std::vector<Loop>& loops, const Outcome& outcome, int64_t& stop,
               std::vector<LoopCut>& cuts) {
  const std::vector<int>& trace = outcome.trace;
  const int at = trace[stop];
  const Loop* innermost = nullptr;
  for (const Loop& loop : loops)
    if (loop.body[at] && (!innermost || innermost->body[loop.header])) innermost = &loop;
  for (const Loop& loop : loops) {
    if (!loop.body[at] || find_cut(cuts, loop.header)) continue;
    // What sees the frame's locals keeps them alive, in that frame.
    const bool whole = sees_locals(code) || (&loop == innermost && leaves_loop_whole(outcome.record));
    cuts.push_back({.header = loop.header, .whole = whole});
    stop = std::find(trace.begin(), trace.begin() + stop, loop.header) - trace.begin();
  }
}

// What a turn calls may differ from turn to turn: it is compiled on its own.
bool is_in_loop(const std::vector<Loop>& loops, int at) {
  return std::ranges::any_of(loops, [&](const Loop& loop) { return loop.body[at]; });
}

// Where the frame can be handed over instead of at `stop`. False: nowhere.
bool move_to_handover(PyCodeObject* code, const std::vector<Loop>& loops, const Outcome& outcome,
                      int64_t& stop, std::vector<LoopCut>& cuts) {
  if (stop < 0 || stop >= static_cast<int64_t>(outcome.trace.size())) return false;
  // Inside an except block what is being handled cannot be handed over: Python raises it again.
  if (outcome.handled[stop] < 0) return false;
  stop = std::min<int64_t>(stop, outcome.handled[stop]);
  cut_loops(code, loops, outcome, stop, cuts);
  return true;
}

int64_t last_active_step(const DecodedCode& code, const std::vector<int>& trace, int64_t step) {
  step = std::min(step, static_cast<int64_t>(trace.size()) - 1);
  while (step >= 0 && only_moves_values(code.program.code[trace[step]].op)) --step;
  return step;
}

bool is_empty(const CaptureResult& result) { return result.graph->nodes.empty() && result.effects.empty(); }

CaptureResult skip(std::string reason) {
  CaptureResult result;
  result.end = End::kSkipFrame;
  result.skip_reason = std::move(reason);
  return result;
}

CaptureResult refuse(std::string reason) {
  CaptureResult result = skip(std::move(reason));
  result.refused = true;
  return result;
}

CaptureResult skip(const BreakRecord& record, const std::string& reason) {
  CaptureResult result = skip(reason + " (" + record.id + ": " + record.what + ")");
  result.breaks.push_back(record);
  return result;
}

const char* reason_to_skip(const CaptureRequest& request) {
  int flags = request.code->co_flags;
  if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))
    return "generators and coroutines run in Python";
  if (!(flags & CO_OPTIMIZED) || !(flags & CO_NEWLOCALS)) return "module and class bodies run in Python";
  return nullptr;
}

CaptureResult capture_with_retries(const CaptureRequest& request) {
  auto code = decoded(request.code);
  if (keeps_frame(request.code, code->program))
    return refuse("it calls locals(), asks for its frame, or looks at the memory that its objects take");
  BreakRecord record;
  const std::vector<Loop>& loops = loops_of(request, *code);
  std::vector<LoopCut> cuts = request.cuts;
  std::vector<int64_t> stop;  // Executor::State::stop_path
  bool moved = false;         // the stop is before a loop or a try that the break is in
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (attempt > 0 && graph::TimeBudget::exceeded())
      return skip(record, "compiling it takes longer than config.compile_seconds allows");
    Attempt run(request, stop, cuts);
    Outcome outcome = run.run();
    if (!outcome.arguments_fit) return skip("the arguments do not fit the parameters");
    if (outcome.finished) {
      CaptureResult result = run.take_result();
      if (result.end != End::kBreak) return result;
      const LoopCut* cut = find_cut(cuts, result.frames[0].at);
      if (moved && is_empty(result) && result.ways_out.empty() && (!cut || cut->whole))
        return skip(record, "nothing could be captured before the graph break");
      if (!record.id.empty()) result.breaks.push_back(std::move(record));
      return result;
    }
    if (attempt == 0 || record.id.empty()) record = outcome.record;
    if (stop.size() > 1 && outcome.at_handover) {  // the root's call is left to Python instead
      stop.resize(1);
      continue;
    }
    int64_t next = outcome.step;
    if (outcome.at_handover) {
      // The trace ends before the step that could not be handed over.
      int64_t distance = attempt < 6 ? 1 : int64_t{1} << (attempt - 5);
      next = last_active_step(*code, outcome.trace, outcome.step + (outcome.stopped ? 1 : 0) - distance);
      if (next < 0) return skip(record, "the frame cannot be rebuilt at the graph break");
    }
    const int64_t wanted = next;
    if (!move_to_handover(request.code, loops, outcome, next, cuts))
      return skip(record, "the graph break is in a handler of an exception that was raised outside");
    moved = moved || next != wanted;
    std::vector<int64_t> earlier{next};
    if (next == wanted && !is_in_loop(loops, outcome.trace[next]))
      earlier.insert(earlier.end(), outcome.inner_steps.begin(), outcome.inner_steps.end());
    if (!stop.empty() && earlier >= stop)
      return skip(record, "the frame cannot be rebuilt at the graph break");
    stop = std::move(earlier);
  }
  return skip(record, "the frame cannot be rebuilt at the graph break");
}

}  // namespace

CaptureResult capture(const CaptureRequest& request) {
  if (const char* reason = reason_to_skip(request)) return refuse(reason);
  if (PyObject* function = request.roots.function;
      function && PyFunction_Check(function) && is_disabled(function)) {
    CaptureResult result = skip("it is marked with disable");
    result.callees_too = true;
    return result;
  }
  try {
    return capture_with_retries(request);
  } catch (const SkipFrame& left) {
    CaptureResult result;
    if (left.seen && left.callees_too) {
      result = std::move(*left.seen);
      result.uses_torch = true;
    }
    result.end = End::kSkipFrame;
    result.skip_reason = left.reason;
    result.callees_too = left.callees_too;
    result.retry_later = left.retry_later;
    return result;
  } catch (const GraphBreak& broken) {
    return skip(broken.record, "an error before the first instruction");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    throw PythonError{};
  } catch (const std::exception& error) {
    log_warning(std::string("error during capture: ") + error.what());
    return skip(std::string("an error inside cdynamo: ") + error.what());
  }
}

}  // namespace cdynamo::symbolic
