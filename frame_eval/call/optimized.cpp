#include "frame_eval/call/optimized.h"

#include <structmember.h>

#include <new>

#include "frame_eval/cache/owner.h"
#include "frame_eval/call/function_call.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::PyRef;

struct OwnerObject {
  PyObject_HEAD OwnerPtr owner;
};

struct OptimizedFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;       // the user's PyFunctionObject
  PyObject* owner;          // an OwnerObject
  PyTypeObject* view_type;  // null, or: its instances have owners of their own, at `owner_offset`
  Py_ssize_t owner_offset;
  PyObject* dict;
  PyObject* weak_references;
};

PyTypeObject* optimized_function_type = nullptr;
PyTypeObject* owner_type = nullptr;

// An OwnerObject, borrowed.
PyObject* owner_of_call(OptimizedFunction* self, PyObject* const* args, Py_ssize_t count) {
  PyObject* owner = self->owner;
  if (self->view_type && count > 0 && PyObject_TypeCheck(args[0], self->view_type)) {
    PyObject* own = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(args[0]) + self->owner_offset);
    if (own && Py_IS_TYPE(own, owner_type)) owner = own;
  }
  return owner;
}

PyObject* optimized_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* self = reinterpret_cast<OptimizedFunction*>(callable);
  // The call may drop the last reference to the callable itself.
  const PyRef function = PyRef::borrow(self->function);
  const PyRef owner = PyRef::borrow(owner_of_call(self, args, PyVectorcall_NARGS(nargsf)));
  return call_function(function.get(), reinterpret_cast<OwnerObject*>(owner.get())->owner, args, nargsf,
                       kwnames);
}

void optimized_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<OptimizedFunction*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->view_type);
  Py_CLEAR(self->dict);
  type->tp_free(object);
  Py_DECREF(type);
}

int optimized_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<OptimizedFunction*>(object);
  Py_VISIT(self->function);
  Py_VISIT(self->view_type);
  Py_VISIT(self->dict);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

int optimized_clear(PyObject* object) {
  auto* self = reinterpret_cast<OptimizedFunction*>(object);
  Py_CLEAR(self->view_type);
  Py_CLEAR(self->dict);
  return 0;
}

// As a function does: found on a class, it binds to the instance.
PyObject* optimized_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject* optimized_repr(PyObject* object) {
  auto* self = reinterpret_cast<OptimizedFunction*>(object);
  return PyUnicode_FromFormat("<cdynamo.optimize of %R>", self->function);
}

PyObject* optimized_wrapped(PyObject* object, void*) {
  return Py_NewRef(reinterpret_cast<OptimizedFunction*>(object)->function);
}

// What is not its own is the function's: __name__, __code__, __defaults__ and whatever the user attached.
PyObject* optimized_getattro(PyObject* object, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(object, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<OptimizedFunction*>(object)->function, name);
}

// The name under which its module has it; null without an error where the module has something else there.
PyRef global_name(PyObject* object) {
  PyRef module = PyRef::steal(PyObject_GetAttrString(object, "__module__"));
  PyRef name = PyRef::steal(PyObject_GetAttrString(object, "__qualname__"));
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* home =
      module && PyUnicode_Check(module.get()) ? PyDict_GetItemWithError(modules, module.get()) : nullptr;
  PyRef found = home && name ? PyRef::steal(PyObject_GetAttr(home, name.get())) : PyRef();
  PyErr_Clear();
  return found.get() == object ? name : PyRef();
}

// Pickled by its name, as a function is, where it stands under that name (a decorated function), else as a call
// that makes it again.
PyObject* optimized_reduce(PyObject* object, PyObject*) {
  if (PyRef name = global_name(object)) return name.release();
  PyObject* optimize = symbolic::find_python_side(symbolic::PythonSide::kOptimize);
  if (!optimize) return nullptr;
  return Py_BuildValue("(O(O))", optimize, reinterpret_cast<OptimizedFunction*>(object)->function);
}

PyGetSetDef optimized_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__wrapped__", optimized_wrapped, nullptr, "the function as it was written", nullptr},
    {},
};
PyMethodDef optimized_methods[] = {
    {"__reduce__", optimized_reduce, METH_NOARGS, nullptr},
    {},
};
PyMemberDef optimized_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OptimizedFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(OptimizedFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(OptimizedFunction, weak_references), READONLY, nullptr},
    {},
};
PyType_Slot optimized_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(optimized_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(optimized_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(optimized_clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(optimized_get)},
    {Py_tp_repr, reinterpret_cast<void*>(optimized_repr)},
    {Py_tp_getattro, reinterpret_cast<void*>(optimized_getattro)},
    {Py_tp_getset, optimized_getset},
    {Py_tp_methods, optimized_methods},
    {Py_tp_members, optimized_members},
    {Py_tp_doc, const_cast<char*>("A function that runs as compiled code; made by cdynamo.optimize.")},
    {0, nullptr},
};
PyType_Spec optimized_spec = {
    .name = "cdynamo.OptimizedFunction",
    .basicsize = sizeof(OptimizedFunction),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = optimized_slots,
};

void owner_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  reinterpret_cast<OwnerObject*>(object)->owner.~OwnerPtr();
  type->tp_free(object);
  Py_DECREF(type);
}

PyType_Slot owner_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(owner_dealloc)},
    {Py_tp_doc,
     const_cast<char*>("What was optimized: the compiled code that is kept for it ends with this.")},
    {0, nullptr},
};
PyType_Spec owner_spec = {
    .name = "cdynamo.Owner",
    .basicsize = sizeof(OwnerObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = owner_slots,
};

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, const char* name) {
  PyRef type = PyRef::steal(PyType_FromModuleAndSpec(module, &spec, nullptr));
  if (!type || PyModule_AddObjectRef(module, name, type.get()) < 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type.release());
}

}  // namespace

int add_optimized_function_type(PyObject* module) {
  owner_type = add_type(module, owner_spec, "Owner");
  optimized_function_type = owner_type ? add_type(module, optimized_spec, "OptimizedFunction") : nullptr;
  return optimized_function_type ? 0 : -1;
}

PyRef make_owner(ConfigPtr config, const char* name) {
  PyRef object = PyRef::steal(owner_type->tp_alloc(owner_type, 0));
  if (object)
    new (&reinterpret_cast<OwnerObject*>(object.get())->owner)
        OwnerPtr(std::make_shared<Owner>(std::move(config), name));
  return object;
}

PyRef make_optimized_function(PyObject* function, PyObject* owner) {
  if (!Py_IS_TYPE(owner, owner_type)) {
    PyErr_SetString(PyExc_TypeError, "an Owner expected");
    return {};
  }
  PyRef object = PyRef::steal(optimized_function_type->tp_alloc(optimized_function_type, 0));
  if (!object) return object;
  auto* self = reinterpret_cast<OptimizedFunction*>(object.get());
  self->vectorcall = optimized_vectorcall;
  self->function = Py_NewRef(function);
  self->owner = Py_NewRef(owner);
  return object;
}

bool set_owner_slot(PyObject* optimized, PyObject* slot) {
  if (!Py_IS_TYPE(optimized, optimized_function_type) || !Py_IS_TYPE(slot, &PyMemberDescr_Type)) {
    PyErr_SetString(PyExc_TypeError, "an OptimizedFunction and a slot expected");
    return false;
  }
  auto* self = reinterpret_cast<OptimizedFunction*>(optimized);
  auto* member = reinterpret_cast<PyMemberDescrObject*>(slot);
  self->view_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(PyDescr_TYPE(member)));
  self->owner_offset = member->d_member->offset;
  return true;
}

}  // namespace cdynamo::frame_eval
