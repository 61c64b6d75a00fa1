#include "symbolic/values/patterns.h"

#include <algorithm>

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/tuple.h"
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

}  // namespace

ValuePtr call_pattern_method(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!self || std::string_view(Py_TYPE(self)->tp_name) != "re.Pattern") return nullptr;
  if (name == "finditer") return find_matches(ex, callable, args);
  if ((name != "sub" && name != "subn") || !has_function(args)) return nullptr;
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), ex.wrap(self, constant_source(self)));
  return polyfill(ex, PythonSide::kStandardPolyfills, name == "sub" ? "pattern_sub" : "pattern_subn")
      ->call(ex, all);
}

}  // namespace cdynamo::symbolic
