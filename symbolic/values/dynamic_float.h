// Dynamic float: a Python float that changes from call to call (a learning rate, a schedule), or is read from a tensor
// (loss.item()). It is a 0-dim float64 value of the graph; arithmetic with numbers makes nodes. What the graph has no operator
// for Python computes at the call (computed_number.h); what it cannot either pins the floats it was computed from, and
// breaks the graph where one of them is a tensor's.
#pragma once

#include <functional>

#include "graph/graph.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// A number of the call that a dynamic float is computed from: a float, or an expression of sizes and ints.
struct FloatRoot {
  SourcePtr source;
  PyRef object;
  std::optional<graph::Sym> integer = {};
  bool is_same(const FloatRoot& other) const { return source == other.source && integer == other.integer; }
};

// Adds those that are not among them: `s = s * s - s` in a loop has one root all the time.
void add_roots(std::vector<FloatRoot>& roots, const std::vector<FloatRoot>& more);

class DynamicFloatValue final : public SymbolicValue {
 public:
  // Of a node. `origin`: where it is found in another call, if anywhere; `from_data`: known when the graph has run.
  DynamicFloatValue(graph::Value* value, double now, std::vector<FloatRoot> roots, SourcePtr origin,
                    bool from_data = false)
      : value_(value),
        now_(now),
        from_data_(from_data),
        roots_(std::move(roots)),
        origin_(std::move(origin)) {}
  // Of a tensor's element.
  explicit DynamicFloatValue(graph::Value* value) : DynamicFloatValue(value, 0, {}, nullptr, true) {}
  // An input of the graph, once something of the graph asks for it.
  DynamicFloatValue(Executor& ex, SourcePtr origin, double now, std::vector<FloatRoot> roots);
  graph::Value* value() const { return value_ ? value_ : value_ = make_input_(); }  // 0-dim float64, weak
  const SourcePtr& origin() const { return origin_; }
  bool is_from_data() const { return from_data_; }
  const std::vector<FloatRoot>& roots() const { return roots_; }
  double now() const { return now_; }  // in the call that is being captured, unless it is from data
  double specialize(Executor& ex);     // guards the floats behind it

  PyTypeObject* type() const override { return &PyFloat_Type; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& given, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef hash_key(Executor& ex) override { return materialize(ex); }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  mutable graph::Value* value_ = nullptr;
  std::function<graph::Value*()> make_input_;
  double now_;
  bool from_data_ = false;
  std::vector<FloatRoot> roots_;
  SourcePtr origin_;
  RecipePtr recipe_;
};

// Of floats, at least one of which is read from a tensor: abs(number); the later one where it is greater (less).
ValuePtr absolute_float(Executor& ex, const ValuePtr& number);
ValuePtr extreme_float(Executor& ex, const ValuePtr& first, const ValuePtr& later, bool greater);

ValuePtr make_dynamic_float(Executor& ex, double now, const SourcePtr& source);
// float(i), and number / i where i is known not to be zero; `self` is i.
ValuePtr float_of_int(Executor& ex, const ValuePtr& self, const graph::Sym& integer);
ValuePtr quotient_by_int(Executor& ex, double dividend, const ValuePtr& self, const graph::Sym& divisor);

}  // namespace cdynamo::symbolic
