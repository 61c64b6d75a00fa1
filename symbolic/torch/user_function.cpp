// Subclasses of torch.autograd.Function during capture. python/cdynamo/polyfills/autograd.py inlines the forward with a
// context of its own, and then the backward with cotangents that stand for those to come; what is said here is how the
// nodes of the backward become a graph of their own, an argument of the node core.function (graph/core.h).
#include <algorithm>

#include "graph/op.h"
#include "symbolic/executor_state.h"
#include "symbolic/hooks.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/common.h"

namespace cdynamo::symbolic {
namespace {

using graph::Arg;
using graph::Graph;
using graph::Node;
using graph::Value;

constexpr const char* kBackward = "the backward of a Function";

[[noreturn]] void refuse(const char* why) { break_graph("CD0404", std::string("a Function ") + why); }

// ---- the call

// What a call of apply changes while it lasts.
class CallScope {
 public:
  explicit CallScope(Executor& ex)
      : ex_(ex), capture_(torch_capture(ex)), autocast_(capture_.autocast.enabled) {}
  ~CallScope() {
    while (ex_.state().parts.size() > parts_) ex_.leave_part();
    capture_.autocast.enabled = autocast_;
  }
  bool in_backward() const { return ex_.state().parts.size() > parts_; }

 private:
  Executor& ex_;
  TensorCapture& capture_;
  const size_t parts_ = ex_.state().parts.size();
  const bool autocast_;
};

// Function.apply(cls, *args). One call of the user's; backends in Python see nothing of its inside.
ValuePtr call_apply(Executor& ex, PyObject*, const CallArgs& args) {
  PyObject* cls = args.positional.empty() ? nullptr : args.positional[0]->real_object();
  if (!cls) refuse("that is not known");
  CallArgs own = args;
  own.positional.erase(own.positional.begin());
  PyObject* named = library_object("cdynamo._autograd", "apply_of");
  PyRef target = checked(PyObject_CallOneArg(named, cls));
  return recorded_call(ex, "call_function", std::move(target), own, [&]() -> ValuePtr {
    const CallScope scope(ex);
    PyObject* records = ex.user_calls();
    const Py_ssize_t count = PyList_GET_SIZE(records);
    ValuePtr result;
    try {
      result = polyfill(ex, "torch_functions", "function_apply")->call(ex, args);
    } catch (const PythonRaise&) {
      if (scope.in_backward()) refuse("whose backward raises");
      throw;
    }
    if (PyList_SetSlice(records, count, PyList_GET_SIZE(records), nullptr) < 0) throw PythonError{};
    return result;
  });
}

// ---- the forward's results

// graph_position(): what is made from here on can be told from what was there.
ValuePtr graph_position(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_int(ex.graph().next_value_id());
}

// own_tensor(tensor, position): the tensor itself where it was made since and is no view, else a copy.
ValuePtr own_tensor(Executor& ex, PyObject*, const CallArgs& args) {
  Value* value = graph_value(args.positional.at(0));
  const TensorCapture& capture = tensor_capture(ex);
  const int64_t position = PyLong_AsLongLong(constant_object(args.positional.at(1)));
  const bool own = value && value->node && value->id >= position && !capture.base_of.count(value) &&
                   !capture.storage_of.count(value);
  if (own) return args.positional[0];
  if (!value) refuse("whose result is not in the graph");
  return make_tensor(ex, append_call1(ex, "clone", {value}));
}

// ---- the backward

std::vector<Value*> values_of(Executor& ex, const ValuePtr& tuple) {
  std::vector<Value*> values;
  for (const ValuePtr& item : items_of(ex, tuple)) {
    values.push_back(graph_value(item));
    if (!values.back()) refuse("whose gradient is not in the graph");
  }
  return values;
}

// enter_backward(tensors): a cotangent for each. What follows is the backward, which eager runs later.
ValuePtr enter_backward(Executor& ex, PyObject*, const CallArgs& args) {
  ex.enter_part(kBackward, ex.part() ? ex.part()->region : 0);
  TensorCapture& capture = tensor_capture(ex);
  capture.autocast.enabled = false;
  capture.backward_begins.push_back(ex.graph().nodes.size());
  std::vector<ValuePtr> cotangents;
  for (const Value* of : values_of(ex, args.positional.at(0))) {
    graph::TensorType type = of->type;
    type.strides = graph::contiguous_strides(type.sizes);
    Value* cotangent = ex.graph().new_value(nullptr, -1, std::move(type));
    cotangent->name = "cotangent_" + std::to_string(cotangent->id);
    cotangent->requires_grad = true;
    cotangents.push_back(make_tensor(ex, cotangent));
  }
  return make_tuple(ex, std::move(cotangents));
}

// The nodes that the backward has appended as a graph: inputs are the cotangents, what it reads of the outer graph
// (`saved`), and `results` of the Function.
class BackwardGraph {
 public:
  BackwardGraph(Graph& outer, size_t begin) : outer_(outer) {
    nodes_.splice(nodes_.begin(), outer.nodes, std::next(outer.nodes.begin(), static_cast<ptrdiff_t>(begin)),
                  outer.nodes.end());
  }

  std::shared_ptr<const Graph> make(const std::vector<Value*>& cotangents, const std::vector<Value*>& results,
                                    const std::vector<Value*>& gradients, int user_call) {
    auto made = std::make_shared<Graph>(outer_.sym);
    made->framework = outer_.framework;
    made->default_float = outer_.default_float;
    find_saved(cotangents, results, gradients);
    for (const std::vector<Value*>* inputs : {&cotangents, &std::as_const(saved), &results})
      for (const Value* input : *inputs) {
        Value* image = made->add_input(input->type, input->name);
        if (inputs == &results) image->name += "_result";
        image->requires_grad = input->requires_grad;
        images_[input] = image;
      }
    for (const auto& node : nodes_) copy(*node, *made, user_call);
    for (const Value* gradient : gradients) made->outputs.push_back(images_.at(gradient));
    return made;
  }

  std::vector<Value*> saved;

 private:
  void find_saved(const std::vector<Value*>& cotangents, const std::vector<Value*>& results,
                  const std::vector<Value*>& gradients) {
    std::unordered_set<const Value*> known(cotangents.begin(), cotangents.end());
    known.insert(results.begin(), results.end());
    const auto read = [&](Value* value) {
      if (known.insert(value).second) saved.push_back(value);
    };
    for (const auto& node : nodes_) {
      if (node->op->family == graph::Family::kLibrary)
        refuse("whose backward calls what is not in the operator table");
      graph::for_each_operand(*node, [&](Value*& operand) { read(operand); });
      known.insert(node->results.begin(), node->results.end());
    }
    for (Value* gradient : gradients) read(gradient);
  }

  void copy(const Node& node, Graph& to, int user_call) {
    Node image = node;
    graph::for_each_operand(image, [&](Value*& operand) { operand = images_.at(operand); });
    std::vector<graph::TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = to.add_node(node.op, node.overload, std::move(image.args), std::move(types));
    made->in_place = node.in_place;
    made->no_grad = node.no_grad;
    made->location = node.location;
    made->user_call = user_call;
    for (size_t i = 0; i < node.results.size(); ++i) {
      made->results[i]->requires_grad = node.results[i]->requires_grad;
      images_[node.results[i]] = made->results[i];
    }
  }

  Graph& outer_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<const Value*, Value*> images_;
};

// What the forward has made has a history from here on.
void note_history(Executor& ex, Value* output) {
  output->requires_grad = true;
  for (auto& [view, base] : tensor_capture(ex).base_of)
    if (base == output) const_cast<Value*>(view)->requires_grad = true;
}

// leave_backward(cotangents, outputs, inputs, gradients): the gradients of these inputs of the Function, in terms of
// the cotangents of these outputs.
ValuePtr leave_backward(Executor& ex, PyObject*, const CallArgs& args) {
  TensorCapture& capture = tensor_capture(ex);
  const std::vector<Value*> cotangents = values_of(ex, args.positional.at(0)),
                            outputs = values_of(ex, args.positional.at(1)),
                            inputs = values_of(ex, args.positional.at(2)),
                            gradients = values_of(ex, args.positional.at(3));
  BackwardGraph backward(ex.graph(), capture.backward_begins.back());
  capture.backward_begins.pop_back();
  ex.leave_part();
  std::shared_ptr<const Graph> made = backward.make(cotangents, outputs, gradients, ex.state().user_call);
  append_call(ex, graph::op("core.function"),
              {.overload = 0, .args = {std::move(made), outputs, inputs, std::move(backward.saved)}});
  for (Value* output : outputs) note_history(ex, output);
  return ex.none();
}

constexpr SpecialRow kRows[] = {
    {"torch.autograd.function.Function.apply.__func__", call_apply},
    {"cdynamo.polyfills.rules.graph_position", graph_position},
    {"cdynamo.polyfills.rules.own_tensor", own_tensor},
    {"cdynamo.polyfills.rules.enter_backward", enter_backward},
    {"cdynamo.polyfills.rules.leave_backward", leave_backward},
};

}  // namespace

std::span<const SpecialRow> user_function_rules() { return kRows; }

}  // namespace cdynamo::symbolic
