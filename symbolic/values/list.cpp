#include "symbolic/values/list.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/length_hint.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

ListValue::ListValue(std::vector<ValuePtr> items) : items_(std::move(items)) {}

ListValue::ListValue(PyRef object, SourcePtr from) : object_(std::move(object)) {
  source = std::move(from);
  items_.resize(static_cast<size_t>(PyList_GET_SIZE(object_.get())));
}

std::shared_ptr<ListValue> new_list(std::vector<ValuePtr> items) {
  return std::make_shared<ListValue>(std::move(items));
}
ValuePtr make_list(Executor& ex, std::vector<ValuePtr> items) {
  ValuePtr list = new_list(std::move(items));
  if (ex.isolated_region() && ex.isolated_region()->pure) ex.state().made_in_region.insert(list);
  return list;
}

ListValue* list_in(const ValuePtr& value) {
  if (auto* list = dynamic_cast<ListValue*>(value.get())) return list;
  return dynamic_cast<ListValue*>(builtin_storage(value).get());
}

void ListValue::look_at_length(Executor& ex) {
  ex.reads_later(*this, static_cast<bool>(object_));
  if (length_guarded_ || !object_) return;
  length_guarded_ = true;
  add_guard(ex, GuardKind::kLength, source, nullptr, PyList_GET_SIZE(object_.get()));
  if (appended_.empty()) return;
  const std::vector<ValuePtr> appended = std::exchange(appended_, {});
  std::vector<ValuePtr>& items = mutable_items(ex);
  items.insert(items.end(), appended.begin(), appended.end());
}

const ValuePtr& ListValue::item(Executor& ex, size_t index) {
  look_at_length(ex);
  ValuePtr& slot = items_[index];
  if (!slot) {
    Py_ssize_t position = static_cast<Py_ssize_t>(index);
    slot = ex.wrap(PyList_GET_ITEM(object_.get(), position), index_source(source, position));
  }
  return slot;
}

void ListValue::know_item(Executor& ex, size_t index, ValuePtr value) {
  look_at_length(ex);
  if (items_[index]) return;
  value->source = index_source(source, static_cast<Py_ssize_t>(index));
  add_guard(ex, GuardKind::kEquals, value->source, value->real_object());
  items_[index] = std::move(value);
}

const std::vector<ValuePtr>& ListValue::items(Executor& ex) {
  look_at_length(ex);
  if (object_) require_short(items_.size(), *this);
  for (size_t i = 0; i < items_.size(); ++i) item(ex, i);
  return items_;
}

size_t ListValue::size(Executor& ex) {
  look_at_length(ex);
  return items_.size();
}

std::vector<ValuePtr>& ListValue::mutable_items(Executor& ex) {
  items(ex);
  note_change(ex, static_cast<bool>(object_) && !changed_, items_);
  changed_ = true;
  ++version_;
  ex.changing(shared_from_this(), static_cast<bool>(object_));
  return items_;
}

void ListValue::append(Executor& ex, ValuePtr item) {
  if (!object_ || length_guarded_) return mutable_items(ex).push_back(std::move(item));
  appended_.push_back(std::move(item));
  ex.changing(shared_from_this(), true);
}

// ---- methods (Objects/listobject.c)

namespace {

ListValue& list_of(const ValuePtr& self) { return *list_in(self); }

ValuePtr list_append(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.append", args, 1, 1);
  list_of(self).append(ex, args.positional[0]);
  return ex.none();
}

ValuePtr list_extend(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.extend", args, 1, 1);
  const ValuePtr& iterable = args.positional[0];
  if (iterable->type() == &PyList_Type || iterable->type() == &PyTuple_Type) {
    const std::vector<ValuePtr> more = items_of(ex, iterable);
    for (const ValuePtr& item : more) list_of(self).append(ex, item);
    return ex.none();
  }
  // One by one: an iterator may look at the list, or raise half-way.
  ValuePtr iterator = iterate_value(ex, iterable);
  ask_length_hint(ex, iterable);
  while (ValuePtr item = next_value(ex, iterator)) {
    ListValue& list = list_of(self);
    list.append(ex, std::move(item));
    require_short(list.count_so_far(), *self);
  }
  return ex.none();
}

ValuePtr list_insert(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "insert", args, 2, 2);
  Py_ssize_t index = index_argument(ex, args.positional[0]);
  std::vector<ValuePtr>& items = list_of(self).mutable_items(ex);
  Py_ssize_t size = static_cast<Py_ssize_t>(items.size());
  if (index < 0) index += size;
  items.insert(items.begin() + std::clamp<Py_ssize_t>(index, 0, size), args.positional[1]);
  return ex.none();
}

ValuePtr list_pop(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "pop", args, 0, 1);
  ListValue& list = list_of(self);
  Py_ssize_t size = static_cast<Py_ssize_t>(list.size(ex));
  Py_ssize_t index = args.positional.empty() ? -1 : index_argument(ex, args.positional[0]);
  if (size == 0) raise_error(ex, PyExc_IndexError, "pop from empty list");
  if (index < 0) index += size;
  if (index < 0 || index >= size) raise_error(ex, PyExc_IndexError, "pop index out of range");
  std::vector<ValuePtr>& items = list.mutable_items(ex);
  ValuePtr popped = items[index];
  items.erase(items.begin() + index);
  note_held_by_stack(ex, popped);
  return popped;
}

ValuePtr list_remove(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.remove", args, 1, 1);
  ListValue& list = list_of(self);
  Py_ssize_t found = find_item(ex, list.items(ex), args.positional[0]);
  if (found < 0) raise_error(ex, PyExc_ValueError, "list.remove(x): x not in list");
  std::vector<ValuePtr>& items = list.mutable_items(ex);
  if (found >= static_cast<Py_ssize_t>(items.size())) return ex.none();
  list.refuse_finalizer(items[found]);
  items.erase(items.begin() + found);
  return ex.none();
}

ValuePtr list_clear(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.clear", args, 0, 0);
  ListValue& list = list_of(self);
  for (const ValuePtr& item : list.mutable_items(ex)) list.refuse_finalizer(item);
  list.mutable_items(ex).clear();
  return ex.none();
}

ValuePtr list_copy(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.copy", args, 0, 0);
  return new_list(list_of(self).items(ex));
}

ValuePtr list_reverse(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list.reverse", args, 0, 0);
  std::vector<ValuePtr>& items = list_of(self).mutable_items(ex);
  std::reverse(items.begin(), items.end());
  return ex.none();
}

ValuePtr sort(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "sort", args, {"*key?", "*reverse?"});
  bool reverse = reverse_argument(ex, bound[1]);
  // Whoever looks at the list meanwhile finds it empty.
  ListValue& list = list_of(self);
  std::vector<ValuePtr> items = std::exchange(list.mutable_items(ex), {});
  const uint64_t version = list.version();
  try {
    sort_values(ex, items, bound[0], reverse);
  } catch (const PythonRaise&) {
    list.mutable_items(ex) = std::move(items);
    throw;
  }
  const bool was_modified = list.version() != version;
  list.mutable_items(ex) = std::move(items);
  if (was_modified) raise_error(ex, PyExc_ValueError, "list modified during sort");
  return ex.none();
}

ValuePtr list_index(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_index_method(ex, "list", list_of(self).items(ex), args);
}
ValuePtr list_count(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_count_method(ex, list_of(self).items(ex), args);
}

// list.__init__(iterable): the contents are replaced.
ValuePtr list_init(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "list", args, 0, 1);
  std::vector<ValuePtr> items;
  if (!args.positional.empty()) items = listed_items(ex, args.positional[0]);
  list_of(self).mutable_items(ex) = std::move(items);
  return ex.none();
}

constexpr BuiltinMethodRow kListMethods[] = {
    {"append", list_append}, {"extend", list_extend}, {"insert", list_insert}, {"pop", list_pop},
    {"remove", list_remove}, {"clear", list_clear},   {"copy", list_copy},     {"reverse", list_reverse},
    {"sort", sort},          {"index", list_index},   {"count", list_count},   {"__init__", list_init},
};

}  // namespace

ValuePtr ListValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto method = find_builtin_method(shared_from_this(), name, kListMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

// ---- the data model

ValuePtr ListValue::get_item(Executor& ex, const ValuePtr& subscript) {
  const ValuePtr key = settled_index(ex, subscript);
  if (PyType_IsSubtype(key->type(), &PySlice_Type)) return new_list(slice_items(ex, key, items(ex)));
  require_index(ex, "list", key);
  Py_ssize_t count = static_cast<Py_ssize_t>(size(ex));
  if (is_random_index(ex, key))
    if (ValuePtr number = number_in_table(ex, items(ex), key)) return number;
  return item(ex, static_cast<size_t>(sequence_index(ex, key, count, "list index out of range")));
}

// What stands at a place of the live list may die as it is overwritten or taken out.
void ListValue::refuse_finalizer(const ValuePtr& item) const {
  PyObject* object = object_ ? item->real_object() : nullptr;
  if (object && runs_code_when_it_dies(object)) break_before_end(object);
}

void ListValue::set_item(Executor& ex, const ValuePtr& subscript, const ValuePtr& value) {
  const ValuePtr key = settled_index(ex, subscript);
  if (PyType_IsSubtype(key->type(), &PySlice_Type)) return set_slice(ex, key, value);
  require_index(ex, "list", key);
  Py_ssize_t index =
      sequence_index(ex, key, static_cast<Py_ssize_t>(size(ex)), "list assignment index out of range");
  std::vector<ValuePtr>& items = mutable_items(ex);
  refuse_finalizer(items[index]);
  if (value) {
    items[index] = value;
  } else {
    items.erase(items.begin() + index);
  }
}

// list_ass_subscript: an extended slice takes exactly as many items as it has; null value: deletion.
void ListValue::set_slice(Executor& ex, const ValuePtr& slice, const ValuePtr& value) {
  std::vector<ValuePtr> given;
  if (value && !is_iterable(value)) {
    // What a list says of it is not the same in every release.
    const PyRef step =
        checked(PyLong_FromSsize_t(slice_bounds(ex, slice, static_cast<Py_ssize_t>(size(ex))).step));
    const PyRef all = checked(PySlice_New(nullptr, nullptr, step.get())), list = checked(PyList_New(0));
    if (PyObject_SetItem(list.get(), all.get(), Py_None) < 0) raise_current_error(ex);
  }
  if (value) given = listed_items(ex, value);
  SliceBounds bounds = slice_bounds(ex, slice, static_cast<Py_ssize_t>(size(ex)));
  std::vector<ValuePtr>& items = mutable_items(ex);
  if (bounds.step == 1) {
    for (Py_ssize_t i = bounds.start; i < bounds.stop; ++i) refuse_finalizer(items[i]);
    auto first = items.begin() + bounds.start;
    first = items.erase(first, items.begin() + std::max(bounds.start, bounds.stop));
    items.insert(first, given.begin(), given.end());
    return;
  }
  if (value) {
    if (static_cast<Py_ssize_t>(given.size()) != bounds.count)
      raise_error(ex, PyExc_ValueError,
                  "attempt to assign sequence of size " + std::to_string(given.size()) +
                      " to extended slice of size " + std::to_string(bounds.count));
    for (Py_ssize_t i = 0; i < bounds.count; ++i) items[bounds.start + i * bounds.step] = given[i];
    return;
  }
  for (Py_ssize_t i = 0; i < bounds.count; ++i) {
    refuse_finalizer(items[bounds.start + i * bounds.step]);
    items[bounds.start + i * bounds.step] = nullptr;
  }
  std::erase(items, nullptr);
}

bool ListValue::contains(Executor& ex, const ValuePtr& wanted) {
  return find_item(ex, items(ex), wanted) >= 0;
}

ValuePtr ListValue::length(Executor& ex) { return ex.constant_int(static_cast<int64_t>(size(ex))); }
ValuePtr ListValue::iterate(Executor&) { return new_sequence_iterator(shared_from_this()); }
std::optional<bool> ListValue::truth(Executor& ex) { return size(ex) != 0; }

ValuePtr ListValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (nb_op == kNbAdd && !reflected) {
    ListValue* list = list_in(other);
    if (!list) return nullptr;
    std::vector<ValuePtr> joined = items(ex);
    const std::vector<ValuePtr>& more = list->items(ex);
    joined.insert(joined.end(), more.begin(), more.end());
    return new_list(std::move(joined));
  }
  if (nb_op == kNbInplaceAdd && !reflected) {
    list_extend(ex, shared_from_this(), positional({other}));
    return shared_from_this();
  }
  bool repeats = nb_op == kNbMultiply || nb_op == kNbInplaceMultiply;
  if (!repeats || !is_integer_value(other)) return nullptr;
  std::vector<ValuePtr> repeated = repeat_items(ex, items(ex), other);
  if (nb_op == kNbMultiply || reflected) return new_list(std::move(repeated));
  mutable_items(ex) = std::move(repeated);
  return shared_from_this();
}

ValuePtr ListValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  ListValue* list = list_in(other);
  return list ? compare_sequences(ex, py_op, items(ex), list->items(ex), LengthsDiffer::kDecides) : nullptr;
}

std::optional<std::vector<ValuePtr>> ListValue::unpack(Executor& ex) { return items(ex); }

PyRef ListValue::hash_key(Executor& ex) { raise_error(ex, PyExc_TypeError, "unhashable type: 'list'"); }

PyRef ListValue::materialize(Executor& ex) {
  check_stack();
  PyRef list = checked(PyList_New(0));
  for (const ValuePtr& item : items(ex)) {
    PyRef object = item.get() == this ? PyRef() : item->materialize(ex);
    if (!object) return {};
    if (PyList_Append(list.get(), object.get()) < 0) throw PythonError{};
  }
  return list;
}

RecipePtr ListValue::recipe(Executor& ex) {
  check_stack();
  if (auto owner = owner_.lock()) return owner->recipe(ex);
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  if (building_) break_graph("CD0211", "a list that contains itself");
  building_ = true;
  auto items = recipes_of(ex, items_);
  building_ = false;
  return recipe_ = make_recipe(RecipeKind::kList, nullptr, std::move(items));
}

void ListValue::emit_effects(Executor& ex) {
  Effect effect;
  const bool only_grew = !appended_.empty();
  effect.kind = only_grew ? EffectKind::kExtendList : EffectKind::kReplaceList;
  effect.target = recipe(ex);
  effect.value = make_recipe(RecipeKind::kList, nullptr, recipes_of(ex, only_grew ? appended_ : items_));
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
