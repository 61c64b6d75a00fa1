// Lists, and the list part of instances of list's subclasses. Items of a list that came in are wrapped when
// they are touched; its changes are kept here and written back as one effect after the graph has run. Appending alone looks at
// nothing: a list that grows from call to call is no reason to compile again.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/values/release.h"

namespace cdynamo::symbolic {

class ListValue final : public SymbolicValue {
 public:
  explicit ListValue(std::vector<ValuePtr> items);
  ~ListValue() override { forget(); }
  ListValue(PyRef object, SourcePtr from);

  const std::vector<ValuePtr>& items(Executor& ex);  // all of them, wrapped
  size_t size(Executor& ex);
  const ValuePtr& item(Executor& ex, size_t index);
  // The items, to be changed; the change is written back at the end.
  std::vector<ValuePtr>& mutable_items(Executor& ex);
  void append(Executor& ex, ValuePtr item);
  // An item of a live list that has not been touched is this one, or equal to it: a tuple whose items never change.
  void know_item(Executor& ex, size_t index, ValuePtr value);
  void refuse_finalizer(const ValuePtr& item) const;  // as it is taken out
  // Those that were touched or added, without a guard; null: not touched.
  const std::vector<ValuePtr>& known_items() const { return items_; }
  const std::vector<ValuePtr>& known_appended() const { return appended_; }
  size_t count_so_far() const { return items_.size() + appended_.size(); }  // without a guard
  // Instances of subclasses: whose recipe the effects name.
  void set_owner(std::weak_ptr<SymbolicValue> owner) { owner_ = std::move(owner); }
  bool has_owner() const { return !owner_.expired(); }  // of a subclass
  bool changed() const { return changed_ || !appended_.empty(); }
  uint64_t version() const { return version_; }  // counts changes

  PyTypeObject* type() const override { return &PyList_Type; }
  std::string describe() const override { return "list of " + std::to_string(items_.size()); }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
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
  void emit_effects(Executor& ex) override;
  void forget() override {
    release(items_);
    release(appended_);
  }

 private:
  void look_at_length(Executor& ex);
  void set_slice(Executor& ex, const ValuePtr& slice, const ValuePtr& value);
  PyRef object_;                    // the live list (or instance of a subclass); null for new ones
  std::vector<ValuePtr> items_;     // null where not yet touched; never null once changed
  std::vector<ValuePtr> appended_;  // to a live list that nobody has looked at; then they are among the items
  std::weak_ptr<SymbolicValue> owner_;
  uint64_t version_ = 0;
  bool length_guarded_ = false;
  bool changed_ = false;
  bool building_ = false;  // a recipe is being made: the list contains itself
  RecipePtr recipe_;
};

std::shared_ptr<ListValue> new_list(std::vector<ValuePtr> items);
// The list in a value: the value itself, or the storage of an instance of a subclass; null for others.
ListValue* list_in(const ValuePtr& value);

}  // namespace cdynamo::symbolic
