#include "symbolic/values/operand_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// _PyObject_FunctionStr
std::string words_of(Executor& ex, const ValuePtr& callable) {
  if (callable->type() != &PyFunction_Type && callable->type() != &PyMethod_Type)
    break_graph("CD0100", callable->describe());
  const auto text = [&](const char* name) {
    PyObject* object = constant_object(callable->get_attribute(ex, interned(name)));
    if (!object || !PyUnicode_Check(object)) break_graph("CD0100", callable->describe());
    return std::string(PyUnicode_AsUTF8(object));
  };
  const std::string module = text("__module__");
  return absl::StrCat(module == "builtins" ? "" : module + ".", text("__qualname__"), "()");
}

}  // namespace

bool is_iterable(const ValuePtr& value) {
  PyTypeObject* type = value->type();
  return type->tp_iter || (type->tp_as_sequence && type->tp_as_sequence->sq_item);
}

void require_iterable_argument(Executor& ex, const ValuePtr& callable, const ValuePtr& operand) {
  if (is_iterable(operand)) return;
  raise_error(ex, PyExc_TypeError,
              absl::StrCat(words_of(ex, callable), " argument after * must be an iterable, not ",
                           type_name(operand)));
}

void require_mapping_argument(Executor& ex, const ValuePtr& callable, const ValuePtr& operand) {
  if (_PyType_Lookup(operand->type(), interned("keys"))) return;
  // An attribute of the object's own may be called so.
  if (operand->type()->tp_dictoffset) break_graph("CD0100", callable->describe());
  raise_error(
      ex, PyExc_TypeError,
      absl::StrCat(words_of(ex, callable), " argument after ** must be a mapping, not ", type_name(operand)));
}

void require_callable(Executor& ex, const ValuePtr& value, const char* message) {
  guard_class(ex, value->type());
  if (!value->type()->tp_call) raise_error(ex, PyExc_TypeError, message);
}

// Up to 3.11 an int of C's.
bool reverse_argument(Executor& ex, const ValuePtr& given) {
  constexpr bool kTakesAnything = PY_VERSION_HEX >= 0x030C0000;
  if (!given) return false;
  if (!kTakesAnything && constant_object(given)) return index_argument(ex, given) != 0;
  if (!kTakesAnything)
    require_special(ex, given, "__index__", "'$0' object cannot be interpreted as an integer");
  return is_true(ex, given);
}

const ValuePtr& checked_text(Executor& ex, const ValuePtr& returned, const char* method) {
  if (!is_instance_of(returned, &PyUnicode_Type))
    raise_error(ex, PyExc_TypeError,
                absl::StrCat(method, " returned non-string (type ", type_name(returned), ")"));
  return returned;
}

ValuePtr attribute_if_any(Executor& ex, const ValuePtr& value, const char* name) {
  const bool is_instance = dynamic_cast<UserObjectValue*>(value.get());
  return is_instance ? get_attribute_or_null(ex, value, interned(name)) : lookup_special(ex, value, name);
}

const ValuePtr& checked_iterator(Executor& ex, const ValuePtr& returned) {
  if (!is_iterator_type(returned->type()))
    raise_error(ex, PyExc_TypeError,
                absl::StrCat("iter() returned non-iterator of type '", type_name(returned), "'"));
  return returned;
}

void require_index(Executor& ex, const char* sequence, const ValuePtr& key) {
  if (key->as_index(ex) || lookup_special(ex, key, "__index__")) return;
  raise_error(ex, PyExc_TypeError,
              absl::StrCat(sequence, " indices must be integers or slices, not ", type_name(key)));
}

ValuePtr settled_index(Executor& ex, const ValuePtr& key) {
  const auto settled = [&](const ValuePtr& index) {
    auto* object = dynamic_cast<UserObjectValue*>(index.get());
    return object && object->special(ex, "__index__", true) ? ex.constant_int(index_argument(ex, index))
                                                            : index;
  };
  auto* slice = dynamic_cast<SliceValue*>(key.get());
  if (!slice) return settled(key);
  // _PySlice_Unpack: step, start, stop
  const ValuePtr step = settled(slice->step()), start = settled(slice->start()),
                 stop = settled(slice->stop());
  const bool is_same = step == slice->step() && start == slice->start() && stop == slice->stop();
  return is_same ? key : make_slice(ex, start, stop, step);
}

namespace {
// Of a builtin type of numbers the place among those that each know the ones before; 0: another type.
int number_rank(PyTypeObject* type) {
  int rank = 0;
  for (PyTypeObject* known : {&PyLong_Type, &PyFloat_Type, &PyComplex_Type})
    if (++rank; PyType_IsSubtype(type, known)) return rank;
  return 0;
}
}  // namespace

ValuePtr seen_by(PyTypeObject* type, const ValuePtr& operand) {
  const ValuePtr& storage = builtin_storage(operand);
  if (!storage || !dynamic_cast<ConstantValue*>(storage.get())) return operand;
  const int rank = number_rank(type), other = number_rank(storage->type());
  return rank && (!other || other > rank) ? operand : storage;
}

ValuePtr plain_number(const ValuePtr& operand) { return seen_by(&PyComplex_Type, operand); }

bool is_builtin_number(PyTypeObject* type) {
  return type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type;
}

void require_special(Executor& ex, const ValuePtr& value, const char* name, const char* message) {
  if (!_PyType_Lookup(value->type(), interned(name)))
    raise_error(ex, PyExc_TypeError, absl::Substitute(message, type_name(value)));
}

}  // namespace cdynamo::symbolic
