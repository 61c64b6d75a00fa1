// Dicts, and the dict part of instances of dict's subclasses, of modules' namespaces and of instances'
// __dict__.
//
// A dict that came in is looked at key by key, and only what is looked at is guarded; its order is guarded
// once it is iterated. Changes are kept as a log and replayed in order after the graph has run.
#pragma once

#include <unordered_map>

#include "symbolic/capture/value.h"
#include "symbolic/values/release.h"
#include "symbolic/values/set.h"

namespace cdynamo::symbolic {

class DictValue : public SymbolicValue {
 public:
  struct Entry {
    PyRef hash_key;  // what is hashed and compared during capture
    ValuePtr key;
    ValuePtr value;       // null and not lazy: the key is known to be absent
    bool lazy = false;    // there in the live dict, not looked at yet
    PyRef real_key = {};  // of the live dict, where it is not the hash key (tensors)
  };

  explicit DictValue(PyTypeObject* type = &PyDict_Type)
      : type_(PyRef::borrow(reinterpret_cast<PyObject*>(type))) {}
  ~DictValue() override {
    for (Entry& entry : entries_) release(std::move(entry.value));
  }
  // A live dict (or an instance of a subclass of dict).
  DictValue(PyRef object, SourcePtr from, PyTypeObject* type = &PyDict_Type);

  // The value of a key, or null. `key` is a value whose hash is known.
  ValuePtr lookup(Executor& ex, const ValuePtr& key);
  ValuePtr lookup_string(Executor& ex, PyObject* key);  // a str
  void store(Executor& ex, const ValuePtr& key, const ValuePtr& value);
  bool erase(Executor& ex, const ValuePtr& key);  // false: there was none
  void clear(Executor& ex);
  void move_to_end(Executor& ex, const ValuePtr& key, bool last);
  size_t size(Executor& ex);
  // Entries in order; all keys are known afterwards. Values are wrapped unless `keys_only`.
  std::vector<Entry> entries(Executor& ex, bool keys_only = false);
  bool is_touched(PyObject* hash_key) { return find(hash_key) != nullptr; }
  const std::vector<Entry>& known_entries() const { return entries_; }  // without a guard
  bool changed() const { return !log_.empty() || replaced_; }
  uint64_t version() const { return version_; }  // changes when a key comes or goes
  void set_owner(std::weak_ptr<SymbolicValue> owner) { owner_ = std::move(owner); }
  // The instance of a subclass that it is part of; of others itself.
  ValuePtr self() {
    ValuePtr owner = owner_.lock();
    return owner ? owner : shared_from_this();
  }
  // Whether what it holds is written when everything has been made: changes of a live dict, the contents of a new instance of a
  // subclass, the attributes of a new instance.
  virtual bool is_filled_later() const { return object_ ? changed() : !owner_.expired(); }
  void set_default_factory(ValuePtr factory) { default_factory_ = std::move(factory); }
  const ValuePtr& default_factory() const { return default_factory_; }
  bool ordered() const;  // an OrderedDict

  PyTypeObject* type() const override { return reinterpret_cast<PyTypeObject*>(type_.get()); }
  std::string describe() const override;
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
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
  void forget() override;
  // Of a new OrderedDict; null: it has been given none.
  const DictValue* known_attributes() const { return attributes_.get(); }

 protected:
  ValuePtr own_attribute(Executor& ex, PyObject* name);
  // What an instance's __dict__ does otherwise.
  virtual void guard_absent(Executor& ex, PyObject* key);
  virtual SourcePtr value_source(PyObject* key);
  virtual Effect change_effect(Executor& ex, const ValuePtr& key, const ValuePtr& value);

  PyRef object_;  // the live dict; null for new ones

 private:
  struct Change {
    ValuePtr key, value;  // null value: deleted
  };
  Effect base_call(Executor& ex, const char* method, std::vector<RecipePtr> arguments);
  Entry* find(PyObject* hash_key);
  Entry& add(Entry entry);
  Entry* touch(Executor& ex, const PyRef& hash_key, const ValuePtr& key);
  void note_read(Executor& ex, const Entry* entry);  // null: there is none
  void complete(Executor& ex);
  void put(const PyRef& hash_key, const ValuePtr& key, const ValuePtr& value);
  void remove(PyObject* hash_key);
  void replace_whole(Executor& ex);
  PyObject* real_dict() const { return object_.get(); }
  PyObject* live_value(PyObject* hash_key);  // what the live dict holds; null: it has no such key
  PyObject* live_value(const Entry& entry) const;
  void refuse_finalizer(PyObject* hash_key);
  bool is_namespace() const;
  void require_no_assigned_names(Executor& ex) const;
  void refuse_write_to_namespace() const;
  void log_change(Executor& ex, const ValuePtr& key, const ValuePtr& value);
  bool is_live(size_t index) const;

  PyRef type_;
  std::vector<Entry> entries_;  // touched entries; in order once complete_
  PyRef index_;                 // dict: hash key -> position in entries_
  bool complete_ = false;       // entries_ holds all keys, in order
  bool length_guarded_ = false;
  std::vector<Change> log_;
  bool replaced_ = false;  // too much has changed to replay: written back whole
  bool building_ = false;
  uint64_t version_ = 0;
  ValuePtr default_factory_;               // defaultdict
  std::shared_ptr<DictValue> attributes_;  // of a new OrderedDict
  std::weak_ptr<SymbolicValue> owner_;
  RecipePtr recipe_;
};

std::shared_ptr<DictValue> new_dict(PyTypeObject* type = &PyDict_Type);
// The dict in a value: the value itself, the storage of an instance of a subclass, what a mappingproxy shows;
// null for others.
DictValue* dict_in(const ValuePtr& value);
// The value of a live dict that the program has got hold of, as an object's __dict__: it may have changed it. Null: it has not, or
// `dict` is null.
DictValue* looked_at_dict(Executor& ex, PyObject* dict);
[[noreturn]] void raise_key_error(Executor& ex, const ValuePtr& key);
// dict.update's argument: a mapping (with keys()) or an iterable of pairs, then keywords.
void update_dict(Executor& ex, DictValue& dict, const CallArgs& args);
PyTypeObject* ordered_dict_type();
PyTypeObject* default_dict_type();

// keys(), values(), items() of a dict; and a mappingproxy.
enum class DictViewKind : uint8_t { kKeys, kValues, kItems };

class DictViewValue final : public SymbolicValue {
 public:
  DictViewValue(ValuePtr dict, DictViewKind kind) : dict_(std::move(dict)), kind_(kind) {}
  const ValuePtr& dict() const { return dict_; }
  DictViewKind kind() const { return kind_; }
  PyTypeObject* type() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override { return dict_->length(ex); }
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override { return dict_->truth(ex); }
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  PyRef view_of_keys(Executor& ex, KeyedValues& values) const;  // of a dict whose keys are the hash keys
  ValuePtr dict_;
  DictViewKind kind_;
  RecipePtr recipe_;
};

class MappingProxyValue final : public SymbolicValue {
 public:
  explicit MappingProxyValue(ValuePtr dict, SourcePtr from = nullptr) : dict_(std::move(dict)) {
    source = std::move(from);
  }
  const ValuePtr& dict() const { return dict_; }
  PyTypeObject* type() const override { return &PyDictProxy_Type; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override { return dict_->get_item(ex, key); }
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  bool contains(Executor& ex, const ValuePtr& item) override { return dict_->contains(ex, item); }
  ValuePtr length(Executor& ex) override { return dict_->length(ex); }
  ValuePtr iterate(Executor& ex) override { return dict_->iterate(ex); }
  std::optional<bool> truth(Executor& ex) override { return dict_->truth(ex); }
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override { return dict_->unpack(ex); }
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr dict_;
  RecipePtr recipe_;
};

}  // namespace cdynamo::symbolic
