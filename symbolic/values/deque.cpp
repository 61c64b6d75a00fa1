#include "symbolic/values/deque.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/values/deque_methods.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

DequeValue::DequeValue(std::vector<ValuePtr> items, Py_ssize_t max_length)
    : items_(std::move(items)), max_length_(max_length) {}

DequeValue::DequeValue(PyObject* object, SourcePtr from) : object_(PyRef::borrow(object)) {
  source = std::move(from);
  if (_PyType_Lookup(Py_TYPE(object), interned("maxlen")) != _PyType_Lookup(deque_type(), interned("maxlen")))
    break_graph("CD0200", absl::StrCat("maxlen of class ", Py_TYPE(object)->tp_name));
  items_.resize(static_cast<size_t>(deque_length(object)));
  PyRef limit = checked(PyObject_GetAttr(object, interned("maxlen")));
  if (limit.get() != Py_None) max_length_ = PyLong_AsSsize_t(limit.get());
}

std::shared_ptr<DequeValue> new_deque(std::vector<ValuePtr> items, Py_ssize_t max_length) {
  return std::make_shared<DequeValue>(std::move(items), max_length);
}

namespace {
PyRef limit_object(Py_ssize_t max_length) {
  return max_length < 0 ? PyRef::borrow(Py_None) : checked(PyLong_FromSsize_t(max_length));
}
}  // namespace

DequeValue* deque_in(const ValuePtr& value) {
  if (auto* deque = dynamic_cast<DequeValue*>(value.get())) return deque;
  return dynamic_cast<DequeValue*>(builtin_storage(value).get());
}

// ---- looking

void DequeValue::look_at_length(Executor& ex) {
  if (length_guarded_ || !object_) return;
  length_guarded_ = true;
  add_guard(ex, GuardKind::kLength, source, nullptr, deque_length(object_.get()));
  for (ValuePtr& item : std::exchange(appended_, {})) append(ex, std::move(item));
}

Py_ssize_t DequeValue::max_length(Executor& ex) {
  if (object_ && !max_length_guarded_) {
    max_length_guarded_ = true;
    PyRef limit = checked(PyObject_GetAttr(object_.get(), interned("maxlen")));
    add_guard(ex, GuardKind::kEquals, attribute_source(source, interned("maxlen")), limit.get());
  }
  return max_length_;
}

const ValuePtr& DequeValue::item(Executor& ex, size_t index) {
  look_at_length(ex);
  ValuePtr& slot = items_[index];
  if (!slot) {
    const auto position = static_cast<Py_ssize_t>(index);
    slot = ex.wrap(deque_item(object_.get(), position).get(), index_source(source, position));
  }
  return slot;
}

const std::vector<ValuePtr>& DequeValue::items(Executor& ex) {
  look_at_length(ex);
  if (object_) require_short(items_.size(), *this);
  for (size_t i = 0; i < items_.size(); ++i) item(ex, i);
  return items_;
}

size_t DequeValue::size(Executor& ex) {
  look_at_length(ex);
  return items_.size();
}

// ---- changing

std::vector<ValuePtr>& DequeValue::mutable_items(Executor& ex) {
  items(ex);
  note_change(ex, static_cast<bool>(object_) && !changed_, items_);
  changed_ = true;
  ex.changing(shared_from_this(), static_cast<bool>(object_));
  return items_;
}

void DequeValue::refuse_finalizer(const ValuePtr& item) const {
  PyObject* object = object_ ? item->real_object() : nullptr;
  if (object && runs_code_when_it_dies(object)) break_before_end(object);
}

void DequeValue::append(Executor& ex, ValuePtr item) {
  ++version_;
  if (object_ && !length_guarded_) {
    appended_.push_back(std::move(item));
    ex.changing(shared_from_this(), true);
    return;
  }
  std::vector<ValuePtr>& items = mutable_items(ex);
  items.push_back(std::move(item));
  if (max_length(ex) < 0 || static_cast<Py_ssize_t>(items.size()) <= max_length_) return;
  refuse_finalizer(items.front());
  items.erase(items.begin());
}

void DequeValue::append_left(Executor& ex, ValuePtr item) {
  std::vector<ValuePtr>& items = mutable_items(ex);
  ++version_;
  items.insert(items.begin(), std::move(item));
  if (max_length(ex) < 0 || static_cast<Py_ssize_t>(items.size()) <= max_length_) return;
  refuse_finalizer(items.back());
  items.pop_back();
}

ValuePtr DequeValue::take(Executor& ex, size_t index) {
  std::vector<ValuePtr>& items = mutable_items(ex);
  ++version_;
  ValuePtr taken = items[index];
  items.erase(items.begin() + static_cast<ptrdiff_t>(index));
  note_held_by_stack(ex, taken);
  return taken;
}

// _deque_rotate
void DequeValue::rotate(Executor& ex, Py_ssize_t steps) {
  const auto count = static_cast<Py_ssize_t>(size(ex));
  if (count <= 1) return;
  std::vector<ValuePtr>& items = mutable_items(ex);
  ++version_;
  const Py_ssize_t right = (steps % count + count) % count;
  std::rotate(items.begin(), items.end() - right, items.end());
}

void DequeValue::assign(Executor& ex, size_t index, ValuePtr item) {
  std::vector<ValuePtr>& items = mutable_items(ex);
  refuse_finalizer(items[index]);
  items[index] = std::move(item);
}

void DequeValue::replace(Executor& ex, std::vector<ValuePtr> items) {
  std::vector<ValuePtr>& old = mutable_items(ex);
  for (const ValuePtr& item : old)
    if (std::ranges::find(items, item) == items.end()) refuse_finalizer(item);
  ++version_;
  old = std::move(items);
}

void DequeValue::restart(Executor& ex, Py_ssize_t max_length) {
  if (object_) break_graph("CD0202", "deque.__init__ of a deque that came in");
  replace(ex, {});
  max_length_ = max_length;
}

// ---- the data model

namespace {
// PyObject_GetItem of a sequence that is no mapping.
Py_ssize_t deque_index(Executor& ex, DequeValue& deque, const ValuePtr& key) {
  if (!is_integer_value(key) && !lookup_special(ex, key, "__index__"))
    raise_error(ex, PyExc_TypeError, "sequence index must be integer, not '" + type_name(key) + "'");
  return sequence_index(ex, key, static_cast<Py_ssize_t>(deque.size(ex)), "deque index out of range");
}
}  // namespace

ValuePtr DequeValue::get_item(Executor& ex, const ValuePtr& key) {
  return item(ex, static_cast<size_t>(deque_index(ex, *this, key)));
}

void DequeValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  const auto index = static_cast<size_t>(deque_index(ex, *this, key));
  if (value)
    assign(ex, index, value);
  else
    refuse_finalizer(take(ex, index));
}

bool DequeValue::contains(Executor& ex, const ValuePtr& wanted) {
  return find_in_deque(ex, *this, wanted, 0, static_cast<Py_ssize_t>(size(ex))) >= 0;
}

ValuePtr DequeValue::length(Executor& ex) { return ex.constant_int(static_cast<int64_t>(size(ex))); }
std::optional<bool> DequeValue::truth(Executor& ex) { return size(ex) != 0; }
ValuePtr DequeValue::iterate(Executor& ex) { return new_deque_iterator(ex, shared_from_this(), false); }

namespace {
// What stays of so many items where there may be no more than `max_length`.
std::vector<ValuePtr> last_of(std::vector<ValuePtr> items, Py_ssize_t max_length) {
  const auto count = static_cast<Py_ssize_t>(items.size());
  if (max_length >= 0 && count > max_length) items.erase(items.begin(), items.end() - max_length);
  return items;
}
}  // namespace

// deque_concat, deque_inplace_concat, deque_repeat, deque_inplace_repeat
ValuePtr DequeValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (nb_op == kNbInplaceAdd && !reflected) {
    extend_deque(ex, *this, other, false);
    return shared_from_this();
  }
  if (nb_op == kNbAdd && !reflected) {
    DequeValue* more = deque_in(other);
    if (!more) return nullptr;
    if (owner_.lock()) break_graph("CD0202", "+ of a subclass of deque, which makes one of the subclass");
    std::vector<ValuePtr> joined = items(ex);
    const std::vector<ValuePtr>& added = more->items(ex);
    joined.insert(joined.end(), added.begin(), added.end());
    return new_deque(last_of(std::move(joined), max_length(ex)), max_length_);
  }
  const bool repeats = nb_op == kNbMultiply || nb_op == kNbInplaceMultiply;
  if (!repeats || !is_integer_value(other)) return nullptr;
  std::vector<ValuePtr> repeated = last_of(repeat_items(ex, items(ex), other), max_length(ex));
  if (nb_op == kNbInplaceMultiply && !reflected) {
    replace(ex, std::move(repeated));
    return shared_from_this();
  }
  if (owner_.lock()) break_graph("CD0202", "* of a subclass of deque, which makes one of the subclass");
  return new_deque(std::move(repeated), max_length_);
}

ValuePtr DequeValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  DequeValue* deque = deque_in(other);
  return deque ? compare_sequences(ex, py_op, items(ex), deque->items(ex), LengthsDiffer::kDecides) : nullptr;
}

PyRef DequeValue::hash_key(Executor& ex) {
  raise_error(ex, PyExc_TypeError, "unhashable type: 'collections.deque'");
}

PyRef DequeValue::materialize(Executor& ex) {
  check_stack();
  PyRef list = checked(PyList_New(0));
  for (const ValuePtr& item : items(ex)) {
    PyRef object = item.get() == this ? PyRef() : item->materialize(ex);
    if (!object) return {};
    if (PyList_Append(list.get(), object.get()) < 0) throw PythonError{};
  }
  return checked(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(deque_type()), list.get(),
                                              limit_object(max_length(ex)).get(), nullptr));
}

// ---- what Python sees

namespace {

// deque's own methods, whatever a subclass has in their place.
bool call_own(PyObject* deque, const char* method, PyObject* argument) {
  PyObject* type = reinterpret_cast<PyObject*>(deque_type());
  return static_cast<bool>(
      PyRef::steal(PyObject_CallMethod(type, method, argument ? "OO" : "O", deque, argument)));
}

// What is done to a deque (args[0]) with the items in args[1] when the graph has run.
PyObject* extend(PyObject*, PyObject* const* args, Py_ssize_t) {
  return call_own(args[0], "extend", args[1]) ? Py_NewRef(Py_None) : nullptr;
}
PyObject* replace_items(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return call_own(args[0], "clear", nullptr) ? extend(self, args, count) : nullptr;
}
// As assignments do: an iterator over the deque goes on.
PyObject* assign_items(PyObject*, PyObject* const* args, Py_ssize_t) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); ++i) {
    PyObject* item = PyList_GET_ITEM(args[1], i);
    if (deque_item(args[0], i).get() != item &&
        deque_type()->tp_as_sequence->sq_ass_item(args[0], i, item) < 0)
      return nullptr;
  }
  return Py_NewRef(Py_None);
}

enum class Change { kReplace, kExtend, kAssign };
PyObject* effect_function(Change change) {
  auto function = [](auto* body) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(body));
  };
  static PyMethodDef definitions[] = {
      {"replace_deque", function(replace_items), METH_FASTCALL, "Exchanges its items."},
      {"extend_deque", function(extend), METH_FASTCALL, "deque.extend(deque, items)"},
      {"assign_deque", function(assign_items), METH_FASTCALL, "deque[i] = items[i]"}};
  static PyObject* functions[] = {PyCFunction_New(&definitions[0], nullptr),
                                  PyCFunction_New(&definitions[1], nullptr),
                                  PyCFunction_New(&definitions[2], nullptr)};
  return functions[static_cast<int>(change)];
}

}  // namespace

// A new one is made empty: what it holds may hold it.
RecipePtr DequeValue::recipe(Executor& ex) {
  check_stack();
  if (auto owner = owner_.lock()) return owner->recipe(ex);
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  recipe_ = call_recipe(reinterpret_cast<PyObject*>(deque_type()), {});
  emit_effects(ex);
  return recipe_;
}

void DequeValue::emit_effects(Executor& ex) {
  const bool only_grew = !appended_.empty();
  const Change change = only_grew ? Change::kExtend : version_ == 0 ? Change::kAssign : Change::kReplace;
  PyRef initializer;
  if (!object_)
    initializer = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(deque_type()), "__init__"));
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, object_ ? effect_function(change) : initializer.get());
  std::vector<RecipePtr> arguments{recipe(ex)};
  arguments.push_back(
      make_recipe(RecipeKind::kList, nullptr, recipes_of(ex, only_grew ? appended_ : items_)));
  if (!object_) arguments.push_back(make_recipe(RecipeKind::kConstant, limit_object(max_length_).get()));
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(arguments));
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
