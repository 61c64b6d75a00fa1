// collections.namedtuple in captured code. Each call of the program makes a class of its own. Capture works with one that it makes
// itself, and that stays: what is compiled has guards on it. Python gets another one, made when the graph has run.
#include "symbolic/values/named_tuple.h"

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Names and defaults: constants, and flat lists and tuples of them.
PyRef known_argument(Executor& ex, const ValuePtr& value) {
  PyRef object = materialize(ex, value);
  const bool is_flat = object && (PyList_CheckExact(object.get()) || PyTuple_CheckExact(object.get()));
  for (Py_ssize_t i = 0; is_flat && i < PySequence_Fast_GET_SIZE(object.get()); ++i)
    if (!is_plain_constant(PySequence_Fast_GET_ITEM(object.get(), i))) object = PyRef();
  if (!object || !(is_flat || is_plain_constant(object.get())))
    break_graph("CD0216", "namedtuple with " + value->describe());
  return object;
}

// The function with its keyword arguments, the module of the class among them: Python takes it from the frame of the caller.
PyRef with_keywords(Executor& ex, const CallArgs& args) {
  PyRef keywords = checked(PyDict_New());
  PyObject* module = PyDict_GetItemString(frame_globals(ex), "__name__");
  if (!module || !PyUnicode_Check(module)) break_graph("CD0216", "namedtuple in a namespace without a name");
  if (PyDict_SetItemString(keywords.get(), "module", module) < 0) throw PythonError{};
  for (const Keyword& keyword : args.keywords)
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), known_argument(ex, keyword.value).get()) < 0)
      throw PythonError{};
  const PyRef function = checked(PyTuple_Pack(1, library_object("collections", "namedtuple")));
  return checked(PyObject_Call(library_object("functools", "partial"), function.get(), keywords.get()));
}

// A class of these arguments that does not stand for another one of this capture yet.
PyRef free_class(Executor& ex, PyObject* maker, PyObject* arguments) {
  static auto* classes = new absl::flat_hash_map<std::string, std::vector<PyRef>>;
  const PyRef keywords = checked(PyObject_GetAttrString(maker, "keywords"));
  const PyRef text = checked(PyUnicode_FromFormat("%R%R", arguments, keywords.get()));
  const char* key = PyUnicode_AsUTF8(text.get());
  if (!key) throw PythonError{};
  for (const PyRef& made : (*classes)[key])
    if (!ex.state().by_object.contains(made.get())) return made;
  PyRef made = checked_user(ex, PyObject_Call(maker, arguments, nullptr));
  (*classes)[key].push_back(made);
  return made;
}

ValuePtr class_of(Executor& ex, PyObject* maker, PyObject* arguments, std::vector<RecipePtr> recipes) {
  PyRef made = free_class(ex, maker, arguments);
  auto value = std::make_shared<ClassValue>(made, call_recipe(maker, std::move(recipes)));
  ex.state().by_object.insert_or_assign(made.get(), value);
  return value;
}

// A class that its name tells from all others.
bool is_named(PyObject* type) {
  if (!PyType_Check(type)) return false;
  const PyRef name = PyRef::steal(PyObject_GetAttrString(type, "__qualname__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) return PyErr_Clear(), false;
  return std::string_view(text).find('<') == std::string_view::npos;
}

// What is annotated, by name. False: a type is not known.
bool add_fields(Executor& ex, const ValuePtr& annotations, PyObject* fields) {
  DictValue* dict = dict_in(annotations);
  if (!dict) return false;
  for (const DictValue::Entry& entry : dict->entries(ex)) {
    PyObject* name = constant_object(entry.key);
    PyObject* type = entry.value->real_object() ? entry.value->real_object() : constant_object(entry.value);
    if (!name || !PyUnicode_CheckExact(name) || !type || ex.state().made_classes.values.contains(type) ||
        !(PyUnicode_CheckExact(type) || is_named(type)))
      return false;
    if (PyDict_SetItem(fields, name, type) < 0) throw PythonError{};
  }
  return true;
}

}  // namespace

ValuePtr make_named_tuple_class(Executor& ex, const CallArgs& args) {
  const PyRef maker = with_keywords(ex, args);
  PyRef arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  std::vector<RecipePtr> recipes;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef argument = known_argument(ex, args.positional[i]);
    // A list is the program's own; a tuple of the same names is as good.
    if (PyList_CheckExact(argument.get())) argument = checked(PySequence_Tuple(argument.get()));
    recipes.push_back(make_recipe(RecipeKind::kConstant, argument.get()));
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), argument.release());
  }
  return class_of(ex, maker.get(), arguments.get(), std::move(recipes));
}

ValuePtr make_typed_named_tuple(Executor& ex, PyObject* name, DictValue& names) {
  const PyRef fields = checked(PyDict_New()), rest = checked(PyDict_New());
  for (const DictValue::Entry& entry : names.entries(ex)) {
    PyObject *key = constant_object(entry.key), *value = constant_object(entry.value);
    if (!key || !PyUnicode_CheckExact(key)) return nullptr;
    const bool is_annotations = PyUnicode_CompareWithASCIIString(key, "__annotations__") == 0;
    if (is_annotations && !add_fields(ex, entry.value, fields.get())) return nullptr;
    if (is_annotations) continue;
    TupleValue* tuple = value ? nullptr : tuple_in(entry.value);  // __static_attributes__
    const PyRef empty = tuple && tuple->items(ex).empty() ? checked(PyTuple_New(0)) : PyRef();
    if (empty) value = empty.get();
    const bool is_empty = value && PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0;
    if (!value || !(is_plain_constant(value) || is_empty)) return nullptr;
    if (PyDict_SetItem(rest.get(), key, value) < 0) throw PythonError{};
  }
  // As tuples they are told from others by what they are, in their order.
  PyObject* maker = python_side(PythonSide::kTypedNamedTuple);
  const PyRef bound =
      checked(PyObject_CallFunctionObjArgs(library_object("functools", "partial"), maker, nullptr));
  const PyRef field_items = checked(PyMapping_Items(fields.get())),
              items = checked(PyMapping_Items(rest.get()));
  const PyRef arguments = checked(PyTuple_New(3));
  PyTuple_SET_ITEM(arguments.get(), 0, PyRef::borrow(name).release());
  PyTuple_SET_ITEM(arguments.get(), 1, checked(PyList_AsTuple(field_items.get())).release());
  PyTuple_SET_ITEM(arguments.get(), 2, checked(PyList_AsTuple(items.get())).release());
  std::vector<RecipePtr> recipes;
  for (Py_ssize_t i = 0; i < 3; ++i)
    recipes.push_back(make_recipe(RecipeKind::kConstant, PyTuple_GET_ITEM(arguments.get(), i)));
  return class_of(ex, bound.get(), arguments.get(), std::move(recipes));
}

}  // namespace cdynamo::symbolic
