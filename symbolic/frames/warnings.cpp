// The warnings module. Its functions and catch_warnings are inlined, on the list of filters that the program finds; what a warning
// comes to is decided with them: nothing, an exception, a record in a list, or text that is written when the graph has run
// (_warnings.c).
#include "symbolic/frames/warnings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/output.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/list.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

PyObject* warnings_module() {
  static PyObject* module = nullptr;
  if (!module) module = checked(PyImport_ImportModule("warnings")).release();
  return module;
}

// _showwarnmsg_impl, which writes to sys.stderr. catch_warnings(record=True) puts a list's append in its place, and a program may
// import cdynamo while that is so.
bool is_writer(PyObject* object) {
  if (!PyFunction_Check(object) || PyFunction_GET_GLOBALS(object) != PyModule_GetDict(warnings_module()))
    return false;
  PyObject* name = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(object))->co_name;
  return PyUnicode_CompareWithASCIIString(name, "_showwarnmsg_impl") == 0;
}

ValuePtr module_attribute(Executor& ex, const char* name) {
  return ex.wrap(warnings_module(), constant_source(warnings_module()))->get_attribute(ex, interned(name));
}

// A filter that came in: its parts never change.
ValuePtr known_filter(Executor& ex, PyObject* filter) {
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(filter); ++i) {
    PyObject* item = PyTuple_GET_ITEM(filter, i);
    items.push_back(ex.wrap(item, constant_source(item)));
  }
  return new_constant_tuple(PyRef::borrow(filter), std::move(items));
}

// The filters as they are at this place. The live ones are guarded by what they say: each simplefilter() makes one of its own.
ListValue& current_filters(Executor& ex) {
  ListValue* filters = list_in(module_attribute(ex, "filters"));
  if (!filters) break_graph("CD0213", "warnings.warn");
  PyObject* live = filters->real_object();
  if (live && !filters->changed())
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(live); ++i) {
      PyObject* filter = PyList_GET_ITEM(live, i);
      if (!PyTuple_CheckExact(filter) || PyTuple_GET_SIZE(filter) != 5)
        break_graph("CD0213", "warnings.warn");
      filters->know_item(ex, static_cast<size_t>(i), known_filter(ex, filter));
    }
  return *filters;
}

bool is_live(const ListValue& filters) {
  PyObject* live = PyDict_GetItemString(PyModule_GetDict(warnings_module()), "filters");
  return filters.real_object() && filters.real_object() == live && !filters.changed();
}

// ---- where a warning comes from

struct Place {
  const SymbolicFrame* frame = nullptr;
  const char* file = "";
  int line = 0;
  std::string module;
};

// setup_context: frames of the import machinery are passed over.
Place place_of(Executor& ex, Py_ssize_t stack_level) {
  const SymbolicFrame* frame = ex.frame();
  for (Py_ssize_t i = 1; frame && i < stack_level; ++i) frame = frame->back;
  for (const SymbolicFrame* at = ex.frame(); at && at != frame; at = at->back) {
    const std::string_view file = at->code->file();
    if (file.find("cdynamo/polyfills") != file.npos || file.find("importlib") != file.npos) frame = nullptr;
  }
  if (!frame) break_graph("CD0213", "warnings.warn for a caller of the compiled function");
  Place place{frame, frame->code->file(), frame->line(), "<string>"};
  PyObject* name = PyDict_GetItemString(frame->globals.get(), "__name__");
  if (name && PyUnicode_Check(name)) place.module = PyUnicode_AsUTF8(name);
  return place;
}

// ---- which filter it meets

PyObject* known_object(const ValuePtr& value) {
  if (PyObject* constant = constant_object(value)) return constant;
  return value->real_object();
}

// check_matched
bool matches_text(Executor& ex, PyObject* pattern, const std::string& text) {
  if (!pattern || pattern == Py_None) return pattern;
  if (PyUnicode_CheckExact(pattern)) return PyUnicode_CompareWithASCIIString(pattern, text.c_str()) == 0;
  if (std::string_view(Py_TYPE(pattern)->tp_name) != "re.Pattern") break_graph("CD0213", "warnings.warn");
  PyRef found = checked_user(ex, PyObject_CallMethod(pattern, "match", "s", text.c_str()));
  return PyObject_IsTrue(found.get()) == 1;
}

struct Warning {
  std::string text;
  PyObject* category;
  Place place;
  ValuePtr instance;  // where the program has made one; null: the text alone is known
};

// get_filter
std::string action_for(Executor& ex, ListValue& filters, const Warning& warning) {
  for (size_t i = 0; i < filters.size(ex); ++i) {
    TupleValue* filter = tuple_in(filters.item(ex, i));
    if (!filter || filter->size(ex) != 5) break_graph("CD0213", "warnings.warn");
    PyObject* parts[5];
    for (size_t part = 0; part < 5; ++part) parts[part] = known_object(filter->item(ex, part));
    if (!std::ranges::all_of(parts, [](PyObject* part) { return part != nullptr; }) ||
        !PyUnicode_Check(parts[0]) || !PyType_Check(parts[2]) || !PyLong_Check(parts[4]))
      break_graph("CD0213", "warnings.warn");
    const long line = PyLong_AsLong(parts[4]);
    if (matches_text(ex, parts[1], warning.text) && PyObject_IsSubclass(warning.category, parts[2]) == 1 &&
        matches_text(ex, parts[3], warning.place.module) && (line == 0 || line == warning.place.line))
      return PyUnicode_AsUTF8(parts[0]);
  }
  PyRef action = string_argument(ex, module_attribute(ex, "defaultaction"));
  return PyUnicode_AsUTF8(action.get());
}

// ---- what it comes to

ValuePtr instance_of(Executor& ex, const Warning& warning) {
  if (warning.instance) return warning.instance;
  PyRef text =
      checked(PyUnicode_FromStringAndSize(warning.text.data(), static_cast<Py_ssize_t>(warning.text.size())));
  return ex.wrap(warning.category, constant_source(warning.category))
      ->call(ex, positional({ex.constant(std::move(text))}));
}

std::vector<RecipePtr> shown(Executor& ex, const Warning& warning, PyObject* namespace_) {
  PyRef text =
      checked(PyUnicode_FromStringAndSize(warning.text.data(), static_cast<Py_ssize_t>(warning.text.size())));
  PyRef line = checked(PyLong_FromLong(warning.place.line));
  return {warning.instance ? warning.instance->recipe(ex) : make_recipe(RecipeKind::kConstant, text.get()),
          make_recipe(RecipeKind::kConstant, warning.category), text_recipe(warning.place.file),
          make_recipe(RecipeKind::kConstant, line.get()), make_recipe(RecipeKind::kConstant, namespace_)};
}

// Whether a function of the module is the one that it began with, which is guarded.
bool is_original(Executor& ex, const char* name, const char* original) {
  const ValuePtr value = module_attribute(ex, name);
  PyObject* object = value->real_object();
  if (!object) return false;
  if (value->source && value->source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, value->source, object);
  return object == PyDict_GetItemString(PyModule_GetDict(warnings_module()), original);
}

// Written as warnings itself does: to sys.stderr, in its own form.
void require_plain_form(Executor& ex) {
  standard_stream(ex, "stderr", "warnings.warn");
  if (!is_original(ex, "formatwarning", "_formatwarning_orig") ||
      !is_original(ex, "showwarning", "_showwarning_orig"))
    break_graph("CD0213", "warnings.warn with a form of its own");
}

// append() of the list that an outer catch_warnings(record=True) keeps, which the program has not looked at.
bool is_recorded_unseen(Executor& ex) {
  PyObject* shows = PyDict_GetItemString(PyModule_GetDict(warnings_module()), "_showwarnmsg_impl");
  PyObject* list = shows && PyCFunction_Check(shows) ? PyCFunction_GET_SELF(shows) : nullptr;
  if (!list || !PyList_CheckExact(list) || ex.state().by_object.contains(list)) return false;
  if (assigned_name(ex, PyModule_GetDict(warnings_module()), interned("_showwarnmsg_impl"))) return false;
  guard_exact_type(ex, shows, module_global_source(warnings_module(), interned("_showwarnmsg_impl")));
  return is_original(ex, "showwarning", "_showwarning_orig");
}

// _showwarnmsg(WarningMessage(...)): functions of the program that stand there are inlined.
void show(Executor& ex, const Warning& warning) {
  CallArgs args = positional(
      {instance_of(ex, warning), ex.wrap(warning.category, constant_source(warning.category)),
       ex.constant(checked(PyUnicode_FromString(warning.place.file))), ex.constant_int(warning.place.line)});
  ValuePtr message = module_attribute(ex, "WarningMessage")->call(ex, args);
  module_attribute(ex, "_showwarnmsg")->call(ex, positional({std::move(message)}));
}

// "default", "module", "once": the registry of the place says whether it was shown before. It is the module's own.
void show_unless_seen(Executor& ex, const Warning& warning, const ListValue& filters) {
  // Filters that have changed since the call began have emptied the registry.
  if (!is_live(filters)) break_graph("CD0213", "warnings.warn under filters that the program has set");
  if (!is_recorded_unseen(ex)) {
    require_plain_form(ex);
    const ValuePtr writer = module_attribute(ex, "_showwarnmsg_impl");
    if (!writer->real_object() || !is_writer(writer->real_object())) break_graph("CD0213", "warnings.warn");
    add_guard(ex, GuardKind::kIdentity, writer->source, writer->real_object());
  }
  write_later(ex, python_side(PythonSide::kShowWarning),
              shown(ex, warning, warning.place.frame->globals.get()), "warnings.warn");
}

PyObject* category_of(Executor& ex, const ValuePtr& value) {
  if (!value || is_none(value)) return PyExc_UserWarning;
  PyObject* category = value->real_object();
  if (!category || !PyType_Check(category) || PyObject_IsSubclass(category, PyExc_Warning) != 1)
    break_graph("CD0213", "warnings.warn");
  guard_class(ex, reinterpret_cast<PyTypeObject*>(category));
  return category;
}

ValuePtr warn(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "warn", args,
                              {"message", "category?", "stacklevel?", "source?", "*skip_file_prefixes?"});
  if ((bound[3] && !is_none(bound[3])) || bound[4]) break_graph("CD0213", "warnings.warn with a source");
  Warning warning;
  if (is_instance_of(bound[0], exception_type(PyExc_Warning))) warning.instance = bound[0];
  PyRef text = string_argument(ex, warning.instance ? to_string(ex, bound[0], false) : bound[0]);
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text.get(), &size);
  if (!utf8) PyErr_Clear();
  if (!utf8 || !PyUnicode_IS_ASCII(text.get())) break_graph("CD0213", "warnings.warn");
  warning.text.assign(utf8, static_cast<size_t>(size));
  warning.category = warning.instance ? as_object(warning.instance->type()) : category_of(ex, bound[1]);
  warning.place = place_of(ex, bound[2] ? index_argument(ex, bound[2]) : 1);
  ListValue& filters = current_filters(ex);
  const std::string action = action_for(ex, filters, warning);
  if (action == "error") raise_new(ex, instance_of(ex, warning));
  if (action == "always")
    show(ex, warning);
  else if (action != "ignore")
    show_unless_seen(ex, warning, filters);
  return ex.none();
}

// _showwarnmsg_impl as it is: the text is written when the graph has run.
ValuePtr write_warning(Executor& ex, const CallArgs& args) {
  require_count(ex, "_showwarnmsg_impl", args, 1, 1);
  require_plain_form(ex);
  const auto part = [&](const char* name) { return args.positional[0]->get_attribute(ex, interned(name)); };
  if (!is_none(part("file")) || !is_none(part("line"))) break_graph("CD0213", "warnings.warn");
  Warning warning;
  const ValuePtr message = part("message");
  if (is_instance_of(message, exception_type(PyExc_Warning))) warning.instance = message;
  PyRef text = string_argument(ex, to_string(ex, message, false));
  warning.text = PyUnicode_AsUTF8(text.get());
  warning.category = category_of(ex, part("category"));
  PyRef file = string_argument(ex, part("filename"));
  warning.place.file = PyUnicode_AsUTF8(file.get());
  warning.place.line = static_cast<int>(index_argument(ex, part("lineno")));
  write_later(ex, python_side(PythonSide::kShowWarning), shown(ex, warning, Py_None), "warnings.warn");
  return ex.none();
}

// A new version of the filters, with which registries are empty.
ValuePtr filters_changed(Executor& ex, const CallArgs& args) {
  require_count(ex, "_filters_mutated", args, 0, 0);
  write_later(ex, PyDict_GetItemString(PyModule_GetDict(warnings_module()), "_filters_mutated"), {},
              "a change of warnings' filters");
  return ex.none();
}

// A function of the module that compares or copies the filters, once they are known.
template <const char* name>
ValuePtr with_known_filters(Executor& ex, const CallArgs& args) {
  current_filters(ex);
  PyObject* object = library_object("warnings", name);
  auto function = std::dynamic_pointer_cast<FunctionValue>(ex.wrap(object, constant_source(object)));
  return run_function(ex, *function, bind_call(ex, *function, args));
}
constexpr char kAddFilter[] = "_add_filter", kEnter[] = "catch_warnings.__enter__";

constexpr BuiltinRow kWarningsFunctions[] = {
    {"warnings", "warn", warn},
    {"warnings", "_filters_mutated", filters_changed},
    {"warnings", kAddFilter, with_known_filters<kAddFilter>},
    {"warnings", kEnter, with_known_filters<kEnter>},
};

}  // namespace

ValuePtr call_warnings_function(Executor& ex, PyObject* function, const CallArgs& args) {
  return is_writer(function) ? write_warning(ex, args) : nullptr;
}

std::span<const BuiltinRow> warning_functions() { return kWarningsFunctions; }

bool has_changed_filters(Executor& ex) {
  PyObject* names = PyModule_GetDict(warnings_module());
  PyObject* live = PyDict_GetItemString(names, "filters");
  const ValuePtr* assigned = assigned_name(ex, names, interned("filters"));
  const auto known = ex.state().by_object.find(live);
  if (!assigned && known == ex.state().by_object.end()) return false;
  ListValue* filters = list_in(assigned ? *assigned : known->second);
  return !filters || !is_live(*filters);
}

}  // namespace cdynamo::symbolic
