// print, methods of streams, logging.
#include "symbolic/frames/output.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/list.h"
#include "symbolic/values/mirrored.h"
#include "symbolic/values/text.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

void write_later(Executor& ex, PyObject* function, std::vector<RecipePtr> arguments, const char* what) {
  if (const Executor::IsolatedRegion* region = ex.isolated_region())
    break_graph("CD0213", std::string(what) + " in " + region->what);
  if (ex.state().branches) break_graph("CD0213", what);
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, function);
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(arguments));
  ex.effect(std::move(effect));
}

RecipePtr text_recipe(const char* text) {
  return make_recipe(RecipeKind::kConstant, checked(PyUnicode_FromString(text)).get());
}

// ---- streams

namespace {

RecipePtr constant_recipe(PyRef object) { return make_recipe(RecipeKind::kConstant, object.get()); }

// A file of io's that came in and is open. Its class may be one of Python's that leaves writing as it is: what runs Python could
// look at what the program does after it. One that is closed raises an error, which the program may catch.
bool is_plain_stream(Executor& ex, const ValuePtr& value) {
  PyObject* object = value->real_object();
  if (!object || !value->source || !dynamic_cast<UserObjectValue*>(value.get())) return false;
  PyTypeObject* type = Py_TYPE(object);
  static PyTypeObject* bases[2] = {};
  for (int i = 0; i < 2; ++i)
    if (!bases[i])
      bases[i] = reinterpret_cast<PyTypeObject*>(library_object("_io", i ? "StringIO" : "TextIOWrapper"));
  const auto extends = [&](PyTypeObject* base) { return PyType_IsSubtype(type, base); };
  PyTypeObject** base = std::ranges::find_if(bases, extends);
  if (base == std::end(bases)) return false;
  for (const char* name : {"write", "flush", "closed", "__getattribute__"})
    if (lookup_type(ex, type, interned(name)) != _PyType_Lookup(*base, interned(name))) return false;
  PyRef closed = checked(PyObject_GetAttrString(object, "closed"));
  if (closed.get() != Py_False) return false;
  add_guard(ex, GuardKind::kEquals, attribute_source(value->source, interned("closed")), Py_False);
  return true;
}

// Whether the stream can say the text: known now, as an error is raised where the program writes.
bool can_be_written(PyObject* stream, PyObject* text) {
  if (PyUnicode_IS_ASCII(text)) return true;
  PyRef encoding = PyRef::steal(PyObject_GetAttrString(stream, "encoding"));
  PyRef errors = PyRef::steal(PyObject_GetAttrString(stream, "errors"));
  PyErr_Clear();
  if (!encoding || !errors) return false;
  if (encoding.get() == Py_None) return true;
  const bool is_utf8 =
      PyUnicode_Check(encoding.get()) && PyUnicode_CompareWithASCIIString(encoding.get(), "utf-8") == 0;
  PyRef encoded = PyRef::steal(is_utf8 ? PyUnicode_AsUTF8String(text) : nullptr);
  PyErr_Clear();
  return static_cast<bool>(encoded);
}

}  // namespace

namespace {
// What stands in sys at this place.
ValuePtr current_stream(Executor& ex, const char* name) {
  PyRef sys = checked(PyImport_ImportModule("sys"));
  return ex.wrap(sys.get(), constant_source(sys.get()))->get_attribute(ex, interned(name));
}
}  // namespace

ValuePtr standard_stream(Executor& ex, const char* name, const char* what) {
  ValuePtr stream = current_stream(ex, name);
  const bool is_live = stream->source && stream->real_object() == PySys_GetObject(name);
  if (!is_live || (!is_none(stream) && !is_plain_stream(ex, stream))) break_graph("CD0213", what);
  return stream;
}

// ---- print

namespace {

std::vector<ValuePtr> shown_parts(Executor& ex, const ValuePtr& value) {
  if (value->type() == &PyList_Type) return list_in(value)->items(ex);
  if (value->type() == &PyTuple_Type && tuple_in(value)) return tuple_in(value)->items(ex);
  std::vector<ValuePtr> parts;
  if (value->type() == &PyDict_Type && dict_in(value))
    for (const DictValue::Entry& entry : dict_in(value)->entries(ex)) {
      parts.push_back(entry.key);
      parts.push_back(entry.value);
    }
  return parts;
}

bool holds_what_changes(Executor& ex, const ValuePtr& value) {
  check_stack();
  if (is_changing(value) || is_array(value)) return true;
  return std::ranges::any_of(shown_parts(ex, value),
                             [&](const ValuePtr& part) { return holds_what_changes(ex, part); });
}

// An object with the same text: containers are made anew, as they are now.
RecipePtr shown_recipe(Executor& ex, const ValuePtr& value, bool is_part) {
  if (is_changing(value)) return value->recipe(ex);
  if (is_array(value)) {
    ValuePtr snapshot = snapshot_of_array(ex, value);
    if (!snapshot) break_graph("CD0213", "print of " + value->describe());
    return snapshot->recipe(ex);
  }
  if (!holds_what_changes(ex, value)) {
    if (!is_part) return to_string(ex, value, false)->recipe(ex);
    PyRef object = value->materialize(ex);
    if (!object || !value->as_constant()) break_graph("CD0213", "print of " + value->describe());
    return constant_recipe(std::move(object));
  }
  std::vector<RecipePtr> parts;
  for (const ValuePtr& part : shown_parts(ex, value)) parts.push_back(shown_recipe(ex, part, true));
  const RecipeKind kind = value->type() == &PyList_Type    ? RecipeKind::kList
                          : value->type() == &PyTuple_Type ? RecipeKind::kTuple
                                                           : RecipeKind::kDict;
  return make_recipe(kind, nullptr, std::move(parts));
}

void require_writable(const ValuePtr& stream, const RecipePtr& recipe) {
  if (recipe->kind != RecipeKind::kConstant || is_none(stream)) return;
  PyObject* text = recipe->object.get();
  if (PyUnicode_Check(text) && !can_be_written(stream->real_object(), text))
    break_graph("CD0213", "print of text that the stream may refuse");
}

// print(*values, file=io.StringIO()): a text that is known now.
ValuePtr print_to_mirror(Executor& ex, const ValuePtr& stream, const std::vector<ValuePtr>& options,
                         const std::vector<ValuePtr>& values) {
  const auto write = [&](const ValuePtr& text) { call_method(ex, stream, "write", {text}); };
  const auto option = [&](const ValuePtr& given, const char* otherwise) {
    return given && !is_none(given) ? given : ex.constant(PyRef::borrow(interned(otherwise)));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) write(option(options[0], " "));
    write(to_string(ex, values[i], false));
  }
  write(option(options[1], "\n"));
  return ex.none();
}

ValuePtr print(Executor& ex, const CallArgs& args) {
  auto options = bind_arguments(ex, "print", {{}, args.keywords}, {"*sep?", "*end?", "*file?", "*flush?"});
  std::vector<RecipePtr> recipes(1);
  for (int i = 0; i < 2; ++i) {
    if (options[i] && !is_none(options[i])) string_argument(ex, options[i]);
    recipes.push_back((options[i] ? options[i] : ex.none())->recipe(ex));
  }
  const bool flush = options[3] && is_true(ex, options[3]);
  recipes.push_back(make_recipe(RecipeKind::kConstant, flush ? Py_True : Py_False));
  ValuePtr stream = options[2] && !is_none(options[2]) ? options[2] : current_stream(ex, "stdout");
  if (dynamic_cast<MirroredValue*>(stream.get()))
    return print_to_mirror(ex, stream, options, args.positional);
  if (!is_none(stream) && !is_plain_stream(ex, stream)) break_graph("CD0213", "print");
  recipes[0] = stream->recipe(ex);
  for (const ValuePtr& value : args.positional) {
    recipes.push_back(shown_recipe(ex, value, false));
    require_writable(stream, recipes.back());
  }
  for (int i = 1; i < 3; ++i) require_writable(stream, recipes[i]);
  write_later(ex, python_side(PythonSide::kPrintLine), std::move(recipes), "print");
  return ex.none();
}

}  // namespace

ValuePtr call_stream_method(Executor& ex, std::string_view name, const ValuePtr& self, const CallArgs& args) {
  const bool writes = name == "write" && args.positional.size() == 1;
  const bool flushes = name == "flush" && args.positional.empty();
  if ((!writes && !flushes) || !args.keywords.empty() || !is_plain_stream(ex, self)) return nullptr;
  std::vector<RecipePtr> recipes{self->recipe(ex), text_recipe(writes ? "write" : "flush")};
  ValuePtr result = ex.none();
  if (writes) {
    recipes.push_back(constant_recipe(string_argument(ex, args.positional[0])));
    require_writable(self, recipes.back());
    result = args.positional[0]->length(ex);
  }
  write_later(ex, python_side(PythonSide::kWriteText), std::move(recipes), "write");
  return result;
}

// ---- logging

namespace {

PyObject* log_function() { return python_side(PythonSide::kLogRecord); }

bool can_be_logged(Executor& ex, const ValuePtr& value) {
  if (is_changing(value) || value->as_constant()) return true;
  return value->type() == &PyTuple_Type &&
         std::ranges::all_of(shown_parts(ex, value),
                             [&](const ValuePtr& part) { return can_be_logged(ex, part); });
}

bool is_of_program(PyObject* function) {
  if (!function || !PyFunction_Check(function)) return false;
  const auto code = decoded(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
  return !code->is_library && !absl::StrContains(code->file(), "site-packages");
}

// A handler, filter or formatter whose `method` is the program's own looks at records where they are made: what it reads and writes is as it
// is there.
void refuse_of_program(Executor& ex, const ValuePtr& value, const char* method) {
  if (is_of_program(value->real_object()) || is_of_program(lookup_type(ex, value->type(), interned(method))))
    break_graph("CD0106", "logging to " + value->describe());
}

void require_library_handlers(Executor& ex, const ValuePtr& self) {
  const auto refuse_filters = [&](const ValuePtr& of) {
    for (const ValuePtr& filter : items_of(ex, of->get_attribute(ex, interned("filters"))))
      refuse_of_program(ex, filter, "filter");
  };
  refuse_of_program(ex, self, "handle");
  refuse_of_program(ex, self, "makeRecord");
  refuse_filters(self);
  ValuePtr logger = self;
  while (!is_none(logger)) {
    for (const ValuePtr& handler : items_of(ex, logger->get_attribute(ex, interned("handlers")))) {
      for (const char* method : {"emit", "handle", "format"}) refuse_of_program(ex, handler, method);
      refuse_filters(handler);
      const ValuePtr formatter = handler->get_attribute(ex, interned("formatter"));
      if (!is_none(formatter)) refuse_of_program(ex, formatter, "format");
    }
    if (!is_true(ex, logger->get_attribute(ex, interned("propagate")))) return;
    logger = logger->get_attribute(ex, interned("parent"));
  }
}

// logging.Logger._log: the record is made after the graph has run, with the user's line.
ValuePtr log_record(Executor& ex, const CallArgs& args) {
  auto bound =
      bind_arguments(ex, "_log", args,
                     {"self", "level", "msg", "args", "exc_info?", "extra?", "stack_info?", "stacklevel?"});
  for (size_t i = 4; i < bound.size(); ++i)
    if (bound[i]) break_graph("CD0106", "logging with options");
  for (size_t i = 1; i < 4; ++i)
    if (!can_be_logged(ex, bound[i])) break_graph("CD0106", "logging of values that the graph computes");
  require_library_handlers(ex, bound[0]);
  // Innermost are frames of logging's own: Logger.warning and the like.
  std::vector<UserFrame> stack = ex.user_stack();
  while (!stack.empty() && stack.back().file.ends_with("logging/__init__.py")) stack.pop_back();
  if (stack.empty()) break_graph("CD0106", "logging");
  const UserFrame& caller = stack.back();
  std::vector<RecipePtr> recipes = recipes_of(ex, {bound.begin(), bound.begin() + 4});
  recipes.push_back(text_recipe(caller.file.c_str()));
  recipes.push_back(constant_recipe(checked(PyLong_FromLong(caller.line))));
  recipes.push_back(text_recipe(caller.function.c_str()));
  write_later(ex, log_function(), std::move(recipes), "logging");
  return ex.none();
}

// Logger.isEnabledFor keeps its answers in a dict, under a lock: the real one is asked first, so that the dict has
// the answer, which is then read (and guarded) as the program reads it.
ValuePtr is_enabled_for(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "isEnabledFor", args, {"self", "level"});
  PyObject* logger = bound[0]->real_object();
  auto level = bound[1]->as_constant();
  if (!logger || !level) break_graph("CD0106", "logging.Logger.isEnabledFor");
  checked_user(ex, PyObject_CallMethodOneArg(logger, interned("isEnabledFor"), level->get()));
  if (is_true(ex, bound[0]->get_attribute(ex, interned("disabled"))))
    return ex.constant(PyRef::borrow(Py_False));
  return bound[0]->get_attribute(ex, interned("_cache"))->get_item(ex, bound[1]);
}

// logging.getLogger(name): asked while capturing, which makes the logger if there is none yet, as the program would.
ValuePtr get_logger(Executor& ex, const CallArgs& args) {
  const ValuePtr name = bind_arguments(ex, "getLogger", args, {"name?"})[0];
  const PyRef text = name && !is_none(name) ? string_argument(ex, name) : PyRef();
  const PyRef logger = checked_user(
      ex, PyObject_CallOneArg(library_object("logging", "getLogger"), text ? text.get() : Py_None));
  PyObject* root = library_object("logging", "root");
  if (logger.get() == root) return ex.wrap(root, constant_source(root));
  PyObject* loggers = library_object("logging", "Logger.manager.loggerDict");
  return ex.wrap(loggers, constant_source(loggers))->get_item(ex, name);
}

// atexit.register(function, ...): what is called at the end is as it is then.
ValuePtr register_at_exit(Executor& ex, const CallArgs& args) {
  if (args.positional.empty() || !args.keywords.empty()) break_graph("CD0212", "atexit.register");
  write_later(ex, library_object("atexit", "register"), recipes_of(ex, args.positional), "atexit.register");
  return args.positional[0];
}

constexpr BuiltinRow kOutputFunctions[] = {
    {"builtins", "print", print},
    {"atexit", "register", register_at_exit},
    {"logging", "getLogger", get_logger},
    {"logging", "Logger._log", log_record},
    {"logging", "Logger.isEnabledFor", is_enabled_for},
};

}  // namespace

bool is_log(const Effect& effect) {
  return effect.kind == EffectKind::kCall && effect.target->object.get() == log_function();
}

std::span<const BuiltinRow> output_functions() { return kOutputFunctions; }

}  // namespace cdynamo::symbolic
