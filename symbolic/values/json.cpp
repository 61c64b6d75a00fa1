// json.dumps and json.loads of what is known at capture: done while capturing.
#include <algorithm>

#include "symbolic/values/builtins.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// What runs no code of the program's as it is written.
bool is_plain_data(PyObject* object) {
  check_stack();
  if (object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
      PyUnicode_CheckExact(object))
    return true;
  if (PyDict_CheckExact(object)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);)
      if (!is_plain_data(key) || !is_plain_data(value)) return false;
    return true;
  }
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  PyObject** items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + PySequence_Fast_GET_SIZE(object), is_plain_data);
}

template <const char* const& kName>
ValuePtr fold(Executor& ex, const CallArgs& args) {
  const std::string name = std::string("json.") + kName;
  const auto known = [&](const ValuePtr& value) {
    PyRef object = materialize(ex, value);
    if (!object || !is_plain_data(object.get())) break_graph("CD0212", name + " of " + value->describe());
    return object;
  };
  PyRef positional = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), known(args.positional[i]).release());
  PyRef keywords = checked(PyDict_New());
  for (const Keyword& keyword : args.keywords)
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), known(keyword.value).get()) < 0)
      throw PythonError{};
  PyRef result = PyRef::steal(PyObject_Call(library_object("json", kName), positional.get(), keywords.get()));
  if (result) return wrap_fresh(ex, std::move(result));
  PyErr_Clear();
  break_graph("CD0101", "of " + name);
}

constexpr const char* kDumps = "dumps";
constexpr const char* kLoads = "loads";
constexpr BuiltinRow kFunctions[] = {{"json", kDumps, fold<kDumps>}, {"json", kLoads, fold<kLoads>}};

}  // namespace

std::span<const BuiltinRow> json_functions() { return kFunctions; }

}  // namespace cdynamo::symbolic
