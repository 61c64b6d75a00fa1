// A bool that is read from a tensor: bool(x.any()), mask.item(). It is a 0-dim bool of the graph. Arithmetic takes it for an int that
// the graph reads; a branch on it breaks the graph there.
#pragma once

#include "graph/graph.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class DataBoolValue : public SymbolicValue {
 public:
  // `number`: the int that it is, made where arithmetic asks for it.
  DataBoolValue(graph::Value* value, std::function<ValuePtr()> number)
      : value_(value), make_number_(std::move(number)) {}
  virtual graph::Value* value() { return value_; }  // 0-dim bool, weak
  ValuePtr real(Executor& ex);                      // as a float
  virtual ValuePtr number() { return number_ ? number_ : number_ = make_number_(); }

  PyTypeObject* type() const override { return &PyBool_Type; }
  std::string describe() const override { return "a bool that was read from a tensor"; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  bool is_same_object(const SymbolicValue& other) const override;
  std::optional<bool> truth(Executor&) override { return std::nullopt; }
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  RecipePtr recipe(Executor& ex) override;

 protected:
  DataBoolValue() = default;

 private:
  graph::Value* value_ = nullptr;
  std::function<ValuePtr()> make_number_;
  ValuePtr number_;
  RecipePtr recipe_;
};

}  // namespace cdynamo::symbolic
