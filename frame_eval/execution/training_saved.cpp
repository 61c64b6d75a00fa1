#include "frame_eval/execution/training_saved.h"

#include <algorithm>
#include <functional>

#include "frame_eval/execution/training_function.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::frame_eval {
namespace {

using graph::SavedValue;

class State : public NodeState {
 public:
  State(std::shared_ptr<TrainingFunction> function, int history, TrainingFunction::ForwardCall forward)
      : function_(std::move(function)), history_(history), forward_(std::move(forward)) {}
  PyRef backward(PyObject* node, PyObject* const* cotangents, Py_ssize_t count) override {
    return function_->backward(history_, node, needed_gradients(node, *this), forward_, cotangents, count);
  }

 private:
  std::shared_ptr<TrainingFunction> function_;
  int history_;
  TrainingFunction::ForwardCall forward_;
};

class FreedState : public NodeState {
 public:
  PyRef backward(PyObject*, PyObject* const*, Py_ssize_t) override { return raise_second_time(); }
};

// The tensor as it is now: where `.data` is assigned later, the original is another, and eager's operators mostly hold views.
PyRef alias_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("detach");
  return PyRef::steal(PyObject_CallMethodNoArgs(tensor, name));
}

// With a count of writes of its own.
PyRef uncounted_alias_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("data");
  return PyRef::steal(PyObject_GetAttr(tensor, name));
}

}  // namespace

PyRef raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  return {};
}

PyRef raise_second_time() {
  return raise(
      PyExc_RuntimeError,
      "Trying to backward through the graph a second time (or directly access saved tensors after they "
      "have already been freed). Saved intermediate values of the graph are freed when you call "
      ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
      "graph a second time or if you need to access saved tensors after calling backward.");
}

int64_t version_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("_version");
  PyRef version = PyRef::steal(PyObject_GetAttr(tensor, name));
  const int64_t value = version ? PyLong_AsLongLong(version.get()) : -1;
  if (PyErr_Occurred()) PyErr_Clear();
  return value;
}

bool TrainingFunction::attach(PyObject* const* inputs, const std::vector<int64_t>& symbols,
                              std::vector<PyRef>& fresh) {
  if (!freed_.outputs.empty() && !attach_freed(inputs, fresh)) return false;
  if (parts_.empty()) return true;
  // Higher derivatives start from the inputs again. A tensor to which the program adds a result of ours would keep the node that
  // keeps it.
  const size_t count = plan_.function->inputs.size();
  PyRef kept = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!kept) return false;
  for (size_t i = 0; i < count; ++i) {
    PyRef alias = symbolic::alias_with_history(inputs[i]);
    if (!alias) return false;
    PyTuple_SET_ITEM(kept.get(), static_cast<Py_ssize_t>(i), alias.release());
  }
  for (size_t i = 0; i < parts_.size(); ++i)
    if (!attach_part(static_cast<int>(i), inputs, kept, symbols, fresh)) return false;
  return true;
}

bool TrainingFunction::attach_freed(PyObject* const* inputs, std::vector<PyRef>& fresh) const {
  NodeRequest request;
  for (int input : freed_.inputs) request.inputs.push_back(inputs[input]);
  for (int output : freed_.outputs) request.outputs.push_back(fresh[output]);
  request.state = std::make_unique<FreedState>();
  if (!attach_node(request)) return false;
  for (size_t i = 0; i < request.outputs.size(); ++i)
    fresh[freed_.outputs[i]] = std::move(request.outputs[i]);
  return true;
}

bool TrainingFunction::attach_part(int number, PyObject* const* inputs, const PyRef& kept,
                                   const std::vector<int64_t>& symbols, std::vector<PyRef>& fresh) {
  const NodePart& part = parts_[number];
  ForwardCall forward{.symbols = symbols, .is_packed = symbolic::has_saved_tensor_hooks(), .versions = {}};
  for (size_t i = 0; i < part.saves_input.size(); ++i)
    forward.versions.push_back(part.saves_input[i] ? -1 : version_of(inputs[i]));
  NodeRequest request;
  for (int input : part.history.inputs) request.inputs.push_back(inputs[input]);
  for (int output : part.history.outputs) request.outputs.push_back(fresh[output]);
  std::vector<PyRef> aliases;
  for (int index : part.saved) {
    const SavedValue& saved = plan_.saved[index];
    PyObject* tensor = saved.kind == SavedValue::kInput ? inputs[saved.index] : fresh[saved.index].get();
    if (saved.kind == SavedValue::kInput || saved.is_uncounted) {
      aliases.push_back(saved.is_uncounted ? uncounted_alias_of(tensor) : alias_of(tensor));
      if (!aliases.back()) return false;
      request.saved.push_back(aliases.back().get());
    } else {
      request.saved.push_back(tensor);
    }
  }
  if (part.history.outputs.size() > 1)
    for (PyObject* saved : request.saved) forward.saved_versions.push_back(version_of(saved));
  request.state = std::make_unique<State>(shared_from_this(), number, std::move(forward));
  request.kept = kept;
  if (!attach_node(request)) return false;
  for (size_t i = 0; i < request.outputs.size(); ++i)
    fresh[part.history.outputs[i]] = std::move(request.outputs[i]);
  return true;
}

// After a backward that reads nothing and in eager's graph frees nothing. The engine itself lets go of what the node has
// saved.
bool TrainingFunction::keep_all(const NodePart& part, PyObject* node, ForwardCall& forward) const {
  const int keep = keeps_graph();
  if (keep || part.saves_nothing || forward.rest) return keep >= 0;
  const Mask reads(plan_.saved.size(), false);
  if (PyRef saved = read_saved(part, node, forward, &reads)) return keep_rest(saved.get(), forward);
  PyErr_Clear();  // it was freed, or written to: the next backward says so
  return true;
}

// The engine comes by with no gradient where a compiled function behind this one has results that do not meet; in eager's
// graph it would not come here.
PyRef TrainingFunction::passed_by(const NodePart& part, PyObject* node, ForwardCall& forward) const {
  return keep_all(part, node, forward) ? gradient_tuple(part, {}, nullptr) : PyRef();
}

// What eager would free after a backward from these outputs. What several outputs do not share goes when a backward
// has come from each.
bool TrainingFunction::release(const NodePart& part, PyObject* node, PyObject* saved, ForwardCall& forward,
                               const Mask& cotangents) const {
  if (part.is_one_group && !forward.rest) return release_saved_tensors(node);
  const int keep = keeps_graph();
  if (keep) return keep > 0;
  if (part.saves_nothing) return release_kept(node);
  if (forward.freed.empty()) forward.freed = part.elsewhere;
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] && group_of_output_[i] >= 0) forward.freed[group_of_output_[i]] = true;
  const bool all = !part.frees_nothing &&
                   std::find(forward.freed.begin(), forward.freed.end(), false) == forward.freed.end();
  if (all) forward.rest = PyRef();
  if (all || forward.rest) return !all || release_saved_tensors(node);
  return keep_rest(saved, forward);
}

PyRef TrainingFunction::all_saved(const NodePart& part, PyObject* saved, PyObject* filler) const {
  if (saved && part.saved.size() == plan_.saved.size()) return PyRef::borrow(saved);
  std::vector<PyObject*> tensors(plan_.saved.size(), filler);
  for (size_t i = 0; saved && i < part.saved.size(); ++i) tensors[part.saved[i]] = PyTuple_GET_ITEM(saved, i);
  PyRef all = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; all && i < tensors.size(); ++i) PyTuple_SET_ITEM(all.get(), i, Py_NewRef(tensors[i]));
  return all;
}

bool TrainingFunction::keep_rest(PyObject* saved, ForwardCall& forward) const {
  forward.rest = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(saved)));
  for (Py_ssize_t i = 0; forward.rest && i < PyTuple_GET_SIZE(saved); ++i) {
    // Results among them would hold the node that holds them.
    PyRef tensor = alias_of(PyTuple_GET_ITEM(saved, i));
    if (!tensor) return false;
    // What was written to before, and not read by this backward, stays stale.
    const bool is_stale = !forward.stale.empty() && forward.stale[i];
    forward.rest_versions.push_back(is_stale ? -2 : version_of(tensor.get()));
    PyTuple_SET_ITEM(forward.rest.get(), i, tensor.release());
  }
  return static_cast<bool>(forward.rest);
}

PyRef TrainingFunction::read_saved(const NodePart& part, PyObject* node, ForwardCall& forward,
                                   const Mask* reads) const {
  if (part.saves_nothing) return PyRef::steal(PyTuple_New(0));
  if (!forward.rest) {
    PyRef saved = saved_tensors(node);
    if (saved && forward.is_packed) return unpacked(part, std::move(saved), forward.symbols);
    return saved || !reads ? std::move(saved) : read_saved_in_part(part, node, forward, *reads);
  }
  for (size_t i = 0; i < forward.rest_versions.size(); ++i)
    if ((!reads || (*reads)[part.saved[i]]) &&
        version_of(PyTuple_GET_ITEM(forward.rest.get(), i)) != forward.rest_versions[i])
      return raise(
          PyExc_RuntimeError,
          "one of the variables needed for gradient computation has been modified by an inplace operation: "
          "what a compiled function saved for the backward of several results");
  return forward.rest;
}

PyRef TrainingFunction::unpacked(const NodePart& part, PyRef saved,
                                 const std::vector<int64_t>& symbols) const {
  PyRef tensors = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(saved.get())));
  for (Py_ssize_t i = 0; tensors && i < PyTuple_GET_SIZE(saved.get()); ++i) {
    const SavedValue& value = plan_.saved[part.saved[i]];
    const graph::Graph& of = value.kind == SavedValue::kInput ? *plan_.function : *plan_.forward;
    const graph::Value* known = (value.kind == SavedValue::kInput ? of.inputs : of.outputs)[value.index];
    const PyRef strides = PyRef::steal(PyTuple_New(known->type.rank()));
    for (int d = 0; strides && d < known->type.rank(); ++d)
      PyTuple_SET_ITEM(strides.get(), d,
                       PyLong_FromLongLong(of.sym->evaluate(known->type.strides[d], symbols.data())));
    PyObject* tensor =
        strides ? PyObject_CallFunctionObjArgs(symbolic::python_side(symbolic::PythonSide::kWithStrides),
                                               PyTuple_GET_ITEM(saved.get(), i), strides.get(), nullptr)
                : nullptr;
    if (!tensor) return {};
    PyTuple_SET_ITEM(tensors.get(), i, tensor);
  }
  return tensors;
}

// In eager each operator saves for itself, and what an operator has saved that no gradient comes to may be written to.
// Called with PyTorch's error set, which stays where something that is read was written to, or all was freed.
PyRef TrainingFunction::read_saved_in_part(const NodePart& part, PyObject* node, ForwardCall& forward,
                                           const Mask& reads) const {
  if (forward.saved_versions.empty() || !PyErr_ExceptionMatches(PyExc_RuntimeError)) return {};
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Mask stale;
  PyRef tensors = unchecked_saved_tensors(node);
  bool usable = tensors && PyTuple_GET_SIZE(tensors.get()) == static_cast<Py_ssize_t>(part.saved.size());
  for (size_t i = 0; usable && i < part.saved.size(); ++i) {
    stale.push_back(version_of(PyTuple_GET_ITEM(tensors.get(), i)) != forward.saved_versions[i]);
    usable = !reads[part.saved[i]] || !stale[i];
  }
  PyErr_Clear();
  if (!usable) {
    PyErr_Restore(type, value, traceback);
    return {};
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  forward.stale = std::move(stale);
  return tensors;
}

}  // namespace cdynamo::frame_eval
