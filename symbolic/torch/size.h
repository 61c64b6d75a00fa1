// torch.Size: a tuple of ints that stays a Size when it is sliced, added to and repeated.
#pragma once

#include "symbolic/values/tuple.h"

namespace cdynamo::symbolic {

class SizeValue final : public SymbolicValue {
 public:
  explicit SizeValue(std::vector<ValuePtr> items) : tuple_(new_tuple(std::move(items))) {}

  PyTypeObject* type() const override;
  std::string describe() const override { return "torch.Size"; }
  std::optional<PyRef> as_constant() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override { return tuple_->contains(ex, item); }
  ValuePtr length(Executor& ex) override { return tuple_->length(ex); }
  ValuePtr iterate(Executor& ex) override { return tuple_->iterate(ex); }
  std::optional<bool> truth(Executor& ex) override { return tuple_->truth(ex); }
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override { return tuple_->unpack(ex); }
  PyRef hash_key(Executor& ex) override { return tuple_->hash_key(ex); }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  std::shared_ptr<TupleValue> tuple_;
  RecipePtr recipe_;
};

}  // namespace cdynamo::symbolic
