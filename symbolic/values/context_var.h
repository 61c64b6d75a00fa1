// contextvars.ContextVar of the program's: get, set, and reset with a token that the captured code made itself. What the
// context has is guarded where it is read; what it has in the end is set when the graph has run.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

class ContextVarValue final : public SymbolicValue {
 public:
  ContextVarValue(PyRef variable, SourcePtr from) : variable_(std::move(variable)) {
    source = std::move(from);
  }

  // One that captured code makes, which does not leave it; default_value null: it has none.
  ContextVarValue(PyRef name, ValuePtr default_value)
      : variable_(std::move(name)), is_read_(true), default_(std::move(default_value)) {}

  PyTypeObject* type() const override { return &PyContextVar_Type; }
  std::string describe() const override { return "ContextVar"; }
  PyObject* real_object() const override { return source ? variable_.get() : nullptr; }
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor&) override { return source ? variable_ : PyRef(); }
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;
  void forget() override;

  const ValuePtr& current(Executor& ex);  // null: the context has none
  // Null: the context has none, and there is no default.
  ValuePtr get(Executor& ex, const ValuePtr& fallback);
  ValuePtr set(Executor& ex, const ValuePtr& value);  // the token
  void reset(Executor& ex, const ValuePtr& token);

 private:
  PyRef variable_;  // of one that is made here its name
  bool is_read_ = false;
  ValuePtr default_;
  PyRef identity_;  // of one that is made here: stands for it as a key
  ValuePtr current_, initial_;
  std::vector<ValuePtr> tokens_;  // of what has been set and not reset
  RecipePtr recipe_;
};

ValuePtr make_context_var(Executor& ex,
                          const CallArgs& args);  // contextvars.ContextVar(name, *, default=...)
ValuePtr wrap_context_var(Executor& ex, PyObject* object, const SourcePtr& source);  // null: it is none

}  // namespace cdynamo::symbolic
