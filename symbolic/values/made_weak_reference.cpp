#include "symbolic/values/made_weak_reference.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/holder_search.h"
#include "symbolic/values/list.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {

[[noreturn]] void refuse(const ValuePtr& object) { break_graph("CD0224", object->describe()); }

// ---- callbacks

// WeakMethod's own calls what the program has given, which its closure holds.
bool calls_nothing(Executor& ex, const ValuePtr& callback) {
  const ValuePtr code = callback->get_attribute(ex, interned("__code__"));
  PyObject* real = code->real_object() ? code->real_object() : constant_object(code);
  if (!real || !PyCode_Check(real)) return false;
  const PyRef names = checked(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(real)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), "callback") == 0)
      return is_none(callback->get_attribute(ex, interned("__closure__"))
                         ->get_item(ex, ex.constant_int(i))
                         ->get_attribute(ex, interned("cell_contents")));
  return false;
}

// Changes nothing but the container, or the reference, that it is of.
bool is_of_library(Executor& ex, const ValuePtr& callback) {
  if (callback->type() != &PyFunction_Type) return false;
  static constexpr const char* kWeakMethod = "WeakMethod.__new__.<locals>._cb()";
  static constexpr const char* kNames[] = {"WeakKeyDictionary.__init__.<locals>.remove()",
                                           "WeakValueDictionary.__init__.<locals>.remove()",
                                           "WeakSet.__init__.<locals>._remove()", kWeakMethod};
  const std::string name = callback->describe();
  if (std::ranges::none_of(kNames, [&](const char* known) { return name == known; })) return false;
  const PyRef module = string_argument(ex, callback->get_attribute(ex, interned("__module__")));
  const bool is_own = PyUnicode_CompareWithASCIIString(module.get(), "weakref") == 0 ||
                      PyUnicode_CompareWithASCIIString(module.get(), "_weakrefset") == 0;
  return is_own && (name != kWeakMethod || calls_nothing(ex, callback));
}

// ---- what outlives the captured code

// Where an argument alone may hold it, it dies after the call: the reference is there by then if something else holds it.
bool outlives_root(Executor& ex, const ValuePtr& reference, const ValuePtr& returned) {
  const ValuePtr& object = static_cast<WeakReferenceValue&>(*reference).referent();
  const auto is_reference_kept = [&] { return is_kept(ex, reference, returned, false); };
  if (!object->source)
    return is_kept(ex, object, returned, false) ||
           (is_kept(ex, object, returned, true) && is_reference_kept());
  const PyRef live = object->real_object() ? PyRef::borrow(object->real_object())
                                           : follow(*object->source, ex.state().request.roots);
  if (ex.state().let_go_of_holder || ex.state().let_go.contains(live.get())) return false;
  return outlives_call(object->source) || is_reference_kept();
}

bool is_alive(Executor& ex, const ValuePtr& object) {
  if (object->source) return !may_have_died(ex, object);
  HolderSearch search(ex, object);
  const auto is_in = [&](const ValuePtr& holder) { return search.is_in(holder); };
  return any_held(ex, is_in) || is_kept(ex, object, nullptr, true);
}

void watch(Executor& ex, const ValuePtr& reference, const ValuePtr& object) {
  // Python calls those of one object in the order in which they were made, the last one first.
  const bool is_watched = std::ranges::any_of(ex.state().watched_references, [&](const ValuePtr& other) {
    return static_cast<WeakReferenceValue&>(*other).referent() == object;
  });
  if (is_watched || ex.isolated_region()) break_graph("CD0224", object->describe() + ", with a callback");
  ex.state().watched_references.push_back(reference);
}

ValuePtr initialize(Executor& ex, const ValuePtr&, const CallArgs&) { return ex.none(); }
ValuePtr call_reference(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return self->call(ex, args);
}
constexpr BuiltinMethodRow kMadeWeakReferenceMethods[] = {{"__init__", initialize},
                                                          {"__call__", call_reference}};

}  // namespace

bool is_held(Executor& ex, const ValuePtr& object) {
  HolderSearch search(ex, object);
  const Executor::State& state = ex.state();
  const auto is_in = [&](const ValuePtr& holder) { return search.is_in(holder); };
  if (any_local(ex, is_in)) return true;
  if (state.let_go_of_holder) return false;
  for (const auto& [name, value] : state.globals)
    if (is_in(value)) return true;
  return std::ranges::any_of(state.mutated, is_in);
}

void require_watched_alive(Executor& ex, const ValuePtr* returned) {
  for (const ValuePtr& reference : ex.state().watched_references) {
    const ValuePtr& object = static_cast<WeakReferenceValue&>(*reference).referent();
    if (returned ? !outlives_root(ex, reference, *returned) : !is_alive(ex, object))
      break_graph("CD0224", object->describe() + ", which may have died, and has a callback");
  }
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
  const bool is_of_program = !is_of_library(ex, callback);
  if (!object->source) made_weak_reference(ex, object);  // that there is one shows that the object is watched
  auto reference = std::make_shared<WeakReferenceValue>(object, callback);
  ex.state().cyclic[reference.get()] = reference;
  if (is_of_program) watch(ex, reference, object);
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
