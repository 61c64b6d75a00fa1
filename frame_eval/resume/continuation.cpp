#include "frame_eval/resume/continuation.h"

#include <algorithm>
#include <map>
#include <span>

#include "frame_eval/reports/events.h"
#include "frame_eval/resume/entered_code.h"
#include "frame_eval/resume/frame_run.h"
#include "frame_eval/resume/resume_point.h"
#include "graph/op.h"
#include "symbolic/interop/logs.h"
#include "symbolic/interop/moving_call.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;

// ---- one frame

int closure_index(PyCodeObject* code, const std::string& name) {
  PyRef names = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_freevars"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    if (name == PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), i))) return static_cast<int>(i);
  return -1;
}

PyCodeObject* code_of(const symbolic::BrokenFrame& frame) {
  return reinterpret_cast<PyCodeObject*>(frame.code.get());
}

// One of the frames that are handed over, and how to make a call of the values of a break.
class FrameMaker {
 public:
  // Its values begin at `first`. `recipes`: what they are made by.
  FrameMaker(const symbolic::CaptureResult& capture, size_t index, size_t first);
  // `globals` and `closure` (null: none) of the running function, for the root's frame.
  WaitingFrame make(PyObject* globals, PyObject* closure, std::vector<PyRef>& values) const;
  // What the frame is to call that is resumed inside but was not captured; null: nothing.
  PyRef callee(std::vector<PyRef>& values) const;

 private:
  PyRef cell(PyObject* closure, const std::vector<PyRef>& values, size_t i) const;

  struct Cell {
    int value = -1;    // index in the values
    int closure = -1;  // else index in the root function's closure; neither: a new empty cell
  };
  struct Argument {
    bool is_cell = false;
    int index = -1;  // in the cells or in the values; -1: None, for a local that is unbound
  };
  PyRef code_;
  std::vector<Argument> arguments_;
  std::vector<int> callee_;  // indices in the values: of a function and its arguments
  int globals_ = -1;         // index in the values; -1: the root's
  std::vector<Cell> cells_;
  size_t num_own_cells_ = 0;  // the first of them: parameters
};

// The ways out of a loop of the root frame, in the original.
std::vector<symbolic::WayOut> ways_out_of(const symbolic::CaptureResult& capture, const CodeOrigin& origin,
                                          const SlotNames& names) {
  std::vector<symbolic::WayOut> ways;
  for (const symbolic::WayOut& way : capture.ways_out) {
    symbolic::WayOut of_original{origin.in_original(way.from), origin.in_original(way.to), {}};
    for (int slot : way.locals)
      if (int known = origin.original->slot_of(names, slot); known >= 0) of_original.locals.push_back(known);
    std::sort(of_original.locals.begin(), of_original.locals.end());
    ways.push_back(std::move(of_original));
  }
  return ways;
}

// What stands below a function and its arguments on the stack.
bool begins_call(const symbolic::Recipe& recipe) {
  return recipe.kind == symbolic::RecipeKind::kNull ||
         (recipe.kind == symbolic::RecipeKind::kConstant && recipe.object.get() == symbolic::moving_call());
}

// Of an instruction that stands by itself Python goes on to its handler alone.
std::vector<int> unbound_in_continuation(const OriginalCode& original, const EntryPoint& entry,
                                         const BrokenCode& broken) {
  if (broken.whole_loop) return slots_bound_later(original, entry, entry.target);
  const int handler = original.program.code[entry.target].handler;
  if (handler < 0) return {};
  return slots_bound_later(original, entry, original.program.handlers[handler].target);
}

FrameMaker::FrameMaker(const symbolic::CaptureResult& capture, size_t index, size_t first) {
  const symbolic::BrokenFrame& frame = capture.frames[index];
  const bool is_root = index == 0, is_last = index + 1 == capture.frames.size();
  PyCodeObject* code = code_of(frame);
  const CodeOrigin origin = origin_of(code);
  const OriginalCode& original = *origin.original;
  const bool calls_inner = is_last && frame.at == origin.inner_call;
  const int begin = static_cast<int>(first);
  const int depth = calls_inner ? origin.below_inner_call : frame.stack_depth;
  for (int i = depth; i < frame.stack_depth; ++i)
    if (!begins_call(*capture.results[begin + i])) callee_.push_back(begin + i);
  EntryPoint entry;
  entry.target = after_landing(original.program, origin.in_original(frame.at));
  for (int i = 0; i < depth; ++i)
    entry.empty_slots.push_back(capture.results[begin + i]->kind == symbolic::RecipeKind::kNull);

  const SlotNames names = slot_names(code);
  std::map<int, Argument> arguments;  // by slot of the original
  cells_.resize(original.cells.size());
  int value = begin + frame.stack_depth;
  for (int local : frame.local_slots) {
    const int slot = original.slot_of(names, local), at = value++;
    if (slot < 0) continue;  // a stack parameter of a resume function: it is on the stack or gone
    auto cell = std::find(original.cells.begin(), original.cells.end(), slot);
    if (cell != original.cells.end())
      cells_[cell - original.cells.begin()].value = at;
    else
      arguments[slot] = {.is_cell = false, .index = at};
  }
  if (!is_root) globals_ = value;
  num_own_cells_ = original.num_own_cells;
  for (const auto& [slot, argument] : arguments) entry.locals.push_back(slot);
  BrokenCode broken{calls_inner || !is_last, capture.whole_loop, ways_out_of(capture, origin, names)};
  entry.unbound = unbound_in_continuation(original, entry, broken);
  for (int slot : entry.unbound) arguments[slot] = {};
  for (int i = 0; i < original.num_own_cells; ++i)
    arguments[original.cells[i]] = {.is_cell = true, .index = i};
  for (int slot : parameter_slots(original, entry)) arguments_.push_back(arguments.at(slot));
  for (int i = 0; i < depth; ++i)
    if (!entry.empty_slots[i]) arguments_.push_back({.is_cell = false, .index = begin + i});
  if (is_root)
    for (size_t i = 0; i < cells_.size(); ++i)
      if (cells_[i].value < 0) cells_[i].closure = closure_index(code, original.names[original.cells[i]]);
  code_ = make_continuation_code(origin.original, entry, broken, resume_point);
  if (symbolic::log_enabled(symbolic::Topic::kBytecode))
    symbolic::log(symbolic::Topic::kBytecode,
                  where(code) + ": made to go on in Python after the graph\n" + disassembly(code_.get()));
}

PyRef FrameMaker::cell(PyObject* closure, const std::vector<PyRef>& values, size_t i) const {
  if (cells_[i].value >= 0) return values[cells_[i].value];
  if (cells_[i].closure >= 0) return PyRef::borrow(PyTuple_GET_ITEM(closure, cells_[i].closure));
  return checked(PyCell_New(nullptr));
}

WaitingFrame FrameMaker::make(PyObject* globals, PyObject* closure, std::vector<PyRef>& values) const {
  std::vector<PyRef> cells;
  std::vector<PyObject*> free;
  for (size_t i = 0; i < cells_.size(); ++i) {
    cells.push_back(cell(closure, values, i));
    if (i >= num_own_cells_) free.push_back(cells.back().get());
  }
  if (globals_ >= 0) globals = values[globals_].get();
  WaitingFrame frame{make_function(code_.get(), globals, free.data(), static_cast<Py_ssize_t>(free.size())),
                     {}};
  for (const Argument& argument : arguments_)
    frame.arguments.push_back(argument.is_cell      ? Py_NewRef(cells[argument.index].get())
                              : argument.index >= 0 ? values[argument.index].release()
                                                    : Py_NewRef(Py_None));
  return frame;
}

const char* reason_not_to_enter(const symbolic::BrokenFrame& frame) {
  PyCodeObject* code = code_of(frame);
  const CodeOrigin origin = origin_of(code);
  const OriginalCode& original = *origin.original;
  if (origin.in_original(frame.at) < 0) return "a value on its stack is not captured";
  if (!original.names_super || std::ranges::count(original.own_cells(), 0)) return nullptr;
  const SlotNames names = slot_names(code);
  const bool has_first = std::any_of(frame.local_slots.begin(), frame.local_slots.end(),
                                     [&](int slot) { return original.slot_of(names, slot) == 0; });
  const bool takes_first = original.object()->co_argcount > 0;
  return takes_first && has_first ? nullptr : "super() has no first argument to read";
}

PyRef FrameMaker::callee(std::vector<PyRef>& values) const {
  if (callee_.empty()) return {};
  WaitingFrame frame{values[callee_[0]], {}};
  for (int i : std::span(callee_).subspan(1)) frame.arguments.push_back(values[i].release());
  return inner_call(nullptr, std::move(frame));
}

// ---- the continuation

class PythonContinuation : public Continuation {
 public:
  explicit PythonContinuation(const symbolic::CaptureResult& capture);
  PyRef run(const OwnerPtr& owner, const symbolic::Roots& roots, std::vector<PyRef> values,
            PyRef* locals) override;

 private:
  std::vector<FrameMaker> frames_;  // outermost first
};

PythonContinuation::PythonContinuation(const symbolic::CaptureResult& capture) {
  size_t first = 0;
  for (size_t i = 0; i < capture.frames.size(); ++i) {
    frames_.emplace_back(capture, i, first);
    first += capture.frames[i].num_results(i == 0);
  }
}

PyRef PythonContinuation::run(const OwnerPtr& owner, const symbolic::Roots& roots, std::vector<PyRef> values,
                              PyRef* locals) {
  PyRef inner = frames_.back().callee(values);
  for (size_t i = frames_.size(); --i > 0;) {
    WaitingFrame frame = frames_[i].make(nullptr, nullptr, values);
    if (inner) frame.arguments.push_back(inner.release());
    inner = inner_call(owner, std::move(frame));
  }
  WaitingFrame frame = frames_[0].make(roots.globals, roots.closure, values);
  if (inner) frame.arguments.push_back(inner.release());
  values.clear();
  return run_frame(owner, std::move(frame), locals);
}

}  // namespace

const char* Continuation::reason_not_to_enter(const symbolic::CaptureResult& capture) {
  for (const symbolic::BrokenFrame& frame : capture.frames)
    if (const char* reason = frame_eval::reason_not_to_enter(frame)) return reason;
  return nullptr;
}

std::unique_ptr<Continuation> Continuation::make(const symbolic::CaptureResult& capture) {
  return std::make_unique<PythonContinuation>(capture);
}

}  // namespace cdynamo::frame_eval
