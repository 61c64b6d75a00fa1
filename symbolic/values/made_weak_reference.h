// weakref.ref(object) where captured code makes it anew: of an object that it has made itself, or with a callback: the one by which
// weakref's own containers drop an entry, or a WeakMethod notes that it is dead, or one of the program's own. For the latter Python says
// when it runs: its object is watched from then on, and where it may have died the graph breaks, so that it dies in Python.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class WeakReferenceValue final : public SymbolicValue {
 public:
  WeakReferenceValue(ValuePtr referent, ValuePtr callback)
      : referent_(std::move(referent)), callback_(std::move(callback)) {}
  const ValuePtr& referent() const { return referent_; }
  // What weakref.ref.__new__ is given after the class.
  std::vector<RecipePtr> arguments(Executor& ex) const;

  PyTypeObject* type() const override { return &_PyWeakref_RefType; }
  std::string describe() const override { return "weak reference to " + referent_->describe(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  PyRef hash_key(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  void forget() override;

 private:
  ValuePtr referent_, callback_;  // callback_ null: none
  PyRef identity_;                // stands for it as a key
  RecipePtr recipe_;
};

// The one reference without a callback that a new object has; and one with a callback, to any object.
ValuePtr made_weak_reference(Executor& ex, const ValuePtr& object);
ValuePtr make_weak_reference_with(Executor& ex, const ValuePtr& object, const ValuePtr& callback);

// The value itself, or what an instance of a subclass is made of; null: it is no reference that was made here.
WeakReferenceValue* made_reference_in(const ValuePtr& value);

// Whether the object, which captured code has made, is held by a local of a frame that runs, or by what that holds.
bool is_held(Executor& ex, const ValuePtr& object);

// After a step: breaks the graph where an object may have died for which a callback of the program's waits. `returned`: what the root
// returns, where it does; null: it goes on.
void require_watched_alive(Executor& ex, const ValuePtr* returned);

// One of weakref's containers: breaks the graph where an entry may have gone with its object.
void require_live_entries(Executor& ex, const ValuePtr& container);

}  // namespace cdynamo::symbolic
