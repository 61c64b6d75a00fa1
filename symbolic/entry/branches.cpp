#include "symbolic/entry/branches.h"

#include <utility>

#include "graph/ops/random.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/user_call.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// The graph's inputs as they are in this call, by the ids of their values.
PyRef live_inputs(Executor& ex) {
  PyRef inputs = checked(PyDict_New());
  const auto add = [&](const graph::Value* value, PyObject* object) {
    PyRef id = checked(PyLong_FromLong(value->id));
    if (PyDict_SetItem(inputs.get(), id.get(), object) < 0) throw PythonError{};
  };
  for (const auto& input : tensor_capture(ex).inputs) add(input->array->value(), input->object.get());
  for (const GraphInput& input : ex.state().result.inputs) {
    const auto& computed = ex.state().computed_inputs;
    if (const auto number = computed.find(input.source); number != computed.end())
      add(input.value, checked(PyFloat_FromDouble(number->second)).get());
    const auto found = ex.state().by_source.find(input.source);
    if (found == ex.state().by_source.end()) continue;
    if (auto* number = dynamic_cast<DynamicFloatValue*>(found->second.get()))
      add(input.value, checked(PyFloat_FromDouble(number->now())).get());
  }
  return inputs;
}

// The condition's truth in this call: what was called so far is called on the inputs, by the framework itself.
bool replay(Executor& ex, FollowedBranches& branches, const ValuePtr& condition) {
  if (!branches.replay)
    branches.replay = checked(PyObject_CallNoArgs(python_side(PythonSide::kBranchReplay)));
  PyRef inputs = live_inputs(ex);
  PyRef truth = PyRef::steal(PyObject_CallMethod(branches.replay.get(), "truth", "OOO", ex.user_calls(),
                                                 inputs.get(), encode_value(ex, condition).get()));
  if (!truth) raise_current_error(ex);
  return truth.get() == Py_True;
}

// A call on the wrong way is not to leave anything behind.
void refuse_effects(Executor& ex) {
  const auto refuse = [](const std::string& what) { break_graph("CD0420", what); };
  Executor::State& state = ex.state();
  if (!state.globals_order.empty()) refuse("an assignment to a global name");
  if (!state.mutated.empty()) refuse("a write to " + state.mutated[0]->describe());
  for (const auto& input : tensor_capture(ex).inputs)
    if (input->written) refuse("a write to " + input->array->describe());
  for (const auto& node : ex.graph().nodes)
    if (graph::draws_random_numbers(*node->op)) refuse("random numbers");
  if (!state.result.draws.empty()) refuse("random numbers");
}

}  // namespace

ValuePtr follow_branches(Executor& ex, const CallArgs& args) {
  const ValuePtr path = bind_arguments(ex, "follow", args, {"path"})[0];
  std::shared_ptr<FollowedBranches>& branches = ex.state().branches;
  if (branches) return ex.none();
  branches = std::make_shared<FollowedBranches>();
  branches->path = PyUnicode_AsUTF8(constant_object(path));
  return ex.none();
}

ValuePtr branches_met(Executor& ex, const CallArgs& args) {
  require_count(ex, "branches", args, 0, 0);
  const FollowedBranches& branches = *ex.state().branches;
  if (!branches.conditions.empty()) refuse_effects(ex);
  PyRef taken = checked(PyUnicode_FromString(branches.taken.c_str()));
  return symbolic::make_tuple(ex,
                              {symbolic::make_tuple(ex, branches.conditions), ex.constant(std::move(taken))});
}

std::optional<bool> follow_branch(Executor& ex, const ValuePtr& condition) {
  FollowedBranches* branches = ex.state().branches.get();
  if (!branches || ex.isolated_region() || !graph_value(condition)) return std::nullopt;
  const size_t index = branches->taken.size();
  const bool known = index < branches->path.size() && branches->path[index] != '?';
  const bool truth = known ? branches->path[index] == '1' : replay(ex, *branches, condition);
  branches->taken += truth ? '1' : '0';
  branches->conditions.push_back(condition);
  return truth;
}

}  // namespace cdynamo::symbolic
