// Subclasses of torch.autograd.Function during capture. python/cdynamo/polyfills/autograd.py inlines the forward with a
// context of its own, and then the backward with grad_outputs that stand for those to come; what is said here is how the
// nodes of the backward become a graph of their own, an argument of the node core.function (graph/core.h).
#include <algorithm>

#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/read_state.h"
#include "symbolic/torch/backward_graph.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

constexpr const char* kBackward = "the backward of a Function";
constexpr const char* kModuleHook = "a backward hook of a module";

[[noreturn]] void refuse_function(const char* why) {
  break_graph("CD0404", std::string("a Function ") + why);
}

// ---- the call

// What a call of apply changes while it lasts.
class ApplyScope {
 public:
  explicit ApplyScope(Executor& ex)
      : ex_(ex), capture_(torch_capture(ex)), autocast_(capture_.autocast.devices) {}
  ~ApplyScope() {
    while (ex_.state().isolated_regions.size() > regions_before_) ex_.leave_isolated_region();
    capture_.autocast.devices = autocast_;
  }
  bool in_backward() const { return ex_.state().isolated_regions.size() > regions_before_; }

 private:
  Executor& ex_;
  TensorCapture& capture_;
  const size_t regions_before_ = ex_.state().isolated_regions.size();
  const decltype(AutocastState::devices) autocast_;
};

// Whether the forward says to which of its arguments it writes.
bool marks_dirty(PyObject* cls) {
  const PyRef forward = PyRef::steal(PyObject_GetAttrString(cls, "forward"));
  if (!forward) PyErr_Clear();
  if (!forward || !PyFunction_Check(forward.get())) return false;
  PyObject* names = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward.get()))->co_names;
  return PySequence_Contains(names, interned("mark_dirty")) == 1;
}

// Function.apply(cls, *args). One call of the user's; backends in Python see nothing of its inside.
ValuePtr call_apply(Executor& ex, PyObject*, const CallArgs& args) {
  PyObject* cls = args.positional.empty() ? nullptr : args.positional[0]->real_object();
  if (!cls) refuse_function("that is not known");
  CallArgs own = args;
  own.positional.erase(own.positional.begin());
  // A backend in Python calls the forward itself, before what captured code has changed is written.
  const bool calls_forward = !ex.state().request.is_native, says_writes = marks_dirty(cls);
  if (calls_forward && may_read_changes(ex, cls, own)) refuse_function("that may read what has been changed");
  PyObject* is_own = ex.state().made_classes.own.contains(cls) ? Py_True : Py_False;
  PyRef target =
      checked(PyObject_CallFunctionObjArgs(python_side(PythonSide::kApplyOf), cls, is_own, nullptr));
  return recorded_call(ex, "call_function", std::move(target), own, [&]() -> ValuePtr {
    const ApplyScope scope(ex);
    const auto changes = [&] {
      const Executor::State& state = ex.state();
      return state.live_changes + std::ssize(state.result.draws) + (says_writes ? 0 : state.input_writes);
    };
    const int64_t changes_before = changes();
    try {
      ValuePtr result = polyfill(ex, PythonSide::kTorchPolyfills, "function_apply")->call(ex, args);
      if (calls_forward && changes() != changes_before)
        refuse_function("whose forward changes more than its results");
      return result;
    } catch (const PythonRaise&) {
      if (scope.in_backward()) refuse_function("whose backward raises");
      if (calls_forward) refuse_function("whose forward raises");
      throw;
    }
  });
}

// is_batched(): whether the call is one of torch.vmap's.
ValuePtr is_batched(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_bool(!tensor_capture(ex).batches.empty());
}

// around_backward(function, results): a call that enters the backward of hooks, which read these results of a module.
ValuePtr around_backward(Executor& ex, PyObject* callable, const CallArgs& args) {
  const ValuePtr function = args.positional.at(0), results = args.positional.at(1);
  return recorded_call(ex, "call_function", PyRef::borrow(callable), positional({results}), [&] {
    const ApplyScope scope(ex);
    try {
      return function->call(ex, positional({results}));
    } catch (const PythonRaise&) {
      break_graph("CD0423", "it raises");
    }
  });
}

// ---- the forward's results

// graph_position(): what is made from here on can be told from what was there.
ValuePtr graph_position(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_int(ex.graph().next_value_id());
}

// own_tensor(tensor, position, arguments): the tensor itself where it was made since and is no view, else a copy. What was there
// before, and is no argument, would get another history itself.
ValuePtr own_tensor(Executor& ex, PyObject*, const CallArgs& args) {
  Value* value = graph_value(args.positional.at(0));
  const TensorCapture& capture = tensor_capture(ex);
  const int64_t position = PyLong_AsLongLong(constant_object(args.positional.at(1)));
  const bool own = value && value->node && value->id >= position && !capture.base_of.count(value) &&
                   !capture.storage_of.count(value);
  if (own) return args.positional[0];
  if (!value) refuse_function("whose result is not in the graph");
  const auto is_value = [&](const ValuePtr& argument) { return graph_value(argument) == value; };
  const bool was_there = !value->node || value->id < position;
  if (was_there && std::ranges::none_of(items_of(ex, args.positional.at(2)), is_value))
    refuse_function("that gives a tensor which was there before");
  return make_tensor(ex, append_call1(ex, "clone", {value}));
}

// ---- the backward

std::vector<Value*> gradients_of(Executor& ex, const ValuePtr& tuple) {
  std::vector<Value*> values;
  for (const ValuePtr& item : items_of(ex, tuple)) {
    values.push_back(graph_value(item));
    if (!values.back()) refuse_function("whose gradient is not in the graph");
  }
  return values;
}

// enter_backward(tensors): a grad_output for each. What follows is the backward, which eager runs later. With a second
// argument it is that of a module's hooks.
ValuePtr enter_backward(Executor& ex, PyObject*, const CallArgs& args) {
  const bool is_hook = args.positional.size() > 1;
  ex.enter_isolated_region(is_hook ? kModuleHook : kBackward,
                           ex.isolated_region() ? ex.isolated_region()->region : 0, /*pure=*/is_hook);
  Executor::IsolatedRegion& region = ex.state().isolated_regions.back();
  region.runs_later = std::ssize(ex.state().root_trace) - 1;
  region.first_gradient = region.first_value;
  TensorCapture& capture = tensor_capture(ex);
  capture.autocast.disable();
  capture.backward_begins.push_back(ex.graph().nodes.size());
  std::vector<ValuePtr> grad_outputs;
  for (const Value* of : gradients_of(ex, args.positional.at(0)))
    grad_outputs.push_back(make_tensor(ex, new_grad_output(ex.graph(), of)));
  return make_tuple(ex, std::move(grad_outputs));
}

// What the forward has made has a history from here on.
void note_history(Executor& ex, Value* output) {
  output->requires_grad = true;
  for (auto& [view, base] : tensor_capture(ex).base_of)
    if (base == output) const_cast<Value*>(view)->requires_grad = true;
}

// leave_backward(grad_outputs, outputs, inputs, gradients, optional, places, frees): the gradients of these inputs of the
// Function, in terms of the grad_outputs of these outputs; the last three are those of core.function.
ValuePtr leave_backward(Executor& ex, PyObject*, const CallArgs& args) {
  TensorCapture& capture = tensor_capture(ex);
  const std::vector<Value*> grad_outputs = gradients_of(ex, args.positional.at(0)),
                            outputs = gradients_of(ex, args.positional.at(1)),
                            inputs = gradients_of(ex, args.positional.at(2)),
                            gradients = gradients_of(ex, args.positional.at(3));
  const graph::Sym optional(PyLong_AsLongLong(constant_object(args.positional.at(4))));
  std::vector<graph::Sym> places;
  for (const ValuePtr& place : items_of(ex, args.positional.at(5)))
    places.emplace_back(PyLong_AsLongLong(constant_object(place)));
  const bool frees = constant_object(args.positional.at(6)) == Py_True;
  const size_t begin = capture.backward_begins.back();
  capture.backward_begins.pop_back();
  ex.leave_isolated_region();
  BackwardGraph backward =
      take_backward(ex.graph(), begin, {grad_outputs, outputs, gradients}, ex.state().user_call);
  append_call(ex, graph::op("core.function"),
              {.overload = 0,
               .args = {std::move(backward.graph), outputs, inputs, std::move(backward.saved), optional,
                        std::move(places), frees}});
  for (Value* output : outputs) note_history(ex, output);
  return ex.none();
}

// takes_zeros(tensor): whether the tensor is the result of a Function whose backward is given zeros where no gradient comes.
ValuePtr takes_zeros(Executor& ex, PyObject*, const CallArgs& args) {
  Value* value = graph_value(args.positional.at(0));
  return ex.constant_bool(value && std::ranges::any_of(ex.graph().nodes, [&](const auto& node) {
                            if (!is_function_of_user(*node)) return false;
                            const graph::Args parts(node->op->parsed[0], node->args);
                            return parts.constant("optional") == 0 &&
                                   std::ranges::count(parts.values("outputs"), value) > 0;
                          }));
}

// once_differentiable(tensor): the tensor, as a constant. A derivative that is asked of it outside of the graph is an error, as it may be in
// eager; so this is for programs that demand one graph, or (a second argument) where it is one in eager always.
ValuePtr once_differentiable(Executor& ex, PyObject*, const CallArgs& args) {
  Value* value = graph_value(args.positional.at(0));
  if (!value || (ex.state().request.leaves_loops && args.positional.size() == 1))
    refuse_function("whose backward is once_differentiable");
  return make_tensor(ex, append_call1(ex, kOnceDifferentiable, {value}));
}

constexpr SpecialRow kUserFunctionRows[] = {
    {"torch.autograd.function.Function.apply.__func__", call_apply},
    {"torch._C._FunctionBase.__dict__.apply", call_apply},  // Function's from torch 2.14 on
    {"cdynamo.polyfills.rules.graph_position", graph_position},
    {"cdynamo.polyfills.rules.is_batched", is_batched},
    {"cdynamo.polyfills.rules.around_backward", around_backward},
    {"cdynamo.polyfills.rules.own_tensor", own_tensor},
    {"cdynamo.polyfills.rules.enter_backward", enter_backward},
    {"cdynamo.polyfills.rules.leave_backward", leave_backward},
    {"cdynamo.polyfills.rules.takes_zeros", takes_zeros},
    {"cdynamo.polyfills.rules.once_differentiable", once_differentiable},
};

}  // namespace

std::span<const SpecialRow> user_function_rules() { return kUserFunctionRows; }

}  // namespace cdynamo::symbolic
