#include "frame_eval/execution/autograd_node.h"

#include <algorithm>

#include "frame_eval/hook/hook.h"
#include "graph/torch_release.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/grad_mode.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::frame_eval {

using symbolic::WithGradMode;
namespace {

constexpr const char* kCapsule = "cdynamo.autograd_node";

struct Names {
  PyObject* state = PyUnicode_InternFromString("_cdynamo_state");
  PyObject* kept = PyUnicode_InternFromString("_cdynamo_kept");
  PyObject* to_save = PyUnicode_InternFromString("to_save");
  PyObject* materialize_grads = PyUnicode_InternFromString("materialize_grads");
  PyObject* saved_tensors = PyUnicode_InternFromString("saved_tensors");
  PyObject* maybe_clear_saved_tensors = PyUnicode_InternFromString("maybe_clear_saved_tensors");
  PyObject* needs_input_grad = PyUnicode_InternFromString("needs_input_grad");
  PyObject* next_functions = PyUnicode_InternFromString("next_functions");
};
const Names& names() {
  static const Names* const kNames = new Names();
  return *kNames;
}

// The request whose node is being made: `forward` is called by PyTorch with the node and the inputs only.
thread_local NodeRequest* pending = nullptr;

void free_state(PyObject* capsule) {
  delete static_cast<NodeState*>(PyCapsule_GetPointer(capsule, kCapsule));
}

template <typename Items, typename Get>
PyRef tuple_of(const Items& items, Get&& get) {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; tuple && i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(get(items[i])));
  return tuple;
}

// forward(node, *inputs) -> outputs.
PyObject* forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!pending || count < 1) {
    PyErr_SetString(PyExc_RuntimeError, "the node of a compiled function is made by cdynamo only");
    return nullptr;
  }
  NodeRequest& request = *pending;
  PyObject* node = args[0];
  PyRef saved = tuple_of(request.saved, [](PyObject* tensor) { return tensor; });
  PyRef outputs = tuple_of(request.outputs, [](const PyRef& tensor) { return tensor.get(); });
  PyRef state = PyRef::steal(PyCapsule_New(request.state.get(), kCapsule, free_state));
  if (!saved || !outputs || !state) return nullptr;
  request.state.release();  // the capsule's now
  if (PyObject_SetAttr(node, names().state, state.get()) < 0 ||
      (request.kept && PyObject_SetAttr(node, names().kept, request.kept.get()) < 0) ||
      PyObject_SetAttr(node, names().to_save, saved.get()) < 0 ||
      PyObject_SetAttr(node, names().materialize_grads, Py_False) < 0)
    return nullptr;
  return outputs.release();
}

// apply(node, *cotangents) -> gradients, called by the engine.
PyObject* backward(PyObject* node, PyObject* const* args, Py_ssize_t count) {
  PyRef capsule = PyRef::steal(PyObject_GetAttr(node, names().state));
  if (!capsule) return nullptr;
  auto* state = static_cast<NodeState*>(PyCapsule_GetPointer(capsule.get(), kCapsule));
  if (!state) return nullptr;
  try {
    return state->backward(node, args, count).release();
  } catch (const symbolic::PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "cdynamo: an error was lost");
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_RuntimeError, "cdynamo: error while compiling a backward: %s", error.what());
  }
  return nullptr;
}

PyMethodDef forward_method = {"forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward)),
                              METH_FASTCALL, "The outputs, computed before."};
PyMethodDef backward_method = {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(backward)),
                               METH_FASTCALL, "The gradients of the inputs."};

PyObject* attach_apply(PyObject*, PyObject* type) {
  PyRef method = PyRef::steal(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), &backward_method));
  if (!method || PyObject_SetAttrString(type, "apply", method.get()) < 0) return nullptr;
  Py_RETURN_NONE;
}
PyMethodDef attach_method = {"attach_apply", attach_apply, METH_O, nullptr};

// CompiledFunction.apply; null with an error set.
PyObject* apply_function() {
  static PyObject* apply = nullptr;
  if (apply) return apply;
  const HookScope imports_are_not_compiled(nullptr);
  PyObject* make_class = symbolic::find_python_side(symbolic::PythonSide::kMakeNodeClass);
  PyRef made_forward = PyRef::steal(PyCFunction_New(&forward_method, nullptr));
  PyRef attach = PyRef::steal(PyCFunction_New(&attach_method, nullptr));
  if (!make_class || !made_forward || !attach) return nullptr;
  return apply = PyObject_CallFunctionObjArgs(make_class, made_forward.get(), attach.get(), nullptr);
}

}  // namespace

bool attach_node(NodeRequest& request) {
  PyObject* apply = apply_function();
  if (!apply) return false;
  NodeState* const state = request.state.get();
  NodeRequest* const outer = pending;  // a tensor's hooks may call compiled functions in between
  pending = &request;
  PyRef results =
      PyRef::steal(PyObject_Vectorcall(apply, request.inputs.data(), request.inputs.size(), nullptr));
  pending = outer;
  if (!results) return false;
  if (!PyTuple_Check(results.get()) ||
      PyTuple_GET_SIZE(results.get()) != static_cast<Py_ssize_t>(request.outputs.size())) {
    PyErr_SetString(PyExc_SystemError, "an autograd node gave another number of outputs");
    return false;
  }
  for (size_t i = 0; i < request.outputs.size(); ++i)
    request.outputs[i] = PyRef::borrow(PyTuple_GET_ITEM(results.get(), i));
  const void* node = request.outputs.empty() ? nullptr : symbolic::autograd_node_of(request.outputs[0].get());
  if (node) state->engine_node = node;  // without a node there is no state any more
  return true;
}

PyRef saved_tensors(PyObject* node) { return PyRef::steal(PyObject_GetAttr(node, names().saved_tensors)); }

PyRef unchecked_saved_tensors(PyObject* node) {
  PyRef saved = PyRef::steal(PyObject_GetAttrString(node, "_raw_saved_tensors"));
  if (!saved || !PyTuple_Check(saved.get())) return {};
  PyRef tensors = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(saved.get())));
  for (Py_ssize_t i = 0; tensors && i < PyTuple_GET_SIZE(saved.get()); ++i) {
    PyObject* tensor = PyObject_GetAttrString(PyTuple_GET_ITEM(saved.get(), i), "data");
    if (!tensor) return {};
    PyTuple_SET_ITEM(tensors.get(), i, tensor);
  }
  return tensors;
}

int keeps_graph() {
  PyObject* ask = symbolic::library_object("torch._C._autograd", "_get_current_graph_task_keep_graph");
  if (!ask)
    return PyErr_SetString(PyExc_ImportError, "this PyTorch does not say whether the graph is kept"), -1;
  PyRef keep = PyRef::steal(PyObject_CallNoArgs(ask));
  return keep ? keep.get() != Py_False : -1;
}

bool release_kept(PyObject* node) { return PyObject_SetAttr(node, names().kept, Py_None) == 0; }

bool release_saved_tensors(PyObject* node) {
  const int keep = keeps_graph();
  if (keep < 0 || (!keep && !release_kept(node))) return false;
  return PyRef::steal(PyObject_CallMethodNoArgs(node, names().maybe_clear_saved_tensors)).get() != nullptr;
}

PyRef kept_by(PyObject* node) { return PyRef::steal(PyObject_GetAttr(node, names().kept)); }

// Will the engine come to this node in the backward that runs now? -1 where it does not say, with no error set: by torch.autograd.grad
// it is asked for the gradient of the leaf that the node stands for, or there is no engine at work.
static int engine_goes_to(PyObject* node) {
  PyObject* ask = symbolic::library_object("torch._C", "_will_engine_execute_node");
  PyRef answer = ask ? PyRef::steal(PyObject_CallOneArg(ask, node)) : PyRef();
  if (!answer) PyErr_Clear();
  return answer ? answer.get() == Py_True : -1;
}

// A node of no graph; null where none can be made, with no error set.
static PyRef node_of_nothing() {
  const WithGradMode with_history;
  PyObject* make = symbolic::library_object("torch", "scalar_tensor");
  PyRef leaf = make && !with_history.failed() ? PyRef::steal(PyObject_CallFunction(make, "d", 0.0)) : PyRef();
  if (leaf) leaf = PyRef::steal(PyObject_CallMethod(leaf.get(), "requires_grad_", nullptr));
  if (leaf) leaf = PyRef::steal(PyObject_CallMethod(leaf.get(), "clone", nullptr));
  PyRef node = leaf ? PyRef::steal(PyObject_GetAttrString(leaf.get(), "grad_fn")) : PyRef();
  if (!node) PyErr_Clear();
  return node;
}

// Gradients of all that requires grad are computed, unless `inputs` were given: the engine does not go then where none of them is.
static bool engine_goes_everywhere() {
  static PyObject* elsewhere = nullptr;  // made without a lock: another thread may make one as well
  if (!elsewhere) {
    PyRef made = node_of_nothing();
    if (!elsewhere) elsewhere = made.release();
  }
  return !elsewhere || engine_goes_to(elsewhere) != 0;
}

// What the engine was asked for, by Python objects of the nodes behind this one: for PyTorch before 2.12. From then on a node that has
// an object is counted by Python, with the GIL: another thread that comes by the parameter's node in eager mode holds the parameter's
// lock and waits for the GIL, and a function's node that is being attached holds the GIL and waits for the lock.
static bool ask_by_objects(PyObject* node, std::vector<bool>& needed) {
  if (graph::torch_release() >= graph::TorchRelease{2, 12} || engine_goes_everywhere()) return true;
  PyRef next = PyRef::steal(PyObject_GetAttr(node, names().next_functions));
  if (!next || !PyTuple_Check(next.get())) return false;
  if (PyTuple_GET_SIZE(next.get()) != static_cast<Py_ssize_t>(needed.size())) return true;
  for (size_t i = 0; i < needed.size(); ++i) {
    PyObject* edge = PyTuple_GET_ITEM(next.get(), i);  // the node, and which of its gradients
    if (needed[i]) needed[i] = engine_goes_to(PyTuple_GET_ITEM(edge, 0)) != 0;
  }
  return true;
}

std::vector<bool> needed_gradients(PyObject* node, const NodeState& state) {
  PyRef flags = PyRef::steal(PyObject_GetAttr(node, names().needs_input_grad));
  if (!flags || !PyTuple_Check(flags.get())) return {};
  std::vector<bool> needed(PyTuple_GET_SIZE(flags.get()));
  for (size_t i = 0; i < needed.size(); ++i) needed[i] = PyTuple_GET_ITEM(flags.get(), i) == Py_True;
  std::vector<bool> asked_for = needed;
  if (state.engine_node) {
    for (size_t i = 0; i < needed.size(); ++i)
      asked_for[i] = needed[i] && symbolic::engine_goes_along(state.engine_node, i);
  } else if (!ask_by_objects(node, asked_for)) {
    return {};
  }
  return std::ranges::find(asked_for, true) != asked_for.end() ? asked_for : needed;
}

}  // namespace cdynamo::frame_eval
