#include "symbolic/torch/size.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

PyObject* size_type() { return library_object("torch", "Size"); }

ValuePtr as_size(Executor& ex, const ValuePtr& value) {
  if (!value) return nullptr;
  auto items = value->unpack(ex);
  return items ? std::make_shared<SizeValue>(std::move(*items)) : value;
}

// The other operand as a plain tuple.
ValuePtr plain(Executor& ex, const ValuePtr& value) {
  if (dynamic_cast<SizeValue*>(value.get())) return new_tuple(*value->unpack(ex));
  return value;
}

}  // namespace

ValuePtr make_size(Executor& ex, const std::vector<graph::Sym>& sizes) {
  std::vector<ValuePtr> items;
  for (const graph::Sym& size : sizes) items.push_back(make_int(ex, size));
  return std::make_shared<SizeValue>(std::move(items));
}

PyTypeObject* SizeValue::type() const { return reinterpret_cast<PyTypeObject*>(size_type()); }

std::optional<PyRef> SizeValue::as_constant() const {
  auto tuple = tuple_->as_constant();
  if (!tuple) return std::nullopt;
  return checked(PyObject_CallOneArg(size_type(), tuple->get()));
}

PyRef SizeValue::materialize(Executor& ex) {
  PyRef tuple = tuple_->materialize(ex);
  return tuple ? checked(PyObject_CallOneArg(size_type(), tuple.get())) : PyRef();
}

ValuePtr SizeValue::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "numel") == 0) {
    struct Numel final : SymbolicValue {
      std::vector<ValuePtr> items;
      PyTypeObject* type() const override { return &PyCFunction_Type; }
      RecipePtr recipe(Executor&) override { break_graph("CD0009", "torch.Size.numel"); }
      ValuePtr call(Executor& ex, const CallArgs&) override {
        graph::Sym product = 1;
        for (const ValuePtr& item : items) product = product * as_sym(item).value_or(graph::Sym(int64_t{0}));
        return make_int(ex, product);
      }
    };
    auto method = std::make_shared<Numel>();
    method->items = tuple_->items(ex);
    return method;
  }
  return attribute_of_kind_of_tuple(ex, shared_from_this(), *tuple_, name);
}

ValuePtr SizeValue::get_item(Executor& ex, const ValuePtr& key) {
  ValuePtr item = tuple_->get_item(ex, key);
  return key->type() == &PySlice_Type ? as_size(ex, item) : item;
}

ValuePtr SizeValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  ValuePtr plain_other = plain(ex, other);
  if (!reflected) return as_size(ex, tuple_->binary(ex, nb_op, plain_other, false));
  // tuple + Size is a Size too; the tuple has to be the left operand of the concatenation.
  if (PyType_IsSubtype(plain_other->type(), &PyTuple_Type))
    return as_size(ex, plain_other->binary(ex, nb_op, tuple_, false));
  return as_size(ex, tuple_->binary(ex, nb_op, plain_other, true));
}

ValuePtr SizeValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  return tuple_->compare(ex, py_op, plain(ex, other));
}

RecipePtr SizeValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (auto constant = as_constant()) return recipe_ = make_recipe(RecipeKind::kConstant, constant->get());
  return recipe_ = call_recipe(size_type(), {tuple_->recipe(ex)});
}

}  // namespace cdynamo::symbolic
