// numpy.shares_memory and numpy.may_share_memory, where the answer is certain: of an array and a view of it, and of what the graph
// has made anew.
#include <algorithm>

#include "graph/passes/view_step.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

bool is_possible_alias(Executor& ex, const graph::Value* value) {
  return std::ranges::any_of(tensor_capture(ex).possible_aliases, [&](const PossibleAlias& alias) {
    return graph::view_history(alias.from).root == value || graph::view_history(alias.result).root == value;
  });
}

std::optional<bool> shares(Executor& ex, const NumpyValue& one, const NumpyValue& other) {
  if (one.is_scalar() || other.is_scalar()) return std::nullopt;
  const graph::Value *a = one.value(), *b = other.value();
  const graph::Value *root_a = graph::view_history(a).root, *root_b = graph::view_history(b).root;
  if (is_possible_alias(ex, root_a) || is_possible_alias(ex, root_b)) return std::nullopt;
  if (root_a != root_b) {
    const bool is_one_made = root_a->node || root_b->node;  // two that come in may share their memory
    return is_one_made ? std::optional(false) : std::nullopt;
  }
  if (a != root_a && b != root_a) return std::nullopt;
  const auto count = [&](const NumpyValue& array) {
    return ex.graph().sym->specialize(array.array_type().numel(), "whether arrays share memory");
  };
  if (count(one) == 0 || count(other) == 0) return std::nullopt;
  return true;
}

ValuePtr share_memory(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "shares_memory", args, {"a", "b", "max_work?"});
  auto* one = dynamic_cast<NumpyValue*>(given[0].get());
  auto* other = dynamic_cast<NumpyValue*>(given[1].get());
  const std::optional<bool> known = one && other && !given[2] ? shares(ex, *one, *other) : std::nullopt;
  if (!known) break_graph("CD0500", "whether these arrays share memory");
  return ex.constant_bool(*known);
}

constexpr NumpySpecialRow kSharedMemoryRows[] = {
    {"numpy.shares_memory", share_memory},
    {"numpy.may_share_memory", share_memory},
};

}  // namespace

std::span<const NumpySpecialRow> numpy_memory_functions() { return kSharedMemoryRows; }

}  // namespace cdynamo::symbolic
