// Results with names: torch.return_types.max(values=..., indices=...) and the like, which are structseqs.
#pragma once

#include "graph/op.h"
#include "symbolic/values/tuple.h"

namespace cdynamo::symbolic {

class ReturnTypeValue final : public SymbolicValue {
 public:
  ReturnTypeValue(PyTypeObject* type, std::vector<ValuePtr> items)
      : type_(type), tuple_(new_tuple(std::move(items))) {}

  PyTypeObject* type() const override { return type_; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override { return tuple_->get_item(ex, key); }
  bool contains(Executor& ex, const ValuePtr& item) override { return tuple_->contains(ex, item); }
  ValuePtr length(Executor& ex) override { return tuple_->length(ex); }
  ValuePtr iterate(Executor& ex) override { return tuple_->iterate(ex); }
  std::optional<bool> truth(Executor& ex) override { return tuple_->truth(ex); }
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override {
    return tuple_->binary(ex, nb_op, other, reflected);
  }
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override { return tuple_->unpack(ex); }
  RecipePtr recipe(Executor& ex) override;

 private:
  PyTypeObject* type_;
  std::shared_ptr<TupleValue> tuple_;
  RecipePtr recipe_;
};

// Null where the operator's results have no names, or torch no such type.
ValuePtr make_return_type(Executor& ex, const graph::Schema& schema, const std::vector<ValuePtr>& items);

}  // namespace cdynamo::symbolic
