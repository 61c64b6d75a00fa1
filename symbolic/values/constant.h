// Constants: objects that are immutable and known at capture. Numbers, strings, None, C functions, dtype-like
// objects. What is done with constants alone is done at once, by CPython itself. Tuples, slices, ranges and
// classes have kinds of their own.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class ConstantValue : public SymbolicValue {
 public:
  explicit ConstantValue(PyRef object, SourcePtr from = nullptr) : object_(std::move(object)) {
    source = std::move(from);
  }
  PyObject* object() const { return object_.get(); }

  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override;
  std::optional<PyRef> as_constant() const override { return object_; }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr as_index(Executor& ex) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  bool is_same_object(const SymbolicValue& other) const override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  PyRef object_;
  RecipePtr recipe_;
};

// int, float, complex, bool, str, bytes, None, Ellipsis, NotImplemented: exact types whose operators run no
// user code.
bool is_plain_constant(PyObject* object);
// Numbers and texts that CPython has one object of; which ints these are.
bool is_singleton(PyObject* object);
inline constexpr std::pair<int64_t, int64_t> kSmallInts{-5, 256};
// The value of a live number, string or None, guarded by its value; null for anything else. Ints and floats
// that change from call to call become symbols and graph inputs.
ValuePtr wrap_constant(Executor& ex, PyObject* object, const SourcePtr& source);

// CPython's number slot for an NB_* code, in-place ones included. A new reference or null with an error.
PyObject* apply_number_operation(int nb_op, PyObject* left, PyObject* right);
// The Python operator of an NB_* code ("+"), and the names of its methods.
const char* number_symbol(int nb_op);
const char* number_method(int nb_op, bool reflected);  // "__add__", "__radd__"; in-place codes: "__iadd__"
int plain_number_operation(int nb_op);                 // NB_INPLACE_ADD -> NB_ADD

// By Py_LT..Py_GE.
struct ComparisonRow {
  const char* symbol;  // "<"
  const char* method;  // "__lt__"
  int swapped;         // the comparison with its operands swapped: Py_GT
};
inline constexpr ComparisonRow kComparisons[] = {
    {"<", "__lt__", Py_GT},  {"<=", "__le__", Py_GE}, {"==", "__eq__", Py_EQ},
    {"!=", "__ne__", Py_NE}, {">", "__gt__", Py_LT},  {">=", "__ge__", Py_LE},
};

}  // namespace cdynamo::symbolic
