// Full backward hooks of modules. python/cdynamo/polyfills/module_hooks.py inlines torch.utils.hooks.BackwardHook as two nodes
// core.function, one around the module's arguments and one around its results; what is said here is how the first, which is known
// only when the module has run, comes to stand before what the module computes.
#include <algorithm>

#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Node;
using graph::Value;

[[noreturn]] void refuse_hook(const char* why) { break_graph("CD0423", why); }

// hooks_are_captured(): else the graph breaks.
ValuePtr hooks_are_captured(Executor& ex, PyObject*, const CallArgs&) {
  if (!ex.state().request.is_native) refuse_hook("a backend in Python sees calls alone");
  return ex.none();
}

// hooks_not_captured(why)
ValuePtr hooks_not_captured(Executor&, PyObject*, const CallArgs& args) {
  refuse_hook(PyUnicode_AsUTF8(constant_object(args.positional.at(0))));
}

// hooked_copy(tensor): what stands for it on the other side of the hooks, a view of it in eager; its history follows.
ValuePtr hooked_copy(Executor& ex, PyObject*, const CallArgs& args) {
  Value* value = graph_value(args.positional.at(0));
  if (!value) refuse_hook("an argument or result is no plain tensor");
  return recorded_call(ex, "call_method", PyRef::borrow(interned("clone")), args, [&] {
    const bool grad_mode = std::exchange(tensor_capture(ex).grad_mode, false);
    Value* copy = append_call1(ex, "clone", {value});
    tensor_capture(ex).grad_mode = grad_mode;
    copy->requires_grad = true;
    note_possible_alias(ex, value, copy, "CD0423", current_root_step(ex),
                        "eager's is a view of the same memory");
    return make_tensor(ex, copy);
  });
}

// any_depends_on(results, arguments): whether a gradient flows from one of the results to one of the arguments.
ValuePtr any_depends_on(Executor& ex, PyObject*, const CallArgs& args) {
  for (const ValuePtr& result : items_of(ex, args.positional.at(0)))
    for (const ValuePtr& argument : items_of(ex, args.positional.at(1)))
      if (depends_on(ex, graph_value(result), graph_value(argument))) return ex.constant_bool(true);
  return ex.constant_bool(false);
}

// move_behind(copies, position): what was appended from the position on, which leave_backward ends, comes to stand right
// behind the copies.
ValuePtr move_behind(Executor& ex, PyObject*, const CallArgs& args) {
  auto& nodes = ex.graph().nodes;
  const int64_t position = PyLong_AsLongLong(constant_object(args.positional.at(1)));
  const Node* last = nullptr;
  for (const ValuePtr& copy : items_of(ex, args.positional.at(0))) {
    const Node* node = graph_value(copy)->node;
    if (!last || node->results.at(0)->id > last->results.at(0)->id) last = node;
  }
  const auto is = [](const Node* wanted) {
    return [wanted](const auto& node) { return node.get() == wanted; };
  };
  const auto behind = std::next(std::ranges::find_if(nodes, is(last)));
  const auto first =
      std::ranges::find_if(nodes, [&](const auto& node) { return node->results.at(0)->id >= position; });
  const int first_inner = last->results.at(0)->id;
  for (auto node = behind; node != first; ++node)
    if ((*node)->op->name == "core.read_int" || (*node)->op->name == "autograd.grad")
      refuse_hook("the module reads numbers, or computes gradients");
  for (auto node = first; node != nodes.end(); ++node)
    graph::for_each_operand(**node, [&](Value*& operand) {
      if (operand->node && operand->id > first_inner && operand->id < position)
        refuse_hook("it reads what the module has computed");
    });
  nodes.splice(behind, nodes, first, nodes.end());
  return ex.none();
}

constexpr SpecialRow kModuleHookRows[] = {
    {"cdynamo.polyfills.rules.hooks_are_captured", hooks_are_captured},
    {"cdynamo.polyfills.rules.hooks_not_captured", hooks_not_captured},
    {"cdynamo.polyfills.rules.hooked_copy", hooked_copy},
    {"cdynamo.polyfills.rules.any_depends_on", any_depends_on},
    {"cdynamo.polyfills.rules.move_behind", move_behind},
};

}  // namespace

std::span<const SpecialRow> module_hook_rules() { return kModuleHookRows; }

}  // namespace cdynamo::symbolic
