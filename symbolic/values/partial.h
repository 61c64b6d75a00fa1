// functools.partial: a callable with arguments to begin with.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class PartialValue final : public SymbolicValue {
 public:
  PartialValue(ValuePtr function, CallArgs bound)
      : function_(std::move(function)), bound_(std::move(bound)) {}
  PyTypeObject* type() const override;
  PyObject* real_object() const override { return object.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  std::optional<bool> truth(Executor&) override { return true; }
  PyRef hash_key(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

  const CallArgs& bound() const { return bound_; }
  PyRef object;  // the live partial, where there is one

 private:
  ValuePtr function_;
  CallArgs bound_;
  std::vector<std::pair<PyRef, ValuePtr>> attributes_;  // of one that captured code has made
  RecipePtr recipe_;
};

ValuePtr make_partial(Executor& ex, const CallArgs& args);
ValuePtr wrap_partial(Executor& ex, PyObject* object, const SourcePtr& source);  // null: not a partial

}  // namespace cdynamo::symbolic
