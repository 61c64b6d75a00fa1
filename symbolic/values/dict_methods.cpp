#include "symbolic/values/dict_methods.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
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

// OrderedDict's calls the methods of a subclass.
ValuePtr set_default(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "setdefault", args, {"key", "default?"});
  const ValuePtr value = bound[1] ? bound[1] : ex.none(), whole = dict_of(self).self();
  if (dict_of(self).ordered() && whole.get() != &dict_of(self)) {
    if (whole->contains(ex, bound[0])) return whole->get_item(ex, bound[0]);
    whole->set_item(ex, bound[0], value);
    return value;
  }
  if (ValuePtr there = dict_of(self).lookup(ex, bound[0])) return there;
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

// defdict_init: the factory is None where none is given.
ValuePtr fill_dict(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  DictValue& dict = dict_of(self);
  if (!PyType_IsSubtype(dict.type(), default_dict_type())) return update(ex, self, args);
  CallArgs rest = args;
  ValuePtr factory = ex.none();
  if (!rest.positional.empty()) {
    factory = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    if (!is_none(factory)) require_callable(ex, factory, "first argument must be callable or None");
  }
  if (dict.real_object() && factory != dict.default_factory()) break_graph("CD0212", "defaultdict.__init__");
  dict.set_default_factory(factory);
  return update(ex, self, rest);
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
  if (dict.size(ex) > 0) update_dict(ex, *copied, positional({dict.self()}));
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
    {"__init__", fill_dict},
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

// Whether dict_merge, or OrderedDict's update, takes the entries of a dict past the methods of its class. A subclass of dict with an
// __iter__ of its own is asked, and so is one of OrderedDict.
static bool is_taken_whole(Executor& ex, const ValuePtr& mapping, bool into_ordered) {
  auto* object = dynamic_cast<UserObjectValue*>(mapping.get());
  if (!object) return true;
  if (into_ordered || dict_in(mapping)->ordered())
    return !object->special(ex, "keys", true) && !object->special(ex, "__getitem__", true);
  return !object->special(ex, "__iter__", true);
}

namespace {

// PyDict_MergeFromSeq2, and mutablemapping_add_pairs (Objects/odictobject.c) in its own words.
std::pair<ValuePtr, ValuePtr> pair_of(Executor& ex, const ValuePtr& pair, size_t position, bool ordered) {
  const std::string element = absl::StrCat("dictionary update sequence element #", position);
  if (!ordered && !is_iterable(pair))
    raise_error(ex, PyExc_TypeError, absl::StrCat("cannot convert ", element, " to a sequence"));
  const std::vector<ValuePtr> items = items_of(ex, pair);
  if (items.size() == 2) return {items[0], items[1]};
  if (!ordered)
    raise_error(ex, PyExc_ValueError, absl::StrCat(element, " has length ", items.size(), "; 2 is required"));
  constexpr const char* kFew[] = {"need more than 0 values to unpack", "need more than 1 value to unpack"};
  raise_error(ex, PyExc_ValueError,
              items.size() < 2 ? kFew[items.size()] : "too many values to unpack (expected 2)");
}

}  // namespace

// dict_update_common, and mutablemapping_update, which calls the __setitem__ of a subclass: a mapping has keys().
void update_dict(Executor& ex, DictValue& dict, const CallArgs& args) {
  const bool ordered = dict.ordered();
  if (args.positional.size() > 1)
    raise_error(ex, PyExc_TypeError,
                absl::Substitute(ordered ? "update() takes at most 1 positional argument ($0 given)"
                                         : "update expected at most 1 argument, got $0",
                                 args.positional.size()));
  const ValuePtr whole = ordered ? dict.self() : nullptr;
  const auto put = [&](const ValuePtr& key, const ValuePtr& value) {
    whole ? whole->set_item(ex, key, value) : dict.set_item(ex, key, value);
  };
  if (!args.positional.empty()) {
    const ValuePtr& given = args.positional[0];
    if (DictValue* other = dict_in(given); other && is_taken_whole(ex, given, ordered)) {
      for (const DictValue::Entry& entry : other->entries(ex)) put(entry.key, entry.value);
    } else if (ValuePtr keys = attribute_if_any(ex, given, "keys")) {
      ValuePtr iterator = iterate_value(ex, keys->call(ex, {}));
      while (ValuePtr key = next_value(ex, iterator)) put(key, given->get_item(ex, key));
    } else {
      size_t position = 0;
      ValuePtr iterator = iterate_value(ex, given);
      while (ValuePtr next = next_value(ex, iterator)) {
        const auto [key, value] = pair_of(ex, next, position++, ordered);
        put(key, value);
      }
    }
  }
  for (const Keyword& keyword : args.keywords) put(ex.constant(keyword.name), keyword.value);
}

}  // namespace cdynamo::symbolic
