// Instances as keys, what makes them after the graph has run, and what changes them.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {
bool is_nan(PyObject* number) {
  if (PyFloat_Check(number)) return std::isnan(PyFloat_AS_DOUBLE(number));
  if (!PyComplex_Check(number)) return false;
  const Py_complex parts = PyComplex_AsCComplex(number);
  return std::isnan(parts.real) || std::isnan(parts.imag);
}
}  // namespace

PyRef UserObjectValue::hash_key(Executor& ex) {
  PyObject* hash = lookup_type(ex, type(), interned("__hash__"));
  PyObject* equal = lookup_type(ex, type(), interned("__eq__"));
  if (hash == Py_None)
    raise_error(ex, PyExc_TypeError, "unhashable type: '" + type_name(shared_from_this()) + "'");
  bool python = (hash && PyFunction_Check(hash)) || (equal && PyFunction_Check(equal));
  if (!python && storage_) {
    PyRef key = storage_->hash_key(ex);
    // Not a number: its hash is the instance's identity.
    if (is_nan(key.get())) break_graph("CD0210", describe());
    return key;
  }
  if (!python && is_weak_reference(*this)) return weak_reference_key(ex, *this);
  bool by_identity = hash == object_entry("__hash__") && equal == object_entry("__eq__");
  if (!by_identity) return instance_key(ex, *this);
  if (object_) ex.state().identities.insert(this);
  if (object_) return object_;
  if (!identity_) identity_ = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  return identity_;
}

RecipePtr UserObjectValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (object_) return recipe_ = source_recipe(source);
  return new_object_recipe(ex);
}

// A class of the polyfills says what makes the object that its instances stand for, and of which attributes; null for others.
RecipePtr UserObjectValue::stood_for(Executor& ex) {
  PyObject* module = _PyType_Lookup(type(), interned("__module__"));
  if (!module || !PyUnicode_Check(module) ||
      PyUnicode_CompareWithASCIIString(module, "cdynamo.polyfills.standard") != 0)
    return nullptr;
  PyObject* made_by = _PyType_Lookup(type(), interned("made_by"));
  if (made_by == Py_None) break_graph("CD0211", describe());
  std::vector<RecipePtr> arguments;
  for (Py_ssize_t i = 1; made_by && i < PyTuple_GET_SIZE(made_by); ++i)
    arguments.push_back(get_attribute(ex, PyTuple_GET_ITEM(made_by, i))->recipe(ex));
  return made_by ? call_recipe(PyTuple_GET_ITEM(made_by, 0), std::move(arguments)) : nullptr;
}

RecipePtr UserObjectValue::new_object_recipe(Executor& ex) {
  if (RecipePtr other = stood_for(ex)) return first_recipe(recipe_, std::move(other));
  PyTypeObject* base = builtin_base(type());
  bool immutable = storage_ && (dynamic_cast<TupleValue*>(storage_.get()) ||
                                dynamic_cast<ConstantValue*>(storage_.get()) ||
                                (set_in(storage_) && set_in(storage_)->frozen()));
  const bool is_namespace = reinterpret_cast<PyObject*>(type()) == library_object("types", "SimpleNamespace");
  if (!storage_ && base != &PyBaseObject_Type && !is_namespace) break_graph("CD0211", describe());
  if (is_namespace) {
    recipe_ = call_recipe(type_.get(), {});
  } else if (!storage_) {
    recipe_ = make_recipe(RecipeKind::kNewObject, type_.get());
  } else {
    PyRef constructor = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__new__"));
    std::vector<RecipePtr> arguments = {class_recipe(ex, type())};
    if (immutable) arguments.push_back(storage_->recipe(ex));
    if (auto* reference = dynamic_cast<WeakReferenceValue*>(storage_.get()))
      for (RecipePtr& argument : reference->arguments(ex)) arguments.push_back(std::move(argument));
    // What it holds may hold it, and has come by here in the meantime.
    if (recipe_) return recipe_;
    recipe_ = call_recipe(constructor.get(), std::move(arguments));
    if (!immutable && read_by_key_) break_graph("CD0211", describe());
    if (!immutable) storage_->emit_effects(ex);
  }
  if (read_by_key_) return whole_recipe(ex, std::exchange(recipe_, nullptr));
  emit_effects(ex);
  if (dict_)
    for (const DictValue::Entry& entry : dict_->entries(ex))
      ex.effect(dict_->change_effect(ex, entry.key, entry.value));
  return recipe_;
}

// The effects that set attributes come too late for a dict or set that is made of the object.
RecipePtr UserObjectValue::whole_recipe(Executor& ex, RecipePtr made) {
  if (std::exchange(being_made_, true)) break_graph("CD0211", absl::StrCat(describe(), " that holds itself"));
  const RecipePtr attributes = make_recipe(RecipeKind::kDict), slots = make_recipe(RecipeKind::kDict);
  const auto add = [&](const RecipePtr& to, PyObject* name, const ValuePtr& value) {
    if (!value) return;
    to->items.push_back(make_recipe(RecipeKind::kConstant, name));
    to->items.push_back(value->recipe(ex));
  };
  if (dict_)
    for (const DictValue::Entry& entry : dict_->entries(ex))
      add(attributes, entry.hash_key.get(), entry.value);
  for (const auto& [name, value] : slots_) add(slots, name.get(), value);
  being_made_ = false;
  recipe_ = call_recipe(python_side(PythonSide::kWithAttributes), {std::move(made), attributes, slots});
  return recipe_;
}

// Slots; the __dict__ registers its own changes.
void UserObjectValue::emit_effects(Executor& ex) {
  for (const auto& [name, value] : slot_changes_) {
    Effect effect;
    effect.kind = value ? EffectKind::kSetAttribute : EffectKind::kDeleteAttribute;
    effect.target = recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, name.get());
    if (value) effect.value = value->recipe(ex);
    ex.effect(std::move(effect));
  }
}

}  // namespace cdynamo::symbolic
