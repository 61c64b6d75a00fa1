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

  PyTypeObject* type() const override { return &PyContextVar_Type; }
  std::string describe() const override { return "ContextVar"; }
  PyObject* real_object() const override { return variable_.get(); }
  PyRef hash_key(Executor&) override { return variable_; }
  PyRef materialize(Executor&) override { return variable_; }
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
  PyRef variable_;
  bool is_read_ = false;
  ValuePtr current_, initial_;
  std::vector<ValuePtr> tokens_;  // of what has been set and not reset
  RecipePtr recipe_;
};

ValuePtr wrap_context_var(Executor& ex, PyObject* object, const SourcePtr& source);  // null: it is none

}  // namespace cdynamo::symbolic
