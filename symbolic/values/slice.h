// slice objects: three values.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class SliceValue final : public SymbolicValue {
 public:
  SliceValue(ValuePtr start, ValuePtr stop, ValuePtr step)
      : start_(std::move(start)), stop_(std::move(stop)), step_(std::move(step)) {}
  const ValuePtr& start() const { return start_; }
  const ValuePtr& stop() const { return stop_; }
  const ValuePtr& step() const { return step_; }

  PyTypeObject* type() const override { return &PySlice_Type; }
  std::optional<PyRef> as_constant() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr length(Executor& ex) override;  // raises TypeError
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr start_, stop_, step_;
  RecipePtr recipe_;
};

ValuePtr slice_from_object(Executor& ex, PyObject* slice);

}  // namespace cdynamo::symbolic
