#include "symbolic/frames/exceptions.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/exception_groups.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

ValuePtr or_none(Executor& ex, const ValuePtr& value) { return value ? value : ex.none(); }
ValuePtr none_to_null(const ValuePtr& value) { return value && is_none(value) ? nullptr : value; }
bool is_name(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

// A function that the class, or a base that is not built in, defines; borrowed, null where it is C's.
PyObject* python_method(PyTypeObject* type, const char* name) {
  PyObject* found = _PyType_Lookup(type, interned(name));
  return found && PyFunction_Check(found) ? found : nullptr;
}

// The __new__ that the class has in Python; null: C's.
PyRef python_new(PyTypeObject* type) {
  PyRef makes = wrapped_function(_PyType_Lookup(type, interned("__new__")), &PyStaticMethod_Type);
  return makes && PyFunction_Check(makes.get()) ? makes : PyRef();
}

ExceptionValue& exception_of(const ValuePtr& self) { return static_cast<ExceptionValue&>(*self); }

// The traceback of an exception in captured code is made when Python raises it.
class TracebackValue final : public SymbolicValue {
 public:
  PyTypeObject* type() const override { return &PyTraceBack_Type; }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override { break_graph("CD0113", "its traceback"); }
};

ValuePtr with_traceback(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "with_traceback", args, 1, 1);
  if (is_none(args.positional[0])) exception_of(self).raised_at = -1;
  return self;
}

// BaseException.__init__ keeps its arguments in args.
ValuePtr init(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "__init__", args);
  if (self->real_object()) break_graph("CD0202", "__init__ of " + self->describe());
  exception_of(self).args() = args.positional;
  return ex.none();
}

// What the text of an exception is made of. A live one may have other arguments in the next call: they are guarded.
std::vector<ValuePtr> args_of(Executor& ex, const ValuePtr& self) {
  if (!self->real_object()) return exception_of(self).args();
  return items_of(ex, self->get_attribute(ex, interned("args")));
}

// One argument stands for itself.
ValuePtr formatted_args(Executor& ex, const std::vector<ValuePtr>& args, int conversion) {
  return format_value(ex, args.size() == 1 ? args[0] : make_tuple(ex, args), conversion, nullptr);
}

// The text that a class in C makes of its exceptions, of one whose arguments are known.
ValuePtr made_by_class(Executor& ex, const ValuePtr& self, PyObject* (*text_of)(PyObject*),
                       const char* name) {
  PyRef object = self->materialize(ex);
  if (!object) break_graph("CD0109", absl::StrCat(name, " of ", self->describe()));
  return ex.constant(checked_user(ex, text_of(object.get())));
}

// BaseException_str
ValuePtr text(Executor& ex, const ValuePtr& self, const CallArgs&) {
  const bool is_made_here = !self->real_object();
  if (is_made_here && exception_of(self).message && !python_method(self->type(), "__str__"))
    return ex.constant(exception_group_text(ex, exception_of(self)));
  reprfunc base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_str;
  if (self->type()->tp_str != base && !python_method(self->type(), "__str__"))
    return made_by_class(ex, self, PyObject_Str, "__str__");
  const std::vector<ValuePtr> args = args_of(ex, self);
  return args.empty() ? ex.constant(checked(PyUnicode_FromString(""))) : formatted_args(ex, args, 's');
}

// BaseException_repr
ValuePtr representation(Executor& ex, const ValuePtr& self, const CallArgs&) {
  reprfunc base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_repr;
  if (self->type()->tp_repr != base && !python_method(self->type(), "__repr__"))
    return made_by_class(ex, self, PyObject_Repr, "__repr__");
  const std::vector<ValuePtr> args = args_of(ex, self);
  PyRef shown = string_argument(ex, formatted_args(ex, args, 'r'));
  PyRef name = PyRef::steal(PyType_GetName(self->type()));
  return ex.constant(
      checked(PyUnicode_FromFormat(args.size() == 1 ? "%U(%U)" : "%U%U", name.get(), shown.get())));
}

// Whether the thread handles an exception where captured code is called; that it does not is guarded.
bool caller_handles(Executor& ex) {
  const SourcePtr source = derived_source(SourceKind::kHandled, nullptr);
  if (follow(*source, ex.state().request.roots).get() != Py_None) return true;
  add_guard(ex, GuardKind::kIdentity, source, Py_None);
  return false;
}

ValuePtr add_note(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "add_note", args, 1, 1);
  return polyfill(ex, PythonSide::kStandardPolyfills, "add_note")
      ->call(ex, positional({self, args.positional[0]}));
}

// Classes of C whose attributes are made of the arguments alone; others have some that the interpreter sets.
bool has_attributes_of_args(PyTypeObject* type) {
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_OSError)) ||
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_UnicodeError));
}

constexpr BuiltinMethodRow kExceptionMethods[] = {
    {"with_traceback", with_traceback}, {"add_note", add_note}, {"__init__", init}, {"__str__", text},
    {"__repr__", representation},
};

}  // namespace

// ---- instances

ExceptionValue::ExceptionValue(PyTypeObject* type, std::vector<ValuePtr> args)
    : type_(PyRef::borrow(reinterpret_cast<PyObject*>(type))), args_(std::move(args)) {}

ExceptionValue::ExceptionValue(PyObject* object, SourcePtr from)
    : type_(PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)))), object_(PyRef::borrow(object)) {
  source = std::move(from);
}

std::string ExceptionValue::describe() const { return type()->tp_name; }

ValuePtr make_traceback() { return std::make_shared<TracebackValue>(); }

// ExitStack hands the traceback on to context managers (3.13), as `with` does.
static bool runs_in_contextlib(Executor& ex) {
  PyObject* module = ex.frame() ? PyDict_GetItemString(ex.frame()->globals.get(), "__name__") : nullptr;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "contextlib") == 0;
}

ValuePtr ExceptionValue::special_attribute(Executor& ex, const char* name) {
  if (!std::strcmp(name, "args")) return make_tuple(ex, args_);
  if (!std::strcmp(name, "__cause__")) return or_none(ex, cause);
  if (!std::strcmp(name, "__context__")) {
    if (!context && outside_at >= 0 && caller_handles(ex)) break_graph("CD0114", describe());
    return or_none(ex, context);
  }
  if (!std::strcmp(name, "__suppress_context__")) return ex.constant_bool(suppress_context);
  if (!std::strcmp(name, "__traceback__")) {
    if (runs_in_contextlib(ex)) return make_traceback();
    throw SkipFrame{.reason = "it reads an exception's traceback, which captured code does not have"};
  }
  bool is_stop = PyType_IsSubtype(type(), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration));
  bool is_exit = PyType_IsSubtype(type(), reinterpret_cast<PyTypeObject*>(PyExc_SystemExit));
  if (is_exit && !std::strcmp(name, "code") && args_.size() > 1) return make_tuple(ex, args_);
  if ((is_stop && !std::strcmp(name, "value")) || (is_exit && !std::strcmp(name, "code")))
    return args_.empty() ? ex.none() : args_[0];
  return exception_group_attribute(ex, shared_from_this(), name);
}

ValuePtr ExceptionValue::get_attribute(Executor& ex, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (is_name(name, "__class__")) return ex.wrap(type_.get(), constant_source(type_.get()));
  if (!object_)
    if (ValuePtr special = special_attribute(ex, text)) return special;
  if (ValuePtr own = own_attribute(name)) return own;
  guard_class(ex, type());
  if (object_) {
    PyRef dict = PyRef::steal(PyObject_GenericGetDict(object_.get(), nullptr));
    if (!dict) PyErr_Clear();
    DictValue* shown = looked_at_dict(ex, dict.get());
    if (ValuePtr changed = shown ? shown->lookup_string(ex, name) : nullptr) return changed;
    PyObject* own = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
    if (own && !shown) return ex.wrap(own, source ? key_source(instance_dict_source(source), name) : nullptr);
    if (!own && source) add_guard(ex, GuardKind::kAttributeAbsent, source, name);
  }
  PyObject* found = _PyType_Lookup(type(), name);
  ValuePtr self = shared_from_this();
  if (found && PyFunction_Check(found))
    return make_bound_method(ex, ex.wrap(found, constant_source(found)), self);
  if (found && Py_TYPE(found) == &PyProperty_Type) {
    PyRef getter = checked(PyObject_GetAttrString(found, "fget"));
    return ex.wrap(getter.get(), constant_source(getter.get()))->call(ex, {{self}, {}});
  }
  if (ValuePtr method = find_builtin_method(self, name, kExceptionMethods)) return method;
  if (!found)
    raise_error(ex, PyExc_AttributeError,
                absl::Substitute("'$0' object has no attribute '$1'", describe(), text));
  if (!Py_TYPE(found)->tp_descr_get) return ex.wrap(found, constant_source(found));
  const bool is_method = PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR);
  if (object_ && !is_method) {  // a C getter of a live exception: args, errno ...
    PyRef value = checked_user(ex, PyObject_GetAttr(object_.get(), name));
    return ex.wrap(value.get(), source ? attribute_source(source, name) : nullptr);
  }
  if (!is_method && has_attributes_of_args(type()))
    if (const PyRef object = materialize(ex)) {
      PyRef value = checked_user(ex, PyObject_GetAttr(object.get(), name));
      if (is_plain_constant(value.get())) return ex.constant(std::move(value));
    }
  break_graph("CD0109", describe() + "." + text);
}

ValuePtr ExceptionValue::own_attribute(PyObject* name) const {
  for (const auto& [key, value] : attributes_)
    if (value && PyUnicode_Compare(key.get(), name) == 0) return value;
  return nullptr;
}

void ExceptionValue::set_own_attribute(Executor& ex, PyObject* name, ValuePtr value) {
  const auto known = std::ranges::find_if(
      attributes_, [&](const auto& entry) { return PyUnicode_Compare(entry.first.get(), name) == 0; });
  if (!value && (known == attributes_.end() || !known->second))
    raise_error(ex, PyExc_AttributeError,
                absl::Substitute("'$0' object has no attribute '$1'", describe(), PyUnicode_AsUTF8(name)));
  if (known != attributes_.end())
    known->second = std::move(value);
  else
    attributes_.emplace_back(PyRef::borrow(name), std::move(value));
}

void ExceptionValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (is_name(name, "__traceback__")) {
    if (value && is_none(value)) raised_at = -1;
    if (value && !is_none(value) && value->type() != &PyTraceBack_Type)
      raise_error(ex, PyExc_TypeError, "__traceback__ must be a traceback or None");
    return;
  }
  if (object_) break_graph("CD0109", absl::StrCat(describe(), ".", PyUnicode_AsUTF8(name)));
  if (is_name(name, "__cause__")) {
    cause = none_to_null(value);
    suppress_context = true;
  } else if (is_name(name, "__context__")) {
    context = none_to_null(value);
    outside_at = -1;
  } else if (is_name(name, "__suppress_context__")) {
    suppress_context = value && is_true(ex, value);
  } else if (is_name(name, "args") && value) {
    args_ = items_of(ex, value);
  } else {
    PyObject* found = _PyType_Lookup(type(), name);
    if (found && Py_TYPE(found)->tp_descr_set)
      break_graph("CD0109", absl::StrCat(describe(), ".", PyUnicode_AsUTF8(name)));
    if (python_method(type(), "__setattr__")) break_graph("CD0109", describe() + ".__setattr__");
    set_own_attribute(ex, name, value);
  }
  ex.state().cyclic[this] = weak_from_this();
}

void ExceptionValue::forget() {
  cause = context = part_of = message = exceptions = nullptr;
  args_.clear();
  attributes_.clear();
}

bool ExceptionValue::is_made_of_args(Executor& ex) const {
  if (python_method(type(), "__init__") || python_new(type())) return false;
  if (!message) return true;
  if (args_.size() != 2 || args_[0] != message) return false;
  return args_[1] == exceptions || items_of(ex, args_[1]) == items_of(ex, exceptions);
}

PyRef ExceptionValue::materialize(Executor& ex) {
  if (object_) return {};  // the next call's may have other arguments
  if (!is_made_of_args(ex) || python_method(type(), "__str__") || python_method(type(), "__repr__"))
    return {};
  PyRef args = checked(PyTuple_New(static_cast<Py_ssize_t>(args_.size())));
  for (size_t i = 0; i < args_.size(); ++i) {
    PyRef arg = args_[i]->materialize(ex);
    if (!arg) return {};
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), arg.release());
  }
  PyRef made = checked_user(ex, PyObject_CallObject(type_.get(), args.get()));
  if (!has_attributes_of_args(type())) return made;
  for (const auto& [key, value] : attributes_) {
    const PyRef object = value ? value->materialize(ex) : PyRef();
    if (!object) return {};
    if (PyObject_SetAttr(made.get(), key.get(), object.get()) < 0) raise_current_error(ex);
  }
  return made;
}

// A class with an __init__ or a __new__ of its own is not called again: they have run here, what they set comes as effects.
RecipePtr ExceptionValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  if (raised_at >= 0) {
    ex.state().break_step = raised_at;
    break_graph("CD0113", describe());
  }
  if (!context && outside_at >= 0 && caller_handles(ex)) {
    ex.state().break_step = outside_at;
    break_graph("CD0114", describe());
  }
  const bool made_of_args = is_made_of_args(ex);
  std::vector<RecipePtr> arguments =
      recipes_of(ex, message && !made_of_args ? std::vector<ValuePtr>{message, exceptions} : args_);
  if (made_of_args) {
    recipe_ = call_recipe(type_.get(), std::move(arguments));
  } else {
    arguments.insert(arguments.begin(), make_recipe(RecipeKind::kConstant, type_.get()));
    PyObject* base = message ? library_object("builtins", "BaseExceptionGroup") : PyExc_BaseException;
    recipe_ = call_recipe(checked(PyObject_GetAttrString(base, "__new__")).get(), std::move(arguments));
  }
  if (!attributes_.empty() || cause || context || suppress_context || (message && !made_of_args))
    ex.mutated(shared_from_this());
  return recipe_;
}

void ExceptionValue::emit_effects(Executor& ex) {
  auto set = [&](PyObject* key, RecipePtr value) {
    Effect effect;
    effect.kind = EffectKind::kSetAttribute;
    effect.target = recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, key);
    effect.value = std::move(value);
    ex.effect(std::move(effect));
  };
  if (message && !is_made_of_args(ex)) set(interned("args"), make_tuple(ex, args_)->recipe(ex));
  if (cause) set(interned("__cause__"), cause->recipe(ex));
  if (context) set(interned("__context__"), context->recipe(ex));
  if (cause || suppress_context)
    set(interned("__suppress_context__"),
        make_recipe(RecipeKind::kConstant, suppress_context ? Py_True : Py_False));
  for (const auto& [key, value] : attributes_)
    if (value) set(key.get(), value->recipe(ex));
}

ValuePtr call_exception_method(Executor& ex, const ValuePtr& self, PyObject* name, const CallArgs& args) {
  if (!dynamic_cast<ExceptionValue*>(self.get())) return nullptr;
  ValuePtr method = find_builtin_method(self, name, kExceptionMethods);
  return method ? method->call(ex, args) : nullptr;
}

ValuePtr wrap_exception(Executor& ex, PyObject* object, SourcePtr source) {
  if (source) guard_exact_type(ex, object, source);
  return std::make_shared<ExceptionValue>(object, std::move(source));
}

ValuePtr make_exception(Executor&, PyTypeObject* type, std::vector<ValuePtr> args) {
  return std::make_shared<ExceptionValue>(type, std::move(args));
}

namespace {

// OSError_new: the class is that of the error's number, and what follows the text is no argument.
ValuePtr new_os_error(Executor& ex, PyTypeObject* type, const std::vector<ValuePtr>& args) {
  if (args.size() < 2 || args.size() > 5) return make_exception(ex, type, args);
  if (reinterpret_cast<PyObject*>(type) == PyExc_OSError) {
    const PyRef number = args[0]->materialize(ex);
    if (!number) break_graph("CD0202", "OSError of " + args[0]->describe());
    const PyRef like = checked_user(ex, PyObject_CallFunction(PyExc_OSError, "Os", number.get(), ""));
    type = Py_TYPE(like.get());
  }
  ValuePtr made = make_exception(ex, type, {args[0], args[1]});
  constexpr const char* kNames[] = {"errno", "strerror", "filename", nullptr, "filename2"};
  for (size_t i = 0; i < args.size(); ++i)
    if (kNames[i] && (i < 2 || !is_none(args[i])))
      exception_of(made).set_own_attribute(ex, interned(kNames[i]), args[i]);
  return made;
}

}  // namespace

// BaseException_new and what classes of C have instead.
ValuePtr new_exception(Executor& ex, PyTypeObject* type, const std::vector<ValuePtr>& args) {
  if (is_exception_group(type)) return new_exception_group(ex, type, args);
  // oserror_use_init: where the class has an __init__, that one sets the attributes.
  if (PyType_IsSubtype(type, exception_type(PyExc_OSError)) && !python_method(type, "__init__"))
    return new_os_error(ex, type, args);
  return make_exception(ex, type, args);
}

// type_call: the class's __new__ and __init__.
ValuePtr construct_exception(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  guard_class(ex, type);
  const auto call = [&](PyObject* function, const ValuePtr& first) {
    CallArgs with_first = args;
    with_first.positional.insert(with_first.positional.begin(), first);
    return ex.wrap(function, constant_source(function))->call(ex, with_first);
  };
  PyObject* init = python_method(type, "__init__");
  if (const PyRef makes = python_new(type)) {
    ValuePtr made = call(makes.get(), ex.wrap(reinterpret_cast<PyObject*>(type),
                                              constant_source(reinterpret_cast<PyObject*>(type))));
    auto* exception = dynamic_cast<ExceptionValue*>(made.get());
    if (!exception || exception->type() != type) break_graph("CD0202", type->tp_name);
    if (init)
      call(init, made);
    else if (exception->message)
      exception->args() = args.positional;
    return made;
  }
  if (!init && !args.keywords.empty()) break_graph("CD0202", absl::StrCat(type->tp_name, " with keywords"));
  ValuePtr self = new_exception(ex, type, args.positional);
  if (init) call(init, self);
  return self;
}

// ---- raising and matching

ValuePtr handled_exception(Executor& ex) {
  if (!ex.state().handled && caller_handles(ex)) break_graph("CD0114", "");
  return ex.state().handled;
}

namespace {

ValuePtr instance_of(Executor& ex, const ValuePtr& value, const char* refusal) {
  PyObject* object = value->real_object();
  if (object && PyExceptionClass_Check(object)) return value->call(ex, {});
  if (PyType_IsSubtype(value->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return value;
  raise_error(ex, PyExc_TypeError, refusal);
}

ExceptionValue* context_of(const ExceptionValue& exception) {
  return dynamic_cast<ExceptionValue*>(exception.context.get());
}

// The exception that is handled becomes the context, unless that would close a circle; the program may have
// closed one before (_PyErr_SetObject of Python/errors.c).
void set_context(Executor& ex, const ValuePtr& raised) {
  const ValuePtr& handled = ex.state().handled;
  auto* exception = dynamic_cast<ExceptionValue*>(raised.get());
  if (exception && !handled) exception->outside_at = static_cast<int64_t>(ex.state().root_trace.size()) - 1;
  if (!handled || !exception || handled == raised || exception->real_object()) return;
  auto* at = dynamic_cast<ExceptionValue*>(handled.get());
  ExceptionValue* slow = at;  // at half the speed: `at` meets it in a circle
  for (bool slow_moves = false; at; slow_moves = !slow_moves) {
    if (at->context == raised) {
      at->context = nullptr;
      break;
    }
    at = context_of(*at);
    if (at == slow) break;
    if (slow_moves) slow = context_of(*slow);
  }
  exception->context = handled;
}

}  // namespace

void raise_new(Executor& ex, const ValuePtr& exception) {
  set_context(ex, exception);
  throw PythonRaise{exception};
}

void raise_value(Executor& ex, const ValuePtr& value, const ValuePtr& cause) {
  ValuePtr instance = instance_of(ex, value, "exceptions must derive from BaseException");
  auto* exception = dynamic_cast<ExceptionValue*>(instance.get());
  if (!exception) break_graph("CD0101", instance->describe());
  exception->part_of = nullptr;
  if (cause) {
    if (exception->real_object()) break_graph("CD0101", instance->describe());
    exception->cause =
        is_none(cause) ? nullptr : instance_of(ex, cause, "exception causes must derive from BaseException");
    exception->suppress_context = true;
  }
  raise_new(ex, instance);
}

ValuePtr generator_raised_stop(Executor& ex, const ValuePtr& stop) {
  ValuePtr message = ex.constant(checked(PyUnicode_FromString("generator raised StopIteration")));
  auto error = std::make_shared<ExceptionValue>(reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                                                std::vector<ValuePtr>{message});
  error->cause = error->context = stop;
  error->suppress_context = true;
  return error;
}

namespace {

bool is_exception_class(const ValuePtr& value) {
  PyObject* object = value->real_object();
  return object && PyExceptionClass_Check(object);
}

constexpr const char* kNoExceptionClass =
    "catching classes that do not inherit from BaseException is not allowed";

}  // namespace

void check_exception_classes(Executor& ex, const ValuePtr& target) {
  const bool is_tuple = PyType_IsSubtype(target->type(), &PyTuple_Type);
  const bool valid =
      is_tuple ? std::ranges::all_of(items_of(ex, target), is_exception_class) : is_exception_class(target);
  if (!valid) raise_error(ex, PyExc_TypeError, kNoExceptionClass);
}

bool exception_matches(Executor& ex, const ValuePtr& exception, const ValuePtr& target) {
  PyObject* class_ = target->real_object();
  if (class_ && PyExceptionClass_Check(class_))
    return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(class_));
  if (PyType_IsSubtype(target->type(), &PyTuple_Type)) {
    for (const ValuePtr& item : items_of(ex, target))
      if (exception_matches(ex, exception, item)) return true;
    return false;
  }
  raise_error(ex, PyExc_TypeError, kNoExceptionClass);
}

std::string exception_text(Executor& ex, const ValuePtr& exception) {
  std::string text = exception->type()->tp_name;
  PyRef object = PyRef::borrow(exception->real_object());
  try {
    if (!object) object = exception->materialize(ex);
  } catch (const GraphBreak&) {
  } catch (const PythonRaise&) {
  }
  PyRef message = object ? PyRef::steal(PyObject_Str(object.get())) : PyRef();
  const char* utf8 = message ? PyUnicode_AsUTF8(message.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 && *utf8 ? text + ": " + utf8 : text;
}

}  // namespace cdynamo::symbolic
