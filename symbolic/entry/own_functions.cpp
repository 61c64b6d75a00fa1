// What cdynamo's own functions mean inside captured code: graph_break, is_compiling, and those that cdynamo.grad is made
// of (python/cdynamo/_grad.py).
#include <string_view>

#include "symbolic/capture/value_factories.h"
#include "symbolic/entry/branches.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/torch/differentiation.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

// variable(x): x as a value of its own.
ValuePtr variable_of(Executor& ex, const CallArgs& args) {
  const ValuePtr given = bind_arguments(ex, "variable", args, {"x"})[0];
  Value* value = graph_value(given);
  if (!value && numpy_is_loaded()) value = numpy_graph_value(ex, given);
  if (!value) {
    PyObject* number = constant_object(given);
    if (!number || !PyFloat_CheckExact(number)) break_graph("CD0418", given->describe());
    const FrameworkRules rules(ex, graph::Framework::kNumpy);
    value = append_call1(ex, "full", {std::vector<graph::Sym>{}, PyFloat_AS_DOUBLE(number)});
  }
  if (!runtime::is_float(value->type.dtype)) break_graph("CD0418", given->describe());
  const bool torch = dynamic_cast<TensorValue*>(given.get()) != nullptr;
  const FrameworkRules rules(ex, torch ? graph::Framework::kTorch : graph::Framework::kNumpy);
  Value* variable = append_call1(ex, "autograd.variable", {value});
  return torch ? make_tensor(ex, variable) : make_numpy_result(ex, variable);
}
ValuePtr make_variable(Executor& ex, PyObject* callable, const CallArgs& args) {
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args,
                       [&] { return variable_of(ex, args); });
}

// gradients(value, variables): a list.
ValuePtr gradients_of(Executor& ex, const CallArgs& args) {
  std::vector<ValuePtr> given = bind_arguments(ex, "gradients", args, {"value", "variables"});
  std::vector<Value*> inputs;
  const std::vector<ValuePtr> variables = sequence_items(ex, given[1]).value_or(std::vector{given[1]});
  for (const ValuePtr& variable : variables) {
    Value* value = graph_value(variable);
    if (!value || !value->node) break_graph("CD0418", variable->describe());
    inputs.push_back(value);
  }
  Value* output = graph_value(given[0]);
  const bool is_float = output && runtime::is_float(output->type.dtype);
  if (output && (!is_float || output->type.rank() != 0 || !output->node))
    break_graph("CD0418", given[0]->describe());
  std::vector<ValuePtr> results;
  std::vector<Value*> found;
  // A result that is a number known at capture depends on nothing.
  if (output) found = append_gradients(ex, {output}, inputs, {nullptr}, /*create_graph=*/true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value* gradient = output ? found[i] : append_call1(ex, "zeros_like", {inputs[i]});
    const bool torch = dynamic_cast<TensorValue*>(variables[i].get()) != nullptr;
    results.push_back(torch ? make_tensor(ex, gradient) : make_numpy_result(ex, gradient));
  }
  return make_list(ex, std::move(results));
}

ValuePtr graph_break(Executor&, PyObject*, const CallArgs&) { break_graph("CD0002", ""); }
ValuePtr is_compiling(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant(PyRef::borrow(Py_True));
}
// optimize(f) in code that is captured: f is compiled as a part of that.
ValuePtr optimize(Executor&, PyObject*, const CallArgs& args) {
  return args.positional.size() == 1 ? args.positional[0] : nullptr;
}
ValuePtr gradients(Executor& ex, PyObject* callable, const CallArgs& args) {
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args,
                       [&] { return gradients_of(ex, args); });
}
ValuePtr follow(Executor& ex, PyObject*, const CallArgs& args) { return follow_branches(ex, args); }
ValuePtr branches(Executor& ex, PyObject*, const CallArgs& args) { return branches_met(ex, args); }

struct Row {
  std::string_view module;  // or one within it
  const char* name;
  ValuePtr (*apply)(Executor& ex, PyObject* function, const CallArgs& args);  // null: inlined as any function
};
constexpr Row kRows[] = {
    {"cdynamo", "graph_break", graph_break},   {"cdynamo", "is_compiling", is_compiling},
    {"cdynamo", "optimize", optimize},         {"cdynamo._grad", "variable", make_variable},
    {"cdynamo._grad", "gradients", gradients}, {"cdynamo._grad", "follow", follow},
    {"cdynamo._grad", "branches", branches},
};

bool in_module(std::string_view module, std::string_view name) {
  return module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
}

}  // namespace

ValuePtr call_own_function(Executor& ex, PyObject* function, std::string_view module, const CallArgs& args) {
  if (!in_module(module, "cdynamo") || in_module(module, "cdynamo.polyfills")) return nullptr;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  for (const Row& row : kRows)
    if (in_module(module, row.module) && PyUnicode_CompareWithASCIIString(name, row.name) == 0)
      return row.apply(ex, function, args);
  return nullptr;
}

}  // namespace cdynamo::symbolic
