#include "frame_eval/execution/left_behind.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "graph/index_operands.h"
#include "graph/op.h"
#include "graph/ops/random.h"
#include "graph/passes/view_step.h"
#include "symbolic/interop/numpy_access.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;
using symbolic::numpy_access::is_array_object;

// The number of the input that the value is; nullopt: none.
std::optional<int> input_number(const graph::Graph& graph, const graph::Value* value) {
  const auto input = std::ranges::find(graph.inputs, value);
  if (input == graph.inputs.end()) return std::nullopt;
  return static_cast<int>(input - graph.inputs.begin());
}

std::vector<LeftBehind::WrittenInput> written_inputs(const graph::Graph& graph) {
  std::vector<LeftBehind::WrittenInput> written;
  for (const graph::CapturedWrite& write : graph::captured_writes(graph)) {
    const graph::ViewHistory history = graph::view_history(write.target);
    const std::optional<int> input = input_number(graph, history.root);
    if (!input) continue;
    const auto known = std::ranges::find(written, *input, &LeftBehind::WrittenInput::input);
    const bool is_recorded = !write.node->no_grad && !history.detached;
    if (known == written.end())
      written.push_back({*input, is_recorded});
    else
      known->changes_history |= is_recorded;
  }
  return written;
}

// Generators are put back. NumPy's functions and PyTorch's own operators on the CPU neither write nor draw (capture sees to it); a
// custom operator may do anything, and attention on a GPU draws its mask. The forward of a Function changes nothing but
// its results (capture sees to that too), but a hook of an input would be registered twice.
bool may_run_again(const graph::Node& node) {
  if (node.op->name == "core.function")
    return std::ranges::all_of(std::get<std::vector<graph::Value*>>(node.args.at(1)),
                               [](const graph::Value* output) { return output->node != nullptr; });
  if (node.op->family != graph::Family::kLibrary) return true;
  const std::string_view name = graph::Args(node.op->parsed[node.overload], node.args).string("name");
  return name.starts_with("numpy::") ||
         (name.starts_with("aten::") && node.results.at(0)->type.device.type == runtime::DeviceType::kCPU);
}

void add_differentiated(const graph::Graph& graph, const graph::Node& node, std::vector<int>& inputs) {
  if (node.op->name != "autograd.grad") return;
  for (const graph::Value* value : std::get<std::vector<graph::Value*>>(node.args.at(1)))
    if (const auto input = input_number(graph, value);
        input && std::ranges::find(inputs, *input) == inputs.end())
      inputs.push_back(*input);
}

// Whether one backward comes to what another has come to before: it may have freed what is saved there.
bool differentiates_twice(const graph::Graph& graph) {
  absl::flat_hash_set<const graph::Node*> before;
  for (const auto& node : graph.nodes) {
    if (node->op->name != "autograd.grad") continue;
    absl::flat_hash_set<const graph::Node*> own;
    std::vector<graph::Node*> left{node.get()};
    while (!left.empty()) {
      graph::Node* reached = left.back();
      left.pop_back();
      if (before.contains(reached)) return true;
      graph::for_each_operand(*reached, [&](const graph::Value* operand) {
        if (operand->requires_grad && operand->node && own.insert(operand->node).second)
          left.push_back(operand->node);
      });
    }
    before.insert(own.begin(), own.end());
  }
  return false;
}

}  // namespace

std::optional<LeftBehind> LeftBehind::of(const graph::Graph& graph) {
  LeftBehind left{
      .written = written_inputs(graph), .differentiated = {}, .may_fail = differentiates_twice(graph)};
  for (const auto& node : graph.nodes) {
    if (!may_run_again(*node)) return std::nullopt;
    add_differentiated(graph, *node, left.differentiated);
    // Capture has checked all but elements, what numbers are drawn by (of dropout it is known), and what a library looks at.
    const bool may_be_refused = graph::draws_random_numbers(*node->op) && !node->op->differentiable;
    left.may_fail |= node->op->family == graph::Family::kLibrary || may_be_refused ||
                     graph::checks_elements(*node->op, node->overload, node->args);
  }
  if (!left.written.empty() && !left.may_fail) return std::nullopt;
  return left;
}

KeptInputs::KeptInputs(const Bindings& bindings, const LeftBehind& left, const DrawnGenerators& generators)
    : states_(generators.save(bindings.inputs)) {
  complete_ =
      std::ranges::all_of(left.written,
                          [&](const LeftBehind::WrittenInput& written) {
                            return keep_content(bindings.inputs[written.input], written.changes_history);
                          }) &&
      std::ranges::all_of(left.differentiated,
                          [&](int input) { return keep_gradient(bindings.inputs[input], left.may_fail); });
}

bool KeptInputs::keep_content(PyObject* input, bool changes_history) {
  PyRef memory = PyRef::borrow(input);
  if (!is_array_object(input)) {
    const PyRef history = checked(PyObject_GetAttrString(input, "requires_grad"));
    if (changes_history && history.get() != Py_False) return false;
    memory = checked(PyObject_CallMethod(input, "detach", nullptr));
  }
  PyRef copy = checked(PyObject_CallMethod(memory.get(), is_array_object(input) ? "copy" : "clone", nullptr));
  kept_.emplace_back(std::move(memory), std::move(copy));
  return true;
}

// One that is there is added to in its place: a copy is worth it where an error may come.
bool KeptInputs::keep_gradient(PyObject* input, bool may_fail) {
  const PyRef is_leaf = PyRef::steal(PyObject_GetAttrString(input, "is_leaf"));
  if (!is_leaf) PyErr_Clear();  // one of several views, whose base was written to
  if (is_leaf.get() != Py_True) return true;
  PyRef gradient = checked(PyObject_GetAttrString(input, "grad"));
  const bool is_there = gradient.get() != Py_None;
  if (is_there && (!may_fail || !keep_content(gradient.get(), true))) return false;
  gradients_.emplace_back(PyRef::borrow(input), std::move(gradient));
  return true;
}

void KeptInputs::put_back() const {
  states_.put_back();
  for (const auto& [memory, copy] : kept_)
    if (PyObject_SetItem(memory.get(), Py_Ellipsis, copy.get()) < 0) throw symbolic::PythonError{};
  for (const auto& [tensor, gradient] : gradients_)
    if (PyObject_SetAttrString(tensor.get(), "grad", gradient.get()) < 0) throw symbolic::PythonError{};
}

}  // namespace cdynamo::frame_eval
