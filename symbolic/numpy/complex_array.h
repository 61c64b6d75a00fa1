// NumPy's complex arrays. The graph knows real ones alone: a complex array is there its pairs, the real and imaginary parts along one
// more dim, with its memory and its writes. What functions and methods do to such pairs is stated in Python
// (polyfills/numpy_complex_*.py); those without a rule are calls of NumPy's library, which join and part complex numbers around them
// (library.h). Complex tensors of torch's are made likewise (symbolic/torch/complex_tensor.h).
#pragma once

#include "symbolic/numpy/numpy_values.h"

namespace cdynamo::symbolic {

class ComplexArray final : public SymbolicValue {
 public:
  ComplexArray(std::shared_ptr<NumpyValue> pairs, bool is_scalar, SourcePtr from = nullptr)
      : pairs_(std::move(pairs)), is_scalar_(is_scalar) {
    source = std::move(from);
  }

  PyTypeObject* type() const override;
  std::string describe() const override {
    return std::string(is_scalar_ ? "complex scalar of " : "complex array of ") + pairs_->describe();
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor&) override { return std::nullopt; }
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

  const std::shared_ptr<NumpyValue>& pairs() const { return pairs_; }
  bool is_scalar() const { return is_scalar_; }

 private:
  std::shared_ptr<NumpyValue> pairs_;
  bool is_scalar_;
  RecipePtr recipe_;
};

// The value of a complex array that came in, or was made of constants; null: it is none, or no plain one.
ValuePtr wrap_complex_array(Executor& ex, PyObject* object, const SourcePtr& source);

// An array, a scalar, a number or a dtype that is complex, or a list that holds one.
bool is_complex_operand(Executor& ex, const ValuePtr& value);
bool any_complex(Executor& ex, const CallArgs& args);
bool is_complex_dtype_object(PyObject* object);  // numpy.dtype("complex128")
// complex64, complex128 and what NumPy takes for them, as the argument that says a dtype.
bool is_complex_dtype(const ValuePtr& value);

// What the rule of polyfills/numpy_complex_*.py for this function of NumPy's gives; null: there is none, or it leaves the call to the library.
ValuePtr try_complex_rule(Executor& ex, PyObject* function, const CallArgs& args);
// A function of polyfills/numpy_complex.py by its name.
ValuePtr complex_polyfill(Executor& ex, const char* name, std::vector<ValuePtr> args);
// Python's operator (NB_*) where an operand is complex.
ValuePtr complex_array_operator(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right);

}  // namespace cdynamo::symbolic
