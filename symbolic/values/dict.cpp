#include "symbolic/values/dict.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/any_key.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/interop/key_order.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/set_layout.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict_methods.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

PyTypeObject* ordered_dict_type() {
  return reinterpret_cast<PyTypeObject*>(library_object("collections", "OrderedDict"));
}
PyTypeObject* default_dict_type() {
  return reinterpret_cast<PyTypeObject*>(library_object("collections", "defaultdict"));
}

DictValue::DictValue(PyRef object, SourcePtr from, PyTypeObject* type) : DictValue(type) {
  object_ = std::move(object);
  source = std::move(from);
}

std::shared_ptr<DictValue> new_dict(PyTypeObject* type) { return std::make_shared<DictValue>(type); }

ValuePtr make_dict(Executor& ex, const std::vector<std::pair<ValuePtr, ValuePtr>>& items) {
  auto dict = new_dict();
  for (const auto& [key, value] : items) dict->store(ex, key, value);
  return dict;
}

DictValue* dict_in(const ValuePtr& value) {
  if (auto* dict = dynamic_cast<DictValue*>(value.get())) return dict;
  if (auto* proxy = dynamic_cast<MappingProxyValue*>(value.get())) return dict_in(proxy->dict());
  return dynamic_cast<DictValue*>(builtin_storage(value).get());
}

DictValue* looked_at_dict(Executor& ex, PyObject* dict) {
  const auto& known = ex.state().by_object;
  const auto found = dict ? known.find(dict) : known.end();
  return found == known.end() ? nullptr : dynamic_cast<DictValue*>(found->second.get());
}

bool DictValue::ordered() const { return PyType_IsSubtype(type(), ordered_dict_type()); }

std::string DictValue::describe() const { return std::string(type()->tp_name); }

// ---- entries

bool DictValue::is_live(size_t index) const {
  return entries_[index].value != nullptr || entries_[index].lazy;
}

DictValue::Entry* DictValue::find(PyObject* hash_key) {
  if (!index_) return nullptr;
  PyObject* position = PyDict_GetItemWithError(index_.get(), hash_key);
  if (!position && PyErr_Occurred()) throw_error_of_keys();
  return position ? &entries_[PyLong_AsSize_t(position)] : nullptr;
}

DictValue::Entry& DictValue::add(Entry entry) {
  if (!index_) index_ = checked(PyDict_New());
  PyRef position = checked(PyLong_FromSize_t(entries_.size()));
  if (PyDict_SetItem(index_.get(), entry.hash_key.get(), position.get()) < 0) throw_error_of_keys();
  entries_.push_back(std::move(entry));
  return entries_.back();
}

void DictValue::guard_absent(Executor& ex, PyObject* key) {
  add_guard(ex, GuardKind::kKeyAbsent, source, key);
}
SourcePtr DictValue::value_source(PyObject* key) { return key_source(source, key); }

void DictValue::require_no_assigned_names(Executor& ex) const {
  if (!object_ || ex.state().globals.empty()) return;
  for (const auto& [name, value] : ex.state().globals)
    if (name.first == object_.get())
      break_graph("CD0203", "the namespace of a module, which has been assigned to");
}

// The entry of a key, known to be there or known to be absent; null: absent from a dict whose keys are all
// known.
DictValue::Entry* DictValue::touch(Executor& ex, const PyRef& hash_key, const ValuePtr& key) {
  require_no_assigned_names(ex);
  // What stands for a tensor during capture is no key of the live dict.
  bool stand_in = object_ && !complete_ && key->real_object() != hash_key.get() && !key->as_constant();
  if (stand_in) complete(ex);
  Entry* entry = find(hash_key.get());
  if (!entry && object_ && !complete_) {
    if (runs_code_when_it_dies(hash_key.get()))
      break_graph("CD0221", "what is looked up in a dict");  // the guard would hold it
    // An instance that is a key is this one: the entry's source names it.
    if (dynamic_cast<UserObjectValue*>(key.get()) && key->source &&
        key->source->kind != SourceKind::kConstant)
      add_guard(ex, GuardKind::kIdentity, key->source, key->real_object());
    PyObject* value = PyDict_GetItemWithError(real_dict(), hash_key.get());
    if (!value && PyErr_Occurred()) raise_current_error(ex);
    if (!value) guard_absent(ex, hash_key.get());
    entry = &add({hash_key, key, nullptr, value != nullptr});
  }
  if (entry && entry->lazy) {
    PyObject* value = live_value(*entry);
    if (!value) raise_current_error(ex);
    // Wrapping may come back here: the entry's address does not stay.
    PyRef name = entry->hash_key;
    SourcePtr from =
        entry->real_key ? value_at_source(source, entry - entries_.data()) : value_source(name.get());
    ValuePtr wrapped = ex.wrap(value, from);
    entry = find(name.get());
    entry->value = wrapped;
    entry->lazy = false;
  }
  return entry;
}

ValuePtr DictValue::lookup(Executor& ex, const ValuePtr& key) {
  Entry* entry = touch(ex, key->hash_key(ex), key);
  return entry ? entry->value : nullptr;
}

ValuePtr DictValue::lookup_string(Executor& ex, PyObject* key) {
  require_no_assigned_names(ex);
  PyRef name = PyRef::borrow(key);
  Entry* entry = find(key);
  if (!entry)
    entry = touch(ex, name, ex.constant(name));
  else if (entry->lazy)
    entry = touch(ex, name, entry->key);
  return entry ? entry->value : nullptr;
}

namespace {
// Under which hash each key stands in the live dict: a set takes the hashes over, and calls nobody's __hash__.
absl::flat_hash_map<PyObject*, Py_hash_t> kept_hashes(PyObject* dict) {
  if (Py_TYPE(dict)->tp_iter != PyDict_Type.tp_iter)
    break_graph("CD0210", "an instance that is a key of an ordered dict");
  const PyRef plain = PyDict_CheckExact(dict) ? PyRef::borrow(dict) : checked(PyDict_Copy(dict));
  const PyRef keys = checked(PySet_New(plain.get()));
  const PyRef elements = checked(elements_of(keys.get()));
  const SetLayout layout = layout_of(keys.get());
  absl::flat_hash_map<PyObject*, Py_hash_t> hashes;
  for (size_t i = 0; i < layout.elements.size(); ++i)
    hashes[PyList_GET_ITEM(elements.get(), static_cast<Py_ssize_t>(i))] = layout.elements[i].hash;
  return hashes;
}
}  // namespace

// The guards look for each of them from the first.
constexpr Py_ssize_t kMostInstances = 256;

// All keys in order, as they are in the live dict; then the changes so far once more.
void DictValue::complete(Executor& ex) {
  require_no_assigned_names(ex);
  if (complete_) return;
  complete_ = true;
  if (!object_) return;
  const PyRef keys = keys_in_order(real_dict());
  if (!keys) throw PythonError{};
  if (runs_code_when_it_dies(keys.get()))
    break_graph("CD0221", "what is a key of a dict");  // the guard would hold it
  // What is looked at of an instance is guarded by itself.
  PyRef guarded = checked(PyTuple_New(PyTuple_GET_SIZE(keys.get())));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i)
    PyTuple_SET_ITEM(guarded.get(), i, Py_NewRef(PyTuple_GET_ITEM(keys.get(), i)));
  std::vector<Entry> touched = std::move(entries_);
  PyRef old_index = std::move(index_);
  entries_.clear();
  index_ = PyRef();
  std::optional<absl::flat_hash_map<PyObject*, Py_hash_t>> hashes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyRef key = PyRef::borrow(PyTuple_GET_ITEM(keys.get(), i));
    const bool constant = is_plain_constant(key.get()) || PyType_Check(key.get()) ||
                          (PyTuple_CheckExact(key.get()) && !holds_instance(key.get()));
    const bool may_be_touched = old_index && !holds_instance(checked(PyTuple_Pack(1, key.get())).get());
    PyObject* position = may_be_touched ? PyDict_GetItemWithError(old_index.get(), key.get()) : nullptr;
    if (position) {
      Entry& entry = touched[PyLong_AsSize_t(position)];
      bool there = entry.value || entry.lazy;
      // It may have been looked up by what is equal: d[True] of {1: ...}.
      add({constant ? key : entry.hash_key, constant ? ex.constant(key) : entry.key, entry.value,
           !there || entry.lazy});
      continue;
    }
    ValuePtr value = constant ? ex.constant(key) : ex.wrap(key.get(), key_at_source(source, i));
    PyRef hash_key = constant ? key : value->hash_key(ex);
    Entry& entry = add({hash_key, value, nullptr, true, hash_key.get() == key.get() ? PyRef() : key});
    if (!holds_instance_key(hash_key.get())) continue;
    if (i >= kMostInstances) break_graph("CD0210", "many instances that are keys of a dict");
    // It may have changed since; what stands there twice has changed.
    if (!hashes) hashes = kept_hashes(real_dict());
    if (static_cast<Py_ssize_t>(hashes->size()) != PyTuple_GET_SIZE(keys.get()))
      break_graph("CD0210", value->describe());
    const auto kept = hashes->find(key.get());
    if (kept == hashes->end() || kept->second != PyObject_Hash(entry.hash_key.get()))
      break_graph("CD0210", value->describe());
    PyTuple_SET_ITEM(guarded.get(), i, Py_NewRef(any_key()));
    Py_DECREF(key.get());
  }
  add_guard(ex, GuardKind::kDictKeys, source, guarded.get());
  for (const Change& change : log_) {
    PyRef key = change.key->hash_key(ex);
    if (change.value)
      put(key, change.key, change.value);
    else
      remove(key.get());
  }
}

void DictValue::put(const PyRef& hash_key, const ValuePtr& key, const ValuePtr& value) {
  if (Entry* entry = find(hash_key.get())) {
    entry->value = value;
    entry->lazy = false;
    return;
  }
  const auto is_key = [&](const Entry& entry) { return entry.key == key && (entry.value || entry.lazy); };
  if (holds_instance_key(hash_key.get()) && std::ranges::any_of(entries_, is_key))
    break_graph("CD0210", key->describe() + ", which has changed");  // there would be two entries of one key
  add({hash_key, key, value, false});
}

// A key that comes back goes to the end: its old place is left empty.
void DictValue::remove(PyObject* hash_key) {
  Entry* entry = find(hash_key);
  if (!entry) return;
  entry->value = nullptr;
  entry->lazy = false;
  if (complete_ && PyDict_DelItem(index_.get(), hash_key) < 0) throw_error_of_keys();
}

void DictValue::forget() {
  for (Entry& entry : entries_) release(std::move(entry.value));
  for (Change& change : log_) release(std::move(change.value));
  if (attributes_) attributes_->forget();
  entries_.clear();
  log_.clear();
}

void DictValue::log_change(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  ex.changing(shared_from_this(), static_cast<bool>(object_));
  if (!object_) return;
  if (replaced_) return;
  PyRef mine = key->hash_key(ex);
  ex.state().note_let_go(live_value(mine.get()));
  if (!value) ex.state().note_let_go(key->real_object());
  for (auto change = log_.rbegin(); change != log_.rend() && change - log_.rbegin() < 64; ++change) {
    PyRef other = change->key->hash_key(ex);
    int same = PyObject_RichCompareBool(mine.get(), other.get(), Py_EQ);
    if (same < 0) raise_current_error(ex);
    if (!same) continue;
    if (!value || !change->value) break;
    change->value = value;
    return;
  }
  log_.push_back({key, value});
}

PyObject* DictValue::live_value(PyObject* hash_key) {
  if (const Entry* entry = find(hash_key)) return live_value(*entry);
  // All keys are known where one of these is asked for.
  return holds_instance_key(hash_key) ? nullptr : live_value(Entry{.hash_key = PyRef::borrow(hash_key)});
}

PyObject* DictValue::live_value(const Entry& entry) const {
  if (!entry.real_key && holds_instance_key(entry.hash_key.get())) return nullptr;
  PyObject* key = entry.real_key ? entry.real_key.get() : entry.hash_key.get();
  // The program's __hash__ is not called.
  PyObject* value = holds_instance_key(entry.hash_key.get())
                        ? _PyDict_GetItem_KnownHash(real_dict(), key, PyObject_Hash(entry.hash_key.get()))
                        : PyDict_GetItemWithError(real_dict(), key);
  if (!value) PyErr_Clear();
  return value;
}

// What stands in the dict under a key may die as it is overwritten or taken out.
void DictValue::refuse_finalizer(PyObject* hash_key) {
  PyObject* old = nullptr;
  if (!object_) {
    const Entry* entry = find(hash_key);
    if (entry && entry->value) old = entry->value->real_object();
  } else if (!replaced_) {
    old = live_value(hash_key);
  }
  if (old && runs_code_when_it_dies(old))
    break_graph("CD0221", std::string("class ") + Py_TYPE(old)->tp_name);
}

// globals(), vars(module): what names are looked up in (assign_name), and there the dict's own entries are not seen.
bool DictValue::is_namespace() const {
  if (!object_ || !PyDict_CheckExact(object_.get())) return false;
  return PyDict_GetItemWithError(object_.get(), interned("__builtins__")) ||
         PyDict_GetItemWithError(object_.get(), interned("__spec__"));
}

void DictValue::refuse_write_to_namespace() const {
  if (is_namespace()) break_graph("CD0204", "the namespace of a module");
}

void DictValue::store(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  refuse_write_to_namespace();
  PyRef hash_key = key->hash_key(ex);
  if (holds_instance_key(hash_key.get())) complete(ex);
  refuse_finalizer(hash_key.get());
  if (!object_) complete_ = true;
  Entry* entry = find(hash_key.get());
  bool there = entry && (entry->value || entry->lazy);
  // The key that is there already stays: `d[1.0] = x` keeps the key 1.
  ValuePtr kept = there ? entry->key : key;
  put(hash_key, kept, value);
  if (!there) ++version_;
  log_change(ex, kept, value);
}

bool DictValue::erase(Executor& ex, const ValuePtr& key) {
  refuse_write_to_namespace();
  PyRef hash_key = key->hash_key(ex);
  Entry* entry = touch(ex, hash_key, key);
  if (!entry || !entry->value) return false;
  remove(hash_key.get());
  ++version_;
  log_change(ex, key, nullptr);
  return true;
}

void DictValue::replace_whole(Executor& ex) {
  complete(ex);
  ex.changing(shared_from_this(), static_cast<bool>(object_));
  replaced_ = static_cast<bool>(object_);
  log_.clear();
  ++version_;
}

void DictValue::clear(Executor& ex) {
  refuse_write_to_namespace();
  // Nothing of the old contents matters but that they go.
  if (object_ && !replaced_ && runs_code_when_it_dies(real_dict()))
    break_graph("CD0221", "what is in a dict");
  ex.state().let_go_of_holder |= object_ && !replaced_;
  complete_ = true;
  ex.changing(shared_from_this(), static_cast<bool>(object_));
  replaced_ = static_cast<bool>(object_);
  log_.clear();
  entries_.clear();
  index_ = PyRef();
  ++version_;
}

void DictValue::move_to_end(Executor& ex, const ValuePtr& key, bool last) {
  refuse_write_to_namespace();
  PyRef hash_key = key->hash_key(ex);
  complete(ex);
  Entry* entry = touch(ex, hash_key, key);
  if (!entry || !entry->value) raise_key_error(ex, key);
  Entry moved = *entry;
  std::vector<Entry> all = entries(ex);
  replace_whole(ex);
  entries_.clear();
  index_ = PyRef();
  if (!last) add(moved);
  for (Entry& other : all)
    if (other.hash_key.get() != moved.hash_key.get()) add(std::move(other));
  if (last) add(moved);
}

size_t DictValue::size(Executor& ex) {
  require_no_assigned_names(ex);
  if (object_ && !complete_ && !changed()) {
    if (!length_guarded_) add_guard(ex, GuardKind::kLength, source, nullptr, PyDict_GET_SIZE(real_dict()));
    length_guarded_ = true;
    return static_cast<size_t>(PyDict_GET_SIZE(real_dict()));
  }
  complete(ex);
  return index_ ? static_cast<size_t>(PyDict_GET_SIZE(index_.get())) : 0;
}

std::vector<DictValue::Entry> DictValue::entries(Executor& ex, bool keys_only) {
  complete(ex);
  std::vector<Entry> live;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!is_live(i)) continue;
    if (!keys_only && entries_[i].lazy) {
      PyRef hash_key = entries_[i].hash_key;
      touch(ex, hash_key, entries_[i].key);
    }
    live.push_back(entries_[i]);
  }
  return live;
}

// ---- the data model (Objects/dictobject.c)

void raise_key_error(Executor& ex, const ValuePtr& key) {
  raise_new(ex, make_exception(ex, exception_type(PyExc_KeyError), {key}));
}

// An OrderedDict, alone among the dicts that are no instances of a class in Python, may have attributes of its own. They come
// before its methods. Null: it has no such one.
ValuePtr DictValue::own_attribute(Executor& ex, PyObject* name) {
  if (attributes_) return attributes_->lookup_string(ex, name);
  if (!object_ || !source || type() != ordered_dict_type()) return nullptr;
  PyObject** dict = _PyObject_GetDictPtr(object_.get());
  if (DictValue* shown = looked_at_dict(ex, dict ? *dict : nullptr)) return shown->lookup_string(ex, name);
  if (PyObject* value = dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr)
    return ex.wrap(value, key_source(instance_dict_source(source), name));
  add_guard(ex, GuardKind::kAttributeAbsent, source, name);
  return nullptr;
}

ValuePtr DictValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto own = own_attribute(ex, name)) return own;
  if (auto method = find_dict_method(ex, shared_from_this(), name)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

// state_dict() gives its OrderedDict the versions of the modules so.
void DictValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  const bool is_new_ordered = !object_ && !source && type() == ordered_dict_type() && owner_.expired();
  if (!is_new_ordered || !value || _PyType_Lookup(type(), name))
    return SymbolicValue::set_attribute(ex, name, value);
  ex.changing(shared_from_this(), false);
  if (!attributes_) attributes_ = new_dict();
  attributes_->store(ex, ex.constant(PyRef::borrow(name)), value);
}

ValuePtr DictValue::get_item(Executor& ex, const ValuePtr& key) {
  if (ValuePtr value = lookup(ex, key)) return value;
  // defdict_missing (Modules/_collectionsmodule.c)
  if (!default_factory_ || is_none(default_factory_)) raise_key_error(ex, key);
  ValuePtr made = default_factory_->call(ex, {});
  store(ex, key, made);
  return made;
}

void DictValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (value) return store(ex, key, value);
  if (ValuePtr old = object_ ? lookup(ex, key) : nullptr; old && old->real_object())
    refuse_finalizer(key->hash_key(ex).get());
  if (!erase(ex, key)) raise_key_error(ex, key);
}

// Of a small live dict the keys are guarded rather than the value.
bool DictValue::contains(Executor& ex, const ValuePtr& item) {
  constexpr Py_ssize_t kSmall = 32;
  const bool is_large = object_ && PyDict_GET_SIZE(real_dict()) > kSmall;
  if (!is_large && dynamic_cast<SymIntValue*>(item.get())) {
    std::vector<ValuePtr> keys;
    for (const Entry& entry : entries(ex, /*keys_only=*/true)) keys.push_back(entry.key);
    if (const auto is_there = table_contains(ex, keys, item)) return *is_there;
  }
  if (!object_ || is_large) return lookup(ex, item) != nullptr;
  PyRef hash_key = item->hash_key(ex);
  complete(ex);
  Entry* entry = find(hash_key.get());
  return entry && (entry->value || entry->lazy);
}
ValuePtr DictValue::length(Executor& ex) { return ex.constant_int(static_cast<int64_t>(size(ex))); }
ValuePtr DictValue::iterate(Executor&) { return new_dict_iterator(shared_from_this(), DictViewKind::kKeys); }
std::optional<bool> DictValue::truth(Executor& ex) { return size(ex) != 0; }

// dict_or, dict_ior
ValuePtr DictValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (nb_op == kNbInplaceOr && !reflected) {
    update_dict(ex, *this, positional({other}));
    return shared_from_this();
  }
  DictValue* other_dict = dict_in(other);
  // Reflected: after a subclass's __or__ that did not know the operand. defaultdict and OrderedDict have a __ror__ of their
  // own, which gives one of them.
  if (nb_op != kNbOr || !other_dict) return nullptr;
  auto merged = new_dict(type());
  merged->set_default_factory(default_factory_);
  DictValue* left = reflected ? other_dict : this;
  DictValue* right = reflected ? this : other_dict;
  for (DictValue* dict : {left, right})
    for (const Entry& entry : dict->entries(ex)) merged->store(ex, entry.key, entry.value);
  return merged;
}

ValuePtr DictValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  DictValue* dict = dict_in(other);
  if (!dict || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  bool equal = size(ex) == dict->size(ex);
  if (equal) {
    auto mine = entries(ex), theirs = dict->entries(ex);
    for (size_t i = 0; equal && i < mine.size(); ++i) {
      ValuePtr value = dict->lookup(ex, mine[i].key);
      equal = value && values_equal(ex, mine[i].value, value);
      if (equal && ordered() && dict->ordered()) equal = values_equal(ex, mine[i].key, theirs[i].key);
    }
  }
  return ex.constant_bool(equal == (py_op == Py_EQ));
}

std::optional<std::vector<ValuePtr>> DictValue::unpack(Executor& ex) {
  std::vector<ValuePtr> keys;
  for (Entry& entry : entries(ex, true)) keys.push_back(std::move(entry.key));
  return keys;
}

PyRef DictValue::hash_key(Executor& ex) {
  raise_error(ex, PyExc_TypeError, "unhashable type: '" + std::string(type()->tp_name) + "'");
}

PyRef DictValue::materialize(Executor& ex) {
  check_stack();
  if (type() != &PyDict_Type) return {};
  PyRef dict = checked(PyDict_New());
  for (const Entry& entry : entries(ex)) {
    PyRef key = entry.key->materialize(ex);
    PyRef value = entry.value.get() == this ? PyRef() : entry.value->materialize(ex);
    if (!key || !value) return {};
    if (PyDict_SetItem(dict.get(), key.get(), value.get()) < 0) throw PythonError{};
  }
  return dict;
}

// ---- recipes and effects

namespace {
RecipePtr contents_recipe(Executor& ex, const std::vector<DictValue::Entry>& entries) {
  auto recipe = make_recipe(RecipeKind::kDict);
  std::vector<PyObject*> keys;
  for (const DictValue::Entry& entry : entries) keys.push_back(entry.hash_key.get());
  require_no_comparison(keys);
  for (const DictValue::Entry& entry : entries) {
    require_same_hash(ex, entry.key, entry.hash_key.get());
    recipe->items.push_back(entry.key->recipe(ex));
    recipe->items.push_back(entry.value->recipe(ex));
  }
  return recipe;
}
}  // namespace

RecipePtr DictValue::recipe(Executor& ex) {
  check_stack();
  if (auto owner = owner_.lock()) return owner->recipe(ex);
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  if (building_) break_graph("CD0211", "a dict that contains itself");
  building_ = true;
  RecipePtr contents = contents_recipe(ex, entries(ex));
  building_ = false;
  PyObject* constructor = type_.get();
  if (type() == &PyDict_Type) return recipe_ = contents;
  if (PyType_IsSubtype(type(), default_dict_type())) {
    RecipePtr factory =
        default_factory_ ? default_factory_->recipe(ex) : make_recipe(RecipeKind::kConstant, Py_None);
    return recipe_ = call_recipe(constructor, {factory, contents});
  }
  RecipePtr made = call_recipe(constructor, {contents});
  if (attributes_)
    made = call_recipe(python_side(PythonSide::kWithAttributes),
                       {std::move(made), attributes_->recipe(ex), make_recipe(RecipeKind::kDict)});
  return recipe_ = std::move(made);
}

// Of an instance of a subclass, the base's own methods are called: the subclass's were executed during
// capture.
Effect DictValue::base_call(Executor& ex, const char* method, std::vector<RecipePtr> arguments) {
  PyRef function = checked(PyObject_GetAttrString(type_.get(), method));
  arguments.insert(arguments.begin(), recipe(ex));
  Effect effect;
  effect.kind = EffectKind::kCall;
  effect.target = make_recipe(RecipeKind::kConstant, function.get());
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(arguments));
  return effect;
}

Effect DictValue::change_effect(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (!owner_.expired()) {
    if (value) return base_call(ex, "__setitem__", {key->recipe(ex), value->recipe(ex)});
    return base_call(ex, "__delitem__", {key->recipe(ex)});
  }
  Effect effect;
  effect.kind = value ? EffectKind::kSetItem : EffectKind::kDeleteItem;
  effect.target = recipe(ex);
  effect.key = key->recipe(ex);
  if (value) effect.value = value->recipe(ex);
  return effect;
}

void DictValue::emit_effects(Executor& ex) {
  if (object_ && !replaced_) {
    for (const Change& change : log_) {
      if (const Entry* entry = find(change.key->hash_key(ex).get()))
        require_same_hash(ex, change.key, entry->hash_key.get());
      ex.effect(change_effect(ex, change.key, change.value));
    }
    return;
  }
  RecipePtr contents = contents_recipe(ex, entries(ex));
  if (!owner_.expired()) {
    ex.effect(base_call(ex, "clear", {}));
    ex.effect(base_call(ex, "update", {contents}));
    return;
  }
  Effect effect;
  effect.kind = EffectKind::kReplaceDict;
  effect.target = recipe(ex);
  effect.value = contents;
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
