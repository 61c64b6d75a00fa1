#include "symbolic/frames/cache_numbers.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using CacheNumbers = Executor::State::CacheNumbers;

// One of the numbers as it is when the call begins. Numbers that it might not tell apart from others are not followed.
ValuePtr number_at_start(Executor& ex, PyObject* function, const char* name) {
  const PyRef ask =
      checked(PyObject_CallFunction(python_side(PythonSide::kCacheNumber), "Os", function, name));
  ex.state().kept.push_back(PyRef::borrow(ask.get()));
  if (ValuePtr number = number_of_process(ex, ask.get())) return number;
  break_graph("CD0212", std::string("cache_info() of a cache, whose number of ") + name);
}

// What the cache had when it was cleared, or when the call began, and what has been added since.
ValuePtr number_now(Executor& ex, PyObject* function, const char* name, int64_t added, bool is_cleared) {
  if (is_cleared) return ex.constant_int(added);
  const ValuePtr number = number_at_start(ex, function, name);
  return added ? binary_operation(ex, kNbAdd, number, ex.constant_int(added)) : number;
}

ValuePtr cache_info(Executor& ex, const ValuePtr& self) {
  PyObject* function = self->real_object();
  CacheNumbers& numbers = ex.state().cache_numbers;
  const CacheNumbers::Changes changes = numbers.changes[function];
  if (numbers.unknown > changes.unknown_before)
    break_graph("CD0212", "cache_info() after a call of which the cache holds no result");
  ++numbers.uses;
  const PyRef parameters = checked(PyObject_CallMethod(function, "cache_parameters", nullptr));
  PyObject* most = PyDict_GetItemString(parameters.get(), "maxsize");
  PyObject* made = library_object("functools", "_CacheInfo");
  return ex.wrap(made, constant_source(made))
      ->call(ex, positional({number_now(ex, function, "hits", changes.hits, changes.is_cleared),
                             number_now(ex, function, "misses", 0, changes.is_cleared),
                             ex.constant(PyRef::borrow(most)),
                             number_now(ex, function, "currsize", 0, changes.is_cleared)}));
}

// One of the effects, in the order of the calls: an empty tuple of names marks it as one of these.
ValuePtr cache_clear(Executor& ex, const ValuePtr& self) {
  static PyObject* method = nullptr;
  if (!method) method = checked(PyObject_GetAttrString(as_object(self->type()), "cache_clear")).release();
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, method);
  effect.key = make_recipe(RecipeKind::kConstant, checked(PyTuple_New(0)).get());
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, {self->recipe(ex)});
  ex.effect(std::move(effect));
  CacheNumbers& numbers = ex.state().cache_numbers;
  ++numbers.uses;
  numbers.changes[self->real_object()] = {.is_cleared = true, .unknown_before = numbers.unknown};
  return ex.none();
}

}  // namespace

void count_hit(Executor& ex, PyObject* function) { ++ex.state().cache_numbers.changes[function].hits; }
void count_unknown(Executor& ex) { ++ex.state().cache_numbers.unknown; }

bool cache_is_cleared(Executor& ex, PyObject* function) {
  const auto& changes = ex.state().cache_numbers.changes;
  const auto found = changes.find(function);
  return found != changes.end() && found->second.is_cleared;
}

bool cache_numbers_are_used(Executor& ex) { return ex.state().cache_numbers.uses > 0; }

ValuePtr call_cache_method(Executor& ex, std::string_view name, const ValuePtr& self, const CallArgs& args) {
  PyObject* function = self->real_object();
  const bool is_asked = name == "cache_info";
  if (!function || !is_cached_function(function) || !(is_asked || name == "cache_clear")) return nullptr;
  require_no_keywords(ex, is_asked ? "cache_info" : "cache_clear", args);
  require_count(ex, is_asked ? "cache_info" : "cache_clear", args, 0, 0);
  // The numbers are those of this one.
  if (self->source && self->source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, self->source, function);
  return is_asked ? cache_info(ex, self) : cache_clear(ex, self);
}

}  // namespace cdynamo::symbolic
