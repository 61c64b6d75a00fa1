// Sorting is CPython's own: it is given objects that stand for the keys, and < of two of these is captured code. So which keys are
// compared, in which order and how often, is as in the program, and keys without an order come out as there.
#include <exception>

#include "symbolic/values/builtins.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

struct Comparison {
  Executor& ex;
  const std::vector<ValuePtr>& keys;
  std::exception_ptr thrown = nullptr;  // by captured code: it may not pass through CPython's frames
  bool has_set_error = false;
};

struct StandIn {
  PyObject_HEAD Py_ssize_t place;
  Comparison* comparison;
};

PyObject* compare_stand_ins(PyObject* left, PyObject* right, int op) {
  auto &a = *reinterpret_cast<StandIn*>(left), &b = *reinterpret_cast<StandIn*>(right);
  Comparison& comparison = *a.comparison;
  try {
    const std::vector<ValuePtr>& keys = comparison.keys;
    return PyBool_FromLong(
        is_true(comparison.ex, compare_operation(comparison.ex, op, keys[a.place], keys[b.place])));
  } catch (...) {
    comparison.thrown = std::current_exception();
    if (!PyErr_Occurred()) {
      comparison.has_set_error = true;
      PyErr_SetNone(PyExc_RuntimeError);
    }
    return nullptr;
  }
}

PyTypeObject* stand_in_type() {
  static PyTypeObject* type = nullptr;
  if (type) return type;
  static PyType_Slot slots[] = {{Py_tp_richcompare, reinterpret_cast<void*>(compare_stand_ins)},
                                {0, nullptr}};
  static PyType_Spec spec = {.name = "cdynamo.SortKey",
                             .basicsize = sizeof(StandIn),
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots};
  return type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
}

// The keys themselves, where all are known and C compares them; null otherwise.
PyRef known_keys(Executor& ex, const std::vector<ValuePtr>& keys) {
  PyRef list = checked(PyList_New(0));
  for (const ValuePtr& key : keys) {
    auto object = key->as_constant();
    if (!object || method_of_enum(ex, key, "__lt__")) return {};
    if (PyList_Append(list.get(), object->get()) < 0) throw PythonError{};
  }
  return list;
}

PyRef stand_ins(Comparison& comparison) {
  PyRef list = checked(PyList_New(0));
  for (size_t i = 0; i < comparison.keys.size(); ++i) {
    const PyRef made = checked(PyType_GenericAlloc(stand_in_type(), 0));
    auto& stand_in = *reinterpret_cast<StandIn*>(made.get());
    stand_in.place = static_cast<Py_ssize_t>(i);
    stand_in.comparison = &comparison;
    if (PyList_Append(list.get(), made.get()) < 0) throw PythonError{};
  }
  return list;
}

}  // namespace

void sort_values(Executor& ex, std::vector<ValuePtr>& values, const ValuePtr& key, bool reverse) {
  std::vector<ValuePtr> keys = values;
  if (key && !is_none(key))
    for (ValuePtr& item : keys) item = key->call(ex, positional({item}));
  Comparison comparison{ex, keys};
  PyRef compared = known_keys(ex, keys);
  if (!compared) compared = stand_ins(comparison);

  const auto count = static_cast<Py_ssize_t>(keys.size());
  const PyRef range = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "n", count));
  const PyRef places = checked(PySequence_List(range.get()));
  const PyRef key_at = checked(PyObject_GetAttrString(compared.get(), "__getitem__"));
  const PyRef sort = checked(PyObject_GetAttrString(places.get(), "sort"));
  const PyRef options =
      checked(Py_BuildValue("{sOsO}", "key", key_at.get(), "reverse", reverse ? Py_True : Py_False));
  const PyRef none = checked(PyTuple_New(0));
  PyObject* done = PyObject_Call(sort.get(), none.get(), options.get());

  const std::vector<ValuePtr> before = values;
  for (Py_ssize_t i = 0; i < count; ++i)
    values[i] = before[PyLong_AsSsize_t(PyList_GET_ITEM(places.get(), i))];
  if (comparison.thrown) {
    if (comparison.has_set_error) PyErr_Clear();
    std::rethrow_exception(comparison.thrown);
  }
  checked_user(ex, done);
}

}  // namespace cdynamo::symbolic
