// Opcodes of the match statement.
#include <string>

#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Registering a class with Sequence or Mapping sets its flag.
template <unsigned long flag>
void match_by_flag(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  PyTypeObject* type = frame.peek(1)->type();
  const bool matches = PyType_HasFeature(type, flag);
  if (!matches && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) {
    constexpr const char* kClass = flag == Py_TPFLAGS_SEQUENCE ? "Sequence" : "Mapping";
    guard_not_registered(ex, type, library_object("collections.abc", kClass));
  }
  frame.push(ex.constant_bool(matches));
}

// match_keys in Python/ceval.c: an instance is asked by its get. Null: the subject has no such key.
ValuePtr value_or_null(Executor& ex, const ValuePtr& subject, const ValuePtr& key) {
  if (!dynamic_cast<UserObjectValue*>(subject.get()))
    return subject->contains(ex, key) ? subject->get_item(ex, key) : nullptr;
  const ValuePtr none = UserObjectValue::make(&PyBaseObject_Type, nullptr);
  const ValuePtr value = call_method(ex, subject, "get", {key, none});
  return value == none ? nullptr : value;
}

// (subject, keys -- subject, keys, values or None)
void match_keys(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr subject = frame.peek(2);
  std::vector<ValuePtr> values;
  PyRef seen = checked(PySet_New(nullptr));
  for (const ValuePtr& key : items_of(ex, frame.peek(1))) {
    PyRef known = key->materialize(ex);
    if (!known || PySet_Contains(seen.get(), known.get()) != 0)
      break_graph("CD0004", "a mapping pattern that Python refuses");
    if (PySet_Add(seen.get(), known.get()) < 0) throw PythonError{};
    ValuePtr value = value_or_null(ex, subject, key);
    if (!value) return frame.push(ex.none());
    values.push_back(std::move(value));
  }
  frame.push(make_tuple(ex, std::move(values)));
}

// Null: the subject has no such attribute.
ValuePtr attribute_or_null(Executor& ex, const ValuePtr& subject, PyObject* name) {
  try {
    return subject->get_attribute(ex, name);
  } catch (const PythonRaise& raised) {
    if (matches_exception(raised, PyExc_AttributeError)) return nullptr;
    throw;
  }
}

// Patterns that Python refuses as they are matched: it does so itself.
void require_distinct(PyObject* names, PyObject* more) {
  PyRef seen = checked(PySet_New(nullptr));
  for (PyObject* list : {names, more})
    for (Py_ssize_t i = 0; list && i < PyTuple_GET_SIZE(list); ++i) {
      PyObject* name = PyTuple_GET_ITEM(list, i);
      const bool text = PyUnicode_Check(name);
      if (!text || PySet_Contains(seen.get(), name) != 0)
        break_graph("CD0004", "a class pattern that Python refuses");
      if (PySet_Add(seen.get(), name) < 0) throw PythonError{};
    }
}

// The attributes that positional patterns name: match_class in Python/ceval.c.
PyRef positional_names(Executor& ex, PyTypeObject* type, size_t count) {
  PyObject* names = _PyType_Lookup(type, interned("__match_args__"));
  if (!names || !PyTuple_CheckExact(names) || static_cast<size_t>(PyTuple_GET_SIZE(names)) < count)
    raise_error(ex, PyExc_TypeError,
                std::string(type->tp_name) + "() accepts fewer positional sub-patterns than given");
  return PyRef::borrow(names);
}

// (subject, class, keyword names -- attributes or None); `arg` positional patterns
void match_class(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyRef keyword_names = frame.pop()->as_constant().value_or(PyRef());
  ValuePtr cls = frame.pop();
  PyObject* class_ = cls->real_object();
  ValuePtr subject = frame.pop();
  if (!class_ || !PyType_Check(class_) || !keyword_names)
    break_graph("CD0004", "MATCH_CLASS of what is no known class");
  auto* type = reinterpret_cast<PyTypeObject*>(class_);
  if (!is_instance(ex, subject, cls)) return frame.push(ex.none());
  guard_class(ex, type);
  size_t count = static_cast<size_t>(in.arg);
  constexpr unsigned long kMatchSelf = 1ul << 22;  // _Py_TPFLAGS_MATCH_SELF
  std::vector<ValuePtr> attributes;
  PyRef names;
  if (count == 1 && PyType_HasFeature(type, kMatchSelf)) {
    attributes.push_back(subject);
  } else if (count > 0) {
    names = positional_names(ex, type, count);
    names = checked(PyTuple_GetSlice(names.get(), 0, in.arg));
    require_distinct(names.get(), keyword_names.get());
    for (size_t i = 0; i < count; ++i) {
      ValuePtr value = attribute_or_null(ex, subject, PyTuple_GET_ITEM(names.get(), i));
      if (!value) return frame.push(ex.none());
      attributes.push_back(std::move(value));
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keyword_names.get()); ++i) {
    ValuePtr value = attribute_or_null(ex, subject, PyTuple_GET_ITEM(keyword_names.get(), i));
    if (!value) return frame.push(ex.none());
    attributes.push_back(std::move(value));
  }
  frame.push(make_tuple(ex, std::move(attributes)));
}

constexpr OpRow kMatchRows[] = {
    {Op::MATCH_MAPPING, match_by_flag<Py_TPFLAGS_MAPPING>},
    {Op::MATCH_SEQUENCE, match_by_flag<Py_TPFLAGS_SEQUENCE>},
    {Op::MATCH_KEYS, match_keys},
    {Op::MATCH_CLASS, match_class},
};

}  // namespace

std::span<const OpRow> match_ops() { return kMatchRows; }

}  // namespace cdynamo::symbolic
