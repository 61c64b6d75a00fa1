// Methods that CPython implements in C, as tables of rows; and what `x.append` is before it is called.
#pragma once

#include <span>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

struct BuiltinMethodRow {
  const char* name;
  ValuePtr (*apply)(Executor& ex, const ValuePtr& self, const CallArgs& args);
};

class BuiltinMethodValue final : public SymbolicValue {
 public:
  BuiltinMethodValue(ValuePtr self, const BuiltinMethodRow& row) : self_(std::move(self)), row_(row) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override { return self_->describe() + "." + row_.name; }
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr self_;
  const BuiltinMethodRow& row_;
  RecipePtr recipe_;
};

// The bound method of the row called `name`, or null. The rows live as long as the process.
ValuePtr find_builtin_method(const ValuePtr& self, PyObject* name, std::span<const BuiltinMethodRow> rows);

// What CPython refuses before a method of C runs, by its convention of calling: `descriptor` is what the class has.
void check_arguments(Executor& ex, PyObject* descriptor, const CallArgs& args);

// What a builtin type's tables do not name: special methods (__len__, __getitem__ ...) as calls of the data
// model, __class__. Raises AttributeError where the type has no such attribute.
ValuePtr builtin_attribute(Executor& ex, const ValuePtr& self, PyObject* name);

}  // namespace cdynamo::symbolic
