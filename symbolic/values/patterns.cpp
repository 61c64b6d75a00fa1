#include "symbolic/values/patterns.h"

#include <algorithm>

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

ValuePtr find_matches(Executor& ex, PyObject* callable, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) {
    PyRef object = value->materialize(ex);
    if (!object) break_graph("CD0215", "re.Pattern.finditer of " + value->describe());
    return object;
  };
  const PyRef iterator = checked_user(ex, call_with_objects(callable, args, known).release());
  PyRef matches = checked_user(ex, PySequence_Tuple(iterator.get()));
  return polyfill(ex, PythonSide::kItertoolsPolyfills, "matches")
      ->call(ex, positional({wrap_fresh(ex, std::move(matches))}));
}

bool has_function(const CallArgs& args) {
  const auto keyword = std::ranges::find_if(args.keywords, [](const Keyword& given) {
    return PyUnicode_CompareWithASCIIString(given.name.get(), "repl") == 0;
  });
  const ValuePtr replacement = !args.positional.empty()         ? args.positional[0]
                               : keyword != args.keywords.end() ? keyword->value
                                                                : nullptr;
  return replacement && replacement->type()->tp_call;
}

// The counts that 3.13's functions of re leave out are ints of a class of their own.
CallArgs with_plain_ints(CallArgs args) {
  const auto make_plain = [](ValuePtr& value) {
    const ValuePtr storage = builtin_storage(value);
    if (storage && storage->type() == &PyLong_Type) value = storage;
  };
  for (ValuePtr& value : args.positional) make_plain(value);
  for (Keyword& keyword : args.keywords) make_plain(keyword.value);
  return args;
}

}  // namespace

ValuePtr call_pattern_method(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!self || std::string_view(Py_TYPE(self)->tp_name) != "re.Pattern") return nullptr;
  CallArgs plain = with_plain_ints(args);
  if (name == "finditer") return find_matches(ex, callable, plain);
  if ((name != "sub" && name != "subn") || !has_function(plain)) return fold_call(ex, callable, plain);
  plain.positional.insert(plain.positional.begin(), ex.wrap(self, constant_source(self)));
  return polyfill(ex, PythonSide::kStandardPolyfills, name == "sub" ? "pattern_sub" : "pattern_subn")
      ->call(ex, plain);
}

}  // namespace cdynamo::symbolic
