#include "frame_eval/resume/frame_run.h"

#include <new>
#include <utility>

#include "symbolic/interop/moving_call.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {
namespace {

struct InnerCall {
  PyObject_HEAD vectorcallfunc vectorcall;
  OwnerPtr owner;
  WaitingFrame frame;
};

InnerCall& inner_of(PyObject* object) { return *reinterpret_cast<InnerCall*>(object); }

void drop_arguments(WaitingFrame& frame) {
  OwnedArguments{frame.arguments.data(), static_cast<Py_ssize_t>(frame.arguments.size())}.drop();
}

PyObject* vectorcall(PyObject* callable, PyObject* const*, size_t, PyObject*) {
  InnerCall& self = inner_of(callable);
  if (!self.frame.function)
    return PyErr_Format(PyExc_TypeError, "%s: it has been called", Py_TYPE(callable)->tp_name);
  WaitingFrame frame = std::exchange(self.frame, {});
  if (self.owner) return run_frame(self.owner, std::move(frame)).release();
  return symbolic::call_moving(frame.function.get(), frame.arguments).release();
}

void dealloc(PyObject* object) {
  InnerCall& self = inner_of(object);
  drop_arguments(self.frame);
  self.frame.~WaitingFrame();
  self.owner.~OwnerPtr();
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject* inner_call_type() {
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "cdynamo.InnerCall";
    t.tp_basicsize = sizeof(InnerCall);
    t.tp_dealloc = dealloc;
    t.tp_vectorcall_offset = offsetof(InnerCall, vectorcall);
    t.tp_call = PyVectorcall_Call;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    return t;
  }();
  return ready(type);
}

}  // namespace

PyRef run_frame(const OwnerPtr& owner, WaitingFrame frame, PyRef* locals) {
  const OwnedArguments owned{frame.arguments.data(), static_cast<Py_ssize_t>(frame.arguments.size()), locals};
  HookScope hook(owner, reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(frame.function.get())), owned);
  PyRef result = PyRef::steal(
      PyObject_Vectorcall(frame.function.get(), frame.arguments.data(), frame.arguments.size(), nullptr));
  owned.drop();
  return result;
}

PyRef inner_call(const OwnerPtr& owner, WaitingFrame frame) {
  PyTypeObject* type = inner_call_type();
  PyRef call = symbolic::checked(type ? type->tp_alloc(type, 0) : nullptr);
  InnerCall& self = inner_of(call.get());
  self.vectorcall = vectorcall;
  new (&self.owner) OwnerPtr(owner);
  new (&self.frame) WaitingFrame(std::move(frame));
  return call;
}

}  // namespace cdynamo::frame_eval
