// Backends in Python: the graph is described as plain objects (python/cdynamo/_graph.py reads them), and what
// comes back is called with the input objects. Nothing of a backend's is captured: no hook is on while it runs.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/execution/drawn_generators.h"
#include "frame_eval/execution/left_behind.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/reports/graph_description.h"
#include "graph/op.h"
#include "symbolic/interop/numpy_access.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;
using symbolic::numpy_access::is_array_object;

// The place of each user call: that of its first node.
PyRef locations(const graph::Graph& graph, Py_ssize_t num_calls) {
  PyRef list = checked(PyList_New(0));
  for (Py_ssize_t i = 0; i < num_calls; ++i) append(list, PyRef::borrow(Py_None));
  for (const auto& node : graph.nodes) {
    if (node->user_call < 0 || node->user_call >= num_calls || node->location < 0) continue;
    if (PyList_GET_ITEM(list.get(), node->user_call) != Py_None) continue;
    PyRef row = location_of(graph, *node);
    if (PyList_SetItem(list.get(), node->user_call, row.release()) < 0) throw symbolic::PythonError{};
  }
  return list;
}

// Symbols that are ints of the program's: a backend gets them behind the inputs, in this order.
std::vector<int> int_symbols(const symbolic::CaptureResult& capture) {
  std::vector<int> symbols;
  for (size_t i = 0; i < capture.symbols.size(); ++i)
    if (capture.symbols[i].input < 0) symbols.push_back(static_cast<int>(i));
  return symbols;
}

// Which calls are NumPy's, which inputs and outputs its arrays and scalars.
PyRef numpy_parts(const symbolic::CaptureResult& capture, const std::vector<OutputForm>& forms) {
  PyRef calls = checked(PySet_New(nullptr)), inputs = checked(PySet_New(nullptr)),
        outputs = checked(PySet_New(nullptr));
  const auto add = [](const PyRef& set, size_t number) {
    if (PySet_Add(set.get(), checked(PyLong_FromSize_t(number)).get()) < 0) throw symbolic::PythonError{};
  };
  for (const auto& node : capture.graph->nodes)
    if (node->framework == graph::Framework::kNumpy && node->user_call >= 0) add(calls, node->user_call);
  for (size_t i = 0; i < capture.inputs.size(); ++i)
    if (capture.inputs[i].kind == symbolic::InputKind::kNumpyArray) add(inputs, i);
  for (size_t i = 0; i < forms.size(); ++i)
    if (forms[i] == OutputForm::kNumpyArray || forms[i] == OutputForm::kNumpyScalar) add(outputs, i);
  return checked(Py_BuildValue("(OOO)", calls.get(), inputs.get(), outputs.get()));
}

PyRef describe_captured(const symbolic::CaptureResult& capture, PyObject* globals,
                        const std::vector<OutputForm>& forms) {
  const graph::Graph& graph = *capture.graph;
  PyRef symbols = checked(PyList_New(0));
  Py_ssize_t next_int = static_cast<Py_ssize_t>(capture.inputs.size());
  for (size_t i = 0; i < capture.symbols.size(); ++i) {
    const symbolic::SymbolBinding& binding = capture.symbols[i];
    if (graph.sym->symbols()[i].from_data)
      throw graph::Unsupported("sizes that depend on data, with a backend in Python");
    const Py_ssize_t input = binding.input >= 0 ? binding.input : next_int++;
    append(symbols,
           checked(Py_BuildValue("(sni)", graph.sym->symbols()[i].name.c_str(), input, binding.dim)));
  }
  PyRef calls = capture.user_calls ? capture.user_calls : checked(PyList_New(0));
  PyRef description = describe(graph, symbols, calls, locations(graph, PyList_GET_SIZE(calls.get())));
  PyRef numbers = checked(PyList_New(0));
  for (size_t i = 0; i < capture.inputs.size(); ++i)
    if (const symbolic::InputKind kind = capture.inputs[i].kind;
        kind == symbolic::InputKind::kFloat || kind == symbolic::InputKind::kNumpyScalar)
      append(numbers, checked(PyLong_FromSize_t(i)));
  if (PyDict_SetItemString(description.get(), "numbers", numbers.get()) < 0 ||
      PyDict_SetItemString(description.get(), "numpy", numpy_parts(capture, forms).get()) < 0 ||
      PyDict_SetItemString(description.get(), "uses_torch", capture.uses_torch ? Py_True : Py_False) < 0 ||
      PyDict_SetItemString(description.get(), "globals", globals) < 0)
    throw symbolic::PythonError{};
  return description;
}

// A backend is at work on this thread: it compiles, or what it returned runs.
class BackendScope {
 public:
  BackendScope() : plain_(nullptr) { ++depth_; }
  ~BackendScope() { --depth_; }
  BackendScope(const BackendScope&) = delete;
  static int depth() { return depth_; }

 private:
  static thread_local int depth_;
  HookScope plain_;
};
thread_local int BackendScope::depth_ = 0;

class CallableGraph : public CompiledGraph {
 public:
  // `replay` runs the program's calls one by one; null: `callable` does. `ints`: symbols that come after the inputs.
  CallableGraph(std::string backend, PyRef callable, PyRef replay, std::vector<int> ints,
                std::vector<OutputForm> forms, std::optional<LeftBehind> left_behind,
                DrawnGenerators generators)
      : backend_(std::move(backend)),
        callable_(std::move(callable)),
        replay_(std::move(replay)),
        ints_(std::move(ints)),
        forms_(std::move(forms)),
        left_behind_(std::move(left_behind)),
        generators_(std::move(generators)) {}

  bool run(Bindings& bindings, std::vector<PyRef>& outputs) override {
    PyRef result = call(bindings);
    return result && take_outputs(result.get(), outputs);
  }

 private:
  PyRef call(const Bindings& bindings) const {
    BackendScope scope;
    std::vector<PyRef> ints;
    std::vector<PyObject*> with_ints;
    if (!ints_.empty()) with_ints.assign(bindings.inputs.begin(), bindings.inputs.end());
    for (int symbol : ints_) {
      ints.push_back(checked(PyLong_FromLongLong(bindings.symbols[symbol])));
      with_ints.push_back(ints.back().get());
    }
    const std::span<PyObject* const> arguments(ints_.empty() ? bindings.inputs : with_ints);
    const auto run = [&](const PyRef& callable) {
      return PyRef::steal(PyObject_Vectorcall(callable.get(), arguments.data(), arguments.size(), nullptr));
    };
    // Hooks of saved tensors would be called again, and checkpoints stop what they compute again by an error.
    if (!left_behind_ || symbolic::has_saved_tensor_hooks()) return run(callable_);
    const KeptInputs before(bindings, *left_behind_, generators_);
    PyRef result = run(callable_);
    if (!result && before.complete() && PyErr_ExceptionMatches(PyExc_Exception) && fails_anyway(run, before))
      throw RunInPython{};
    return result;
  }

  // The error is the program's, not the backend's; the inputs are as they were before. An error is set before and,
  // where false, after.
  template <typename Run>
  bool fails_anyway(const Run& run, const KeptInputs& before) const {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const PyRef held[] = {PyRef::steal(type), PyRef::steal(value), PyRef::steal(traceback)};
    before.put_back();
    if (!replay_) return true;
    if (run(replay_)) {
      PyErr_Restore(Py_XNewRef(type), Py_XNewRef(value), Py_XNewRef(traceback));
      return false;
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;  // an interrupt
    PyErr_Clear();
    before.put_back();
    return true;
  }

  bool take_outputs(PyObject* result, std::vector<PyRef>& outputs) const {
    if (!PyTuple_Check(result) && !PyList_Check(result)) {
      PyErr_Format(PyExc_TypeError,
                   "what the backend %s returned gave %s, not a tuple or list of the outputs",
                   backend_.c_str(), Py_TYPE(result)->tp_name);
      return false;
    }
    const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(result));
    if (count != forms_.size()) {
      PyErr_Format(PyExc_RuntimeError, "what the backend %s returned gave %zu outputs, the graph has %zu",
                   backend_.c_str(), count, forms_.size());
      return false;
    }
    outputs.resize(count);
    for (size_t i = 0; i < count; ++i) {
      outputs[i] = PyRef::borrow(PySequence_Fast_GET_ITEM(result, i));
      if (!to_scalar(forms_[i], outputs[i])) return false;
    }
    return true;
  }

  // 0-dim tensors become Python numbers here, 0-dim arrays NumPy's scalars. NumPy's functions give scalars themselves.
  static bool to_scalar(OutputForm form, PyRef& output) {
    if (form == OutputForm::kPythonScalar && PyObject_HasAttrString(output.get(), "item")) {
      output = PyRef::steal(PyObject_CallMethod(output.get(), "item", nullptr));
    } else if (form == OutputForm::kNumpyScalar && is_array_object(output.get())) {
      PyRef nothing = PyRef::steal(PyTuple_New(0));
      if (nothing) output = PyRef::steal(PyObject_GetItem(output.get(), nothing.get()));
    }
    return static_cast<bool>(output);
  }

  std::string backend_;
  PyRef callable_, replay_;
  std::vector<int> ints_;
  std::vector<OutputForm> forms_;
  std::optional<LeftBehind> left_behind_;  // nullopt: it cannot run again
  DrawnGenerators generators_;
};

// What the bridge raised. BackendCompilerFailed goes to the user; another error is one of ours, where there was room to run it.
[[noreturn]] void throw_bridge_error() {
  if (PyErr_ExceptionMatches(PyExc_RecursionError)) {
    PyErr_Clear();
    throw StackIsFull{};
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef errors = checked(PyImport_ImportModule("cdynamo._errors"));
  PyRef failed = checked(PyObject_GetAttrString(errors.get(), "BackendCompilerFailed"));
  if (!PyErr_GivenExceptionMatches(type, PyExc_Exception) ||
      PyErr_GivenExceptionMatches(type, failed.get())) {
    PyErr_Restore(type, value, traceback);
    throw symbolic::PythonError{};
  }
  PyRef held[] = {PyRef::steal(type), PyRef::steal(value), PyRef::steal(traceback)};
  PyRef text = checked(PyObject_Str(value));
  throw graph::InternalError(std::string(Py_TYPE(value)->tp_name) + ": " + PyUnicode_AsUTF8(text.get()));
}

// Of those symbols the ones that the graph reads, which `wanted` numbers.
std::vector<int> chosen(const std::vector<int>& symbols, PyObject* wanted) {
  std::vector<int> result;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i)
    result.push_back(symbols.at(PyLong_AsSize_t(PyTuple_GET_ITEM(wanted, i))));
  return result;
}

std::string name_of(PyObject* bridge) {
  PyRef name = checked(PyObject_GetAttrString(bridge, "__name__"));
  return PyUnicode_AsUTF8(name.get());
}

}  // namespace

std::unique_ptr<CompiledGraph> compile_with_callable(const symbolic::CaptureResult& capture,
                                                     const Config& config, const Bindings& example,
                                                     PyObject* globals, std::vector<OutputForm> forms) {
  if (capture.changes_autocast)
    throw graph::Unsupported("torch.autocast inside a graph, with a backend in Python");
  PyRef examples = checked(PyList_New(0));
  for (PyObject* input : example.inputs) append(examples, PyRef::borrow(input));
  const std::vector<int> ints = int_symbols(capture);
  for (int symbol : ints) append(examples, checked(PyLong_FromLongLong(example.symbols.at(symbol))));
  PyRef description = describe_captured(capture, globals, forms);
  PyRef nesting = checked(PyLong_FromLong(BackendScope::depth()));
  BackendScope scope;
  PyRef compiled = PyRef::steal(PyObject_CallFunctionObjArgs(config.backend_callable.get(), description.get(),
                                                             examples.get(), nesting.get(), nullptr));
  if (!compiled) throw_bridge_error();
  PyRef replay = PyRef::borrow(PyTuple_GET_ITEM(compiled.get(), 1));
  return std::make_unique<CallableGraph>(name_of(config.backend_callable.get()),
                                         PyRef::borrow(PyTuple_GET_ITEM(compiled.get(), 0)),
                                         replay.get() == Py_None ? PyRef() : std::move(replay),
                                         chosen(ints, PyTuple_GET_ITEM(compiled.get(), 2)), std::move(forms),
                                         LeftBehind::of(*capture.graph), DrawnGenerators(*capture.graph));
}

}  // namespace cdynamo::frame_eval
