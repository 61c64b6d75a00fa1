#include "symbolic/values/set.h"

#include <absl/container/flat_hash_set.h>

#include <span>
#include <utility>

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/interop/set_layout.h"
#include "symbolic/interop/weak_elements.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

SetValue::SetValue(PyTypeObject* type)
    : type_(type), mirror_(checked(PySet_New(nullptr))), index_(checked(PyDict_New())) {}

SetValue::SetValue(Executor& ex, PyObject* object, SourcePtr from, PyTypeObject* type) : SetValue(type) {
  object_ = PyRef::borrow(object);
  source = std::move(from);
  guard_exact_type(ex, object, source);
  if (source->kind != SourceKind::kConstant || type == &PySet_Type)
    add_guard(ex, GuardKind::kEquals, source, checked(copy_with_weak_elements(object)).get());
  PyRef list = checked(elements_of(object));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    if (runs_code_when_it_dies(item)) break_graph("CD0221", "what is in a set");  // the guard would hold it
    // The guard compares by identity or value, so the elements are known.
    const bool constant = is_plain_constant(item) || (PyTuple_CheckExact(item) && !holds_instance(item));
    insert(ex, constant ? ex.constant(PyRef::borrow(item)) : ex.wrap(item, held_by_guarded_source(item)));
  }
  PyRef keys = checked(PyDict_Keys(index_.get()));
  const SetLayout layout = layout_of(object);
  mirror_ = checked(laid_out_set(layout, keys.get(), &PySet_Type));
  // An instance may have changed since.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i)
    if (PyObject* key = PyList_GET_ITEM(keys.get(), i);
        holds_instance_key(key) && PyObject_Hash(key) != layout.elements[static_cast<size_t>(i)].hash)
      break_graph("CD0210", values_[static_cast<size_t>(i)]->describe());
}

std::shared_ptr<SetValue> new_set(Executor& ex, const std::vector<ValuePtr>& items, PyTypeObject* type) {
  auto set = std::make_shared<SetValue>(type);
  set->replace(ex, items);
  return set;
}
std::shared_ptr<SetValue> set_from(Executor& ex, const ValuePtr& iterable, PyTypeObject* type) {
  KeyedValues values;
  PyRef keys = keys_of(ex, iterable, values);
  return SetValue::of_keys(checked_user(ex, PySet_New(keys.get())), values, type);
}
ValuePtr make_set(Executor& ex, std::vector<ValuePtr> items) { return new_set(ex, items, &PySet_Type); }

SetValue* set_in(const ValuePtr& value) {
  if (auto* set = dynamic_cast<SetValue*>(value.get())) return set;
  return dynamic_cast<SetValue*>(builtin_storage(value).get());
}

PyRef keys_of(Executor& ex, const ValuePtr& value, KeyedValues& values) {
  if (SetValue* set = set_in(value)) {
    set->rely_on_order(ex);
    set->add_to(values);
    return set->frozen() ? set->copy_of_keys() : PyRef::borrow(set->keys());
  }
  const bool is_dict = value->type() == &PyDict_Type;
  PyRef keys = checked(is_dict ? PyDict_New() : PyList_New(0));
  for (const ValuePtr& item : items_of(ex, value)) {
    PyRef key = item->hash_key(ex);
    if ((is_dict ? PyDict_SetItem(keys.get(), key.get(), Py_None) : PyList_Append(keys.get(), key.get())) < 0)
      throw_error_of_keys();
    values.try_emplace(key.get(), item);
  }
  return keys;
}

std::string SetValue::describe() const {
  return std::string(type_->tp_name) + " of " + std::to_string(size());
}
size_t SetValue::size() const { return static_cast<size_t>(PySet_GET_SIZE(mirror_.get())); }

namespace {
// set_contains_key, set_discard_key: a set is looked up as a frozenset.
PyRef lookup_key(Executor& ex, const ValuePtr& item) {
  SetValue* set = set_in(item);
  return set ? checked(PyFrozenSet_New(set->keys())) : item->hash_key(ex);
}
}  // namespace

void SetValue::will_change(Executor& ex) {
  if (changed_) return;
  note_change(ex, static_cast<bool>(object_), values_);
  changed_ = true;
  ex.changing(shared_from_this(), static_cast<bool>(object_));
}

void SetValue::insert(Executor& ex, const ValuePtr& item) {
  PyRef key = item->hash_key(ex);
  int there = PySet_Contains(mirror_.get(), key.get());
  if (there < 0) raise_current_error(ex);
  if (there) return;
  PyRef position = checked(PyLong_FromSize_t(values_.size()));
  if (PySet_Add(mirror_.get(), key.get()) < 0 || PyDict_SetItem(index_.get(), key.get(), position.get()) < 0)
    throw_error_of_keys();
  values_.push_back(item);
  ++version_;
}

void SetValue::add(Executor& ex, const ValuePtr& item) {
  will_change(ex);
  insert(ex, item);
}

bool SetValue::discard(Executor& ex, const ValuePtr& item) {
  will_change(ex);
  PyRef key = lookup_key(ex, item);
  int found = PySet_Discard(mirror_.get(), key.get());
  if (found < 0) raise_current_error(ex);
  if (found && PyDict_DelItem(index_.get(), key.get()) < 0) throw_error_of_keys();
  version_ += found;
  return found;
}

ValuePtr SetValue::pop(Executor& ex) {
  if (!size()) return nullptr;
  will_change(ex);
  PyRef key = checked(PySet_Pop(mirror_.get()));
  PyRef position = PyRef::borrow(PyDict_GetItemWithError(index_.get(), key.get()));
  if (!position || PyDict_DelItem(index_.get(), key.get()) < 0) throw_error_of_keys();
  ++version_;
  return values_[PyLong_AsSize_t(position.get())];
}

void SetValue::replace(Executor& ex, const std::vector<ValuePtr>& items) {
  if (object_) will_change(ex);
  if (PySet_Clear(mirror_.get()) < 0) throw PythonError{};
  PyDict_Clear(index_.get());
  values_.clear();
  ++version_;
  for (const ValuePtr& item : items) insert(ex, item);
}

std::shared_ptr<SetValue> SetValue::of_keys(PyRef keys, const KeyedValues& values, PyTypeObject* type) {
  auto set = std::make_shared<SetValue>(type);
  set->mirror_ = PySet_CheckExact(keys.get()) ? std::move(keys) : checked(PySet_New(keys.get()));
  set->follow_mirror(values);
  return set;
}

void SetValue::change_keys(Executor& ex, KeyedValues values,
                           const std::function<void(PyObject* mirror)>& change) {
  will_change(ex);
  add_to(values);
  change(mirror_.get());
  follow_mirror(values);
}

// Those that stay keep their places in the order of insertion, before those that came.
void SetValue::follow_mirror(const KeyedValues& values) {
  PyRef keys = checked(elements_of(mirror_.get()));
  PyRef before = std::exchange(index_, checked(PyDict_New()));
  values_.clear();
  ++version_;
  const auto add = [&](PyObject* key) {
    PyRef position = checked(PyLong_FromSize_t(values_.size()));
    if (PyDict_SetItem(index_.get(), key, position.get()) < 0) throw_error_of_keys();
    values_.push_back(values.at(key));
  };
  absl::flat_hash_set<PyObject*> left;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) left.insert(PyList_GET_ITEM(keys.get(), i));
  PyObject *key, *position;
  for (Py_ssize_t i = 0; PyDict_Next(before.get(), &i, &key, &position);)
    if (left.erase(key)) add(key);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i)
    if (left.contains(PyList_GET_ITEM(keys.get(), i))) add(PyList_GET_ITEM(keys.get(), i));
}

void SetValue::add_to(KeyedValues& values) const {
  PyObject *key, *position;
  for (Py_ssize_t i = 0; PyDict_Next(index_.get(), &i, &key, &position);)
    values.try_emplace(key, values_[PyLong_AsSize_t(position)]);
}

// Equal sets may be laid out differently, by what was added first or discarded.
void SetValue::rely_on_order(Executor& ex) {
  if (!object_ || std::exchange(order_is_guarded_, true)) return;
  if (source->kind == SourceKind::kConstant && frozen()) return;
  add_guard(ex, GuardKind::kSetLayout, source, checked(copy_with_weak_elements(object_.get())).get());
}

std::vector<ValuePtr> SetValue::items(Executor& ex) {
  rely_on_order(ex);
  PyRef keys = checked(elements_of(mirror_.get()));
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* position = PyDict_GetItemWithError(index_.get(), PyList_GET_ITEM(keys.get(), i));
    if (!position) throw_error_of_keys();
    items.push_back(values_[PyLong_AsSize_t(position)]);
  }
  return items;
}

std::vector<ValuePtr> SetValue::inserted_items() const {
  std::vector<ValuePtr> items;
  PyObject *key, *position;
  for (Py_ssize_t i = 0; PyDict_Next(index_.get(), &i, &key, &position);)
    items.push_back(values_[PyLong_AsSize_t(position)]);
  return items;
}

PyRef SetValue::copy_of_keys() const { return checked(copy_as_laid_out(mirror_.get(), type_)); }

std::optional<PyRef> SetValue::as_constant() const {
  if (!frozen()) return std::nullopt;
  for (const ValuePtr& value : values_)
    if (!value->as_constant()) return std::nullopt;
  return copy_of_keys();
}

// ---- methods (Objects/setobject.c)

namespace {

SetValue& set_of(const ValuePtr& self) { return *set_in(self); }

// The elements of any iterable as a set, for the relations below.
std::shared_ptr<SetValue> as_set(Executor& ex, const ValuePtr& iterable) {
  return set_from(ex, iterable, &PySet_Type);
}

// A method of set, of `keys` and the arguments. Its errors are the program's.
PyRef call_set_method(Executor& ex, const char* name, PyObject* keys, const std::vector<PyRef>& arguments) {
  PyRef method = checked(PyObject_GetAttrString(keys, name));
  std::vector<PyObject*> args;
  for (const PyRef& argument : arguments) args.push_back(argument.get());
  return checked_user(ex, PyObject_Vectorcall(method.get(), args.data(), args.size(), nullptr));
}

const char* method_of(int nb_op) {
  return nb_op == kNbOr         ? "union"
         : nb_op == kNbAnd      ? "intersection"
         : nb_op == kNbSubtract ? "difference"
                                : "symmetric_difference";
}
const char* update_method_of(int nb_op) {
  return nb_op == kNbOr         ? "update"
         : nb_op == kNbAnd      ? "intersection_update"
         : nb_op == kNbSubtract ? "difference_update"
                                : "symmetric_difference_update";
}

ValuePtr combine(Executor& ex, int nb_op, SetValue& set, std::span<const ValuePtr> others) {
  KeyedValues values;
  set.rely_on_order(ex);
  set.add_to(values);
  std::vector<PyRef> arguments;
  for (const ValuePtr& other : others) arguments.push_back(keys_of(ex, other, values));
  PyRef keys = call_set_method(ex, method_of(nb_op), set.keys(), arguments);
  return SetValue::of_keys(std::move(keys), values, set.type());
}

void update_with(Executor& ex, int nb_op, SetValue& set, std::span<const ValuePtr> others) {
  KeyedValues values;
  std::vector<PyRef> arguments;
  for (const ValuePtr& other : others) arguments.push_back(keys_of(ex, other, values));
  set.change_keys(ex, std::move(values),
                  [&](PyObject* mirror) { call_set_method(ex, update_method_of(nb_op), mirror, arguments); });
}

template <int nb_op>
ValuePtr combined(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "set operation", args);
  return combine(ex, nb_op, set_of(self), args.positional);
}

template <int nb_op>
ValuePtr update(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "set operation", args);
  SetValue& set = set_of(self);
  if (nb_op == kNbAnd || nb_op == kNbXor) {
    update_with(ex, nb_op, set, args.positional);
    return ex.none();
  }
  // What has come or gone stays so where an iterator fails.
  for (const ValuePtr& other : args.positional) {
    if (set_in(other) || other->type() == &PyDict_Type) {
      update_with(ex, nb_op, set, {&other, 1});
      continue;
    }
    ValuePtr iterator = iterate_value(ex, other);
    while (ValuePtr item = next_value(ex, iterator)) {
      if (nb_op == kNbOr)
        set.add(ex, item);
      else
        set.discard(ex, item);
    }
    // Then a table of which much is discarded is made smaller.
    if (const ValuePtr nothing = nb_op == kNbSubtract ? new_tuple({}) : nullptr)
      update_with(ex, nb_op, set, {&nothing, 1});
  }
  return ex.none();
}

ValuePtr add(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.add", args, 1, 1);
  set_of(self).add(ex, args.positional[0]);
  return ex.none();
}
ValuePtr discard(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.discard", args, 1, 1);
  set_of(self).discard(ex, args.positional[0]);
  return ex.none();
}
ValuePtr set_remove(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.remove", args, 1, 1);
  if (!set_of(self).discard(ex, args.positional[0])) raise_key_error(ex, args.positional[0]);
  return ex.none();
}
ValuePtr set_pop(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.pop", args, 0, 0);
  ValuePtr item = set_of(self).pop(ex);
  if (!item) raise_error(ex, PyExc_KeyError, "pop from an empty set");
  return item;
}
ValuePtr set_clear(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.clear", args, 0, 0);
  set_of(self).change_keys(ex, {}, [](PyObject* mirror) { PySet_Clear(mirror); });
  return ex.none();
}
ValuePtr set_copy(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set.copy", args, 0, 0);
  if (self->type() == &PyFrozenSet_Type && !set_of(self).has_owner()) return self;
  return set_from(ex, self, set_of(self).type());
}
template <int py_op>
ValuePtr relation(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set relation", args, 1, 1);
  return set_of(self).compare(ex, py_op, as_set(ex, args.positional[0]));
}
ValuePtr set_is_disjoint(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "isdisjoint", args, 1, 1);
  ValuePtr iterator = iterate_value(ex, args.positional[0]);
  while (ValuePtr item = next_value(ex, iterator))
    if (set_of(self).contains(ex, item)) return ex.constant_bool(false);
  return ex.constant_bool(true);
}
ValuePtr set_init(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "set", args, 0, 1);
  set_of(self).replace(ex, {});
  if (!args.positional.empty()) update<kNbOr>(ex, self, args);
  return ex.none();
}

constexpr BuiltinMethodRow kSetMethods[] = {
    {"union", combined<kNbOr>},
    {"intersection", combined<kNbAnd>},
    {"difference", combined<kNbSubtract>},
    {"symmetric_difference", combined<kNbXor>},
    {"issubset", relation<Py_LE>},
    {"issuperset", relation<Py_GE>},
    {"isdisjoint", set_is_disjoint},
    {"copy", set_copy},
};
constexpr BuiltinMethodRow kMutableMethods[] = {
    {"add", add},
    {"discard", discard},
    {"remove", set_remove},
    {"pop", set_pop},
    {"clear", set_clear},
    {"update", update<kNbOr>},
    {"intersection_update", update<kNbAnd>},
    {"difference_update", update<kNbSubtract>},
    {"symmetric_difference_update", update<kNbXor>},
    {"__init__", set_init},
};

}  // namespace

ValuePtr SetValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto method = find_builtin_method(shared_from_this(), name, kSetMethods)) return method;
  if (!frozen())
    if (auto method = find_builtin_method(shared_from_this(), name, kMutableMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

// ---- the data model

bool SetValue::contains(Executor& ex, const ValuePtr& item) {
  constexpr size_t kSmall = 32;
  if (size() <= kSmall && dynamic_cast<SymIntValue*>(item.get()))
    if (const auto is_there = table_contains(ex, *unpack(ex), item)) return *is_there;
  PyRef key = lookup_key(ex, item);
  int found = PySet_Contains(mirror_.get(), key.get());
  if (found < 0) raise_current_error(ex);
  return found;
}

ValuePtr SetValue::length(Executor& ex) { return ex.constant_int(static_cast<int64_t>(size())); }
ValuePtr SetValue::iterate(Executor& ex) { return new_set_iterator(ex, shared_from_this()); }

ValuePtr SetValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  int op = plain_number_operation(nb_op);
  if (op != kNbOr && op != kNbAnd && op != kNbSubtract && op != kNbXor) return nullptr;
  SetValue* set = set_in(other);
  if (!set) return nullptr;
  const ValuePtr self = shared_from_this();
  if (nb_op >= kNbInplaceAdd && !frozen() && !reflected) {
    update_with(ex, op, *this, {&other, 1});
    return self;
  }
  return reflected ? combine(ex, op, *set, {&self, 1}) : combine(ex, op, *this, {&other, 1});
}

ValuePtr SetValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  SetValue* set = set_in(other);
  if (!set) return nullptr;
  return ex.constant(checked_user(ex, PyObject_RichCompare(mirror_.get(), set->mirror_.get(), py_op)));
}

PyRef SetValue::hash_key(Executor& ex) {
  if (!frozen()) raise_error(ex, PyExc_TypeError, "unhashable type: 'set'");
  return checked(PyFrozenSet_New(mirror_.get()));
}

PyRef SetValue::materialize(Executor&) {
  for (const ValuePtr& value : values_)
    if (!value->as_constant()) return {};
  return copy_of_keys();
}

RecipePtr SetValue::recipe(Executor& ex) {
  if (auto owner = owner_.lock()) return owner->recipe(ex);
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  return first_recipe(recipe_, contents_recipe(ex, frozen() ? RecipeKind::kFrozenSet : RecipeKind::kSet));
}

// A new set with these elements: added one by one where that makes this table, or put where they lie in it.
RecipePtr SetValue::contents_recipe(Executor& ex, RecipeKind kind) {
  rely_on_order(ex);
  PyObject *key, *position;
  std::vector<PyObject*> keys;
  for (Py_ssize_t at = 0; PyDict_Next(index_.get(), &at, &key, &position);) keys.push_back(key);
  require_no_comparison(keys);
  for (Py_ssize_t at = 0; PyDict_Next(index_.get(), &at, &key, &position);)
    require_same_hash(ex, values_[PyLong_AsSize_t(position)], key);
  const PyRef added = checked_user(ex, PySet_New(checked(PySequence_List(index_.get())).get()));
  const auto is_same = [](PyObject* key, PyObject* other) { return key == other; };
  if (same_layout(mirror_.get(), added.get(), is_same))
    return make_recipe(kind, nullptr, recipes_of(ex, inserted_items()));
  RecipePtr recipe = make_recipe(kind, nullptr, recipes_of(ex, items(ex)));
  recipe->layout = std::make_shared<SetLayout>(layout_of(mirror_.get()));
  return recipe;
}

void SetValue::emit_effects(Executor& ex) {
  Effect effect;
  effect.kind = EffectKind::kReplaceSet;
  effect.target = recipe(ex);
  effect.value = contents_recipe(ex, RecipeKind::kSet);
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
