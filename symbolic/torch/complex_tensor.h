// Complex tensors. The graph knows real ones alone: a complex tensor is there what torch.view_as_real gives of it, with its memory,
// its history and its writes. What an operator does to such pairs is stated in Python (polyfills/complex_*.py); operators
// that have no rule are calls of PyTorch's library, which join and part complex numbers around them (_complex.py).
#pragma once

#include "symbolic/torch/tensor.h"

namespace cdynamo::symbolic {

class ComplexTensor final : public SymbolicValue {
 public:
  // `type` is torch.Tensor or Parameter. `conjugate`: what it holds are the conjugates of the pairs, as x.conj() does lazily.
  ComplexTensor(std::shared_ptr<TensorValue> pairs, bool conjugate, PyTypeObject* type, SourcePtr from)
      : pairs_(std::move(pairs)), conjugate_(conjugate), type_(type) {
    source = std::move(from);
  }

  PyTypeObject* type() const override { return type_; }
  std::string describe() const override { return "complex tensor of " + pairs_->describe(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override { return std::nullopt; }
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

  const std::shared_ptr<TensorValue>& pairs() const { return pairs_; }
  bool conjugate() const { return conjugate_; }
  // The call that gave it has made its memory: PyTorch knows no view there, whatever the pairs are.
  void set_fresh() { is_fresh_ = true; }

 private:
  std::shared_ptr<TensorValue> pairs_;
  bool conjugate_, is_fresh_ = false;
  PyTypeObject* type_;
  RecipePtr recipe_;
};

// The value of a complex tensor that came in; null: it is none, or no plain one.
ValuePtr wrap_complex_tensor(Executor& ex, PyObject* object, const SourcePtr& source);

// A call in which something is complex: a tensor, a number or a dtype among the arguments. `name`: of the operator, or of its form in
// place. Null: nothing is.
ValuePtr try_complex_call(Executor& ex, std::string_view name, const char* kind, PyObject* target,
                          const CallArgs& args);
// The same where only operators with a rule are meant; null: nothing is complex, or there is no rule.
ValuePtr try_complex_rule(Executor& ex, std::string_view name, const CallArgs& args);
// A call of PyTorch's library whose results are complex, as a node whose results are pairs.
ValuePtr call_complex_library(Executor& ex, const char* kind, PyObject* target, const CallArgs& args);
// Python's operator (NB_*) where an operand is a complex tensor or number.
ValuePtr complex_operator(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right);
// A rule of complex_*.py, of whatever arguments.
ValuePtr complex_rule(Executor& ex, const char* name, const CallArgs& args);

// Thrown by call_library, before anything is appended: a result is complex.
struct ComplexResult : GraphBreak {};

// `call`, or, where it turns out to give something complex, call_complex_library.
template <typename F>
ValuePtr or_complex(Executor& ex, const char* kind, PyObject* target, const CallArgs& args, F&& call) {
  try {
    return call();
  } catch (const ComplexResult&) {
  }
  return call_complex_library(ex, kind, target, args);
}

}  // namespace cdynamo::symbolic
