// json.dumps and json.loads of what is known at capture: done while capturing. Others, and those that call the program back, are inlined.
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

ValuePtr make_iterencode(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kJsonPolyfills, "make_iterencode")->call(ex, args);
}

constexpr const char* kDumps = "dumps";
constexpr const char* kLoads = "loads";
constexpr BuiltinRow kFunctions[] = {{"json", kDumps, fold<kDumps>},
                                     {"json", kLoads, fold<kLoads>},
                                     {"json.encoder", "_make_iterencode", make_iterencode},
                                     {"pprint", "pformat", pretty},
                                     {"pprint", "pprint", pretty_print}};

}  // namespace

std::span<const BuiltinRow> json_functions() { return kFunctions; }

}  // namespace cdynamo::symbolic
