// Dynamic float: a Python float that changes from call to call (a learning rate, a schedule), or is read from a tensor
// (loss.item()). It is a 0-dim float64 value of the graph; arithmetic with numbers makes nodes. What a graph cannot say pins
// the floats it was computed from, and breaks the graph where one of them is a tensor's.
#pragma once

#include "graph/graph.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// A number of the call that a dynamic float is computed from: a float, or an expression of sizes and ints.
struct FloatRoot {
  SourcePtr source;
  PyRef object;
  std::optional<graph::Sym> integer = {};
};

class DynamicFloatValue final : public SymbolicValue {
 public:
  // `from_data`: known when the graph has run.
  DynamicFloatValue(graph::Value* value, double now, std::vector<FloatRoot> roots, bool from_data = false)
      : value_(value), now_(now), from_data_(from_data), roots_(std::move(roots)) {}
  // Of a tensor's element.
  explicit DynamicFloatValue(graph::Value* value) : DynamicFloatValue(value, 0, {}, true) {}
  graph::Value* value() const { return value_; }  // 0-dim float64, weak
  bool is_from_data() const { return from_data_; }
  const std::vector<FloatRoot>& roots() const { return roots_; }
  double now() const { return now_; }  // in the call that is being captured, unless it is from data
  double specialize(Executor& ex);     // guards the floats behind it

  PyTypeObject* type() const override { return &PyFloat_Type; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor& ex) override { return specialize(ex) != 0.0; }
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& given, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef hash_key(Executor& ex) override { return materialize(ex); }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  graph::Value* value_;
  double now_;
  bool from_data_;
  std::vector<FloatRoot> roots_;
  RecipePtr recipe_;
};

ValuePtr make_dynamic_float(Executor& ex, double now, const SourcePtr& source);
// float(i), and number / i where i is known not to be zero; `self` is i.
ValuePtr float_of_int(Executor& ex, const ValuePtr& self, const graph::Sym& integer);
ValuePtr quotient_by_int(Executor& ex, double dividend, const ValuePtr& self, const graph::Sym& divisor);

}  // namespace cdynamo::symbolic
