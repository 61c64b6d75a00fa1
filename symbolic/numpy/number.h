// NumPy's numbers that are known when the call begins, and change from call to call: np.int64 as an argument, and what is computed
// of it. Python's number of the same value stands behind one, so that it is an index, a size, a bound of a range, or decides a
// branch, as that number does; the graph takes it as a 0-dim value of its dtype. For the native backend alone: graphs of calls, which
// others are given, have no form for it.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class NumpyNumberValue final : public SymbolicValue {
 public:
  // `number`: an int where `dtype` is one of integers, else a float; it fits.
  NumpyNumberValue(ValuePtr number, graph::DType dtype, SourcePtr from = nullptr)
      : number_(std::move(number)), dtype_(dtype) {
    source = std::move(from);
  }
  const ValuePtr& number() const { return number_; }
  graph::DType dtype() const { return dtype_; }

  PyTypeObject* type() const override;
  std::string describe() const override { return "NumPy scalar " + number_->describe(); }
  ValuePtr as_index(Executor& ex) override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor& ex) override { return number_->truth(ex); }
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef hash_key(Executor& ex) override { return materialize(ex); }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr as_scalar(Executor& ex);
  ValuePtr number_, scalar_;
  graph::DType dtype_;
  RecipePtr recipe_;
};

// NumPy's scalar of the dtype that has this value: a constant where the number is one.
ValuePtr make_numpy_number(Executor& ex, const ValuePtr& number, graph::DType dtype);
// The 0-dim value of the graph that it is; null for other values. Within a recorded call.
graph::Value* graph_value_of_number(Executor& ex, const ValuePtr& value);

}  // namespace cdynamo::symbolic
