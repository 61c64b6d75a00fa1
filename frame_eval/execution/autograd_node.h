// AutogradNode: one node of PyTorch's autograd graph whose backward is compiled code. The node is PyTorch's
// own (torch._C._FunctionBase), so hooks, retain_graph, saved-tensor hooks and anomaly mode are PyTorch's.
//
//   NodeRequest request{.handler = …, .inputs = {x, w}, .outputs = {y}, .saved = {x, y}};
//   if (!attach_node(request)) …        // request.outputs[0] requires grad now
#pragma once

#include <memory>
#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

using symbolic::PyRef;

// What one call of the forward leaves for its backward.
class NodeState {
 public:
  virtual ~NodeState() = default;
  // `node` is the Python object of the node; `cotangents` are tensors, or None where nothing flowed back.
  // The tuple of gradients, one for each input of the node, None where there is none. Null with a Python
  // error set.
  virtual PyRef backward(PyObject* node, PyObject* const* cotangents, Py_ssize_t count) = 0;

  // The node as the engine knows it, which keeps this state; null where PyTorch does not tell.
  const void* engine_node = nullptr;
};

struct NodeRequest {
  std::unique_ptr<NodeState> state;
  std::vector<PyObject*> inputs;  // tensors, those that do not require grad included
  std::vector<PyRef> outputs;     // fresh float tensors
  std::vector<PyObject*> saved;   // inputs, outputs and others: read again as node.saved_tensors
  PyRef kept;                     // kept as long as the node is, or null
};

// False with a Python error set.
bool attach_node(NodeRequest& request);

// node.saved_tensors: raises PyTorch's errors where they were freed or written to. A tuple.
PyRef saved_tensors(PyObject* node);
// The same without the check for writes, and without history. Null where they were freed; may leave an error set.
PyRef unchecked_saved_tensors(PyObject* node);
// The node lets them go, unless the graph is kept for another backward. False with a Python error set.
bool release_saved_tensors(PyObject* node);
// Is the backward that runs now asked to keep the graph? -1 with a Python error set.
int keeps_graph();
// Lets go of `kept` alone. False with a Python error set.
bool release_kept(PyObject* node);
// One a node input: node.needs_input_grad, and of these, where PyTorch tells, what the backward that runs now was asked for.
// Empty on error.
std::vector<bool> needed_gradients(PyObject* node, const NodeState& state);
// `kept` of the request.
PyRef kept_by(PyObject* node);

}  // namespace cdynamo::frame_eval
