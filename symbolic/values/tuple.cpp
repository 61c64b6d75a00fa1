#include "symbolic/values/tuple.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

std::shared_ptr<TupleValue> new_tuple(std::vector<ValuePtr> items) {
  return std::make_shared<TupleValue>(std::move(items));
}
ValuePtr make_tuple(Executor&, std::vector<ValuePtr> items) { return new_tuple(std::move(items)); }

ValuePtr new_constant_tuple(PyRef object, std::vector<ValuePtr> items) {
  auto tuple = new_tuple(std::move(items));
  tuple->set_constant(std::move(object));
  return tuple;
}

TupleValue* tuple_in(const ValuePtr& value) {
  if (auto* tuple = dynamic_cast<TupleValue*>(value.get())) return tuple;
  return dynamic_cast<TupleValue*>(builtin_storage(value).get());
}

// A tuple never changes, but another may come by the same way: its length is guarded once items are looked
// at.
void TupleValue::guard_length(Executor& ex) {
  if (length_guarded_ || !object_) return;
  length_guarded_ = true;
  if (source && source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kLength, source, nullptr, static_cast<Py_ssize_t>(items_.size()));
}

const ValuePtr& TupleValue::item(Executor& ex, size_t index) {
  guard_length(ex);
  ValuePtr& slot = items_[index];
  if (!slot) {
    PyObject* object = PyTuple_GET_ITEM(object_.get(), static_cast<Py_ssize_t>(index));
    bool constant = source && source->kind == SourceKind::kConstant;
    slot = ex.wrap(object,
                   constant ? constant_source(object) : index_source(source, static_cast<Py_ssize_t>(index)));
  }
  return slot;
}

const std::vector<ValuePtr>& TupleValue::items(Executor& ex) {
  guard_length(ex);
  if (object_) require_short(items_.size(), *this);
  for (size_t i = 0; i < items_.size(); ++i) item(ex, i);
  return items_;
}

std::optional<PyRef> TupleValue::as_constant() const {
  if (constant_) return constant_;
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items_.size())));
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i]) return std::nullopt;
    auto object = items_[i]->as_constant();
    if (!object) return std::nullopt;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), object->release());
  }
  return tuple;
}

namespace {
const std::vector<ValuePtr>& items_of_self(Executor& ex, const ValuePtr& self) {
  return tuple_in(self)->items(ex);
}
ValuePtr tuple_index(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_index_method(ex, "tuple", items_of_self(ex, self), args);
}
ValuePtr tuple_count(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_count_method(ex, items_of_self(ex, self), args);
}
constexpr BuiltinMethodRow kTupleMethods[] = {
    {"index", tuple_index},
    {"count", tuple_count},
};
}  // namespace

ValuePtr attribute_of_kind_of_tuple(Executor& ex, const ValuePtr& self, TupleValue& items, PyObject* name) {
  if (auto method = find_builtin_method(items.shared_from_this(), name, kTupleMethods)) return method;
  return builtin_attribute(ex, self, name);
}

ValuePtr TupleValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto method = find_builtin_method(shared_from_this(), name, kTupleMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr TupleValue::get_item(Executor& ex, const ValuePtr& key) {
  if (PyType_IsSubtype(key->type(), &PySlice_Type)) return new_tuple(slice_items(ex, key, items(ex)));
  require_index(ex, "tuple", key);
  guard_length(ex);
  if (is_random_index(ex, key))
    if (ValuePtr number = number_in_table(ex, items(ex), key)) return number;
  return item(ex, static_cast<size_t>(sequence_index(ex, key, static_cast<Py_ssize_t>(items_.size()),
                                                     "tuple index out of range")));
}

bool TupleValue::contains(Executor& ex, const ValuePtr& wanted) {
  return find_item(ex, items(ex), wanted) >= 0;
}

ValuePtr TupleValue::length(Executor& ex) {
  guard_length(ex);
  return ex.constant_int(static_cast<int64_t>(items_.size()));
}

ValuePtr TupleValue::iterate(Executor&) { return new_sequence_iterator(shared_from_this()); }

std::optional<bool> TupleValue::truth(Executor& ex) {
  guard_length(ex);
  return !items_.empty();
}

ValuePtr TupleValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  int op = nb_op >= kNbInplaceAdd ? nb_op - kNbInplaceAdd : nb_op;
  if (op == kNbAdd && !reflected) {
    TupleValue* tuple = tuple_in(other);
    if (!tuple) return nullptr;
    std::vector<ValuePtr> joined = items(ex);
    const std::vector<ValuePtr>& more = tuple->items(ex);
    joined.insert(joined.end(), more.begin(), more.end());
    return new_tuple(std::move(joined));
  }
  if (op == kNbMultiply && is_integer_value(other)) return new_tuple(repeat_items(ex, items(ex), other));
  return nullptr;
}

ValuePtr TupleValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  TupleValue* tuple = tuple_in(other);
  return tuple ? compare_sequences(ex, py_op, items(ex), tuple->items(ex), LengthsDiffer::kComesLast)
               : nullptr;
}

std::optional<std::vector<ValuePtr>> TupleValue::unpack(Executor& ex) { return items(ex); }

namespace {
template <typename F>
PyRef tuple_from(const std::vector<ValuePtr>& items, F&& convert) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    PyRef object = convert(items[i]);
    if (!object) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  return tuple;
}
}  // namespace

PyRef TupleValue::hash_key(Executor& ex) {
  return tuple_from(items(ex), [&](const ValuePtr& item) { return item->hash_key(ex); });
}
PyRef TupleValue::materialize(Executor& ex) {
  if (constant_) return constant_;
  return tuple_from(items(ex), [&](const ValuePtr& item) { return item->materialize(ex); });
}

RecipePtr TupleValue::recipe(Executor& ex) {
  check_stack();
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  if (constant_) return recipe_ = make_recipe(RecipeKind::kConstant, constant_.get());
  return first_recipe(recipe_, make_recipe(RecipeKind::kTuple, nullptr, recipes_of(ex, items_)));
}

}  // namespace cdynamo::symbolic
