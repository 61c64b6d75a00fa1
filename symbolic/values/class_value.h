// Classes as values: attribute lookup of Objects/typeobject.c, and what calling a class does.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class ClassValue final : public SymbolicValue {
 public:
  ClassValue(PyRef object, SourcePtr from) : object_(std::move(object)) { source = std::move(from); }
  PyTypeObject* object() const { return reinterpret_cast<PyTypeObject*>(object_.get()); }
  // A class that capture has made to stand for one that each call of the program makes: `recipe` makes that one. Null: nothing
  // does, and Python is never given it (frames/made_classes.h).
  ClassValue(PyRef object, RecipePtr recipe)
      : object_(std::move(object)), recipe_(std::move(recipe)), is_stand_in_(true) {}
  // type.__call__: __new__, then __init__.
  ValuePtr construct(Executor& ex, const CallArgs& args);
  void refuse_abstract(Executor& ex, PyTypeObject* cls, const CallArgs& args) const;

  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override { return std::string("class ") + object()->tp_name; }
  std::optional<PyRef> as_constant() const override {
    return is_stand_in_ ? std::nullopt : std::optional(object_);
  }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  PyRef hash_key(Executor&) override { return object_; }
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;
  void forget() override { shown_ = nullptr; }
  bool is_shown() const { return shown_ != nullptr; }
  bool is_stand_in() const { return is_stand_in_; }

 private:
  // A special method that the metaclass has in Python, called; null: it has none.
  ValuePtr call_special(Executor& ex, const char* name, std::vector<ValuePtr> arguments);
  ValuePtr namespace_of_now(Executor& ex);
  ValuePtr get_item_of_made(Executor& ex, const ValuePtr& key);
  PyRef object_;
  RecipePtr recipe_;
  bool is_stand_in_ = false;
  ValuePtr shown_;  // its __dict__, which changes no more
};

// A class that came in is guarded by its identity.
ValuePtr make_class(Executor& ex, PyObject* object, const SourcePtr& source);
// The class of an instance, for recipes that make one.
RecipePtr class_recipe(Executor& ex, PyTypeObject* type);
// collections.namedtuple of known names.
ValuePtr make_named_tuple_class(Executor& ex, const CallArgs& args);
// type(x)
ValuePtr type_of(Executor& ex, const ValuePtr& value);
// cls.__new__(cls, ...) of a builtin base.
ValuePtr construct_builtin(Executor& ex, PyTypeObject* base, PyTypeObject* type, const CallArgs& args);
bool is_instance(Executor& ex, const ValuePtr& value, const ValuePtr& classes);
// Without what a metaclass of the program's says of it.
bool is_plain_instance(Executor& ex, const ValuePtr& value, PyObject* cls);
bool is_plain_subclass(Executor& ex, PyTypeObject* type, PyObject* cls);
// `type` is no subclass of `cls`, an abstract base class, as long as it is not registered there.
void guard_not_registered(Executor& ex, PyTypeObject* type, PyObject* cls);
bool is_subclass(Executor& ex, const ValuePtr& cls, const ValuePtr& classes);
bool is_enum_class(PyTypeObject* type);

}  // namespace cdynamo::symbolic
