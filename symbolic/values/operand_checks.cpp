#include "symbolic/values/operand_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/value_factories.h"
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

void require_special(Executor& ex, const ValuePtr& value, const char* name, const char* message) {
  if (!_PyType_Lookup(value->type(), interned(name)))
    raise_error(ex, PyExc_TypeError, absl::Substitute(message, type_name(value)));
}

}  // namespace cdynamo::symbolic
