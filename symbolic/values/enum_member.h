// A member of an enum: a constant whose class may say in Python what operators, calls and properties of it do. That is inlined, as it may
// read and write what it likes; what Python's own enums say computes from the member alone, and is called while capturing.
#pragma once

#include "symbolic/values/constant.h"

namespace cdynamo::symbolic {

class EnumMemberValue final : public ConstantValue {
 public:
  using ConstantValue::ConstantValue;

  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef materialize(Executor& ex) override;
};

// Whether a function comes with Python: its enums compute from their members alone.
bool is_of_standard_library(PyObject* function);

// A special method that an enum's class says in Python, bound to its member; null: `value` is no member, or the method is C's or
// the standard library's.
ValuePtr method_of_enum(Executor& ex, const ValuePtr& value, const char* name);

}  // namespace cdynamo::symbolic
