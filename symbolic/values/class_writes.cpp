#include "symbolic/values/class_writes.h"

#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/written_names.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/unique_number.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

bool is_descriptor(PyTypeObject* kind) { return kind->tp_descr_get || kind->tp_descr_set; }

// Names that slots are made of, and what the class statement leaves.
bool is_special(PyObject* name) {
  const std::string_view text = PyUnicode_AsUTF8(name);
  return text.starts_with("__") && text.ends_with("__");
}

bool can_be_written(Executor& ex, PyTypeObject* type, PyObject* name, const ValuePtr& value) {
  if (!value || is_special(name) || is_enum_class(type) || is_descriptor(value->type())) return false;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
    return false;
  PyObject* of_metaclass = _PyType_Lookup(Py_TYPE(type), name);
  PyObject* found = _PyType_Lookup(type, name);
  return !(of_metaclass && is_data_descriptor(ex, of_metaclass)) && !(found && is_descriptor(Py_TYPE(found)));
}

ValuePtr* assigned(Executor& ex, PyTypeObject* type, PyObject* name) {
  auto& classes = ex.state().class_attributes;
  const auto found = classes.find(type);
  if (found == classes.end()) return nullptr;
  for (auto& [key, value] : found->second)
    if (PyUnicode_Compare(key.get(), name) == 0) return &value;
  return nullptr;
}

}  // namespace

bool write_class_attribute(Executor& ex, const ValuePtr& cls, PyObject* name, const ValuePtr& value) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls->real_object());
  if (!can_be_written(ex, type, name, value)) return false;
  guard_class(ex, type);
  ex.changing(cls, true);
  if (ValuePtr* slot = assigned(ex, type, name)) {
    *slot = value;
    return true;
  }
  PyObject* old = own_type_entry(type, name);
  // It may have been read as what the class has, and is not guarded with the class any more.
  if (old && !is_written_name(type, name))
    add_guard(ex, is_plain_constant(old) ? GuardKind::kEquals : GuardKind::kIdentity,
              attribute_source(constant_source(as_object(type)), name), old);
  ex.state().note_let_go(old);
  note_written_name(type, name);
  ex.state().class_attributes[type].emplace_back(PyRef::borrow(name), value);
  return true;
}

void emit_class_writes(Executor& ex, ClassValue& cls) {
  const auto& classes = ex.state().class_attributes;
  const auto found = classes.find(reinterpret_cast<PyTypeObject*>(cls.real_object()));
  if (found == classes.end()) return;
  for (const auto& [name, value] : found->second) {
    Effect effect{.kind = EffectKind::kSetAttribute};
    effect.target = cls.recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, name.get());
    effect.value = value->recipe(ex);
    ex.effect(std::move(effect));
  }
}

ValuePtr written_in_class(Executor& ex, PyTypeObject* type, PyObject* name) {
  if (is_counter_of_unique_numbers(type, name)) note_written_name(type, name);
  if (!has_written_names(type)) return nullptr;
  if (ValuePtr* value = assigned(ex, type, name)) return *value;
  PyObject* entry = is_written_name(type, name) ? own_type_entry(type, name) : nullptr;
  if (!entry || is_descriptor(Py_TYPE(entry))) return nullptr;
  const SourcePtr source = attribute_source(constant_source(as_object(type)), name);
  if (ValuePtr number = unique_number(ex, type, name, entry, source)) return number;
  return ex.wrap(entry, source);
}

ValuePtr written_attribute(Executor& ex, PyTypeObject* type, PyObject* name) {
  if (!type->tp_mro) return nullptr;  // it is being made
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (ValuePtr value = written_in_class(ex, base, name)) return value;
    if (own_type_entry(base, name)) return nullptr;
  }
  return nullptr;
}

}  // namespace cdynamo::symbolic
