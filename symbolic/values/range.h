// range objects: start, stop and step may be symbolic; the number of items is guarded when it is asked for.
#pragma once

#include "graph/sizes/sym.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class RangeValue final : public SymbolicValue {
 public:
  RangeValue(graph::Sym start, graph::Sym stop, int64_t step) : start_(start), stop_(stop), step_(step) {}
  graph::Sym length_sym(Executor& ex) const;  // an expression where the step allows
  int64_t count(Executor& ex);                // specialised
  ValuePtr at(Executor& ex, int64_t index) const;
  std::shared_ptr<RangeValue> reversed(Executor& ex);
  const graph::Sym& start() const { return start_; }
  const graph::Sym& stop() const { return stop_; }
  int64_t step() const { return step_; }

  PyTypeObject* type() const override { return &PyRange_Type; }
  std::optional<PyRef> as_constant() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override { return count(ex) != 0; }
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  PyRef hash_key(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  graph::Sym start_, stop_;
  int64_t step_;
  int64_t count_ = -1;
  RecipePtr recipe_;
};

// Null: its numbers do not stay in 64 bits.
ValuePtr range_from_object(Executor& ex, PyObject* range);
ValuePtr make_range(Executor& ex, const CallArgs& args);  // range(...)

}  // namespace cdynamo::symbolic
