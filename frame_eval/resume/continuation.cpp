#include "frame_eval/resume/continuation.h"

#include <algorithm>
#include <new>
#include <optional>

#include "frame_eval/hook/calls.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/reports/events.h"
#include "frame_eval/resume/entered_code.h"
#include "graph/op.h"
#include "symbolic/interop/logs.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;

// The function object for entered code: the code and cells are given, the rest is the caller's.
PyRef make_function(PyObject* code, PyObject* globals, PyObject* const* cells, Py_ssize_t num_cells) {
  PyRef function = checked(PyFunction_New(code, globals));
  if (num_cells == 0) return function;
  PyRef closure = checked(PyTuple_New(num_cells));
  for (Py_ssize_t i = 0; i < num_cells; ++i) PyTuple_SET_ITEM(closure.get(), i, Py_NewRef(cells[i]));
  if (PyFunction_SetClosure(function.get(), closure.get()) < 0) throw symbolic::PythonError{};
  return function;
}

// ---- tracebacks: one line for one frame of the program's, however often its graph is broken

// With what the last resume function of this thread failed; only compared, never followed. A group that `except*` raises
// again has no traceback there.
struct Failure {
  PyObject* value;
  PyObject* traceback;
  bool operator==(const Failure&) const = default;
};
thread_local std::optional<Failure> failed_resume;

void note_failed_resume() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  failed_resume = Failure{value, traceback};
  PyErr_Restore(type, value, traceback);
}

// A continuation that failed in a stub leaves a line for the stub, above that of what the stub called: it goes.
void drop_line_of_stub(PyObject* code) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  auto* line = reinterpret_cast<PyTracebackObject*>(traceback);
  if (line && failed_resume == Failure{value, reinterpret_cast<PyObject*>(line->tb_next)}) {
    PyRef of = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(line->tb_frame)));
    if (of.get() == code) {
      PyObject* rest = Py_XNewRef(reinterpret_cast<PyObject*>(line->tb_next));
      Py_DECREF(traceback);
      traceback = rest;
    }
  }
  failed_resume.reset();  // what calls this continuation is no stub
  PyErr_Restore(type, value, traceback);
}

// ---- ResumePoint: what a continuation's stub calls

struct ResumePoint {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* code;        // the resume function's
  Py_ssize_t num_cells;  // of the closure
  EntryPoint entry;
  std::shared_ptr<OriginalCode> original;
};

// Called with a list: the closure's cells, then what the code has for parameters. They are taken out of it, so that nobody but the resumed
// function holds them.
PyObject* resume_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject*) {
  auto* self = reinterpret_cast<ResumePoint*>(callable);
  PyObject* list = PyVectorcall_NARGS(nargsf) == 1 ? args[0] : nullptr;
  if (!list || !PyList_CheckExact(list) || PyList_GET_SIZE(list) < self->num_cells)
    return PyErr_Format(PyExc_TypeError, "%s: the parts of a frame expected", Py_TYPE(callable)->tp_name);
  std::vector<PyObject*> parts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) parts.push_back(Py_NewRef(PyList_GET_ITEM(list, i)));
  const OwnedArguments cells{parts.data(), self->num_cells};
  const OwnedArguments arguments{parts.data() + self->num_cells,
                                 static_cast<Py_ssize_t>(parts.size()) - self->num_cells};
  PyObject* result = nullptr;
  try {
    PyRef function = make_function(self->code, PyEval_GetGlobals(), cells.slots, cells.count);
    cells.drop();
    if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) == 0) {
      // Stubs run in continuations only, and these under the owner of the frame that they go on with.
      const OwnerPtr owner = hook_owner();
      result = call_function(function.get(), owner, arguments.slots, arguments.count, nullptr, arguments);
      if (!result) note_failed_resume();
    }
  } catch (const symbolic::PythonError&) {
  }
  cells.drop();
  arguments.drop();
  return result;
}

void resume_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<ResumePoint*>(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->original) {
    auto known = self->original->resume_points.find(self->entry);
    if (known != self->original->resume_points.end() && known->second == object)
      self->original->resume_points.erase(known);
  }
  Py_CLEAR(self->code);
  self->entry.~EntryPoint();
  self->original.~shared_ptr<OriginalCode>();
  type->tp_free(object);
}

PyTypeObject* resume_point_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "cdynamo.ResumePoint";
    t.tp_basicsize = sizeof(ResumePoint);
    t.tp_dealloc = resume_dealloc;
    t.tp_vectorcall_offset = offsetof(ResumePoint, vectorcall);
    t.tp_call = PyVectorcall_Call;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    return t;
  }();
  static const bool ready = PyType_Ready(&type) == 0;
  return ready ? &type : nullptr;
}

PyRef resume_point(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry) {
  auto known = original->resume_points.find(entry);
  if (known != original->resume_points.end()) return PyRef::borrow(known->second);
  PyTypeObject* type = resume_point_type();
  if (!type) throw symbolic::PythonError{};
  PyRef code = make_resume_code(original, entry);
  PyRef object = checked(type->tp_alloc(type, 0));
  auto* self = reinterpret_cast<ResumePoint*>(object.get());
  new (&self->entry) EntryPoint(entry);
  new (&self->original) std::shared_ptr<OriginalCode>(original);
  self->vectorcall = resume_vectorcall;
  self->code = code.release();
  self->num_cells = static_cast<Py_ssize_t>(original->cells.size()) - original->num_own_cells;
  original->resume_points[entry] = object.get();
  return object;
}

// ---- the continuation

class PythonContinuation : public Continuation {
 public:
  PythonContinuation(PyCodeObject* code, const symbolic::CaptureResult& capture);
  PyRef run(const OwnerPtr& owner, const symbolic::Roots& roots, std::vector<PyRef> values) override;

 private:
  PyRef cell(const symbolic::Roots& roots, const std::vector<PyRef>& values, size_t i) const;

  struct Cell {
    int value = -1;    // index in the values of a break
    int closure = -1;  // else index in the function's closure; neither: a new empty cell
  };
  PyRef code_;
  std::vector<int> arguments_;  // indices in the values of a break
  int first_argument_;  // the first of the arguments is what this one of the cells holds; -1: it is not
  std::vector<Cell> cells_;
  size_t num_own_cells_ = 0;  // the first of them: parameters
};

int closure_index(PyCodeObject* code, const std::string& name) {
  PyRef names = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_freevars"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    if (name == PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), i))) return static_cast<int>(i);
  return -1;
}

PythonContinuation::PythonContinuation(PyCodeObject* code, const symbolic::CaptureResult& capture) {
  const CodeOrigin origin = origin_of(code);
  const OriginalCode& original = *origin.original;
  EntryPoint entry;
  entry.target = after_landing(original.program, origin.in_original(capture.break_at));
  const int depth = capture.stack_depth;
  for (int i = 0; i < depth; ++i)
    entry.empty_slots.push_back(capture.results[i]->kind == symbolic::RecipeKind::kNull);

  const std::vector<std::string> names = slot_names(code);
  // (slot of the original, index in the values), in the order of the original's slots
  std::vector<std::pair<int, int>> locals;
  cells_.resize(original.cells.size());
  for (size_t i = 0; i < capture.local_slots.size(); ++i) {
    const int slot = original.slot_of(names.at(capture.local_slots[i]));
    if (slot < 0) continue;  // a stack parameter of a resume function: it is on the stack or gone
    const int value = depth + static_cast<int>(i);
    auto cell = std::find(original.cells.begin(), original.cells.end(), slot);
    if (cell != original.cells.end())
      cells_[cell - original.cells.begin()].value = value;
    else
      locals.emplace_back(slot, value);
  }
  first_argument_ = original.first_argument;
  num_own_cells_ = original.num_own_cells;
  std::sort(locals.begin(), locals.end());
  for (auto [slot, value] : locals) {
    entry.locals.push_back(slot);
    arguments_.push_back(value);
  }
  for (int i = 0; i < depth; ++i)
    if (!entry.empty_slots[i]) arguments_.push_back(i);
  for (size_t i = 0; i < cells_.size(); ++i)
    if (cells_[i].value < 0) cells_[i].closure = closure_index(code, original.names[original.cells[i]]);
  BrokenCode broken{capture.whole_loop, {}};
  for (const symbolic::WayOut& way : capture.ways_out) {
    symbolic::WayOut of_original{origin.in_original(way.from), origin.in_original(way.to), {}};
    for (int slot : way.locals)
      if (int known = original.slot_of(names.at(slot)); known >= 0) of_original.locals.push_back(known);
    std::sort(of_original.locals.begin(), of_original.locals.end());
    broken.ways_out.push_back(std::move(of_original));
  }
  code_ = make_continuation_code(origin.original, entry, broken, resume_point);
  if (symbolic::log_enabled(symbolic::Topic::kBytecode))
    symbolic::log(symbolic::Topic::kBytecode,
                  where(code) + ": made to go on in Python after the graph\n" + disassembly(code_.get()));
}

PyRef PythonContinuation::cell(const symbolic::Roots& roots, const std::vector<PyRef>& values,
                               size_t i) const {
  if (cells_[i].value >= 0) return values[cells_[i].value];
  if (cells_[i].closure >= 0) return PyRef::borrow(PyTuple_GET_ITEM(roots.closure, cells_[i].closure));
  return checked(PyCell_New(nullptr));
}

PyRef PythonContinuation::run(const OwnerPtr& owner, const symbolic::Roots& roots,
                              std::vector<PyRef> values) {
  std::vector<PyRef> cells;
  std::vector<PyObject*> closure, arguments;
  for (size_t i = 0; i < cells_.size(); ++i) {
    cells.push_back(cell(roots, values, i));
    if (i >= num_own_cells_) closure.push_back(cells.back().get());
  }
  PyRef function = make_function(code_.get(), roots.globals, closure.data(), closure.size());
  if (first_argument_ >= 0) {
    PyObject* first = PyCell_GET(cells[first_argument_].get());
    arguments.push_back(Py_NewRef(first ? first : Py_None));
  }
  for (size_t i = 0; i < num_own_cells_; ++i) arguments.push_back(Py_NewRef(cells[i].get()));
  cells.clear();
  for (int i : arguments_) arguments.push_back(values[i].release());
  values.clear();
  const OwnedArguments owned{arguments.data(), static_cast<Py_ssize_t>(arguments.size())};
  HookScope hook(owner, reinterpret_cast<PyCodeObject*>(code_.get()), owned);
  PyRef result =
      PyRef::steal(PyObject_Vectorcall(function.get(), arguments.data(), arguments.size(), nullptr));
  owned.drop();
  if (!result) drop_line_of_stub(code_.get());
  return result;
}

}  // namespace

const char* Continuation::reason_not_to_enter(PyCodeObject* code, const symbolic::CaptureResult& capture) {
  const CodeOrigin origin = origin_of(code);
  const OriginalCode& original = *origin.original;
  if (origin.in_original(capture.break_at) < 0) return "a value on its stack is not captured";
  if (!original.names_super || original.first_argument >= 0) return nullptr;
  const std::vector<std::string> names = slot_names(code);
  const bool has_first = std::any_of(capture.local_slots.begin(), capture.local_slots.end(),
                                     [&](int slot) { return original.slot_of(names.at(slot)) == 0; });
  const bool takes_first = reinterpret_cast<PyCodeObject*>(original.code.get())->co_argcount > 0;
  return takes_first && has_first ? nullptr : "super() has no first argument to read";
}

std::unique_ptr<Continuation> Continuation::make(PyCodeObject* code, const symbolic::CaptureResult& capture) {
  return std::make_unique<PythonContinuation>(code, capture);
}

}  // namespace cdynamo::frame_eval
