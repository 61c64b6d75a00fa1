#include "symbolic/frames/frame.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "graph/time_budget.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/decoded_codes.h"
#include "symbolic/frames/exceptions.h"
#include "symbolic/frames/functions.h"
#include "symbolic/interop/logs.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

// ---- decoded code

namespace {

bool starts_with(const std::string& text, const std::string& prefix) {
  return !prefix.empty() && text.compare(0, prefix.size(), prefix) == 0;
}

// The folder of a package or module that is loaded; empty otherwise.
std::string folder_of(const char* module) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* found = modules ? PyDict_GetItemString(modules, module) : nullptr;
  PyRef file = found ? PyRef::steal(PyObject_GetAttrString(found, "__file__")) : PyRef();
  const char* path = file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8(file.get()) : nullptr;
  if (!path) {
    PyErr_Clear();
    return {};
  }
  std::string folder(path);
  return folder.substr(0, folder.rfind('/') + 1);
}

bool is_library_file(const std::string& file) {
  if (starts_with(file, "<frozen ")) return true;
  for (const char* package : {"torch", "numpy", "cdynamo"})
    if (starts_with(file, folder_of(package))) return true;
  return starts_with(file, folder_of("os")) && file.find("site-packages") == std::string::npos;
}

using DecodedCodes = absl::flat_hash_map<PyCodeObject*, std::shared_ptr<const DecodedCode>>;

DecodedCodes& decoded_codes() {
  static auto* codes = new DecodedCodes;
  return *codes;
}

}  // namespace

void forget_dead_codes() {
  // What a code object takes with it may run Python, which may decode others: after the table is whole again.
  for (std::vector<std::shared_ptr<const DecodedCode>> dead;; dead.clear()) {
    absl::erase_if(decoded_codes(), [&](auto& row) {
      const bool is_dead = row.second.use_count() == 1 && Py_REFCNT(row.first) == 1;
      if (is_dead) dead.push_back(std::move(row.second));
      return is_dead;
    });
    if (dead.empty()) return;
  }
}

std::shared_ptr<const DecodedCode> decoded(PyCodeObject* code) {
  // Each row keeps its code object alive, so an address names one code.
  static size_t most = 256;
  if (auto it = decoded_codes().find(code); it != decoded_codes().end()) return it->second;
  if (decoded_codes().size() >= most) {
    forget_dead_codes();
    most = std::max<size_t>(256, 2 * decoded_codes().size());
  }
  auto entry = std::make_shared<DecodedCode>();
  entry->code = PyRef::borrow(reinterpret_cast<PyObject*>(code));
  entry->program = decode(code);
  entry->loops = find_loops(entry->program);
  entry->is_library = is_library_file(entry->file());
  decoded_codes().insert_or_assign(code, entry);
  return entry;
}

// ---- frame

SymbolicFrame::SymbolicFrame(std::shared_ptr<const DecodedCode> decoded_code, PyRef globals, PyRef builtins)
    : code(std::move(decoded_code)), globals(std::move(globals)), builtins(std::move(builtins)) {
  locals.resize(static_cast<size_t>(code->object()->co_nlocalsplus));
  pending.resize(locals.size());
  stack.reserve(static_cast<size_t>(code->object()->co_stacksize));
}

std::vector<ValuePtr> SymbolicFrame::pop_many(size_t count) {
  std::vector<ValuePtr> values(std::make_move_iterator(stack.end() - static_cast<ptrdiff_t>(count)),
                               std::make_move_iterator(stack.end()));
  stack.resize(stack.size() - count);
  return values;
}

const ValuePtr& SymbolicFrame::local(Executor& ex, int slot) {
  if (!locals[slot] && pending[slot]) {
    PyRef object = follow(*pending[slot], ex.state().request.roots);
    if (!object) throw graph::InternalError("an argument is missing");
    locals[slot] = ex.wrap(object.get(), pending[slot]);
    pending[slot] = nullptr;
  }
  return locals[slot];
}

void SymbolicFrame::set_local(int slot, ValuePtr value) {
  locals[slot] = std::move(value);
  pending[slot] = nullptr;
}

const char* SymbolicFrame::slot_name(int slot) const {
  return PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->object()->co_localsplusnames, slot));
}

int SymbolicFrame::line() const {
  const auto& instructions = code->program.code;
  int at = pc < static_cast<int>(instructions.size()) ? pc : static_cast<int>(instructions.size()) - 1;
  for (; at >= 0; --at)
    if (instructions[at].line > 0) return instructions[at].line;
  return code->object()->co_firstlineno;
}

FrameScope::FrameScope(Executor& ex, SymbolicFrame& frame) : state_(ex.state()) {
  frame.back = state_.frame;
  state_.frame = &frame;
  ++state_.depth;
}

FrameScope::~FrameScope() {
  SymbolicFrame* frame = state_.frame;
  state_.frame = frame->back;
  frame->back = nullptr;
  --state_.depth;
}

// ---- the loop

namespace {

constexpr int64_t kTimeCheck = 1024;  // instructions between two looks at the clock

const std::array<OpHandler, kNumOps>& handlers() {
  static const std::array<OpHandler, kNumOps> table = [] {
    std::array<OpHandler, kNumOps> rows{};
    for (auto group : {stack_ops(), name_ops(), class_ops(), operator_ops(), build_ops(), call_ops(),
                       control_ops(), exception_ops(), match_ops(), generator_ops()})
      for (const OpRow& row : group) rows[static_cast<size_t>(row.op)] = row.handler;
    return rows;
  }();
  return table;
}

// Before each instruction of a linked frame. False: the capture ends here.
bool begin_step(Executor::State& state, SymbolicFrame& frame) {
  ++frame.step;
  if (frame.level >= 0 && frame.level + 1 == std::ssize(state.stop_path) &&
      state.stop_path[frame.level] == frame.step)
    return false;
  if (!frame.is_root) return true;
  if (!state.cut_headers.empty() && state.cut_headers[frame.pc]) return false;
  state.root_trace.push_back(frame.pc);
  state.root_values.push_back(state.result.graph->next_value_id());
  state.root_handled.push_back(state.root_handler_steps.empty() ? Executor::State::kHandlesNothing
                                                                : state.root_handler_steps.front());
  return true;
}

// Where a break inside an except block goes back to: the step that raised what is being handled.
void note_root_raise(Executor::State& state, const SymbolicFrame& frame) {
  if (!frame.is_root) return;
  bool again = frame.code->program.code[frame.pc].op == Op::RERAISE || !state.root_handler_steps.empty();
  if (!again) state.root_raise_step = static_cast<int>(state.root_trace.size()) - 1;
}

void note_traceback(const Executor::State& state, const ValuePtr& exception) {
  auto* raised = dynamic_cast<ExceptionValue*>(exception.get());
  if (raised && raised->raised_at < 0) raised->raised_at = static_cast<int64_t>(state.root_trace.size()) - 1;
}

// The exception table: cuts the stack, pushes the exception and goes to the handler. False: there is none.
bool unwind(Executor& ex, SymbolicFrame& frame, const ValuePtr& exception) {
  const Instruction& instruction = frame.code->program.code[frame.pc];
  if (instruction.handler < 0) return false;
  const Handler& handler = frame.code->program.handlers[instruction.handler];
  frame.stack.resize(static_cast<size_t>(handler.depth));
  if (handler.push_lasti) frame.push(ex.constant_int(instruction.offset / 2));
  frame.push(exception);
  frame.pc = handler.target;
  return true;
}

// The text of the Python error that is set, which is cleared.
std::string take_python_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef owned[] = {PyRef::steal(type), PyRef::steal(value), PyRef::steal(traceback)};
  PyRef text = value ? PyRef::steal(PyObject_Str(value)) : PyRef();
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  std::string name = type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "no error was set";
  return name + ": " + (utf8 ? utf8 : "?");
}

// Half of the time is for compiling what was captured. Once it is decided where the capture stops, it may use that too to get
// there.
void stop_when_late(const Executor::State& state) {
  const bool first = state.stop_path.empty();
  if (!graph::TimeBudget::exceeded(first ? 0.5 : 1)) return;
  if (first)
    log_warning(std::string(PyUnicode_AsUTF8(state.request.code->co_name)) + " (line " +
                std::to_string(state.request.code->co_firstlineno) +
                "): capture takes longer than config.compile_seconds allows; it ends with a graph break");
  break_graph("CD0012", "");
}

constexpr int kToTheEnd = -2;

// What has a finalizer, or a callback of the program's waits for, has not died in the step.
void look_at_watched(Executor& ex, const SymbolicFrame& frame) {
  const bool ends = frame.is_root && frame.exit != FrameExit::kNone;
  if (ends) require_ends_in_order(ex, frame);
  if (!ends && !ex.state().held_by_stacks.empty()) require_held_by_stacks(ex);
  if (ex.state().watched_references.empty()) return;
  require_watched_alive(ex, ends ? &frame.result : nullptr);
}

// `until`: an instruction that is not executed any more.
void step_through(Executor& ex, SymbolicFrame& frame, int until) {
  Executor::State& state = ex.state();
  const std::vector<Instruction>& code = frame.code->program.code;
  frame.exit = FrameExit::kNone;
  while (frame.exit == FrameExit::kNone && frame.pc != until) {
    if (frame.is_linked && !begin_step(state, frame)) throw StopReached{};
    if (++state.instructions > kMaxInstructions) break_graph("CD0006", "");
    if (state.instructions % kTimeCheck == 0) stop_when_late(state);
    const Instruction& instruction = code[static_cast<size_t>(frame.pc)];
    frame.next_pc = frame.pc + 1;
    if (state.open_calls == 0) state.user_call = -1;
    OpHandler handler = handlers()[static_cast<size_t>(instruction.op)];
    if (!handler) break_graph("CD0004", op_name(instruction.op));
    try {
      if (frame.injected) throw PythonRaise{std::exchange(frame.injected, nullptr)};
      handler(ex, frame, instruction);
      if (frame.next_pc < frame.pc) {
        if (until != kToTheEnd && frame.next_pc != until) break_graph("CD0001", "one way of it is a loop");
        frame.unrolling.turn(state, frame.next_pc);
      }
      look_at_watched(ex, frame);
      frame.pc = frame.next_pc;
    } catch (const PythonRaise& raised) {
      if (until != kToTheEnd) throw;
      note_root_raise(state, frame);
      if (state.last_raised != raised.exception) {
        state.last_raised = raised.exception;
        state.raise_stack = ex.user_stack();
        note_traceback(state, raised.exception);
      }
      if (unwind(ex, frame, raised.exception)) {
        look_at_watched(ex, frame);
        continue;
      }
      let_go_of_locals(ex, frame);
      throw;
    }
  }
}

}  // namespace

void with_errors_as_breaks(Executor& ex, const std::function<void()>& work) {
  auto break_with = [&](const char* id, const std::string& detail) {
    BreakRecord record = break_record(id, detail);
    record.stack = ex.user_stack();
    throw GraphBreak{std::move(record)};
  };
  try {
    work();
  } catch (GraphBreak& broken) {
    if (broken.record.stack.empty()) broken.record.stack = ex.user_stack();
    throw;
  } catch (const graph::UserError& error) {
    break_with("CD0111", std::string("(") + error.what() + ")");
  } catch (const graph::DataDependent& error) {
    break_with("CD0406", error.what());
  } catch (const graph::Unsupported& error) {
    break_with("CD0112", error.what());
  } catch (const graph::InternalError& error) {
    log_warning(std::string("error during capture: ") + error.what());
    break_with("CD9000", std::string("(") + error.what() + ")");
  } catch (const PythonError&) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) || PyErr_ExceptionMatches(PyExc_MemoryError)) throw;
    break_with("CD9001", "(" + take_python_error() + ")");
  }
}

void run_frame(Executor& ex, SymbolicFrame& frame) {
  with_errors_as_breaks(ex, [&] { step_through(ex, frame, kToTheEnd); });
}

void run_until(Executor& ex, SymbolicFrame& frame, int meeting) { step_through(ex, frame, meeting); }

RecipePtr UnseenArgument::recipe(Executor&) { return source_recipe(source); }

// ---- what the data model asks of the innermost frame

std::pair<ValuePtr, ValuePtr> super_arguments(Executor& ex) {
  SymbolicFrame& frame = *ex.frame();
  PyCodeObject* code = frame.code->object();
  if (code->co_argcount == 0) raise_error(ex, PyExc_RuntimeError, "super(): no arguments");
  ValuePtr self = frame.local(ex, 0);
  // A cell may be an argument, too.
  constexpr unsigned char kIsCell = 0x40;  // CO_FAST_CELL (pycore_code.h)
  const bool in_cell = PyBytes_AS_STRING(code->co_localspluskinds)[0] & kIsCell;
  if (auto* cell = in_cell ? dynamic_cast<CellValue*>(self.get()) : nullptr) self = cell->contents(ex);
  if (!self) raise_error(ex, PyExc_RuntimeError, "super(): arg[0] deleted");
  int first_free = code->co_nlocalsplus - code->co_nfreevars;
  for (int slot = first_free; slot < code->co_nlocalsplus; ++slot) {
    if (std::string(frame.slot_name(slot)) != "__class__") continue;
    auto* cell = dynamic_cast<CellValue*>(frame.locals[slot].get());
    ValuePtr class_ = cell ? cell->contents(ex) : nullptr;
    if (!class_) raise_error(ex, PyExc_RuntimeError, "super(): empty __class__ cell");
    return {class_, self};
  }
  raise_error(ex, PyExc_RuntimeError, "super(): __class__ cell not found");
}

PyObject* frame_globals(Executor& ex) { return ex.frame()->globals.get(); }

// ---- where the program is

std::string source_line(PyCodeObject* code, int line) {
  PyObject* getline = library_object("linecache", "getline");
  if (!getline || line < 0) return {};
  PyRef text = PyRef::steal(PyObject_CallFunction(getline, "Oi", code->co_filename, line));
  PyRef stripped = text ? PyRef::steal(PyObject_CallMethod(text.get(), "strip", nullptr)) : PyRef();
  const char* utf8 = stripped ? PyUnicode_AsUTF8(stripped.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "";
}

UserFrame SymbolicFrame::describe() const {
  UserFrame user{code->file(), code->name(), "", line()};
  user.text = source_line(code->object(), user.line);
  return user;
}

CodeLine user_line(const SymbolicFrame* innermost) {
  const SymbolicFrame* found = innermost;
  while (found && found->code->is_library) found = found->back;
  if (!found) found = innermost;
  if (!found) return {};
  return {found->code->object(), found->line(), found->code->file(), found->code->name()};
}

bool is_in_library(const SymbolicFrame* innermost) { return !innermost || innermost->code->is_library; }

std::vector<UserFrame> frames_to(const SymbolicFrame* innermost) {
  std::vector<UserFrame> frames;
  for (const SymbolicFrame* frame = innermost; frame; frame = frame->back)
    frames.push_back(frame->describe());
  return {frames.rbegin(), frames.rend()};
}

}  // namespace cdynamo::symbolic
