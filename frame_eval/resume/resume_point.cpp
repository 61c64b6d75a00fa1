#include "frame_eval/resume/resume_point.h"

#include <exception>
#include <new>
#include <utility>

#include "frame_eval/hook/frame.h"
#include "graph/op.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

using symbolic::checked;

PyRef make_function(PyObject* code, PyObject* globals, PyObject* const* cells, Py_ssize_t num_cells) {
  PyRef function = checked(PyFunction_New(code, globals));
  if (num_cells == 0) return function;
  PyRef closure = checked(PyTuple_New(num_cells));
  for (Py_ssize_t i = 0; i < num_cells; ++i) PyTuple_SET_ITEM(closure.get(), i, Py_NewRef(cells[i]));
  if (PyFunction_SetClosure(function.get(), closure.get()) < 0) throw symbolic::PythonError{};
  return function;
}

PyTypeObject* ready(PyTypeObject& type) {
  return PyType_HasFeature(&type, Py_TPFLAGS_READY) || PyType_Ready(&type) == 0 ? &type : nullptr;
}

namespace {

struct ResumePoint {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* code;        // the resume function's
  Py_ssize_t num_cells;  // of the closure
  EntryPoint entry;
  std::shared_ptr<OriginalCode> original;
  // Those of the frame at its call, by the code of what is called.
  std::vector<std::pair<PyRef, PyRef>> codes_at_call;
};

struct Resumption {
  PyObject_HEAD PyObject* function;
  PyObject* arguments;  // a list
  PyObject* locals;     // or null
  bool owns_locals;
};

PyTypeObject* resumption_type();

// The code of the frame before the call that has just returned, where `inner` is the code of what it is to call.
PyRef code_at_call(ResumePoint& point, PyObject* inner) {
  for (const auto& [known, code] : point.codes_at_call)
    if (known.get() == inner) return code;
  EntryPoint entry = point.entry;
  --entry.target;
  entry.empty_slots.pop_back();
  PyRef code = make_resume_code_at_call(point.original, entry, reinterpret_cast<PyCodeObject*>(inner));
  point.codes_at_call.emplace_back(PyRef::borrow(inner), code);
  return code;
}

// In place of the Resumption that `parts` ends in: its function and arguments.
void take_apart(PyObject* parts, const Resumption& inner) {
  const PyRef held = PyRef::borrow(reinterpret_cast<PyObject*>(const_cast<Resumption*>(&inner)));
  const Py_ssize_t last = PyList_GET_SIZE(parts) - 1;
  if (PyList_SetItem(parts, last, Py_NewRef(inner.function)) < 0 ||
      PyList_SetSlice(parts, last + 1, last + 1, inner.arguments) < 0 ||
      PyList_SetSlice(inner.arguments, 0, PyList_GET_SIZE(inner.arguments), nullptr) < 0)
    throw symbolic::PythonError{};
}

// A stub hands over what is bound: the same parts for the code, and for that at a call, which bind other locals later.
void insert_unbound(PyObject* parts, Py_ssize_t num_cells, PyObject* code) {
  const CodeOrigin* origin = known_origin(reinterpret_cast<PyCodeObject*>(code));
  if (!origin) throw graph::InternalError("a resume function of unknown origin");
  for (int parameter : origin->unbound)
    if (PyList_Insert(parts, num_cells + parameter, Py_None) < 0) throw symbolic::PythonError{};
}

PyRef resume(ResumePoint& self, PyObject* parts) {
  PyRef code = PyRef::borrow(self.code);
  PyRef locals = PyRef::borrow(cdynamo_running_locals(PyThreadState_Get()));
  const bool owns_locals = bool(locals);
  const Py_ssize_t size = PyList_GET_SIZE(parts);
  PyObject* last = size > 0 ? PyList_GET_ITEM(parts, size - 1) : nullptr;
  if (last && is_resumption(last)) {
    const auto& inner = *reinterpret_cast<Resumption*>(last);
    code = code_at_call(self, PyFunction_GET_CODE(inner.function));
    if (!locals) locals = PyRef::borrow(inner.locals);
    take_apart(parts, inner);
  }
  insert_unbound(parts, self.num_cells, code.get());
  PyRef function = make_function(code.get(), PyEval_GetGlobals(),
                                 reinterpret_cast<PyListObject*>(parts)->ob_item, self.num_cells);
  if (PyList_SetSlice(parts, 0, self.num_cells, nullptr) < 0) throw symbolic::PythonError{};
  PyTypeObject* type = resumption_type();
  PyRef resumption = checked(type ? type->tp_alloc(type, 0) : nullptr);
  auto* waiting = reinterpret_cast<Resumption*>(resumption.get());
  waiting->function = function.release();
  waiting->arguments = Py_NewRef(parts);
  waiting->locals = locals.release();
  waiting->owns_locals = owns_locals;
  return resumption;
}

// Called with a list: the closure's cells, then what the code has for parameters. They are taken out of it, so that nobody but
// the resumed function holds them.
PyObject* resume_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject*) {
  auto* self = reinterpret_cast<ResumePoint*>(callable);
  PyObject* list = PyVectorcall_NARGS(nargsf) == 1 ? args[0] : nullptr;
  if (!list || !PyList_CheckExact(list) || PyList_GET_SIZE(list) < self->num_cells)
    return PyErr_Format(PyExc_TypeError, "%s: the parts of a frame expected", Py_TYPE(callable)->tp_name);
  try {
    return resume(*self, list).release();
  } catch (const symbolic::PythonError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_SystemError, "cdynamo: %s", error.what());
  }
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
  self->codes_at_call.~vector();
  type->tp_free(object);
}

// It never changes. Tools that copy code objects (torch.compile does) copy their constants.
PyObject* resume_copy(PyObject* object, PyObject*) { return Py_NewRef(object); }

PyMethodDef resume_methods[] = {{"__copy__", resume_copy, METH_NOARGS, nullptr},
                                {"__deepcopy__", resume_copy, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

PyTypeObject* resume_point_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "cdynamo.ResumePoint";
    t.tp_basicsize = sizeof(ResumePoint);
    t.tp_dealloc = resume_dealloc;
    t.tp_vectorcall_offset = offsetof(ResumePoint, vectorcall);
    t.tp_call = PyVectorcall_Call;
    t.tp_methods = resume_methods;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    return t;
  }();
  return ready(type);
}

void resumption_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<Resumption*>(object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->arguments);
  Py_CLEAR(self->locals);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject* resumption_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "cdynamo.Resumption";
    t.tp_basicsize = sizeof(Resumption);
    t.tp_dealloc = resumption_dealloc;
    t.tp_flags = Py_TPFLAGS_DEFAULT;
    return t;
  }();
  return ready(type);
}

}  // namespace

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
  new (&self->codes_at_call) decltype(self->codes_at_call)();
  self->vectorcall = resume_vectorcall;
  self->code = code.release();
  self->num_cells = static_cast<Py_ssize_t>(original->cells.size()) - original->num_own_cells;
  original->resume_points[entry] = object.get();
  return object;
}

Py_ssize_t first_stack_argument(const WaitingFrame& frame) {
  const CodeOrigin* origin =
      known_origin(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(frame.function.get())));
  return origin ? origin->first_stack : 0;
}

bool is_resumption(PyObject* object) { return Py_IS_TYPE(object, resumption_type()); }

WaitingFrame take_frame(PyRef resumption) {
  auto* self = reinterpret_cast<Resumption*>(resumption.get());
  WaitingFrame frame{PyRef::borrow(self->function), {}, PyRef::borrow(self->locals), self->owns_locals};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->arguments); ++i)
    frame.arguments.push_back(Py_NewRef(PyList_GET_ITEM(self->arguments, i)));
  return frame;
}

}  // namespace cdynamo::frame_eval
