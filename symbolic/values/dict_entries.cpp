// What a dict holds during capture: the entries that were looked at, all of them in order once that matters, and the changes so far.
#include "symbolic/values/dict.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/any_key.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/interop/key_order.h"
#include "symbolic/interop/set_layout.h"
#include "symbolic/interop/weak_elements.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

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
  add_guard(ex, GuardKind::kKeyAbsent, source, checked(weak_element(key)).get());
}
SourcePtr DictValue::value_source(PyObject* key) {
  return key_source(source, checked(weak_element(key)).get());
}

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
  note_read(ex, entry);
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
  note_read(ex, entry);
  return entry ? entry->value : nullptr;
}

// Modules, functions and tensors are taken to stay where they are.
void DictValue::note_read(Executor& ex, const Entry* entry) {
  if (!ex.isolated_region()) return;
  PyObject* object = entry && entry->value ? entry->value->real_object() : nullptr;
  if (!object_ || !object || is_plain_constant(object)) ex.reads_later(*this, static_cast<bool>(object_));
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
    PyTuple_SET_ITEM(guarded.get(), i, checked(weak_element(PyTuple_GET_ITEM(keys.get(), i))).release());
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
    Py_DECREF(PyTuple_GET_ITEM(guarded.get(), i));
    PyTuple_SET_ITEM(guarded.get(), i, Py_NewRef(any_key()));
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
  if (old && runs_code_when_it_dies(old)) break_before_end(old);
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

}  // namespace cdynamo::symbolic
