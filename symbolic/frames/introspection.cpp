// What programs ask of Python itself, and tell it: signatures, which modules are installed, log records, cached
// functions.
#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// The callable itself, under a guard; of a bound method one that is bound to None, which has the same signature.
PyRef known_callable(Executor& ex, const ValuePtr& value) {
  if (auto* method = dynamic_cast<BoundMethodValue*>(value.get())) {
    auto* function = dynamic_cast<FunctionValue*>(method->function().get());
    PyRef live = function ? function->materialize(ex) : PyRef();
    return live ? checked(PyMethod_New(live.get(), Py_None)) : PyRef();
  }
  if (auto* function = dynamic_cast<FunctionValue*>(value.get())) return function->materialize(ex);
  PyObject* live = value->real_object();
  if (!live || !PyType_Check(live)) return {};
  guard_class(ex, reinterpret_cast<PyTypeObject*>(live));
  return PyRef::borrow(live);
}

ValuePtr signature(Executor& ex, const CallArgs& args) {
  bool simple = args.positional.size() == 1 && args.keywords.empty();
  PyRef callable = simple ? known_callable(ex, args.positional[0]) : PyRef();
  if (!callable) break_graph("CD0106", "inspect.signature");
  PyRef found = checked_user(ex, PyObject_CallOneArg(library_object("inspect", "signature"), callable.get()));
  return ex.wrap(found.get(), constant_source(found.get()));
}

// Which modules are installed does not change while a program runs.
ValuePtr find_spec(Executor& ex, const CallArgs& args) {
  require_count(ex, "find_spec", args, 1, 1);
  PyRef name = string_argument(ex, args.positional[0]);
  PyRef found =
      checked_user(ex, PyObject_CallOneArg(library_object("importlib.util", "find_spec"), name.get()));
  return ex.wrap(found.get(), constant_source(found.get()));
}

ValuePtr version(Executor& ex, const CallArgs& args) {
  require_count(ex, "version", args, 1, 1);
  PyRef name = string_argument(ex, args.positional[0]);
  return ex.constant(
      checked_user(ex, PyObject_CallOneArg(library_object("importlib.metadata", "version"), name.get())));
}

// functools.update_wrapper, which wraps() calls: of functions; the default lists of names.
ValuePtr update_wrapper(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "update_wrapper", args, {"wrapper", "wrapped", "assigned?", "updated?"});
  auto is_default = [&](const ValuePtr& given, const char* name) {
    return !given || given->real_object() == library_object("functools", name);
  };
  auto* wrapper = dynamic_cast<FunctionValue*>(bound[0].get());
  const ValuePtr& wrapped = bound[1];
  auto* method = dynamic_cast<BoundMethodValue*>(wrapped.get());
  auto* function = dynamic_cast<FunctionValue*>(method ? method->function().get() : wrapped.get());
  if (!wrapper || !function || !is_default(bound[2], "WRAPPER_ASSIGNMENTS") ||
      !is_default(bound[3], "WRAPPER_UPDATES"))
    break_graph("CD0202", "functools.update_wrapper of " + wrapped->describe());
  PyObject* names = library_object("functools", "WRAPPER_ASSIGNMENTS");
  auto assign = [&](PyObject* name) {
    if (ValuePtr value = get_attribute_or_null(ex, wrapped, name)) wrapper->set_attribute(ex, name, value);
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) assign(PyTuple_GET_ITEM(names, i));
  for (const PyRef& name : function->own_names(ex)) assign(name.get());
  wrapper->set_attribute(ex, interned("__wrapped__"), wrapped);
  return bound[0];
}

// ---- logging

PyObject* log_function() { return python_side(PythonSide::kLogRecord); }

// logging.Logger._log: the record is made after the graph has run, with the user's line.
ValuePtr log_record(Executor& ex, const CallArgs& args) {
  auto bound =
      bind_arguments(ex, "_log", args,
                     {"self", "level", "msg", "args", "exc_info?", "extra?", "stack_info?", "stacklevel?"});
  for (size_t i = 4; i < bound.size(); ++i)
    if (bound[i]) break_graph("CD0106", "logging with options");
  for (size_t i = 1; i < 4; ++i)
    if (!bound[i]->as_constant()) break_graph("CD0106", "logging of values that the graph computes");
  // Innermost are frames of logging's own: Logger.warning and the like.
  std::vector<UserFrame> stack = ex.user_stack();
  while (!stack.empty() && stack.back().file.ends_with("logging/__init__.py")) stack.pop_back();
  if (stack.empty()) break_graph("CD0106", "logging");
  const UserFrame& caller = stack.back();
  auto text = [](const std::string& value) {
    return make_recipe(RecipeKind::kConstant, checked(PyUnicode_FromString(value.c_str())).get());
  };
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, log_function());
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, recipes_of(ex, {bound.begin(), bound.begin() + 4}));
  effect.value->items.push_back(text(caller.file));
  effect.value->items.push_back(
      make_recipe(RecipeKind::kConstant, checked(PyLong_FromLong(caller.line)).get()));
  effect.value->items.push_back(text(caller.function));
  ex.effect(std::move(effect));
  return ex.none();
}

// Logger.isEnabledFor keeps its answers in a dict, under a lock: the real one is asked first, so that the dict has
// the answer, which is then read (and guarded) as the program reads it.
ValuePtr is_enabled_for(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "isEnabledFor", args, {"self", "level"});
  PyObject* logger = bound[0]->real_object();
  auto level = bound[1]->as_constant();
  if (!logger || !level) break_graph("CD0106", "logging.Logger.isEnabledFor");
  checked_user(ex, PyObject_CallMethodOneArg(logger, interned("isEnabledFor"), level->get()));
  if (is_true(ex, bound[0]->get_attribute(ex, interned("disabled"))))
    return ex.constant(PyRef::borrow(Py_False));
  return bound[0]->get_attribute(ex, interned("_cache"))->get_item(ex, bound[1]);
}

constexpr BuiltinRow kFunctions[] = {
    {"inspect", "signature", signature},        {"functools", "update_wrapper", update_wrapper},
    {"importlib.util", "find_spec", find_spec}, {"importlib.metadata", "version", version},
    {"logging", "Logger._log", log_record},     {"logging", "Logger.isEnabledFor", is_enabled_for},
};

// A log record among effects.
bool is_log(const Effect& effect) {
  return effect.kind == EffectKind::kCall && effect.target->object.get() == log_function();
}

}  // namespace

std::span<const BuiltinRow> introspection_functions() { return kFunctions; }

namespace {

// Plain values that are told apart by no one.
bool is_plain(PyTypeObject* type) {
  for (const PyTypeObject* plain :
       {&PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyUnicode_Type, &PyBytes_Type, Py_TYPE(Py_None)})
    if (type == plain) return true;
  return false;
}

// The object of a value that every call has: null for what is symbolic, made during capture, or a tensor.
PyRef known_object(Executor& ex, const ValuePtr& value) {
  if (auto constant = value->as_constant()) return *constant;
  if (value->source && value->source->kind == SourceKind::kConstant && value->real_object())
    return PyRef::borrow(value->real_object());
  if (auto* tuple = tuple_in(value); tuple && value->type() == &PyTuple_Type) {
    const std::vector<ValuePtr>& items = tuple->items(ex);
    PyRef made = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); ++i) {
      PyRef item = known_object(ex, items[i]);
      if (!item) return {};
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return made;
  }
  return {};
}

// The object that the cache holds, of a function that was seen to have no effects. Null: not all arguments are known.
ValuePtr cached_object(Executor& ex, PyObject* callable, const CallArgs& args) {
  PyRef positional = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  PyRef keywords = checked(PyDict_New());
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef object = known_object(ex, args.positional[i]);
    if (!object) return nullptr;
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  for (const Keyword& keyword : args.keywords) {
    PyRef object = known_object(ex, keyword.value);
    if (!object || PyDict_SetItem(keywords.get(), keyword.name.get(), object.get()) < 0) return nullptr;
  }
  PyRef found = checked_user(ex, PyObject_Call(callable, positional.get(), keywords.get()));
  return ex.wrap(found.get(), constant_source(found.get()));
}

// Replays a call of the function itself, which is the one to know whether it was called before.
void replay_call(Executor& ex, const ValuePtr& callable, const CallArgs& args) {
  if (!args.keywords.empty()) break_graph("CD0202", callable->describe());
  Effect effect{.kind = EffectKind::kCall};
  effect.target = callable->recipe(ex);
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, recipes_of(ex, args.positional));
  ex.effect(std::move(effect));
}

}  // namespace

ValuePtr call_cached_function(Executor& ex, const ValuePtr& callable, const CallArgs& args) {
  Executor::State& state = ex.state();
  std::vector<Effect>& effects = state.result.effects;
  const size_t effects_before = effects.size(), mutated_before = state.mutated.size(),
               globals_before = state.globals_order.size(), nodes_before = ex.graph().nodes.size();
  ValuePtr result = callable->get_attribute(ex, interned("__wrapped__"))->call(ex, args);
  const bool same_world =
      state.mutated.size() == mutated_before && state.globals_order.size() == globals_before;
  if (same_world && is_none(result) && effects.size() > effects_before &&
      std::all_of(effects.begin() + static_cast<ptrdiff_t>(effects_before), effects.end(), is_log)) {
    // What it says is said once for all calls.
    effects.resize(effects_before);
    replay_call(ex, callable, args);
    return result;
  }
  if (!same_world || effects.size() != effects_before) break_graph("CD0202", callable->describe());
  if (is_plain(result->type())) return result;
  // What may be changed, or is told apart by identity, has to be the one that the cache holds.
  if (ex.graph().nodes.size() == nodes_before)
    if (ValuePtr held = cached_object(ex, callable->real_object(), args)) return held;
  // Of sizes that change, the parts of a tuple.
  if (result->type() == &PyTuple_Type && tuple_in(result) && ex.graph().nodes.size() == nodes_before)
    return result;
  break_graph("CD0202", callable->describe());
}

}  // namespace cdynamo::symbolic
