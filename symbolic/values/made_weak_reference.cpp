#include "symbolic/values/made_weak_reference.h"

#include <algorithm>
#include <unordered_set>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/list.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {

[[noreturn]] void refuse(const ValuePtr& object) { break_graph("CD0224", object->describe()); }

// ---- what holds an object

// Looks through what captured code has made, and what it has put into live objects.
class Search {
 public:
  Search(Executor& ex, const ValuePtr& wanted) : ex_(ex), wanted_(wanted) {}

  bool is_in(const ValuePtr& holder) {
    if (!holder) return false;
    if (holder == wanted_) return true;
    if (!seen_.insert(holder.get()).second) return false;
    check_stack();
    if (auto* object = dynamic_cast<UserObjectValue*>(holder.get())) return is_in_object(*object);
    if (auto* dict = dynamic_cast<DictValue*>(holder.get())) return is_in_dict(*dict);
    if (auto* list = dynamic_cast<ListValue*>(holder.get()))
      return is_in_any(list->known_items()) || is_in_any(list->known_appended());
    if (auto* set = dynamic_cast<SetValue*>(holder.get())) return is_in_any(set->inserted_items());
    auto* tuple = dynamic_cast<TupleValue*>(holder.get());
    return tuple && !tuple->source && is_in_any(tuple->items(ex_));
  }

 private:
  bool is_in_any(const std::vector<ValuePtr>& items) {
    return std::ranges::any_of(items, [&](const ValuePtr& item) { return is_in(item); });
  }
  bool is_in_dict(const DictValue& dict) {
    if (dict.known_attributes() && is_in_dict(*dict.known_attributes())) return true;
    return std::ranges::any_of(dict.known_entries(), [&](const DictValue::Entry& entry) {
      return is_in(entry.value) || (entry.value && is_in(entry.key));
    });
  }
  bool is_in_object(const UserObjectValue& object) {
    if (object.known_instance_dict() && is_in_dict(*object.known_instance_dict())) return true;
    return is_in(object.storage()) ||
           std::ranges::any_of(object.known_slots(), [&](const auto& slot) { return is_in(slot.second); });
  }
  Executor& ex_;
  const ValuePtr& wanted_;
  std::unordered_set<const SymbolicValue*> seen_;
};

// ---- callbacks

bool is_of_container(Executor& ex, const ValuePtr& callback) {
  if (callback->type() != &PyFunction_Type) return false;
  static constexpr const char* kNames[] = {"WeakKeyDictionary.__init__.<locals>.remove()",
                                           "WeakValueDictionary.__init__.<locals>.remove()",
                                           "WeakSet.__init__.<locals>._remove()"};
  const std::string name = callback->describe();
  if (std::ranges::none_of(kNames, [&](const char* known) { return name == known; })) return false;
  const PyRef module = string_argument(ex, callback->get_attribute(ex, interned("__module__")));
  return PyUnicode_CompareWithASCIIString(module.get(), "weakref") == 0 ||
         PyUnicode_CompareWithASCIIString(module.get(), "_weakrefset") == 0;
}

ValuePtr initialize(Executor& ex, const ValuePtr&, const CallArgs&) { return ex.none(); }
ValuePtr call_reference(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return self->call(ex, args);
}
constexpr BuiltinMethodRow kMadeWeakReferenceMethods[] = {{"__init__", initialize},
                                                          {"__call__", call_reference}};

}  // namespace

bool is_held(Executor& ex, const ValuePtr& object) {
  Search search(ex, object);
  const Executor::State& state = ex.state();
  const auto is_in = [&](const ValuePtr& holder) { return search.is_in(holder); };
  if (any_local(ex, is_in)) return true;
  if (state.let_go_of_holder) return false;
  for (const auto& [name, value] : state.globals)
    if (is_in(value)) return true;
  return std::ranges::any_of(state.mutated, is_in);
}

WeakReferenceValue* made_reference_in(const ValuePtr& value) {
  const ValuePtr& storage = builtin_storage(value);
  return dynamic_cast<WeakReferenceValue*>((storage ? storage : value).get());
}

ValuePtr made_weak_reference(Executor& ex, const ValuePtr& object) {
  ValuePtr& reference = ex.state().weak_references[object.get()];
  if (!reference) {
    reference = std::make_shared<WeakReferenceValue>(object, nullptr);
    ex.state().cyclic[reference.get()] = reference;
  }
  return reference;
}

ValuePtr make_weak_reference_with(Executor& ex, const ValuePtr& object, const ValuePtr& callback) {
  if (!is_of_container(ex, callback)) break_graph("CD0224", object->describe() + ", with a callback");
  if (!object->source) made_weak_reference(ex, object);  // that there is one shows that the object is watched
  auto reference = std::make_shared<WeakReferenceValue>(object, callback);
  ex.state().cyclic[reference.get()] = reference;
  return reference;
}

std::vector<RecipePtr> WeakReferenceValue::arguments(Executor& ex) const {
  std::vector<RecipePtr> arguments{referent_->recipe(ex)};
  if (callback_) arguments.push_back(callback_->recipe(ex));
  return arguments;
}

ValuePtr WeakReferenceValue::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__callback__") == 0) return callback_ ? callback_ : ex.none();
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kMadeWeakReferenceMethods))
    return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr WeakReferenceValue::call(Executor& ex, const CallArgs& args) {
  require_no_keywords(ex, "weakref", args);
  require_count(ex, "weakref", args, 0, 0);
  if (referent_->source ? may_have_died(ex, referent_) : !is_held(ex, referent_)) refuse(referent_);
  return referent_;
}

ValuePtr WeakReferenceValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  return compare_weak_references(ex, shared_from_this(), py_op, other);
}

// weakref_hash and weakref_richcompare ask the objects.
PyRef WeakReferenceValue::hash_key(Executor& ex) {
  if (!has_identity(referent_->type())) break_graph("CD0210", describe());
  const ValuePtr plain = weak_reference_to(ex, referent_);
  if (plain.get() != this) return plain->hash_key(ex);
  if (!identity_) identity_ = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  return identity_;
}

RecipePtr WeakReferenceValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  return first_recipe(recipe_, call_recipe(reinterpret_cast<PyObject*>(type()), arguments(ex)));
}

void WeakReferenceValue::forget() {
  callback_ = nullptr;
  referent_ = nullptr;
}

void require_live_entries(Executor& ex, const ValuePtr& container) {
  static constexpr const char* kContainers[] = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"};
  if (std::ranges::none_of(kContainers, [&](const char* name) {
        return is_instance_of(container, reinterpret_cast<PyTypeObject*>(library_object("weakref", name)));
      }))
    return;
  const ValuePtr data = container->get_attribute(ex, interned("data"));
  const auto look_at = [&](const ValuePtr& part) {
    auto* live = dynamic_cast<UserObjectValue*>(part.get());
    if (made_reference_in(part) || (live && is_weak_reference(*live))) part->call(ex, {});
  };
  if (auto* set = set_in(data)) std::ranges::for_each(set->inserted_items(), look_at);
  if (DictValue* dict = dict_in(data))
    for (const DictValue::Entry& entry : dict->known_entries()) {
      if (!entry.value) continue;
      look_at(entry.key);
      look_at(entry.value);
    }
}

}  // namespace cdynamo::symbolic
