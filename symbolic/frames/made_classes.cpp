// The real class that stands for one that captured code makes, and dataclasses.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/made_classes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/subclasses.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// ---- the namespace

// An __init_subclass__ is called by capture, and not by type where a subclass is made.
PyRef inert_hook(Executor& ex, const PyRef& hook) {
  const PyRef method = wrapped_function(hook.get(), &PyClassMethod_Type);
  Executor::State::MadeClasses& made = ex.state().made_classes;
  const auto known = made.values.find(method ? method.get() : hook.get());
  if (known == made.values.end()) return {};
  PyObject* nothing = python_side(PythonSide::kIgnoreSubclass);
  const PyRef inert = checked(PyFunction_New(PyFunction_GET_CODE(nothing), PyFunction_GET_GLOBALS(nothing)));
  ex.state().kept.push_back(inert);
  made.values.emplace(inert.get(), known->second);
  return checked(PyClassMethod_New(inert.get()));
}

// Methods that Python calls while it makes an enum, or looks one of its members up.
bool is_called_by_enum(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__new__",      "__init__",          "_missing_", "_generate_next_value_",
      "__set_name__", "__init_subclass__", "__hash__",  "__eq__"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

struct LaterName {
  PyRef name;
  ValuePtr value;
};

// The namespace as the metaclass gets it. `later`: what has a __set_name__ of Python's, and is put into the class afterwards.
PyRef real_namespace(Executor& ex, const ClassDefinition& definition, StandIns& parts,
                     std::vector<LaterName>& later) {
  const bool is_enum = definition.is_enum();
  PyRef names =
      is_enum ? checked_user(ex, PyObject_CallMethod(as_object(definition.metaclass), "__prepare__", "OO",
                                                     definition.name.get(), definition.bases.get()))
              : checked(PyDict_New());
  for (const DictValue::Entry& entry : definition.names->entries(ex)) {
    PyObject* key = constant_object(entry.key);
    if (!key || !PyUnicode_CheckExact(key)) definition.refuse(", whose namespace has a key that is no name");
    const std::string_view name = PyUnicode_AsUTF8(key);
    const bool is_definition = dynamic_cast<DefinitionValue*>(entry.value.get());
    if (!is_definition && lookup_special(ex, entry.value, "__set_name__")) {
      later.push_back({PyRef::borrow(key), entry.value});
      continue;
    }
    PyRef object;
    if (name == "__annotations__")
      object = parts.dict(entry.value);
    else if (name == "__slots__")
      object = materialize(ex, entry.value);
    else
      object = parts.of(entry.value);
    if (name == "__init_subclass__") object = inert_hook(ex, object);
    if (!object || name == "__classdictcell__") definition.refuse(", by its " + std::string(name));
    if (is_enum && is_called_by_enum(name)) definition.refuse(", an enum with " + std::string(name));
    if (PyObject_SetItem(names.get(), key, object.get()) < 0) raise_current_error(ex);
  }
  return names;
}

// ---- the class

using Objects = std::unordered_set<PyObject*>;

Objects values_of(const PyRef& dict) {
  Objects values;
  const PyRef list = checked(PyMapping_Values(dict.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) values.insert(PyList_GET_ITEM(list.get(), i));
  return values;
}

// What Python has put into the class is the capture's own: methods of a dataclass, members of an enum.
void note_own(Executor& ex, PyTypeObject* cls, const Objects& given) {
  Executor::State& state = ex.state();
  Objects inherited;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(cls->tp_mro); ++i)
    inherited.merge(
        values_of(own_entries(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(cls->tp_mro, i)))));
  for (PyObject* entry : values_of(own_entries(cls))) {
    const bool is_known = given.contains(entry) || inherited.contains(entry) || is_plain_constant(entry) ||
                          PyTuple_CheckExact(entry) || PyType_Check(entry) || PyCFunction_Check(entry);
    if (is_known) continue;
    state.kept.push_back(PyRef::borrow(entry));
    state.made_classes.own.insert(entry);
  }
}

void note_first(Executor& ex, const PyRef& object) {
  Executor::State::MadeClasses& made = ex.state().made_classes;
  if (made.first_step >= 0) return;
  made.first_step = std::ssize(ex.state().root_trace) - 1;
  made.first_name = PyUnicode_AsUTF8(checked(PyObject_GetAttrString(object.get(), "__name__")).get());
  made.first_stack = ex.user_stack();
}

ValuePtr add_class(Executor& ex, const PyRef& cls, const Objects& given, bool is_faithful) {
  Executor::State::MadeClasses& made = ex.state().made_classes;
  note_first(ex, cls);
  ValuePtr value = std::make_shared<ClassValue>(cls, RecipePtr());
  hide_from_bases(reinterpret_cast<PyTypeObject*>(cls.get()),
                  [&](PyTypeObject* base) { return made.own.contains(as_object(base)); });
  made.own.insert(cls.get());
  made.values.emplace(cls.get(), value);
  if (is_faithful) made.faithful.insert(cls.get());
  note_own(ex, reinterpret_cast<PyTypeObject*>(cls.get()), given);
  return value;
}

// The hook that a class inherits, if captured code has made it, or Python has called none; null otherwise (Python's own has been called).
ValuePtr inherited_hook(Executor& ex, const ClassDefinition& definition, const ValuePtr& cls) {
  PyObject* mro = reinterpret_cast<PyTypeObject*>(cls->real_object())->tp_mro;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* found = own_type_entry(base, interned("__init_subclass__"));
    if (!found) continue;
    const PyRef hook = wrapped_function(found, &PyClassMethod_Type);
    const auto& values = ex.state().made_classes.values;
    const auto known = hook ? values.find(hook.get()) : values.end();
    if (known != values.end()) return make_bound_method(ex, known->second, cls);
    if (!definition.has_hook) return nullptr;
    if (!hook || !PyFunction_Check(hook.get())) definition.refuse(", whose base has an __init_subclass__");
    return make_bound_method(ex, ex.wrap(hook.get(), constant_source(hook.get())), cls);
  }
  return nullptr;
}

// type_new_set_names
void set_names(Executor& ex, const ClassDefinition& definition, const ValuePtr& cls,
               const std::vector<LaterName>& names) {
  for (const LaterName& entry : names) cls->set_attribute(ex, entry.name.get(), entry.value);
  try {
    for (const LaterName& entry : names)
      lookup_special(ex, entry.value, "__set_name__")->call(ex, positional({cls, ex.constant(entry.name)}));
  } catch (const PythonRaise&) {
    definition.refuse(", with a __set_name__ that raises an error");
  }
}

// A backend in Python calls the methods of a Function itself.
bool is_run_by_backend(Executor& ex, const ClassDefinition& definition) {
  return !ex.state().request.is_native && std::string_view(definition.metaclass->tp_name) == "FunctionMeta";
}

// A subclass of `base` with an __init_subclass__ that does nothing.
PyObject* inert_class(PyObject* base) {
  const PyRef hook = checked(PyClassMethod_New(python_side(PythonSide::kIgnoreSubclass)));
  PyObject* inert = checked(PyObject_CallFunction(as_object(Py_TYPE(base)), "s(O){sO}", "Inert", base,
                                                  "__init_subclass__", hook.get()))
                        .release();
  hide_from_bases(reinterpret_cast<PyTypeObject*>(inert), [](PyTypeObject*) { return false; });
  return inert;
}

// The bases after an inert class, whose hook Python finds first.
PyRef with_inert_base(const PyRef& bases) {
  PyObject* abstract = library_object("abc", "ABC");
  // No static's initializer: making a class may run the program's code, in another thread too.
  static PyObject *plain = nullptr, *of_abstract = nullptr;
  if (!plain) plain = inert_class(as_object(&PyBaseObject_Type));
  if (!of_abstract) of_abstract = inert_class(abstract);
  const bool is_abstract = PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases.get(), 0)),
                                            reinterpret_cast<PyTypeObject*>(abstract));
  const PyRef first = checked(PyTuple_Pack(1, is_abstract ? of_abstract : plain));
  return checked(PySequence_Concat(first.get(), bases.get()));
}

// Whether the inert class gives instances neither a __dict__ nor weak references that they would not have.
bool adds_nothing(Executor& ex, const ClassDefinition& definition) {
  if (!definition.names->lookup_string(ex, interned("__slots__"))) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(definition.bases.get()); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(definition.bases.get(), i));
    const bool has_dict = base->tp_dictoffset != 0 || PyType_HasFeature(base, Py_TPFLAGS_MANAGED_DICT);
    if (!has_dict || !PyType_SUPPORTS_WEAKREFS(base)) return false;
  }
  return true;
}

PyRef call_type(Executor& ex, const ClassDefinition& definition, const PyRef& names, const PyRef& keywords) {
  const PyRef bases = definition.has_hook ? with_inert_base(definition.bases) : definition.bases;
  const PyRef arguments = checked(PyTuple_Pack(3, definition.name.get(), bases.get(), names.get()));
  PyRef cls =
      checked_user(ex, definition.has_known_metaclass()
                           ? PyObject_Call(as_object(definition.metaclass), arguments.get(), keywords.get())
                           : PyType_Type.tp_new(definition.metaclass, arguments.get(), keywords.get()));
  // Its instances have to lie in memory as those of a plain class do.
  if (definition.has_hook && PyObject_SetAttrString(cls.get(), "__bases__", definition.bases.get()) < 0) {
    PyErr_Clear();
    definition.refuse(", whose base has an __init_subclass__");
  }
  return cls;
}

// ---- dataclasses

// dataclasses._process_class of a class that captured code has made, with known options. Null: another class.
ValuePtr process_dataclass(Executor& ex, const CallArgs& args) {
  Executor::State::MadeClasses& made = ex.state().made_classes;
  auto* value = args.positional.empty() ? nullptr : dynamic_cast<ClassValue*>(args.positional[0].get());
  PyObject* cls = value && !value->is_shown() ? value->real_object() : nullptr;
  if (!made.faithful.contains(cls) || !args.keywords.empty()) return nullptr;
  PyRef arguments = checked(PyTuple_New(std::ssize(args.positional)));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef known = i == 0 ? PyRef::borrow(cls) : args.positional[i]->as_constant().value_or(PyRef());
    if (!known) return nullptr;
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), known.release());
  }
  const Objects given = values_of(own_entries(reinterpret_cast<PyTypeObject*>(cls)));
  const PyRef result = checked_user(
      ex, PyObject_Call(library_object("dataclasses", "_process_class"), arguments.get(), nullptr));
  note_own(ex, reinterpret_cast<PyTypeObject*>(cls), given);
  return result.get() == cls ? args.positional[0] : add_class(ex, result, given, true);
}

// ---- ABC.register

// Of a class that captured code has made, which alone holds what is registered.
ValuePtr register_subclass(Executor& ex, const CallArgs& args) {
  require_count(ex, "_abc_register", args, 2, 2);
  auto* cls = dynamic_cast<ClassValue*>(args.positional[0].get());
  PyObject* subclass = args.positional[1]->real_object();
  if (!cls || !cls->is_stand_in() || !subclass) break_graph("CD0212", "_abc._abc_register");
  checked_user(ex, PyObject_CallFunctionObjArgs(library_object("_abc", "_abc_register"), cls->real_object(),
                                                subclass, nullptr));
  return args.positional[1];
}

constexpr BuiltinRow kMadeClassFunctions[] = {
    {"builtins", "__build_class__", make_class_of_body},
    {"_abc", "_abc_register", register_subclass},
    {"dataclasses", "_process_class", process_dataclass},
    {"dataclasses", "field", define_field},
};

// typing.TypeVar with a known name: it is told from others by identity alone.
ValuePtr make_type_variable(Executor& ex, const CallArgs& args) {
  StandIns parts(ex);
  const PyRef arguments = parts.of(args.positional), keywords = parts.of(args.keywords);
  if (!parts.are_faithful()) break_graph("CD0216", "instance of class TypeVar");
  PyObject* cls = library_object("typing", "TypeVar");
  const PyRef made = checked_user(ex, PyObject_Call(cls, arguments.get(), keywords.get()));
  note_first(ex, made);
  ex.state().made_classes.own.insert(made.get());
  ex.state().kept.push_back(made);
  return std::make_shared<ConstantValue>(made, constant_source(made.get()));
}

constexpr BuiltinRow kMadeClasses[] = {{"typing", "TypeVar", make_type_variable}};

}  // namespace

std::span<const BuiltinRow> class_classes() { return kMadeClasses; }

std::span<const BuiltinRow> class_functions() { return kMadeClassFunctions; }

ValuePtr make_real_class(Executor& ex, const ClassDefinition& definition) {
  StandIns parts(ex);
  std::vector<LaterName> later;
  const PyRef names = real_namespace(ex, definition, parts, later), keywords = parts.of(definition.keywords);
  const bool is_faithful = parts.are_faithful() && later.empty();
  if (!is_faithful && definition.is_read_by_metaclass())
    definition.refuse(", with values that are known only when the graph has run");
  if (definition.has_hook &&
      (definition.is_read_by_metaclass() || !later.empty() || !adds_nothing(ex, definition)))
    definition.refuse(", whose base has an __init_subclass__");
  if (is_run_by_backend(ex, definition) && (!is_faithful || parts.have_closures()))
    definition.refuse(", which a backend in Python would call without its closure");
  const Objects given = values_of(names);
  const PyRef cls = call_type(ex, definition, names, keywords);
  ValuePtr value = add_class(ex, cls, given, is_faithful);
  if (const ValuePtr own_class = definition.names->lookup_string(ex, interned("__classcell__")))
    static_cast<CellValue&>(*own_class).set_contents(ex, value);
  set_names(ex, definition, value, later);
  if (const ValuePtr hook = inherited_hook(ex, definition, value)) hook->call(ex, {{}, definition.keywords});
  return value;
}

ValuePtr make_enum_of_names(Executor& ex, PyTypeObject* cls, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) {
    const PyRef object = value->materialize(ex);
    if (!object) break_graph("CD0216", std::string("class ") + cls->tp_name);
    return object;
  };
  CallArgs all = args;
  const auto is_given = [&](const char* name) {
    return std::ranges::any_of(all.keywords, [&](const Keyword& keyword) {
      return PyUnicode_CompareWithASCIIString(keyword.name.get(), name) == 0;
    });
  };
  // Python would look it up in the frame that calls.
  PyObject* module = PyDict_GetItemString(frame_globals(ex), "__name__");
  if (module && !is_given("module"))
    all.keywords.push_back({PyRef::borrow(interned("module")), ex.constant(PyRef::borrow(module))});
  const PyRef made = checked_user(ex, call_with_objects(as_object(cls), all, known).release());
  return add_class(ex, made, {}, true);
}

void set_class_attribute(Executor& ex, PyObject* cls, PyObject* name, const ValuePtr& value) {
  Executor::State::MadeClasses& made = ex.state().made_classes;
  const auto known = made.values.find(cls);
  if (known == made.values.end())
    break_graph("CD0201", absl::StrCat(PyUnicode_AsUTF8(name), " of class ",
                                       reinterpret_cast<PyTypeObject*>(cls)->tp_name));
  ex.changing(known->second, false);
  StandIns parts(ex);
  const PyRef object = value ? parts.of(value) : PyRef();
  // Python itself reads what is written to attributes that `type` computes, and the bases decide what all others are.
  PyObject* computed = _PyType_Lookup(&PyType_Type, name);
  const bool is_read = computed && Py_TYPE(computed)->tp_descr_set && !parts.are_faithful();
  auto is = [name](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if (is_read || is("__bases__") || is("__init_subclass__"))
    break_graph("CD0201", absl::StrCat(PyUnicode_AsUTF8(name), " of a class"));
  if (!parts.are_faithful()) made.faithful.erase(cls);
  if (PyType_Type.tp_setattro(cls, name, object.get()) < 0) raise_current_error(ex);
}

}  // namespace cdynamo::symbolic
