// What programs ask of Python itself: signatures, which modules are installed.
#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/exceptions.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/generators.h"
#include "symbolic/frames/output.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/partial.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Gives `like` the annotations of a function that is made during capture; false where they are not known.
bool annotate_like(Executor& ex, FunctionValue& function, const PyRef& like) {
  if (!function.annotations) return true;
  const PyRef annotations = function.get_attribute(ex, interned("__annotations__"))->materialize(ex);
  return annotations && PyFunction_SetAnnotations(like.get(), annotations.get()) == 0;
}

// A function like one that is made during capture, with the same parameters; null where their defaults or annotations are not
// known.
PyRef function_with_defaults(Executor& ex, FunctionValue& function) {
  if (!function.own_names(ex).empty() || function.is_renamed()) return {};
  PyRef like = checked(PyFunction_New(reinterpret_cast<PyObject*>(function.code()), function.globals()));
  const auto known = [&](const ValuePtr& value) {
    return value ? value->materialize(ex) : PyRef::borrow(Py_None);
  };
  const PyRef defaults = known(function.defaults), keywords = known(function.keyword_defaults);
  if (!defaults || !keywords || PyFunction_SetDefaults(like.get(), defaults.get()) < 0 ||
      PyFunction_SetKwDefaults(like.get(), keywords.get()) < 0)
    return {};
  if (!annotate_like(ex, function, like)) return {};
  return like;
}

// A dict that belongs to a function or class, as a whole: what is computed of it is constant.
void guard_entries(Executor& ex, PyObject* dict, const SourcePtr& source) {
  if (!dict || !PyDict_CheckExact(dict)) return;
  add_guard(ex, GuardKind::kDictKeys, source, checked(PySequence_Tuple(dict)).get());
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    add_guard(ex, is_plain_constant(value) ? GuardKind::kEquals : GuardKind::kIdentity,
              key_source(source, key), value);
}

// A function's parameters stay what they are as long as its code and its defaults do.
void guard_parameters(Executor& ex, const FunctionValue& function) {
  auto* object = reinterpret_cast<PyFunctionObject*>(function.real_object());
  if (!object) return;
  const SourcePtr source = constant_source(function.real_object());
  add_guard(ex, GuardKind::kIdentity, attribute_source(source, interned("__code__")), object->func_code);
  add_guard(ex, GuardKind::kIdentity, attribute_source(source, interned("__defaults__")),
            object->func_defaults ? object->func_defaults : Py_None);
  for (const char* name : {"__wrapped__", "__signature__"}) {
    PyObject* own = object->func_dict ? PyDict_GetItemString(object->func_dict, name) : nullptr;
    if (own)
      add_guard(ex, GuardKind::kIdentity, key_source(instance_dict_source(source), interned(name)), own);
    else
      add_guard(ex, GuardKind::kAttributeAbsent, source, interned(name));
  }
  const SourcePtr keywords = attribute_source(source, interned("__kwdefaults__"));
  if (object->func_kwdefaults)
    guard_entries(ex, object->func_kwdefaults, keywords);
  else
    add_guard(ex, GuardKind::kIdentity, keywords, Py_None);
}

void guard_annotations(Executor& ex, PyObject* annotated) {
  const auto guard = [&](PyObject* owner) {
    const PyRef annotations = PyRef::steal(PyObject_GetAttr(owner, interned("__annotations__")));
    if (!annotations) PyErr_Clear();
    guard_entries(ex, annotations.get(),
                  attribute_source(constant_source(owner), interned("__annotations__")));
  };
  if (!PyType_Check(annotated)) return guard(annotated);
  PyObject* mro = reinterpret_cast<PyTypeObject*>(annotated)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(mro, i);
    if (own_type_entry(reinterpret_cast<PyTypeObject*>(base), interned("__annotations__"))) guard(base);
  }
}

// Of an instance the method by which it is called; null: it is something else, or says by itself what its signature is.
ValuePtr call_of_instance(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  if (!object) return nullptr;
  for (const char* name : {"__signature__", "__wrapped__"})
    if (get_attribute_or_null(ex, value, interned(name))) return nullptr;
  return object->special(ex, "__call__");
}

// The callable itself, under a guard; of a bound method one that is bound to None, which has the same signature.
PyRef known_callable(Executor& ex, const ValuePtr& value) {
  if (auto* method = dynamic_cast<BoundMethodValue*>(value.get())) {
    auto* function = dynamic_cast<FunctionValue*>(method->function().get());
    PyRef live = function ? function->materialize(ex) : PyRef();
    if (live) guard_parameters(ex, *function);
    return live ? checked(PyMethod_New(live.get(), Py_None)) : PyRef();
  }
  if (auto* partial = dynamic_cast<PartialValue*>(value.get())) {
    const PyRef function = known_callable(ex, partial->get_attribute(ex, interned("func")));
    if (!function) return {};
    // The keywords are the defaults that the signature shows.
    CallArgs args = partial->bound(ex);
    for (Keyword& keyword : args.keywords) {
      const PyRef known = keyword.value->materialize(ex);
      if (!known) return {};
      keyword.value = ex.constant(known);
    }
    args.positional.insert(args.positional.begin(), value);
    const auto object_of = [&](const ValuePtr& part) {
      if (part == value) return function;
      return part->as_constant().value_or(PyRef::borrow(Py_None));
    };
    return call_with_objects(library_object("functools", "partial"), args, object_of);
  }
  if (auto* function = dynamic_cast<FunctionValue*>(value.get())) {
    guard_parameters(ex, *function);
    return function->real_object() ? function->materialize(ex) : function_with_defaults(ex, *function);
  }
  if (ValuePtr call = call_of_instance(ex, value)) return known_callable(ex, call);
  PyObject* live = value->real_object();
  if (!live || !PyType_Check(live)) return {};
  guard_class(ex, reinterpret_cast<PyTypeObject*>(live));
  return PyRef::borrow(live);
}

ValuePtr signature(Executor& ex, const CallArgs& args) {
  bool simple = args.positional.size() == 1 && args.keywords.empty();
  PyRef callable = simple ? known_callable(ex, args.positional[0]) : PyRef();
  if (!callable) break_graph("CD0106", "inspect.signature");
  PyRef found = checked_user(ex, PyObject_CallOneArg(library_object("inspect", "signature"), callable.get()));
  return ex.wrap(found.get(), constant_source(found.get()));
}

// A FullArgSpec whose lists and dicts are new.
ValuePtr full_argument_spec(Executor& ex, const CallArgs& args) {
  const bool simple = args.positional.size() == 1 && args.keywords.empty();
  const PyRef callable = simple ? known_callable(ex, args.positional[0]) : PyRef();
  // Of a bound method it names self as well.
  if (!callable || PyMethod_Check(callable.get())) break_graph("CD0106", "inspect.getfullargspec");
  const PyRef found =
      checked_user(ex, PyObject_CallOneArg(library_object("inspect", "getfullargspec"), callable.get()));
  PyObject* cls = as_object(Py_TYPE(found.get()));
  const PyRef parts = checked(PySequence_Tuple(found.get()));
  return ex.wrap(cls, constant_source(cls))->call(ex, positional(items_of(ex, wrap_fresh(ex, parts))));
}

// typing.get_type_hints of a class or function with annotations that are texts: what these name is guarded. Null: Python's own
// is inlined.
ValuePtr type_hints(Executor& ex, const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty()) return nullptr;
  const ValuePtr& annotated = args.positional[0];
  auto* function = dynamic_cast<FunctionValue*>(annotated.get());
  auto* cls = dynamic_cast<ClassValue*>(annotated.get());
  if (!function && !(cls && !cls->is_stand_in())) return nullptr;
  const bool is_made = function && !function->real_object();
  const PyRef known =
      is_made ? checked(PyFunction_New(reinterpret_cast<PyObject*>(function->code()), function->globals()))
              : PyRef::borrow(annotated->real_object());
  if (is_made && !annotate_like(ex, *function, known)) return nullptr;
  const PyRef names =
      checked_user(ex, PyObject_CallOneArg(python_side(PythonSide::kNamesInHints), known.get()));
  if (PyList_GET_SIZE(names.get()) == 0) return nullptr;
  if (annotated->real_object() && !known_callable(ex, annotated))
    break_graph("CD0106", "typing.get_type_hints");
  if (annotated->real_object()) guard_annotations(ex, annotated->real_object());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(names.get(), i);
    PyObject *namespace_ = PyTuple_GET_ITEM(pair, 0), *name = PyTuple_GET_ITEM(pair, 1);
    if (assigned_name(ex, namespace_, name)) break_graph("CD0106", "typing.get_type_hints");
    if (PyObject* object = PyDict_GetItemWithError(namespace_, name))
      add_guard(ex, GuardKind::kIdentity, module_global_source(namespace_, name), object);
    else
      add_guard(ex, GuardKind::kKeyAbsent, constant_source(namespace_), name);
  }
  const PyRef hints =
      checked_user(ex, PyObject_CallOneArg(library_object("typing", "get_type_hints"), known.get()));
  std::vector<std::pair<ValuePtr, ValuePtr>> items;
  PyObject *key, *hint;
  for (Py_ssize_t at = 0; PyDict_Next(hints.get(), &at, &key, &hint);)
    items.emplace_back(ex.constant(PyRef::borrow(key)), ex.wrap(hint, constant_source(hint)));
  return make_dict(ex, items);
}

// Which modules are installed does not change while a program runs.
ValuePtr find_spec(Executor& ex, const CallArgs& args) {
  require_count(ex, "find_spec", args, 1, 1);
  PyRef name = string_argument(ex, args.positional[0]);
  PyRef found =
      checked_user(ex, PyObject_CallOneArg(library_object("importlib.util", "find_spec"), name.get()));
  return ex.wrap(found.get(), constant_source(found.get()));
}

ValuePtr version(Executor& ex, const CallArgs& args) {
  require_count(ex, "version", args, 1, 1);
  PyRef name = string_argument(ex, args.positional[0]);
  return ex.constant(
      checked_user(ex, PyObject_CallOneArg(library_object("importlib.metadata", "version"), name.get())));
}

// functools.update_wrapper, which wraps() calls: of functions; the default lists of names.
ValuePtr update_wrapper(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "update_wrapper", args, {"wrapper", "wrapped", "assigned?", "updated?"});
  auto is_default = [&](const ValuePtr& given, const char* name) {
    return !given || given->real_object() == library_object("functools", name);
  };
  // A function, or what a decorator of functools has made of one.
  auto* object = dynamic_cast<UserObjectValue*>(bound[0].get());
  const bool takes_names = dynamic_cast<FunctionValue*>(bound[0].get()) || (object && object->is_new());
  const ValuePtr& wrapper = bound[0];
  const ValuePtr& wrapped = bound[1];
  auto* method = dynamic_cast<BoundMethodValue*>(wrapped.get());
  auto* function = dynamic_cast<FunctionValue*>(method ? method->function().get() : wrapped.get());
  if (!takes_names || !function || !is_default(bound[2], "WRAPPER_ASSIGNMENTS") ||
      !is_default(bound[3], "WRAPPER_UPDATES"))
    break_graph("CD0202", "functools.update_wrapper of " + wrapped->describe());
  PyObject* names = library_object("functools", "WRAPPER_ASSIGNMENTS");
  auto assign = [&](PyObject* name) {
    if (ValuePtr value = get_attribute_or_null(ex, wrapped, name)) wrapper->set_attribute(ex, name, value);
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) assign(PyTuple_GET_ITEM(names, i));
  for (const PyRef& name : function->own_names(ex)) assign(name.get());
  wrapper->set_attribute(ex, interned("__wrapped__"), wrapped);
  return bound[0];
}

ValuePtr exception(Executor& ex, const CallArgs& args) {
  require_count(ex, "exception", args, 0, 0);
  const ValuePtr handled = handled_exception(ex);
  return handled ? handled : ex.none();
}

ValuePtr exception_info(Executor& ex, const CallArgs& args) {
  require_count(ex, "exc_info", args, 0, 0);
  const ValuePtr handled = handled_exception(ex);
  if (!handled) return make_tuple(ex, {ex.none(), ex.none(), ex.none()});
  auto* type = reinterpret_cast<PyObject*>(handled->type());
  return make_tuple(ex, {ex.wrap(type, constant_source(type)), handled, make_traceback()});
}

// inspect.getgeneratorstate of a generator that is made here.
ValuePtr generator_state(Executor& ex, const CallArgs& args) {
  const ValuePtr value = bind_arguments(ex, "getgeneratorstate", args, {"generator"})[0];
  auto* generator = dynamic_cast<GeneratorValue*>(value.get());
  if (!generator || generator->type() != &PyGen_Type) break_graph("CD0106", "inspect.getgeneratorstate");
  return ex.constant(PyRef::borrow(interned(generator->state())));
}

constexpr BuiltinRow kIntrospectionFunctions[] = {
    {"sys", "exception", exception},
    {"sys", "exc_info", exception_info},
    {"inspect", "signature", signature},
    {"inspect", "getfullargspec", full_argument_spec},
    {"inspect", "getgeneratorstate", generator_state},
    {"typing", "get_type_hints", type_hints},
    {"functools", "update_wrapper", update_wrapper},
    {"importlib.util", "find_spec", find_spec},
    {"importlib.metadata", "version", version},
};

}  // namespace

std::span<const BuiltinRow> introspection_functions() { return kIntrospectionFunctions; }

}  // namespace cdynamo::symbolic
