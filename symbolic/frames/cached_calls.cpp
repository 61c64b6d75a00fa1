// Calls of functions under functools.lru_cache. What the cache holds is the result: it is read and guarded as what an attribute holds.
// Where it holds nothing yet, the function is inlined; if it turns out to have no effects, the cached one is called while capturing,
// and the result is held from then on. In the compiled code the call is one of the effects: it counts, and makes its result the latest.
// These come after all others: a function that would read then what has changed since is called by Python.
#include <algorithm>
#include <optional>

#include "symbolic/capture/executor_state.h"
#include "symbolic/frames/abandoned_generators.h"
#include "symbolic/frames/output.h"
#include "symbolic/frames/read_state.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/module_value.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Plain values that are told apart by no one.
bool is_plain(PyTypeObject* type) {
  for (const PyTypeObject* plain :
       {&PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyUnicode_Type, &PyBytes_Type, Py_TYPE(Py_None)})
    if (type == plain) return true;
  return false;
}

// The object of a value that every call has: null for what is symbolic, made during capture, or a tensor. What another cache holds
// is guarded to be the same.
PyRef known_object(Executor& ex, const ValuePtr& value) {
  if (auto constant = value->as_constant()) return *constant;
  if (value->source && value->source->kind == SourceKind::kHeld && value->real_object()) {
    add_guard(ex, GuardKind::kIdentity, value->source, value->real_object());
    return PyRef::borrow(value->real_object());
  }
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

// A call of a cached function whose arguments are the same objects in each call.
struct KnownCall {
  PyObject* function;
  PyRef positional, keywords, key;
  SourcePtr held;  // what the cache holds of it
};

// Whether C alone hashes and compares the object: guards look it up.
bool is_key_of_c(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_key_of_c(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  const PyTypeObject* type = Py_TYPE(object);
  return !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) ||
         (type->tp_hash == PyBaseObject_Type.tp_hash &&
          type->tp_richcompare == PyBaseObject_Type.tp_richcompare);
}

std::optional<KnownCall> known_call(Executor& ex, const SymbolicValue& callable, const CallArgs& args) {
  if (!callable.source) return {};
  KnownCall call{.function = callable.real_object(),
                 .positional = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size()))),
                 .keywords = checked(PyDict_New())};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef object = known_object(ex, args.positional[i]);
    if (!object || !is_key_of_c(object.get())) return {};
    PyTuple_SET_ITEM(call.positional.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  for (const Keyword& keyword : args.keywords) {
    PyRef object = known_object(ex, keyword.value);
    if (!object || !is_key_of_c(object.get())) return {};
    if (PyDict_SetItem(call.keywords.get(), keyword.name.get(), object.get()) < 0) throw PythonError{};
  }
  call.key = cache_key(call.function, call.positional.get(), call.keywords.get());
  if (!call.key || PyObject_Hash(call.key.get()) == -1) return PyErr_Clear(), std::nullopt;
  call.held =
      std::make_shared<Source>(Source{.kind = SourceKind::kHeld, .base = callable.source, .key = call.key});
  return call;
}

// The same code may be called with another function, made with another size. Where it is one object, the guards say no more.
void guard_rules(Executor& ex, const SymbolicValue& callable) {
  if (!callable.source) return;
  const auto rules =
      std::make_shared<Source>(Source{.kind = SourceKind::kCacheRules, .base = callable.source});
  add_guard(ex, GuardKind::kIdentity, rules, cache_rules(callable.real_object()).get());
}

// Whether its result, after those of `more` other calls, makes the cache drop one. Where not so, it is guarded: calls that come later
// take it that what was held is.
bool drops_one(Executor& ex, const SymbolicValue& callable, Py_ssize_t more) {
  if (is_full(callable.real_object(), more)) return true;
  if (!callable.source) return false;
  const auto full = std::make_shared<Source>(
      Source{.kind = SourceKind::kCacheIsFull, .base = callable.source, .index = static_cast<int>(more)});
  add_guard(ex, GuardKind::kIdentity, full, Py_False);
  return false;
}

CacheFills& fills(Executor& ex) {
  std::shared_ptr<CacheFills>& fills = ex.state().result.cache_fills;
  if (!fills) fills = std::make_shared<CacheFills>();
  return *fills;
}

void refuse_dropped(Executor& ex, PyObject* function) {
  if (ex.state().cached_calls.that_drop.contains(function))
    break_graph("CD0202", "a cached function that has dropped results of its own");
}

// The result that the cache holds; null: none.
ValuePtr held_value(Executor& ex, const KnownCall& call) {
  const PyRef held = held_result(call.function, call.key.get());
  if (!held || held.get() == nothing_held()) return nullptr;
  refuse_dropped(ex, call.function);
  return ex.wrap(held.get(), call.held);
}

// What captured code has computed of the same call before; null: nothing.
ValuePtr computed_before(Executor& ex, const KnownCall& call) {
  const auto& computed = ex.state().cached_calls.computed;
  const auto found = computed.find(call.function);
  PyObject* index =
      found == computed.end() ? nullptr : PyDict_GetItemWithError(found->second.first.get(), call.key.get());
  if (!index) return PyErr_Clear(), nullptr;
  refuse_dropped(ex, call.function);
  return found->second.second.at(PyLong_AsSize_t(index));
}

void note_computed(Executor& ex, const KnownCall& call, const ValuePtr& value) {
  auto& [indices, values] = ex.state().cached_calls.computed[call.function];
  if (!indices) indices = checked(PyDict_New());
  const PyRef index = checked(PyLong_FromSize_t(values.size()));
  if (PyDict_SetItem(indices.get(), call.key.get(), index.get()) < 0) throw PythonError{};
  values.push_back(value);
}

// How many calls of the function captured code has computed, whose results the cache will hold at the end.
Py_ssize_t computed_of(Executor& ex, PyObject* function) {
  return std::ranges::count(ex.state().cached_calls.late, function,
                            [](const auto& call) { return call.function.get(); });
}

// Has the cache hold the result of a call that it does not hold yet, of a function that was seen to have no effects. This is the call
// that counts as a miss; the one that the compiled code makes of it counts as none. Null: it does not hold it for long, and who
// captured it each time that it is dropped would never be done.
ValuePtr filled_value(Executor& ex, const KnownCall& call) {
  if (CacheFills::was_dropped(call.function, call.key)) return nullptr;
  if (!fills(ex).call(call.function, call.key, call.positional.get(), call.keywords.get()))
    raise_current_error(ex);
  return held_value(ex, call);
}

// Whether what a global or a cell holds is taken not to change: not so the state of a program.
bool is_definition(PyObject* object, int depth);

// Whether the function computes of its arguments alone, so that a result that is held is the one that it would give again. It reads
// no numbers, containers or objects of its module's, nor of its closure.
bool reads_no_state(PyObject* function, PyObject* code_object, int depth) {
  auto* code = reinterpret_cast<PyCodeObject*>(code_object);
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    PyObject* found = PyDict_GetItemWithError(globals, PyTuple_GET_ITEM(code->co_names, i));
    if (found && !is_definition(found, depth)) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(constant) && !reads_no_state(function, constant, depth)) return false;
  }
  return true;
}

bool is_definition(PyObject* object, int depth) {
  constexpr int kDeepest = 5;  // functions may refer to each other, and to themselves
  if (depth > kDeepest) return false;
  if (PyModule_Check(object)) return is_library_module(object);
  if (PyType_Check(object) || PyCFunction_Check(object)) return true;
  if (!PyFunction_Check(object)) return false;
  if (PyObject* closure = PyFunction_GET_CLOSURE(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* held = PyCell_GET(PyTuple_GET_ITEM(closure, i));
      if (!held || !is_definition(held, depth + 1)) return false;
    }
  return reads_no_state(object, PyFunction_GET_CODE(object), depth + 1);
}

// A number, or a tuple of numbers: what it is says what the cache holds of it.
bool is_number(Executor& ex, const ValuePtr& value) {
  if (value->type() == &PyLong_Type || value->type() == &PyFloat_Type) return true;
  auto* tuple = value->type() == &PyTuple_Type ? tuple_in(value) : nullptr;
  return tuple &&
         std::ranges::all_of(tuple->items(ex), [&](const ValuePtr& item) { return is_number(ex, item); });
}

// The arguments, of which those that change from call to call are pinned to what they are.
CallArgs pinned(Executor& ex, const CallArgs& args) {
  CallArgs pinned = args;
  const auto pin = [&](ValuePtr& value) {
    if (is_number(ex, value) && !known_object(ex, value)) value = ex.constant(value->hash_key(ex));
  };
  for (ValuePtr& value : pinned.positional) pin(value);
  for (Keyword& keyword : pinned.keywords) pin(keyword.value);
  return pinned;
}

// Makes a call of the cached function itself one of the effects: it counts its calls, holds what they give, and is the
// one to know whether it was called before.
void replay_call(Executor& ex, const ValuePtr& callable, const CallArgs& args, bool is_pure) {
  if (!is_pure && !args.keywords.empty()) break_graph("CD0202", callable->describe());
  Effect effect{.kind = EffectKind::kCall};
  effect.target = callable->recipe(ex);
  std::vector<RecipePtr> items = recipes_of(ex, args.positional);
  PyRef names = checked(PyTuple_New(static_cast<Py_ssize_t>(args.keywords.size())));
  for (size_t i = 0; i < args.keywords.size(); ++i) {
    items.push_back(args.keywords[i].value->recipe(ex));
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), PyRef(args.keywords[i].name).release());
  }
  if (is_pure) effect.key = make_recipe(RecipeKind::kConstant, names.get());
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(items));
  ex.effect(std::move(effect));
}

// A call of a cached function that has no effects itself: among all calls these alone have a tuple of names.
bool is_replayed(const Effect& effect) { return effect.kind == EffectKind::kCall && effect.key; }

// Whether the cache tells the argument from what is equal to it. 1, 1.0 and True are one to it, but where it looks at the
// types of arguments; those of a tuple's items it never looks at. A size that changes from call to call is only an int.
bool is_told_apart(Executor& ex, const ValuePtr& value, bool typed) {
  if (PyObject* object = constant_object(value); object && (PyLong_Check(object) || PyFloat_Check(object)))
    return typed;
  auto* tuple = tuple_in(value);
  return !tuple || std::ranges::all_of(tuple->items(ex),
                                       [&](const ValuePtr& item) { return is_told_apart(ex, item, false); });
}

bool looks_at_types(PyObject* cached_function) {
  PyRef parameters = checked(PyObject_CallMethod(cached_function, "cache_parameters", nullptr));
  return PyDict_GetItemString(parameters.get(), "typed") == Py_True;
}

// Of sizes that change, the parts of a tuple.
bool is_plain_tuple(Executor& ex, const ValuePtr& value) {
  auto* tuple = value->type() == &PyTuple_Type ? tuple_in(value) : nullptr;
  return tuple && std::ranges::all_of(tuple->items(ex), [&](const ValuePtr& item) {
           return is_plain(item->type()) || is_plain_tuple(ex, item);
         });
}

// What a call of a function without effects gives. `is_held`: the cache may hold a result of it. Breaks the graph where it is not known.
ValuePtr computed_result(Executor& ex, const ValuePtr& callable, const CallArgs& args, ValuePtr computed,
                         bool is_held, bool computes_tensors) {
  const bool typed = looks_at_types(callable->real_object());
  const auto told_apart = [&](const ValuePtr& value) { return is_told_apart(ex, value, typed); };
  const bool all_told_apart = std::ranges::all_of(args.positional, told_apart) &&
                              std::ranges::all_of(args.keywords, told_apart, &Keyword::value);
  // The function may read attributes that have changed since.
  const auto is_instance = [](const ValuePtr& value) { return dynamic_cast<UserObjectValue*>(value.get()); };
  if (is_held && std::ranges::any_of(args.positional, is_instance))
    break_graph("CD0202", callable->describe());
  if (is_plain(computed->type()) && (all_told_apart || !is_held)) return computed;
  if (is_plain_tuple(ex, computed) && !computes_tensors) return computed;
  break_graph("CD0202", callable->describe());
}

// Python raises the error where the call is.
void refuse_unhashable(Executor& ex, const SymbolicValue& callable, const ValuePtr& value) {
  if (value->type()->tp_hash == PyObject_HashNotImplemented) break_graph("CD0202", callable.describe());
  if (auto* tuple = tuple_in(value))
    for (const ValuePtr& item : tuple->items(ex)) refuse_unhashable(ex, callable, item);
}

size_t abandoned_so_far(Executor& ex) {
  const auto& abandoned = ex.state().abandoned_generators;
  return abandoned ? abandoned->size() : 0;
}

// The call is made after all that captured code does.
void note_late(Executor& ex, PyObject* function, const CallArgs& args) {
  Executor::State& state = ex.state();
  state.cached_calls.late.push_back({.function = PyRef::borrow(function),
                                     .args = args,
                                     .step = std::ssize(state.root_trace) - 1,
                                     .stack = ex.user_stack()});
}

}  // namespace

void replay_last(Executor& ex) {
  Executor::State& state = ex.state();
  for (const Executor::State::CachedCalls::Late& call : state.cached_calls.late) {
    if (!may_read_changes(ex, call.function.get(), call.args)) continue;
    state.break_step = call.step;
    BreakRecord record = break_record("CD0202", "a cached function that may read what is changed");
    record.stack = call.stack;
    throw GraphBreak{std::move(record)};
  }
  std::ranges::stable_partition(state.result.effects, std::not_fn(is_replayed));
}

ValuePtr call_cached_function(Executor& ex, const ValuePtr& callable, const CallArgs& given) {
  CallArgs args = given;
  for (const ValuePtr& value : args.positional) refuse_unhashable(ex, *callable, value);
  for (const Keyword& keyword : args.keywords) refuse_unhashable(ex, *callable, keyword.value);
  std::optional<KnownCall> known = known_call(ex, *callable, args);
  // What the cache holds of numbers that change may not be what the function gives by now.
  const PyRef function = checked(PyObject_GetAttrString(callable->real_object(), "__wrapped__"));
  if (!known && !is_definition(function.get(), 0)) {
    args = pinned(ex, args);
    known = known_call(ex, *callable, args);
  }
  PyObject* cached = callable->real_object();
  guard_rules(ex, *callable);
  fills(ex).add_function(cached);
  if (known) {
    ValuePtr result = computed_before(ex, *known);
    if (result) ++ex.state().cached_calls.unheld;
    if (!result) result = held_value(ex, *known);
    if (result) {
      replay_call(ex, callable, args, true);
      return result;
    }
  }
  Executor::State& state = ex.state();
  const int64_t unheld_before = state.cached_calls.unheld;
  std::vector<Effect>& effects = state.result.effects;
  const size_t effects_before = effects.size(), mutated_before = state.mutated.size(),
               globals_before = state.globals_order.size(), draws_before = state.result.draws.size(),
               nodes_before = ex.graph().nodes.size(), abandoned_before = abandoned_so_far(ex);
  ValuePtr result;
  try {
    result = callable->get_attribute(ex, interned("__wrapped__"))->call(ex, args);
  } catch (const PythonRaise&) {
    break_graph("CD0202", callable->describe());
  }
  const bool same_world = state.mutated.size() == mutated_before &&
                          state.globals_order.size() == globals_before &&
                          state.result.draws.size() == draws_before;
  const auto first_effect = effects.begin() + static_cast<ptrdiff_t>(effects_before);
  const bool only_replayed = std::all_of(first_effect, effects.end(), is_replayed);
  const bool only_logs = !only_replayed && std::all_of(first_effect, effects.end(), [](const Effect& effect) {
    return is_log(effect) || is_replayed(effect);
  });
  if (!same_world || !(only_replayed || (only_logs && is_none(result))))
    break_graph("CD0202", callable->describe());
  // What it says, and the cached functions that it calls, are its own business.
  effects.erase(effects.begin() + static_cast<ptrdiff_t>(effects_before), effects.end());
  // What captured code has changed is not written yet.
  const bool misses_changes = may_read_changes(ex, function.get(), args);
  if (!only_replayed && misses_changes) break_graph("CD0202", callable->describe());
  if (only_replayed && holds_nothing_ever(cached)) note_late(ex, function.get(), args);
  if (only_replayed && !holds_nothing_ever(cached)) {
    const bool computes_tensors = ex.graph().nodes.size() != nodes_before;
    // It would make other calls, which are guarded not to be held, and close generators.
    const bool does_more =
        state.cached_calls.unheld != unheld_before || abandoned_so_far(ex) != abandoned_before;
    const Py_ssize_t computed = computed_of(ex, function.get());
    ValuePtr held;
    if (known && !is_full(cached, computed) && !computes_tensors && !misses_changes && !does_more)
      held = filled_value(ex, *known);
    if (held) {
      result = held;
    } else {
      const bool drops = drops_one(ex, *callable, computed);
      if (drops) state.cached_calls.that_drop.insert(cached);
      if (known) add_guard(ex, GuardKind::kIdentity, known->held, nothing_held());
      result = computed_result(ex, callable, args, std::move(result), !known, computes_tensors);
      if (known && !drops) note_computed(ex, *known, result);
      note_late(ex, function.get(), args);
      ++state.cached_calls.unheld;
    }
  }
  replay_call(ex, callable, args, only_replayed);
  return result;
}

}  // namespace cdynamo::symbolic
