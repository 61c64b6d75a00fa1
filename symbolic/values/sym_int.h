// SymInt: a Python int that is an expression over size symbols. Arithmetic stays symbolic where graph::Sym
// can say it; comparisons are decided with the hints and guarded; anything else pins the expression to its
// value in this call.
#pragma once

#include "graph/sizes/sym.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class SymIntValue final : public SymbolicValue {
 public:
  explicit SymIntValue(graph::Sym sym, SourcePtr from = nullptr) : sym_(sym) { source = std::move(from); }
  const graph::Sym& sym() const { return sym_; }
  int64_t specialize(Executor& ex);  // guards that the expression keeps this value

  PyTypeObject* type() const override { return &PyLong_Type; }
  std::string describe() const override { return "int " + sym_.str(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr as_index(Executor&) override { return shared_from_this(); }
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  bool is_same_object(const SymbolicValue& other) const override;
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr real_operand(Executor& ex, int nb_op, const ValuePtr& other, bool reflected);
  ValuePtr quotient(Executor& ex, const ValuePtr& dividend);
  graph::Sym sym_;
  RecipePtr recipe_;
};

// A constant where the expression is one.
ValuePtr make_int(Executor& ex, const graph::Sym& sym);
// The expression of an int: a SymInt or an int constant (not bool's arithmetic, bools count) that fits int64.
std::optional<graph::Sym> as_sym(const ValuePtr& value);
// The same of an integer of NumPy's too, where it stands for a size or an index.
std::optional<graph::Sym> index_sym(Executor& ex, const ValuePtr& value);

}  // namespace cdynamo::symbolic
