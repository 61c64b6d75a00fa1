#include "symbolic/values/context_var.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/context_access.h"
#include "symbolic/interop/numpy_errors.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// What set() gives. Only set() itself makes one, so that none leaves the captured code.
class TokenValue final : public SymbolicValue {
 public:
  explicit TokenValue(ValuePtr old) : old(std::move(old)) {}
  PyTypeObject* type() const override { return &PyContextToken_Type; }
  std::string describe() const override { return "Token of a ContextVar"; }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override { break_graph("CD0211", describe()); }

  ValuePtr old;  // null: there was none
};

ContextVarValue& variable_of(const ValuePtr& self) { return dynamic_cast<ContextVarValue&>(*self); }

ValuePtr get(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "get", args);
  require_count(ex, "get", args, 0, 1);
  ValuePtr value = variable_of(self).get(ex, args.positional.empty() ? nullptr : args.positional[0]);
  if (!value) raise_new(ex, make_exception(ex, exception_type(PyExc_LookupError), {self}));
  return value;
}

ValuePtr set(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "set", args);
  require_count(ex, "set", args, 1, 1);
  return variable_of(self).set(ex, args.positional[0]);
}

ValuePtr reset(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "reset", args);
  require_count(ex, "reset", args, 1, 1);
  variable_of(self).reset(ex, args.positional[0]);
  return ex.none();
}

constexpr BuiltinMethodRow kContextVarMethods[] = {{"get", get}, {"set", set}, {"reset", reset}};

}  // namespace

const ValuePtr& ContextVarValue::current(Executor& ex) {
  if (is_read_) return current_;
  is_read_ = true;
  const SourcePtr from = derived_source(SourceKind::kContextValue, source);
  const PyRef value = context_value(variable_.get());
  if (value.get() == missing_in_context()) {
    add_guard(ex, GuardKind::kIdentity, from, value.get());
  } else {
    add_guard(ex, GuardKind::kType, from, reinterpret_cast<PyObject*>(Py_TYPE(value.get())));
    current_ = ex.wrap(value.get(), from);
  }
  initial_ = current_;
  return current_;
}

ValuePtr ContextVarValue::get(Executor& ex, const ValuePtr& fallback) {
  if (ValuePtr value = current(ex)) return value;
  if (fallback) return fallback;
  if (!source) return default_;
  // An empty context gives the default, which a variable never changes.
  PyRef empty = checked(PyContext_New());
  if (PyContext_Enter(empty.get()) < 0) throw PythonError{};
  PyObject* value = nullptr;
  const bool failed = PyContextVar_Get(variable_.get(), nullptr, &value) < 0;
  PyRef found = PyRef::steal(value);
  if (PyContext_Exit(empty.get()) < 0 || failed) throw PythonError{};
  return found ? ex.wrap(found.get(), constant_source(found.get())) : nullptr;
}

ValuePtr ContextVarValue::set(Executor& ex, const ValuePtr& value) {
  // Whether NumPy raises is asked when compiled code is entered. What captured code makes itself asks for nothing.
  if (source && is_numpy_error_settings(variable_.get()) && (value->source || !constant_object(value)))
    break_graph("CD0501", "errstate that may raise or call");
  const ValuePtr old = current(ex);
  ex.changing(shared_from_this(), source != nullptr);
  tokens_.push_back(std::make_shared<TokenValue>(old));
  current_ = value;
  return tokens_.back();
}

void ContextVarValue::reset(Executor& ex, const ValuePtr& token) {
  // Other tokens are used up, or of other variables.
  const auto unused = std::ranges::find(tokens_, token);
  if (unused == tokens_.end()) break_graph("CD0212", "ContextVar.reset with another token");
  ex.changing(shared_from_this(), source != nullptr);
  current_ = static_cast<TokenValue&>(*token).old;
  tokens_.erase(unused);
}

ValuePtr ContextVarValue::get_attribute(Executor& ex, PyObject* name) {
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kContextVarMethods)) return method;
  if (PyUnicode_CompareWithASCIIString(name, "name") == 0)
    return ex.constant(source ? checked(PyObject_GetAttr(variable_.get(), name)) : variable_);
  return builtin_attribute(ex, shared_from_this(), name);
}

PyRef ContextVarValue::hash_key(Executor&) {
  if (source) return variable_;
  if (!identity_) identity_ = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  return identity_;
}

RecipePtr ContextVarValue::recipe(Executor&) {
  if (!source) break_graph("CD0211", "ContextVar that captured code has made");
  if (!recipe_) recipe_ = source_recipe(source);
  return recipe_;
}

void ContextVarValue::emit_effects(Executor& ex) {
  if (!source || current_ == initial_) return;
  Effect effect{.kind = EffectKind::kCall};
  static PyObject* function = nullptr;
  if (!function) function = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyContextVar_Type), "set");
  effect.target = make_recipe(RecipeKind::kConstant, function);
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, {recipe(ex), current_->recipe(ex)});
  ex.effect(std::move(effect));
}

void ContextVarValue::forget() {
  current_ = initial_ = default_ = nullptr;
  tokens_.clear();
}

ValuePtr make_context_var(Executor& ex, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "ContextVar", args, {"name", "*default?"});
  if (args.positional.size() != 1) break_graph("CD0216", "class ContextVar");
  PyRef name = string_argument(ex, given[0]);
  if (!PyUnicode_CheckExact(name.get())) break_graph("CD0216", "class ContextVar");
  return std::make_shared<ContextVarValue>(std::move(name), given[1]);
}

ValuePtr wrap_context_var(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!PyContextVar_CheckExact(object)) return nullptr;
  if (source->kind != SourceKind::kConstant) add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<ContextVarValue>(PyRef::borrow(object), source);
}

}  // namespace cdynamo::symbolic
