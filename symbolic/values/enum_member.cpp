#include "symbolic/values/enum_member.h"

#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// The entry of the class, where it is a function of the program's; null: it is none.
PyObject* function_of_program(Executor& ex, PyTypeObject* type, const char* name) {
  PyObject* found = lookup_type(ex, type, interned(name));
  return found && PyFunction_Check(found) && !is_of_standard_library(found) ? found : nullptr;
}

}  // namespace

bool is_of_standard_library(PyObject* function) {
  const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) PyErr_Clear();
  const std::string_view path = file ? file : "";
  return path.starts_with("<frozen") ||
         (path.find("/lib/python3") != path.npos && path.find("site-packages") == path.npos);
}

ValuePtr method_of_enum(Executor& ex, const ValuePtr& value, const char* name) {
  if (!dynamic_cast<EnumMemberValue*>(value.get())) return nullptr;
  PyObject* found = function_of_program(ex, value->type(), name);
  return found ? bind_descriptor(ex, found, value, value->type()) : nullptr;
}

namespace {
// An attribute of the member's own that the program may set again; null: none, or one that enum keeps there. Borrowed.
PyObject* changeable_attribute(Executor& ex, PyObject* member, PyObject* name) {
  if (PyUnicode_READ_CHAR(name, 0) == '_' || ex.state().made_classes.own.contains(as_object(Py_TYPE(member))))
    return nullptr;
  PyObject** dict = _PyObject_GetDictPtr(member);
  return dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr;
}

// `name` and `value`, as enum itself gives them, are what the member keeps there: no member is told another, but by a program that
// assigns it.
void guard_kept_attribute(Executor& ex, PyObject* member, PyObject* name) {
  for (const auto& [shown, kept] : {std::pair("name", "_name_"), std::pair("value", "_value_")}) {
    if (PyUnicode_CompareWithASCIIString(name, shown) != 0 &&
        PyUnicode_CompareWithASCIIString(name, kept) != 0)
      continue;
    if (ex.state().made_classes.own.contains(as_object(Py_TYPE(member)))) return;
    PyObject** dict = _PyObject_GetDictPtr(member);
    PyObject* found = dict && *dict ? PyDict_GetItemWithError(*dict, interned(kept)) : nullptr;
    if (found)
      add_guard(ex, GuardKind::kIdentity,
                key_source(instance_dict_source(constant_source(member)), interned(kept)), found);
  }
}
}  // namespace

ValuePtr EnumMemberValue::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_GET_LENGTH(name) == 0) return ConstantValue::get_attribute(ex, name);
  guard_kept_attribute(ex, object(), name);
  PyObject** dict = _PyObject_GetDictPtr(object());
  if (DictValue* shown = looked_at_dict(ex, dict ? *dict : nullptr))
    if (ValuePtr changed = shown->changed() ? shown->lookup_string(ex, name) : nullptr) return changed;
  if (PyObject* own = changeable_attribute(ex, object(), name))
    return ex.wrap(own, key_source(instance_dict_source(constant_source(object())), name));
  PyObject* found = lookup_type(ex, type(), name);
  if (dict && *dict && !(found && is_data_descriptor(ex, found)) &&
      !ex.state().made_classes.own.contains(as_object(type())) && PyUnicode_READ_CHAR(name, 0) != '_')
    add_guard(ex, GuardKind::kAttributeAbsent, constant_source(object()), name);
  const PyRef getter =
      found && Py_IS_TYPE(found, &PyProperty_Type) ? checked(PyObject_GetAttrString(found, "fget")) : PyRef();
  if (getter && PyFunction_Check(getter.get())) return bind_descriptor(ex, found, shared_from_this(), type());
  return ConstantValue::get_attribute(ex, name);
}

ValuePtr EnumMemberValue::call(Executor& ex, const CallArgs& args) {
  const ValuePtr method = method_of_enum(ex, shared_from_this(), "__call__");
  return method ? method->call(ex, args) : ConstantValue::call(ex, args);
}

ValuePtr EnumMemberValue::get_item(Executor& ex, const ValuePtr& key) {
  const ValuePtr method = method_of_enum(ex, shared_from_this(), "__getitem__");
  return method ? method->call(ex, positional({key})) : ConstantValue::get_item(ex, key);
}

bool EnumMemberValue::contains(Executor& ex, const ValuePtr& item) {
  const ValuePtr method = method_of_enum(ex, shared_from_this(), "__contains__");
  return method ? is_true(ex, method->call(ex, positional({item}))) : ConstantValue::contains(ex, item);
}

ValuePtr EnumMemberValue::length(Executor& ex) {
  const ValuePtr method = method_of_enum(ex, shared_from_this(), "__len__");
  return method ? checked_length(ex, method->call(ex, {})) : ConstantValue::length(ex);
}

// Flag.__iter__ gives members, that of a text its characters.
ValuePtr EnumMemberValue::iterate(Executor& ex) {
  if (const ValuePtr method = method_of_enum(ex, shared_from_this(), "__iter__")) return method->call(ex, {});
  PyObject* found = lookup_type(ex, type(), interned("__iter__"));
  if (!found || !(PyFunction_Check(found) || PyUnicode_Check(object()))) return ConstantValue::iterate(ex);
  const PyRef members = checked_user(ex, PySequence_Tuple(object()));
  return ex.constant(members)->iterate(ex);
}

std::optional<bool> EnumMemberValue::truth(Executor& ex) {
  if (const ValuePtr method = method_of_enum(ex, shared_from_this(), "__bool__"))
    return checked_truth(ex, method->call(ex, {}));
  if (!lookup_type(ex, type(), interned("__bool__")))
    if (const ValuePtr method = method_of_enum(ex, shared_from_this(), "__len__"))
      return is_true(ex, checked_length(ex, method->call(ex, {})));
  return ConstantValue::truth(ex);
}

ValuePtr EnumMemberValue::unary(Executor& ex, Op op) {
  const char* name = op == Op::UNARY_NEGATIVE ? "__neg__" : op == Op::UNARY_INVERT ? "__invert__" : "__pos__";
  const ValuePtr method = method_of_enum(ex, shared_from_this(), name);
  return method ? method->call(ex, {}) : ConstantValue::unary(ex, op);
}

ValuePtr EnumMemberValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  // slot_nb_add: the right operand is asked where its class has a method of its own.
  const bool is_asked = !reflected || other->type() != type();
  const char* name = number_method(nb_op, reflected);
  if (function_of_program(ex, type(), name))
    return is_asked ? implemented(method_of_enum(ex, shared_from_this(), name)->call(ex, positional({other})))
                    : nullptr;
  return ConstantValue::binary(ex, nb_op, other, reflected);
}

ValuePtr EnumMemberValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (const ValuePtr method = method_of_enum(ex, shared_from_this(), kComparisons[py_op].method))
    return implemented(method->call(ex, positional({other})));
  // object_richcompare: != is the opposite of a class's own ==.
  if (py_op == Py_NE)
    if (const ValuePtr method = method_of_enum(ex, shared_from_this(), "__eq__")) {
      const ValuePtr equal = implemented(method->call(ex, positional({other})));
      return equal ? ex.constant_bool(!is_true(ex, equal)) : nullptr;
    }
  return ConstantValue::compare(ex, py_op, other);
}

// What C asks of it in turn is asked of the object, so one whose answer is the program's is not handed over.
PyRef EnumMemberValue::materialize(Executor& ex) {
  static constexpr const char* kAsked[] = {"__str__",   "__repr__",  "__format__", "__int__",
                                           "__float__", "__index__", "__round__",  "__abs__"};
  const bool is_own = std::ranges::any_of(
      kAsked, [&](const char* name) { return function_of_program(ex, type(), name) != nullptr; });
  return is_own ? PyRef() : ConstantValue::materialize(ex);
}

}  // namespace cdynamo::symbolic
