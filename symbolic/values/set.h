// Sets and frozensets, and the set part of instances of their subclasses. A real set of the elements' hash
// keys goes through the same operations, so that iteration has CPython's order.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Elements by their hash keys, which are told apart by identity: True is another element than 1.
using KeyedValues = absl::flat_hash_map<PyObject*, ValuePtr>;

class SetValue final : public SymbolicValue {
 public:
  explicit SetValue(PyTypeObject* type);
  SetValue(Executor& ex, PyObject* object, SourcePtr from,
           PyTypeObject* type);  // a live set; its contents are guarded

  void add(Executor& ex, const ValuePtr& item);
  bool discard(Executor& ex, const ValuePtr& item);  // false: it was not there
  ValuePtr pop(Executor& ex);                        // null: there is none
  void replace(Executor& ex, const std::vector<ValuePtr>& items);
  // What an operation of CPython's has made of sets of keys: the result's own, or `change` has made of the mirror itself.
  static std::shared_ptr<SetValue> of_keys(PyRef keys, const KeyedValues& values, PyTypeObject* type);
  void change_keys(Executor& ex, KeyedValues values, const std::function<void(PyObject* mirror)>& change);
  size_t size() const;
  bool changed() const { return changed_; }
  uint64_t version() const { return version_; }  // changes when an element comes or goes
  std::vector<ValuePtr> items(Executor& ex);     // in the order of iteration
  std::vector<ValuePtr> inserted_items() const;  // in the order in which they came
  bool frozen() const { return type_ == &PyFrozenSet_Type; }
  // The keys, laid out as the set's own table: operations on them have CPython's order.
  PyObject* keys() const { return mirror_.get(); }
  PyRef copy_of_keys() const;  // as a set or frozenset
  void rely_on_order(Executor& ex);
  void add_to(KeyedValues& values) const;
  // It is what an instance of a subclass extends.
  bool has_owner() const { return !owner_.expired() || (object_ && Py_TYPE(object_.get()) != type_); }
  void set_owner(std::weak_ptr<SymbolicValue> owner) { owner_ = std::move(owner); }

  PyTypeObject* type() const override { return type_; }
  std::string describe() const override;
  std::optional<PyRef> as_constant() const override;
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor&) override { return size() != 0; }
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override { return items(ex); }
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;

 private:
  void insert(Executor& ex, const ValuePtr& item);
  void will_change(Executor& ex);
  void follow_mirror(const KeyedValues& values);
  RecipePtr contents_recipe(Executor& ex, RecipeKind kind);
  PyTypeObject* type_;  // set or frozenset
  PyRef object_;        // the live set; null for new ones
  PyRef mirror_;        // set of hash keys
  PyRef index_;         // dict: hash key -> position in values_
  std::vector<ValuePtr> values_;
  bool changed_ = false, order_is_guarded_ = false;
  uint64_t version_ = 0;
  std::weak_ptr<SymbolicValue> owner_;
  RecipePtr recipe_;
};

std::shared_ptr<SetValue> new_set(Executor& ex, const std::vector<ValuePtr>& items, PyTypeObject* type);
// set(iterable), frozenset(iterable)
std::shared_ptr<SetValue> set_from(Executor& ex, const ValuePtr& iterable, PyTypeObject* type);
SetValue* set_in(const ValuePtr& value);

// What CPython's own operations are given in place of `value`: a set or dict of keys, or a list of them. Their values go to `values`.
PyRef keys_of(Executor& ex, const ValuePtr& value, KeyedValues& values);

}  // namespace cdynamo::symbolic
