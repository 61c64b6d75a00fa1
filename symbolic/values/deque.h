// collections.deque, and the deque part of instances of its subclasses. As a list's (values/list.h) its items are wrapped when
// they are touched, and its changes written back as one effect; one that is only appended to is not looked at.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/interop/deque_access.h"
#include "symbolic/values/release.h"

namespace cdynamo::symbolic {

class DequeValue final : public SymbolicValue {
 public:
  explicit DequeValue(std::vector<ValuePtr> items, Py_ssize_t max_length = kUnbounded);
  DequeValue(PyObject* object, SourcePtr from);
  ~DequeValue() override { forget(); }

  static constexpr Py_ssize_t kUnbounded = -1;
  const std::vector<ValuePtr>& items(Executor& ex);  // all of them, wrapped
  const std::vector<ValuePtr>& known_items() const { return items_; }
  const std::vector<ValuePtr>& known_appended() const { return appended_; }
  size_t size(Executor& ex);
  const ValuePtr& item(Executor& ex, size_t index);
  Py_ssize_t max_length(Executor& ex);
  void append(Executor& ex, ValuePtr item);
  void append_left(Executor& ex, ValuePtr item);
  ValuePtr take(Executor& ex, size_t index);
  void rotate(Executor& ex, Py_ssize_t steps);
  void assign(Executor& ex, size_t index, ValuePtr item);
  void replace(Executor& ex, std::vector<ValuePtr> items);
  void restart(Executor& ex, Py_ssize_t max_length);  // __init__
  uint64_t version() const { return version_; }       // `state` of dequeobject: not changed by an assignment
  bool is_plain() const { return owner_.expired(); }  // no part of an instance of a subclass
  // An iterator over it is made before its items are.
  bool is_filled_later() const { return changed_ || !appended_.empty() || !object_; }
  void set_owner(std::weak_ptr<SymbolicValue> owner) { owner_ = std::move(owner); }

  PyTypeObject* type() const override { return deque_type(); }
  std::string describe() const override { return "deque of " + std::to_string(items_.size()); }
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
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override { return items(ex); }
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
  std::vector<ValuePtr>& mutable_items(Executor& ex);
  void refuse_finalizer(const ValuePtr& item) const;  // as it is taken out of a live deque
  PyRef object_;                 // the live deque (or instance of a subclass); null for new ones
  std::vector<ValuePtr> items_;  // null where not yet touched; never null once changed
  std::vector<ValuePtr>
      appended_;  // to a live deque that nobody has looked at; then they are among the items
  Py_ssize_t max_length_ = kUnbounded;
  std::weak_ptr<SymbolicValue> owner_;
  uint64_t version_ = 0;
  bool length_guarded_ = false, max_length_guarded_ = false;
  bool changed_ = false;
  RecipePtr recipe_;
};

std::shared_ptr<DequeValue> new_deque(std::vector<ValuePtr> items, Py_ssize_t max_length);
// deque(iterable, maxlen)
ValuePtr make_deque(Executor& ex, const CallArgs& args);
// The deque in a value: the value itself, or the storage of an instance of a subclass; null for others.
DequeValue* deque_in(const ValuePtr& value);
ValuePtr new_deque_iterator(Executor& ex, ValuePtr deque, bool reversed);

}  // namespace cdynamo::symbolic
