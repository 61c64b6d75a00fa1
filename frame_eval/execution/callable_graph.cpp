// Backends in Python: the graph is described as plain objects (python/cdynamo/_graph.py reads them), and what
// comes back is called with the input objects.

#include <set>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/reports/graph_description.h"
#include "graph/op.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;

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

PyRef describe_captured(const symbolic::CaptureResult& capture) {
  const graph::Graph& graph = *capture.graph;
  PyRef symbols = checked(PyList_New(0));
  for (size_t i = 0; i < capture.symbols.size(); ++i) {
    const symbolic::SymbolBinding& binding = capture.symbols[i];
    if (binding.input < 0)
      throw graph::Unsupported("an int argument that is dynamic, with a backend in Python");
    append(symbols,
           checked(Py_BuildValue("(sii)", graph.sym->symbols()[i].name.c_str(), binding.input, binding.dim)));
  }
  PyRef calls = capture.user_calls ? capture.user_calls : checked(PyList_New(0));
  return describe(graph, symbols, calls, locations(graph, PyList_GET_SIZE(calls.get())));
}

class CallableGraph : public CompiledGraph {
 public:
  CallableGraph(PyRef callable, std::vector<OutputForm> forms)
      : callable_(callable), forms_(std::move(forms)) {}

  bool run(const Bindings& bindings, std::vector<PyRef>& outputs) override {
    PyRef result = PyRef::steal(
        PyObject_Vectorcall(callable_.get(), bindings.inputs.data(), bindings.inputs.size(), nullptr));
    if (!result) return false;
    PyRef sequence =
        PyRef::steal(PySequence_Fast(result.get(), "a backend's function returns a sequence of tensors"));
    if (!sequence) return false;
    if (PySequence_Fast_GET_SIZE(sequence.get()) != static_cast<Py_ssize_t>(forms_.size())) {
      PyErr_Format(PyExc_RuntimeError, "the backend's function returned %zd outputs, the graph has %zu",
                   PySequence_Fast_GET_SIZE(sequence.get()), forms_.size());
      return false;
    }
    outputs.resize(forms_.size());
    for (size_t i = 0; i < forms_.size(); ++i) {
      outputs[i] = PyRef::borrow(PySequence_Fast_GET_ITEM(sequence.get(), i));
      // NumPy's functions give scalars themselves; torch's 0-dim tensors become Python numbers here.
      if (forms_[i] != OutputForm::kPythonScalar || !PyObject_HasAttrString(outputs[i].get(), "item"))
        continue;
      outputs[i] = PyRef::steal(PyObject_CallMethod(outputs[i].get(), "item", nullptr));
      if (!outputs[i]) return false;
    }
    return true;
  }

 private:
  PyRef callable_;
  std::vector<OutputForm> forms_;
};

}  // namespace

std::unique_ptr<CompiledGraph> compile_with_callable(const symbolic::CaptureResult& capture,
                                                     const Config& config, const Bindings& example,
                                                     std::vector<OutputForm> forms) {
  // The inside of a call of Function.apply is Python's own business.
  std::set<int> functions;
  for (const auto& node : capture.graph->nodes)
    if (node->op->name == "core.function") functions.insert(node->user_call);
  for (const auto& node : capture.graph->nodes)
    if (node->no_grad && !functions.count(node->user_call))
      throw graph::Unsupported("a no_grad region inside a graph, with a backend in Python");
  if (capture.changes_autocast)
    throw graph::Unsupported("torch.autocast inside a graph, with a backend in Python");
  PyRef examples = checked(PyList_New(0));
  for (PyObject* input : example.inputs) append(examples, PyRef::borrow(input));
  PyRef description = describe_captured(capture);
  PyRef callable = checked(PyObject_CallFunctionObjArgs(config.backend_callable.get(), description.get(),
                                                        examples.get(), nullptr));
  return std::make_unique<CallableGraph>(std::move(callable), std::move(forms));
}

}  // namespace cdynamo::frame_eval
