// Attribute lookup: descriptors and the search along the MRO, as Objects/object.c and typeobject.c do it.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// _PyType_Lookup with the class guarded. Borrowed; null: not found (no error).
PyObject* lookup_type(Executor& ex, PyTypeObject* type, PyObject* name);
PyRef own_entries(PyTypeObject* type);  // a class's own __dict__
// The entry of a class's own __dict__. Borrowed; null: none.
PyObject* own_type_entry(PyTypeObject* type, PyObject* name);

// descr.__get__(self, owner) for an attribute found on a class; self null: looked up on the class itself.
ValuePtr bind_descriptor(Executor& ex, PyObject* descriptor, const ValuePtr& self, PyTypeObject* owner);
bool is_data_descriptor(Executor& ex, PyObject* descriptor);
// The function of a classmethod or of a staticmethod (`kind`); null: it is none.
PyRef wrapped_function(PyObject* descriptor, PyTypeObject* kind);

// Calls a C method descriptor or slot wrapper (`list.append`, `dict.__getitem__`, `object.__init__`) on
// `self`.
ValuePtr call_method_descriptor(Executor& ex, PyObject* descriptor, const ValuePtr& self,
                                const CallArgs& args);

// What a special method has returned; NotImplemented becomes null.
ValuePtr implemented(const ValuePtr& result);

// What `super(...).__init__` gives before it is called: a C method bound to a value.
class BoundDescriptorValue final : public SymbolicValue {
 public:
  BoundDescriptorValue(PyRef descriptor, ValuePtr self)
      : descriptor_(std::move(descriptor)), self_(std::move(self)) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    return call_method_descriptor(ex, descriptor_.get(), self_, args);
  }
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;

 private:
  PyRef descriptor_;
  ValuePtr self_;
  RecipePtr recipe_;
};

// super(cls, self): attributes are looked up behind `cls` in the MRO of self's class.
class SuperValue final : public SymbolicValue {
 public:
  SuperValue(PyTypeObject* start, ValuePtr self) : start_(start), self_(std::move(self)) {}
  PyTypeObject* type() const override { return &PySuper_Type; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;

 private:
  PyTypeObject* start_;
  ValuePtr self_;
  RecipePtr recipe_;
};
ValuePtr make_super(Executor& ex, const CallArgs& args);

}  // namespace cdynamo::symbolic
