// Instances of classes written in Python, and of C types that have no kind of their own. Attributes follow
// PyObject_GenericGetAttr; special methods are found on the class and inlined. An instance of a subclass of a
// builtin type (list, dict, tuple, int ...) keeps that part as a value of the builtin's kind: its storage.
#pragma once

#include <utility>

#include "symbolic/capture/value.h"
#include "symbolic/values/dict.h"

namespace cdynamo::symbolic {

// An instance's __dict__: a dict whose guards and effects name the instance's attributes.
class AttributeDict final : public DictValue {
 public:
  AttributeDict(const ValuePtr& owner, PyRef dict, SourcePtr from);
  explicit AttributeDict(const ValuePtr& owner);  // of a new object
  RecipePtr recipe(Executor& ex) override;
  Effect change_effect(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  bool is_filled_later() const override { return !object_ || changed(); }
  // A dict that the program has got hold of is made as its object's, also where nothing else refers to the object any more.
  void keep_owner(ValuePtr owner) { kept_ = std::move(owner); }
  void forget() override {
    DictValue::forget();
    release(std::move(kept_));
  }

 protected:
  void guard_absent(Executor& ex, PyObject* key) override;

 private:
  std::weak_ptr<SymbolicValue> owner_;
  ValuePtr kept_;
  PyRef owner_type_;
  RecipePtr own_recipe_;
};

class UserObjectValue final : public SymbolicValue {
 public:
  UserObjectValue(PyRef object, SourcePtr from);          // a live object; see attach_storage
  UserObjectValue(PyTypeObject* type, ValuePtr storage);  // made during capture
  static ValuePtr wrap(Executor& ex, PyObject* object, const SourcePtr& source);
  static ValuePtr make(PyTypeObject* type, ValuePtr storage);

  const ValuePtr& storage() const { return storage_; }
  bool is_new() const { return !object_; }
  // False, and then true: whether __hash__ has been called for the first time.
  bool note_hashed() { return std::exchange(has_been_hashed_, true); }
  bool has_recipe() const { return recipe_ != nullptr; }
  DictValue* instance_dict(Executor& ex);  // null: it has none
  ValuePtr instance_dict_value(Executor& ex);
  // PyObject_GenericGetAttr without the error; null: no such attribute.
  ValuePtr generic_attribute(Executor& ex, PyObject* name);
  void generic_set_attribute(Executor& ex, PyObject* name, const ValuePtr& value);
  ValuePtr slot(Executor& ex, PyObject* descriptor);         // a member descriptor's
  ValuePtr c_attribute(Executor& ex, PyObject* descriptor);  // a getset descriptor's
  // What the builtin base's own __getitem__ gives.
  ValuePtr stored_item(Executor& ex, const ValuePtr& key);
  // The special method, bound; null: the class has none. `from_python`: only one that is not the builtin
  // base's.
  ValuePtr special(Executor& ex, const char* name, bool from_python = false);

  PyTypeObject* type() const override { return reinterpret_cast<PyTypeObject*>(type_.get()); }
  std::string describe() const override;
  PyObject* real_object() const override { return object_.get(); }
  // Null: no attribute was looked at.
  const DictValue* known_instance_dict() const { return dict_.get(); }
  const std::vector<std::pair<PyRef, ValuePtr>>& known_slots() const { return slots_; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  ValuePtr next(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;
  void forget() override;

 private:
  ValuePtr slots_find(PyObject* name, bool* known);
  void set_slot(Executor& ex, PyObject* descriptor, const ValuePtr& value);
  ValuePtr annotation(Executor& ex, const ValuePtr& key);
  RecipePtr stood_for(Executor& ex);
  RecipePtr new_object_recipe(Executor& ex);
  RecipePtr whole_recipe(Executor& ex, RecipePtr made);
  void note_read_by_key(Executor& ex);
  PyRef type_;
  PyRef object_;  // the live object; null: made during capture
  ValuePtr storage_;
  std::shared_ptr<AttributeDict> dict_;
  bool has_dict_ = true;
  std::vector<std::pair<PyRef, ValuePtr>> slots_;  // __slots__ that were read or written; null value: deleted
  std::vector<std::pair<PyRef, ValuePtr>> slot_changes_;
  PyRef identity_;            // stands for a new object as a key
  bool read_by_key_ = false;  // __hash__ or __eq__ of a key looks at it: it is made with its attributes
  bool being_made_ = false;
  bool has_been_hashed_ = false;
  RecipePtr recipe_;
};

// The builtin part of an instance of a subclass; null for other values.
const ValuePtr& builtin_storage(const ValuePtr& value);
// The value of the builtin part of a live object, or null; and an empty one for cls.__new__ of a builtin
// base.
ValuePtr storage_of_object(Executor& ex, PyObject* object, const SourcePtr& source);
PyTypeObject* builtin_base(PyTypeObject* type);  // the nearest base that is not written in Python

// torch.nn.Module's own __getattr__ and __call__, where the class has not changed them: the answer without
// stepping through their bytecode. Null: not a module, or a case for the bytecode.
ValuePtr module_attribute(Executor& ex, UserObjectValue& self, PyObject* getattr, PyObject* name);
ValuePtr module_forward(Executor& ex, UserObjectValue& self, PyObject* call);

PyObject* object_entry(const char* name);  // of the class object; borrowed

}  // namespace cdynamo::symbolic
