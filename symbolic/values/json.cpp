// json.dumps, json.loads and pickle.dumps of what is known at capture: done while capturing. Others of json's, and those that call the
// program back, are inlined.
#include <algorithm>

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/python_call.h"
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

// The error that is set, made as the program would make it.
[[noreturn]] void raise_decode_error(Executor& ex) {
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  const PyRef cls = PyRef::steal(type), raised = PyRef::steal(error), place = PyRef::steal(traceback);
  std::vector<ValuePtr> parts;
  for (const char* name : {"msg", "doc", "pos"})
    parts.push_back(ex.constant(checked(PyObject_GetAttrString(raised.get(), name))));
  raise_new(ex, ex.wrap(cls.get(), constant_source(cls.get()))->call(ex, positional(std::move(parts))));
}

// What `function` gives for plain data; null with its error, and nullopt where the arguments are none.
std::optional<PyRef> of_plain_data(Executor& ex, PyObject* function, const CallArgs& args) {
  bool is_known = true;
  const auto known = [&](const ValuePtr& value) {
    PyRef object = materialize(ex, value);
    is_known &= object && is_plain_data(object.get());
    return object ? object : PyRef::borrow(Py_None);
  };
  std::ranges::for_each(args.positional, known);
  std::ranges::for_each(args.keywords, known, &Keyword::value);
  if (!is_known) return std::nullopt;
  return call_with_objects(function, args, known);
}

template <const char* const& kName>
ValuePtr fold(Executor& ex, const CallArgs& args) {
  PyObject* decode_error = library_object("json", "JSONDecodeError");
  std::optional<PyRef> result = of_plain_data(ex, library_object("json", kName), args);
  if (!result) return nullptr;
  if (*result) return wrap_fresh(ex, *std::move(result));
  if (!PyErr_ExceptionMatches(decode_error)) {
    PyErr_Clear();
    return nullptr;  // as Python it raises the error
  }
  raise_decode_error(ex);
}

// pprint.pformat of plain data: its Python tells containers from others by their addresses.
ValuePtr pretty(Executor& ex, const CallArgs& args) {
  std::optional<PyRef> result = of_plain_data(ex, library_object("pprint", "pformat"), args);
  return result ? wrap_fresh(ex, checked_user(ex, result->release())) : nullptr;
}
ValuePtr pretty_print(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kStandardPolyfills, "pprint")->call(ex, args);
}

// Whether no object in plain data is equal to another one that pickle would refer to: it asks which ones are the same.
bool has_no_equals(PyObject* object, std::vector<PyObject*>& seen) {
  const bool is_container =
      PyDict_CheckExact(object) || PyList_CheckExact(object) || PyTuple_CheckExact(object);
  if (!is_container && !PyUnicode_CheckExact(object)) return true;
  for (PyObject* other : seen)
    if (other == object || PyObject_RichCompareBool(other, object, Py_EQ) != 0) return false;
  seen.push_back(object);
  if (PyDict_CheckExact(object)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);)
      if (!has_no_equals(key, seen) || !has_no_equals(value, seen)) return false;
  } else if (is_container) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (!has_no_equals(PySequence_Fast_GET_ITEM(object, i), seen)) return false;
  }
  return true;
}

// pickle.dumps(data), pickle.dumps(data, protocol): what memoizes arguments by their text does so.
ValuePtr pickled(Executor& ex, const CallArgs& args) {
  constexpr size_t kMostObjects = 64;
  std::vector<PyObject*> seen;
  const PyRef data = args.positional.empty() ? PyRef() : materialize(ex, args.positional[0]);
  std::optional<PyRef> result;
  if (data && is_plain_data(data.get()) && has_no_equals(data.get(), seen) && seen.size() <= kMostObjects)
    result = of_plain_data(ex, library_object("pickle", "dumps"), args);
  if (!result) break_graph("CD0212", "pickle.dumps of these arguments");
  return wrap_fresh(ex, checked_user(ex, result->release()));
}

ValuePtr make_iterencode(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kJsonPolyfills, "make_iterencode")->call(ex, args);
}

constexpr const char* kDumps = "dumps";
constexpr const char* kLoads = "loads";
constexpr BuiltinRow kJsonFunctions[] = {{"json", kDumps, fold<kDumps>},
                                         {"json", kLoads, fold<kLoads>},
                                         {"json.encoder", "_make_iterencode", make_iterencode},
                                         {"pickle", kDumps, pickled},
                                         {"pprint", "pformat", pretty},
                                         {"pprint", "pprint", pretty_print}};

}  // namespace

std::span<const BuiltinRow> json_functions() { return kJsonFunctions; }

}  // namespace cdynamo::symbolic
