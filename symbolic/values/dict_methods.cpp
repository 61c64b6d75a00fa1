#include "symbolic/values/dict_methods.h"

#include <algorithm>

#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

DictValue& dict_of(const ValuePtr& self) { return *dict_in(self); }

ValuePtr dict_get(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "get", args, {"key", "default?"});
  if (ValuePtr value = dict_of(self).lookup(ex, bound[0])) return value;
  return bound[1] ? bound[1] : ex.none();
}

ValuePtr set_default(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "setdefault", args, {"key", "default?"});
  if (ValuePtr value = dict_of(self).lookup(ex, bound[0])) return value;
  ValuePtr value = bound[1] ? bound[1] : ex.none();
  dict_of(self).store(ex, bound[0], value);
  return value;
}

ValuePtr dict_pop(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "pop", args, {"key", "default?"});
  // An empty dict does not look at the key.
  DictValue& dict = dict_of(self);
  ValuePtr value = dict.size(ex) > 0 || dict.ordered() ? dict.lookup(ex, bound[0]) : nullptr;
  if (value) {
    dict.erase(ex, bound[0]);
    note_held_by_stack(ex, value);
    return value;
  }
  if (!bound[1]) raise_key_error(ex, bound[0]);
  return bound[1];
}

ValuePtr pop_item(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  DictValue& dict = dict_of(self);
  auto bound = bind_arguments(ex, "popitem", args, {"last?"});
  bool last = !bound[0] || is_true(ex, bound[0]);
  auto entries = dict.entries(ex);
  if (entries.empty())
    raise_error(ex, PyExc_KeyError,
                dict.ordered() ? "dictionary is empty" : "popitem(): dictionary is empty");
  DictValue::Entry entry = last ? entries.back() : entries.front();
  dict.erase(ex, entry.key);
  note_held_by_stack(ex, entry.value);
  return new_tuple({entry.key, entry.value});
}

ValuePtr update(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  update_dict(ex, dict_of(self), args);
  return ex.none();
}

template <DictViewKind kind>
ValuePtr view(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "view", args, 0, 0);
  return std::make_shared<DictViewValue>(self, kind);
}

ValuePtr dict_copy(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "copy", args, 0, 0);
  DictValue& dict = dict_of(self);
  auto copied = new_dict(dict.type());
  copied->set_default_factory(dict.default_factory());
  for (const DictValue::Entry& entry : dict.entries(ex)) copied->store(ex, entry.key, entry.value);
  return copied;
}

ValuePtr dict_clear(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "clear", args, 0, 0);
  dict_of(self).clear(ex);
  return ex.none();
}

ValuePtr move_to_end(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "move_to_end", args, {"key", "last?"});
  dict_of(self).move_to_end(ex, bound[0], !bound[1] || is_true(ex, bound[1]));
  return ex.none();
}

constexpr BuiltinMethodRow kDictMethods[] = {
    {"get", dict_get},
    {"items", view<DictViewKind::kItems>},
    {"keys", view<DictViewKind::kKeys>},
    {"values", view<DictViewKind::kValues>},
    {"setdefault", set_default},
    {"pop", dict_pop},
    {"popitem", pop_item},
    {"update", update},
    {"copy", dict_copy},
    {"clear", dict_clear},
    {"__init__", update},
};
constexpr BuiltinMethodRow kOrderedMethods[] = {{"move_to_end", move_to_end}};

}  // namespace

ValuePtr find_dict_method(Executor& ex, const ValuePtr& self, PyObject* name) {
  if (auto method = find_builtin_method(self, name, kDictMethods)) return method;
  DictValue& dict = dict_of(self);
  if (dict.ordered()) return find_builtin_method(self, name, kOrderedMethods);
  if (dict.default_factory() && PyUnicode_CompareWithASCIIString(name, "default_factory") == 0)
    return dict.default_factory();
  return nullptr;
}

// dict_merge takes another way for a subclass with an __iter__ of its own.
static bool iterates_as_dict(Executor& ex, const ValuePtr& mapping) {
  auto* object = dynamic_cast<UserObjectValue*>(mapping.get());
  return !object || !object->special(ex, "__iter__", true);
}

// dict_update_common: a mapping has keys().
void update_dict(Executor& ex, DictValue& dict, const CallArgs& args) {
  if (args.positional.size() > 1)
    raise_error(ex, PyExc_TypeError,
                "update expected at most 1 argument, got " + std::to_string(args.positional.size()));
  if (!args.positional.empty()) {
    const ValuePtr& given = args.positional[0];
    if (DictValue* other = dict_in(given); other && iterates_as_dict(ex, given)) {
      for (const DictValue::Entry& entry : other->entries(ex)) dict.set_item(ex, entry.key, entry.value);
    } else if (ValuePtr keys = attribute_if_any(ex, given, "keys")) {
      ValuePtr iterator = iterate_value(ex, keys->call(ex, {}));
      while (ValuePtr key = next_value(ex, iterator)) dict.set_item(ex, key, given->get_item(ex, key));
    } else {
      size_t position = 0;
      ValuePtr iterator = iterate_value(ex, given);
      while (ValuePtr pair = next_value(ex, iterator)) {
        if (!pair->type()->tp_iter)
          raise_error(ex, PyExc_TypeError,
                      "cannot convert dictionary update sequence element #" + std::to_string(position) +
                          " to a sequence");
        std::vector<ValuePtr> items = items_of(ex, pair);
        if (items.size() != 2)
          raise_error(ex, PyExc_ValueError,
                      "dictionary update sequence element #" + std::to_string(position) + " has length " +
                          std::to_string(items.size()) + "; 2 is required");
        dict.set_item(ex, items[0], items[1]);
        ++position;
      }
    }
  }
  for (const Keyword& keyword : args.keywords) dict.set_item(ex, ex.constant(keyword.name), keyword.value);
}

}  // namespace cdynamo::symbolic
