#include "symbolic/values/dict.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/dict_methods.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sym_int.h"
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
  const ValuePtr left = reflected ? other : self(), right = reflected ? self() : other;
  if (dict_in(left)->size(ex) > 0) update_dict(ex, *merged, positional({left}));  // PyDict_Copy
  update_dict(ex, *merged, positional({right}));
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
    if (default_factory_) ex.effect(base_call(ex, "__init__", {default_factory_->recipe(ex)}));
    // OrderedDict's own update calls the subclass's __setitem__.
    if (!ordered()) ex.effect(base_call(ex, "update", {contents}));
    for (size_t i = 0; ordered() && i < contents->items.size(); i += 2)
      ex.effect(base_call(ex, "__setitem__", {contents->items[i], contents->items[i + 1]}));
    return;
  }
  Effect effect;
  effect.kind = EffectKind::kReplaceDict;
  effect.target = recipe(ex);
  effect.value = contents;
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
