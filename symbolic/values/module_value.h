// Modules as values: attributes are read from the namespace at capture and guarded by what they are.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class ModuleValue final : public SymbolicValue {
 public:
  ModuleValue(PyRef object, SourcePtr from) : object_(std::move(object)) { source = std::move(from); }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override;
  std::optional<PyRef> as_constant() const override { return object_; }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  RecipePtr recipe(Executor& ex) override;

 private:
  PyRef object_;
  RecipePtr recipe_;
};

// A module of the standard library or of an installed package: its functions and classes are taken not to
// change. That they stand under their names is guarded.
bool is_library_module(PyObject* module);
// Whether a name of such a module stands for one of these, or for a module: what it is like is not guarded.
bool is_library_definition(PyObject* namespace_, PyObject* name, PyObject* object);

}  // namespace cdynamo::symbolic
