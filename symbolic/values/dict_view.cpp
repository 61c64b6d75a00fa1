// Dict views and mappingproxy: live windows on a dict. Mirrors the view types of Objects/dictobject.c.
#include <algorithm>

#include "absl/strings/substitute.h"
#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"

#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

PyTypeObject* DictViewValue::type() const {
  const bool ordered = dict_in(dict_)->ordered();
  switch (kind_) {
    case DictViewKind::kKeys: return ordered ? &PyODictKeys_Type : &PyDictKeys_Type;
    case DictViewKind::kValues: return ordered ? &PyODictValues_Type : &PyDictValues_Type;
    default: return ordered ? &PyODictItems_Type : &PyDictItems_Type;
  }
}

namespace {
ValuePtr is_disjoint(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "isdisjoint", args, 1, 1);
  ValuePtr iterator = iterate_value(ex, args.positional[0]);
  while (ValuePtr item = next_value(ex, iterator))
    if (self->contains(ex, item)) return ex.constant_bool(false);
  return ex.constant_bool(true);
}
constexpr BuiltinMethodRow kViewMethods[] = {{"isdisjoint", is_disjoint}};
}  // namespace

ValuePtr DictViewValue::get_attribute(Executor& ex, PyObject* name) {
  if (kind_ != DictViewKind::kValues)
    if (auto method = find_builtin_method(shared_from_this(), name, kViewMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

bool DictViewValue::contains(Executor& ex, const ValuePtr& item) {
  DictValue& dict = *dict_in(dict_);
  if (kind_ == DictViewKind::kKeys) return dict.contains(ex, item);
  if (kind_ == DictViewKind::kItems) {
    TupleValue* pair = tuple_in(item);
    if (!pair || pair->size(ex) != 2) return false;
    ValuePtr value = dict.lookup(ex, pair->item(ex, 0));
    return value && values_equal(ex, value, pair->item(ex, 1));
  }
  for (const DictValue::Entry& entry : dict.entries(ex))
    if (values_equal(ex, entry.value, item)) return true;
  return false;
}

ValuePtr DictViewValue::iterate(Executor&) { return new_dict_iterator(dict_, kind_); }

std::optional<std::vector<ValuePtr>> DictViewValue::unpack(Executor& ex) {
  std::vector<ValuePtr> items;
  for (const DictValue::Entry& entry : dict_in(dict_)->entries(ex, kind_ == DictViewKind::kKeys)) {
    items.push_back(kind_ == DictViewKind::kKeys     ? entry.key
                    : kind_ == DictViewKind::kValues ? entry.value
                                                     : new_tuple({entry.key, entry.value}));
  }
  return items;
}

PyRef DictViewValue::view_of_keys(Executor& ex, KeyedValues& values) const {
  PyRef dict = keys_of(ex, dict_, values);
  return checked(PyObject_CallMethod(dict.get(), "keys", nullptr));
}

// dictviews_sub and its siblings make sets.
ValuePtr DictViewValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (kind_ == DictViewKind::kValues) return nullptr;
  if (nb_op != kNbSubtract && nb_op != kNbAnd && nb_op != kNbOr && nb_op != kNbXor) return nullptr;
  if (kind_ == DictViewKind::kKeys && dict_->type() == &PyDict_Type) {
    KeyedValues values;
    PyRef mine = view_of_keys(ex, values);
    auto* view = dynamic_cast<DictViewValue*>(other.get());
    const bool is_keys = view && view->kind_ == kind_ && view->dict_->type() == &PyDict_Type;
    PyRef theirs = is_keys ? view->view_of_keys(ex, values) : keys_of(ex, other, values);
    PyObject* const operands[] = {mine.get(), theirs.get()};
    PyRef result = checked_user(ex, apply_number_operation(nb_op, operands[reflected], operands[!reflected]));
    return SetValue::of_keys(std::move(result), values, &PySet_Type);
  }
  ValuePtr mine = new_set(ex, *unpack(ex), &PySet_Type);
  ValuePtr theirs = new_set(ex, items_of(ex, other), &PySet_Type);
  return reflected ? theirs->binary(ex, nb_op, mine, false) : mine->binary(ex, nb_op, theirs, false);
}

ValuePtr DictViewValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (kind_ == DictViewKind::kValues) return nullptr;
  auto* view = dynamic_cast<DictViewValue*>(other.get());
  if (!set_in(other) && (!view || view->kind_ == DictViewKind::kValues)) return nullptr;
  ValuePtr mine = new_set(ex, *unpack(ex), &PySet_Type);
  return mine->compare(ex, py_op, new_set(ex, items_of(ex, other), &PySet_Type));
}

RecipePtr DictViewValue::recipe(Executor& ex) {
  if (!recipe_) {
    const char* name = kind_ == DictViewKind::kKeys     ? "keys"
                       : kind_ == DictViewKind::kValues ? "values"
                                                        : "items";
    PyRef method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), name));
    if (dict_in(dict_)->type() != &PyDict_Type)
      method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(dict_in(dict_)->type()), name));
    recipe_ = call_recipe(method.get(), {dict_->recipe(ex)});
  }
  return recipe_;
}

ValuePtr MappingProxyValue::get_attribute(Executor& ex, PyObject* name) {
  static constexpr std::string_view kForwarded[] = {"get", "keys", "values", "items", "copy"};
  if (std::find(std::begin(kForwarded), std::end(kForwarded), PyUnicode_AsUTF8(name)) != std::end(kForwarded))
    return dict_->get_attribute(ex, name);
  return builtin_attribute(ex, shared_from_this(), name);
}

// PyObject_SetItem, PyObject_DelItem (Objects/abstract.c): an int is taken for an index.
void MappingProxyValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  const char* does_not = !value && is_integer_value(key) ? "doesn't" : "does not";
  raise_error(ex, PyExc_TypeError,
              absl::Substitute("'mappingproxy' object $0 support item $1", does_not,
                               value ? "assignment" : "deletion"));
}

RecipePtr MappingProxyValue::recipe(Executor& ex) {
  if (source && !recipe_) recipe_ = source_recipe(source);
  if (!recipe_) recipe_ = call_recipe(reinterpret_cast<PyObject*>(&PyDictProxy_Type), {dict_->recipe(ex)});
  return recipe_;
}

}  // namespace cdynamo::symbolic
