// What a program says to torch.compile from within code that is captured: marks, and contexts that say how to trace.
#include <cstring>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Null: it is called as any other function.
using Rule = ValuePtr (*)(Executor& ex, PyObject* function, const CallArgs& args);

ValuePtr user_break(Executor&, PyObject*, const CallArgs&) { break_graph("CD0002", ""); }

// torch.compile(f), called: f is compiled as a part of what calls it.
ValuePtr compiled(Executor& ex, PyObject*, const CallArgs& args) {
  if (args.positional.size() != 1 || !dynamic_cast<FunctionValue*>(args.positional[0].get())) return nullptr;
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), "disable") == 0) return nullptr;
  return args.positional[0];
}

// mark_dynamic(tensor, ...): what came in is marked when the graph has run, for other captures. Sizes of what is made here are
// what they are.
ValuePtr mark(Executor& ex, PyObject* function, const CallArgs& args) {
  if (args.positional.empty() || !is_array(args.positional[0])) return nullptr;
  if (!args.positional[0]->source) return ex.none();
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, function);
  std::vector<RecipePtr> items = recipes_of(ex, args.positional);
  for (const Keyword& keyword : args.keywords)
    if (!is_none(keyword.value)) return nullptr;
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(items));
  ex.effect(std::move(effect));
  return ex.none();
}

// How torch.compile is to trace what is in the context, or under the decorator. Where graphs may break, an error that a break is to be
// is Python's.
ValuePtr no_context(Executor& ex, PyObject*, const CallArgs& args) {
  if (!args.positional.empty() && dynamic_cast<FunctionValue*>(args.positional[0].get()))
    return args.positional[0];
  return polyfill(ex, PythonSide::kTrainingPolyfills, "no_range")->call(ex, {});
}
ValuePtr break_as_error(Executor& ex, PyObject* function, const CallArgs& args) {
  const ValuePtr wanted = args.positional.size() == 1 ? args.positional[0] : nullptr;
  if (!wanted || (ex.state().request.leaves_loops && constant_object(wanted) != Py_False)) return nullptr;
  return no_context(ex, function, {});
}

struct Row {
  const char *module, *name;  // of the code
  Rule apply;
};
constexpr Row kCompilerRows[] = {
    {"torch", "compile", compiled},
    {"torch._dynamo.decorators", "graph_break", user_break},
    {"torch._dynamo.decorators", "step_unsupported", user_break},
    {"torch._dynamo.decorators", "mark_dynamic", mark},
    {"torch._dynamo.decorators", "maybe_mark_dynamic", mark},
    {"torch._dynamo.decorators", "mark_static", mark},
    {"torch._dynamo.decorators", "mark_static_address", mark},
    {"torch._dynamo.decorators", "mark_unbacked", mark},
    {"torch._dynamo.decorators", "dont_skip_tracing", no_context},
    {"torch._dynamo.decorators", "disable_nested_graph_breaks", no_context},
    {"torch._dynamo.decorators", "override_cudagraphs", no_context},
    {"torch._dynamo.decorators", "error_on_graph_break", break_as_error},
};

bool is_named(const FunctionValue& function, const char* name) {
  return PyUnicode_CompareWithASCIIString(function.code()->co_qualname, name) == 0;
}

// What a decorator has wrapped: nonstrict_trace, or one of the contexts above. Null: another function.
ValuePtr call_wrapped(Executor& ex, FunctionValue& function, const char* module, const CallArgs& args) {
  if (std::strcmp(module, "torch._dynamo.decorators") == 0 &&
      is_named(function, "nonstrict_trace.<locals>.wrapped"))
    return function.get_attribute(ex, interned("__wrapped__"))->call(ex, args);
  if (std::strcmp(module, "torch._dynamo.external_utils") != 0 || ex.state().request.leaves_loops ||
      !is_named(function, "wrap_dunder_call_ctx_manager.<locals>.inner"))
    return nullptr;
  return function.closure(ex)
      .at(0)
      ->get_attribute(ex, interned("cell_contents"))
      ->call(ex, args);  // func, self
}

}  // namespace

ValuePtr call_compiler_function(Executor& ex, FunctionValue& function, const char* module,
                                const CallArgs& args) {
  if (std::strcmp(module, "torch") != 0 && std::strncmp(module, "torch._dynamo", 13) != 0) return nullptr;
  for (const Row& row : kCompilerRows)
    if (std::strcmp(module, row.module) == 0 && is_named(function, row.name))
      return row.apply(ex, function.real_object(), args);
  return call_wrapped(ex, function, module, args);
}

}  // namespace cdynamo::symbolic
