// Tuples, and the tuple part of instances of tuple's subclasses (namedtuples, structseqs). Items of a tuple
// that came in are wrapped when they are touched.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/values/release.h"

namespace cdynamo::symbolic {

class TupleValue final : public SymbolicValue {
 public:
  explicit TupleValue(std::vector<ValuePtr> items) : items_(std::move(items)) {}
  ~TupleValue() override { release(items_); }
  TupleValue(PyRef object, SourcePtr from) : object_(std::move(object)) {
    source = std::move(from);
    items_.resize(static_cast<size_t>(PyTuple_GET_SIZE(object_.get())));
  }
  size_t size(Executor& ex) {
    guard_length(ex);
    return items_.size();
  }
  const ValuePtr& item(Executor& ex, size_t index);
  const std::vector<ValuePtr>& items(Executor& ex);  // all of them, wrapped
  void set_constant(PyRef object) { constant_ = std::move(object); }

  PyTypeObject* type() const override { return &PyTuple_Type; }
  std::string describe() const override { return "tuple of " + std::to_string(items_.size()); }
  std::optional<PyRef> as_constant() const override;
  PyObject* real_object() const override { return object_ ? object_.get() : constant_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  void guard_length(Executor& ex);
  PyRef object_;                 // the live tuple (or instance of a subclass); null for new ones
  PyRef constant_;               // a tuple of constants
  std::vector<ValuePtr> items_;  // null where not yet touched
  bool length_guarded_ = false;
  RecipePtr recipe_;
};

std::shared_ptr<TupleValue> new_tuple(std::vector<ValuePtr> items);
ValuePtr new_constant_tuple(PyRef object, std::vector<ValuePtr> items);
// The tuple in a value: the value itself, or the storage of an instance of a subclass; null for others.
TupleValue* tuple_in(const ValuePtr& value);
// Of an instance of a subclass that C implements: tuple's methods are those of `items`, all else is its own.
ValuePtr attribute_of_kind_of_tuple(Executor& ex, const ValuePtr& self, TupleValue& items, PyObject* name);

}  // namespace cdynamo::symbolic
