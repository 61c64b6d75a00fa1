#include "symbolic/torch/differentiation.h"

#include <algorithm>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/freed_histories.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/torch/tensor_hooks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Arg;
using graph::Node;
using graph::Value;

// The values that depend on one of the roots within the captured graph.
class Dependents {
 public:
  Dependents(Executor& ex, const Value* root) : capture_(tensor_capture(ex)), values_({root}) {
    visit_all(ex);
  }
  Dependents(Executor& ex, std::span<Value* const> roots)
      : capture_(tensor_capture(ex)), values_(roots.begin(), roots.end()) {
    visit_all(ex);
  }
  bool contains(const Value* value) const { return values_.count(value) > 0; }
  absl::flat_hash_set<const Value*> take() { return std::move(values_); }

 private:
  void visit_all(Executor& ex) {
    for (const auto& node : ex.graph().nodes) visit(*node);
  }

  const Value* base_of(const Value* value) const {
    auto found = capture_.base_of.find(value);
    return found == capture_.base_of.end() ? value : found->second;
  }

  void visit(Node& node) {
    if (node.no_grad) return;
    if (node.op->name == "core.function") return visit_function(node);
    bool any = false;
    graph::for_each_operand(node, [&](Value*& operand) { any |= contains(operand); });
    if (!any) return;
    for (const Value* result : node.results)
      if (runtime::is_float(result->type.dtype) && !capture_.cut.count(result)) values_.insert(result);
    if (!node.in_place) return;
    // The storage that was written to, and all that look at it.
    const Value* base = base_of(std::get<Value*>(node.args.at(0)));
    values_.insert(base);
    for (const auto& [view, root] : capture_.base_of)
      if (root == base && !capture_.cut.count(view)) values_.insert(view);
  }

  void visit_function(const Node& node) {
    const graph::Args args(node.op->parsed[0], node.args);
    if (std::ranges::none_of(args.values("inputs"), [&](const Value* input) { return contains(input); }))
      return;
    for (const Value* output : args.values("outputs")) {
      values_.insert(output);
      for (const auto& [view, root] : capture_.base_of)
        if (root == output) values_.insert(view);
    }
  }

  TensorCapture& capture_;
  absl::flat_hash_set<const Value*> values_;
};

std::vector<ValuePtr> one_or_several(Executor& ex, const ValuePtr& value) {
  if (auto items = sequence_items(ex, value)) return *items;
  return {value};
}

[[noreturn]] void leave_to_engine() { break_graph("CD0400", "torch.autograd.grad"); }

Value* differentiable_tensor(Executor& ex, const ValuePtr& value) {
  auto* tensor = dynamic_cast<TensorValue*>(value.get());
  if (!tensor || !tensor->requires_grad() || is_another_leaf(tensor_capture(ex), tensor->value()) ||
      tensor_capture(ex).written_leaves.contains(tensor->value()))
    leave_to_engine();
  return tensor->value();
}

struct GradCall {
  std::vector<Value*> outputs, inputs, grad_outputs;
  bool retain_graph, create_graph, allow_unused, materialize;
};

std::vector<ValuePtr> bound(Executor& ex, const CallArgs& args) {
  return bind_arguments(ex, "grad", args,
                        {"outputs", "inputs", "grad_outputs?", "retain_graph?", "create_graph?",
                         "only_inputs?", "allow_unused?", "is_grads_batched?", "materialize_grads?"});
}

bool came_in_with_hooks(Executor& ex, const Value* value) {
  for (const auto& input : tensor_capture(ex).inputs) {
    if (input->array->value() != value || !input->array->source) continue;
    PyObject* name = interned("_backward_hooks");
    if (checked(PyObject_GetAttr(input->object.get(), name)).get() != Py_None) return true;
    add_guard(ex, GuardKind::kIdentity, attribute_source(input->array->source, name), Py_None);
  }
  return false;
}

GradCall read_call(Executor& ex, const CallArgs& args) {
  if (!tensor_capture(ex).batches.empty() || !tensor_capture(ex).retained.empty()) leave_to_engine();
  const std::vector<ValuePtr> given = bound(ex, args);
  GradCall call;
  for (const ValuePtr& item : one_or_several(ex, given[0]))
    call.outputs.push_back(differentiable_tensor(ex, item));
  for (const ValuePtr& item : one_or_several(ex, given[1])) {
    call.inputs.push_back(differentiable_tensor(ex, item));
    if (ex.state().hooked.count(call.inputs.back()) || came_in_with_hooks(ex, call.inputs.back()))
      throw SkipFrame{.reason = "a gradient is asked for of a tensor with a hook", .callees_too = true};
  }
  call.grad_outputs.resize(call.outputs.size());
  if (given[2] && !is_none(given[2])) {
    std::vector<ValuePtr> items = one_or_several(ex, given[2]);
    if (items.size() != call.outputs.size()) leave_to_engine();
    for (size_t i = 0; i < items.size(); ++i)
      if (!is_none(items[i])) {
        call.grad_outputs[i] = graph_value(items[i]);
        if (!call.grad_outputs[i]) leave_to_engine();
      }
  }
  call.create_graph = autograd_flag(given[4], false);
  call.retain_graph = autograd_flag(given[3], call.create_graph);
  call.materialize = autograd_flag(given[8], false);
  call.allow_unused = autograd_flag(given[6], call.materialize);
  if (autograd_flag(given[7], false)) leave_to_engine();
  return call;
}

void require_leaf(Executor& ex, const ArrayInput& input) {
  const SourcePtr source = attribute_source(input.array->source, interned("is_leaf"));
  const PyRef is_leaf = PyRef::steal(PyObject_GetAttr(input.object.get(), interned("is_leaf")));
  PyErr_Clear();  // PyTorch does not show the history of one of several views that was written to
  if (is_leaf.get() != Py_True) leave_to_engine();
  add_guard(ex, GuardKind::kIdentity, source, Py_True);
}

// An input of the graph that an output depends on may have a history, which leads to what is asked for past the graph. What
// nothing depends on has one that the engine looks at all the same. `used`: whether an output depends on what is asked for.
void require_leaves(Executor& ex, const GradCall& call, const std::vector<bool>& used) {
  for (const auto& input : tensor_capture(ex).inputs) {
    const Value* value = input->array->value();
    if (!input->array->requires_grad()) continue;
    if (const auto asked = std::ranges::find(call.inputs, value); asked != call.inputs.end()) {
      if (call.inputs.size() > 1 || !used[asked - call.inputs.begin()]) require_leaf(ex, *input);
      continue;
    }
    const Dependents dependents(ex, value);
    if (std::ranges::any_of(call.outputs, [&](const Value* output) { return dependents.contains(output); }))
      require_leaf(ex, *input);
  }
}

// ---- gradients that eager does not write out

// Operators that hand the gradient of their result on, as it is or as a view of it, to their first operand; sums to both.
bool hands_on(const Node& node, const Value* operand) {
  static constexpr std::string_view kNames[] = {"alias",     "clone",     "contiguous", "flatten", "movedim",
                                                "permute",   "ravel",     "reshape",    "squeeze", "t",
                                                "transpose", "unsqueeze", "view"};
  if (node.in_place) return false;
  if (std::ranges::find(kNames, node.op->name) != std::end(kNames)) return true;
  const auto* first = std::get_if<Value*>(&node.args.at(0));
  const bool is_sum = node.op->name == "add" || (node.op->name == "sub" && first && *first == operand);
  return is_sum && node.results[0]->type.sizes == operand->type.sizes &&
         node.results[0]->type.dtype == operand->type.dtype;
}

// Whether eager's gradient of `input` is one number for many elements, with strides of 0: what is summed as it is. The graph's
// would be a tensor of its own.
bool has_expanded_gradient(Executor& ex, const Value* input, const std::vector<Value*>& outputs) {
  absl::flat_hash_set<const Value*> needed(outputs.begin(), outputs.end());
  std::vector<Node*> path;  // all that the outputs are computed from, last first
  const auto& nodes = ex.graph().nodes;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (std::ranges::none_of((*node)->results, [&](const Value* result) { return needed.contains(result); }))
      continue;
    path.push_back(node->get());
    graph::for_each_operand(**node, [&](Value*& operand) { needed.insert(operand); });
  }
  for (const Value* value = input;;) {
    Node* reader = nullptr;
    int uses = 0;
    for (Node* node : path)
      graph::for_each_operand(*node, [&](Value*& operand) {
        if (operand == value) ++uses, reader = node;
      });
    if (uses != 1 || reader->no_grad) return false;
    if (reader->op->name == "sum") return value->type.numel().maybe_constant() != 1;
    if (!hands_on(*reader, value)) return false;
    value = reader->results[0];
  }
}

// A Function whose backward is.
bool is_once_differentiable(const std::unique_ptr<Node>& node) {
  if (node->op->name != "core.function") return false;
  const graph::Graph& backward = graph::Args(node->op->parsed[0], node->args).graph("backward");
  return std::ranges::any_of(backward.nodes,
                             [](const auto& inner) { return inner->op->name == kOnceDifferentiable; });
}

}  // namespace

bool autograd_flag(const ValuePtr& value, bool otherwise) {
  PyObject* object = value ? constant_object(value) : nullptr;
  if (!value || object == Py_None) return otherwise;
  if (object != Py_True && object != Py_False) leave_to_engine();
  return object == Py_True;
}

absl::flat_hash_set<const Value*> dependents_of(Executor& ex, std::span<Value* const> roots) {
  return Dependents(ex, roots).take();
}

bool depends_on(Executor& ex, const Value* value, const Value* root) {
  return Dependents(ex, root).contains(value);
}

std::vector<Value*> append_gradients(Executor& ex, std::vector<Value*> outputs, std::vector<Value*> inputs,
                                     std::vector<Value*> grad_outputs, bool create_graph) {
  if (create_graph && std::ranges::any_of(ex.graph().nodes, is_once_differentiable))
    break_graph("CD0400", "torch.autograd.grad(create_graph=True) of what is once_differentiable");
  std::vector<Value*> gradients =
      append_call(ex, graph::op("autograd.grad"),
                  {.overload = 0, .args = {std::move(outputs), std::move(inputs), std::move(grad_outputs)}});
  if (create_graph) return gradients;
  gradients.at(0)->node->no_grad = true;
  for (Value* gradient : gradients) gradient->requires_grad = false;
  return gradients;
}

void require_grad_output(Executor& ex, const Value* output, const Value* grad_output) {
  graph::SymContext& sym = *ex.graph().sym;
  const graph::TensorType& type = output->type;
  if (!grad_output) {
    if (!sym.guard_eq(type.numel(), 1, "the gradient of an output")) leave_to_engine();
    return;
  }
  const graph::TensorType& given = grad_output->type;
  bool same = given.dtype == type.dtype && given.rank() == type.rank();
  for (int d = 0; same && d < type.rank(); ++d)
    same = sym.guard_eq(given.sizes[d], type.sizes[d], "the gradient of an output");
  if (!same) leave_to_engine();
}

namespace {
ValuePtr gradients_in_graph(Executor& ex, PyObject* callable, const CallArgs& args) {
  const GradCall call = read_call(ex, args);
  for (size_t i = 0; i < call.outputs.size(); ++i)
    require_grad_output(ex, call.outputs[i], call.grad_outputs[i]);
  std::vector<bool> used;
  std::vector<Value*> inputs;
  std::vector<bool> reached(call.outputs.size());
  for (Value* input : call.inputs) {
    const Dependents dependents(ex, input);
    bool any = false;
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (dependents.contains(call.outputs[i])) any = reached[i] = true;
    used.push_back(any);
    if (any) inputs.push_back(input);
    if (any ? has_expanded_gradient(ex, input, call.outputs) : !call.allow_unused) leave_to_engine();
  }
  // An output that came into the graph has a history that only the engine knows.
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i]->node) leave_to_engine();
  require_leaves(ex, call, used);
  free_histories(ex, call.outputs, inputs, call.retain_graph);
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    std::vector<Value*> found;
    if (!inputs.empty())
      found = append_gradients(ex, call.outputs, inputs, call.grad_outputs, call.create_graph);
    std::vector<ValuePtr> results;
    for (size_t i = 0, next = 0; i < call.inputs.size(); ++i) {
      if (used[i])
        results.push_back(make_tensor(ex, found.at(next++)));
      else if (call.materialize)
        results.push_back(make_tensor(ex, append_call1(ex, "zeros_like", {call.inputs[i]})));
      else
        results.push_back(ex.none());
    }
    return make_tuple(ex, std::move(results));
  });
}
}  // namespace

ValuePtr torch_autograd_grad(Executor& ex, PyObject* callable, const CallArgs& args) {
  try {
    return gradients_in_graph(ex, callable, args);
  } catch (const GraphBreak&) {
    // The engine finds no way between two results of one graph: what it is to differentiate by comes out of the graph before.
    for (const ValuePtr& item : one_or_several(ex, bound(ex, args)[1]))
      if (const Value* input = graph_value(item); input && input->node)
        break_before_uses(ex, input, "torch.autograd.grad");
    throw;
  }
}

}  // namespace cdynamo::symbolic
