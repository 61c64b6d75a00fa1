// Class statements: what a class is made of. builtin___build_class__ (Python/bltinmodule.c)
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/made_classes.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/named_tuple.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// A class or a function of Python's own that makes classes.
bool is_of_library(PyObject* object) {
  static constexpr const char* kModules[] = {"builtins", "abc", "enum", "typing", "torch.autograd.function"};
  if (!PyType_Check(object) && !PyFunction_Check(object)) return false;
  const PyRef module = PyRef::steal(PyObject_GetAttrString(object, "__module__"));
  if (!module) PyErr_Clear();
  if (!module || !PyUnicode_Check(module.get())) return false;
  return std::ranges::any_of(kModules, [&](const char* known) {
    return PyUnicode_CompareWithASCIIString(module.get(), known) == 0;
  });
}

template <typename Visit>
void for_each_class(PyObject* classes, Visit&& visit) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
    visit(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i)));
}

// ---- bases and metaclass

// A class, or what typing has in place of one (NamedTuple, Generic[T]).
PyRef known_base(Executor& ex, const ClassDefinition& definition, const ValuePtr& value) {
  PyObject* object = value->real_object();
  const bool is_known =
      object && (PyType_Check(object) || is_of_library(object) || is_of_library(as_object(Py_TYPE(object))));
  if (!is_known) definition.refuse(", whose base is a " + value->describe());
  if (!PyType_Check(object) && value->source && value->source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, value->source, object);
  return PyRef::borrow(object);
}

PyRef known_bases(Executor& ex, const ClassDefinition& definition, const std::vector<ValuePtr>& bases) {
  PyRef known = checked(PyTuple_New(std::ssize(bases)));
  for (size_t i = 0; i < bases.size(); ++i)
    PyTuple_SET_ITEM(known.get(), static_cast<Py_ssize_t>(i), known_base(ex, definition, bases[i]).release());
  return known;
}

// A class that is told of its subclasses by Python of the program's that captured code has not made.
bool has_unknown_hook(Executor& ex, PyTypeObject* cls) {
  const PyRef function =
      wrapped_function(own_type_entry(cls, interned("__init_subclass__")), &PyClassMethod_Type);
  return function && !ex.state().made_classes.values.contains(function.get()) &&
         !is_of_library(function.get());
}

void check_bases(Executor& ex, ClassDefinition& definition) {
  for_each_class(definition.bases.get(), [&](PyTypeObject* base) {
    if (!PyType_Check(as_object(base))) definition.refuse(", whose base is no class");
    if (!base->tp_mro) definition.refuse(", whose base is still being made");
    guard_class(ex, base);
    for_each_class(base->tp_mro,
                   [&](PyTypeObject* ancestor) { definition.has_hook |= has_unknown_hook(ex, ancestor); });
  });
}

// The most derived of what is given and the classes of the bases.
void choose_metaclass(Executor& ex, ClassDefinition& definition, PyObject* given) {
  PyObject* bases = definition.bases.get();
  if (!given) given = as_object(PyTuple_GET_SIZE(bases) ? Py_TYPE(PyTuple_GET_ITEM(bases, 0)) : &PyType_Type);
  const PyRef chosen = checked_user(
      ex, PyObject_CallFunctionObjArgs(library_object("types", "_calculate_meta"), given, bases, nullptr));
  definition.metaclass = reinterpret_cast<PyTypeObject*>(chosen.get());
}

PyObject* take_metaclass(ClassDefinition& definition) {
  const auto given = std::ranges::find_if(definition.keywords, [](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), "metaclass") == 0;
  });
  if (given == definition.keywords.end()) return nullptr;
  PyObject* metaclass = given->value->real_object();
  if (!metaclass || !PyType_Check(metaclass)) definition.refuse(", whose metaclass is no class");
  definition.keywords.erase(given);
  return metaclass;
}

// The namespace that the program's metaclass gives to the body: a dict of its own making.
std::shared_ptr<DictValue> prepared_names(Executor& ex, const ClassDefinition& definition) {
  PyObject* found = lookup_type(ex, definition.metaclass, interned("__prepare__"));
  if (definition.has_known_metaclass() || found == _PyType_Lookup(&PyType_Type, interned("__prepare__")))
    return new_dict();
  PyObject* metaclass = as_object(definition.metaclass);
  const ValuePtr names =
      ex.wrap(metaclass, constant_source(metaclass))
          ->get_attribute(ex, interned("__prepare__"))
          ->call(ex, {{ex.constant(definition.name), ex.constant(definition.bases)}, definition.keywords});
  auto dict = std::dynamic_pointer_cast<DictValue>(names);
  const bool is_plain =
      dict && !dict->source && (dict->type() == &PyDict_Type || dict->type() == ordered_dict_type());
  if (!is_plain) definition.refuse(", whose namespace is a " + names->describe());
  return dict;
}

// What Python itself asks of a metaclass that the program has written, while capture works with the class.
void refuse_hooks_of_metaclass(const ClassDefinition& definition) {
  for (const char* name :
       {"mro", "__getattribute__", "__getattr__", "__setattr__", "__eq__", "__hash__", "__dir__"}) {
    PyObject* found = _PyType_Lookup(definition.metaclass, interned(name));
    if (found != _PyType_Lookup(&PyType_Type, interned(name)))
      definition.refuse(std::string(", whose metaclass has ") + name);
  }
}

// ---- the body

void run_body(Executor& ex, FunctionValue& body, const std::shared_ptr<DictValue>& names) {
  if (ex.state().depth >= kMaxInlineDepth) break_graph("CD0007", "");
  SymbolicFrame frame(decoded(body.code()), PyRef::borrow(body.globals()), ex.frame()->builtins);
  frame.closure = body.closure(ex);
  frame.names = names;
  FrameScope scope(ex, frame);
  run_frame(ex, frame);
}

// The namespace of an enum notes each assignment, and makes numbers of auto(): the body may not see the difference.
void refuse_reading_body(Executor& ex, const ClassDefinition& definition, const FunctionValue& body) {
  std::unordered_set<std::string_view> stored, loaded;
  PyObject* names = body.code()->co_names;
  const auto code = decoded(body.code());
  for (const Instruction& in : code->program.code) {
    if (in.op == Op::DELETE_NAME) definition.refuse(", whose body deletes a name");
    if (in.op != Op::STORE_NAME && in.op != Op::LOAD_NAME) continue;
    const std::string_view name =
        PyUnicode_AsUTF8(in.value ? in.value.get() : PyTuple_GET_ITEM(names, in.arg));
    if (in.op == Op::LOAD_NAME)
      loaded.insert(name);
    else if (!stored.insert(name).second)
      definition.refuse(", whose body assigns a name again");
  }
  for (const DictValue::Entry& entry : definition.names->entries(ex)) {
    const std::string_view name = PyUnicode_AsUTF8(constant_object(entry.key));
    if (loaded.contains(name) && stored.contains(name) && !entry.value->as_constant())
      definition.refuse(", whose body reads what it has assigned");
  }
}

// metaclass(name, bases, namespace, **keywords)
ValuePtr call_metaclass(Executor& ex, const ClassDefinition& definition) {
  refuse_hooks_of_metaclass(definition);
  std::vector<ValuePtr> bases;
  for_each_class(definition.bases.get(), [&](PyTypeObject* base) {
    bases.push_back(ex.wrap(as_object(base), constant_source(as_object(base))));
  });
  PyObject* metaclass = as_object(definition.metaclass);
  return ex.wrap(metaclass, constant_source(metaclass))
      ->call(ex, {{ex.constant(definition.name), new_tuple(std::move(bases)), definition.names},
                  definition.keywords});
}

}  // namespace

void ClassDefinition::refuse(const std::string& why) const {
  break_graph("CD0008", std::string(PyUnicode_AsUTF8(name.get())) + why);
}

bool ClassDefinition::has_known_metaclass() const {
  bool is_known = true;
  for_each_class(metaclass->tp_mro, [&](PyTypeObject* cls) { is_known &= is_of_library(as_object(cls)); });
  return is_known;
}

bool ClassDefinition::is_read_by_metaclass() const {
  const std::string_view type_name = metaclass->tp_name;
  return has_known_metaclass() && metaclass != &PyType_Type && type_name != "ABCMeta" &&
         type_name != "FunctionMeta";
}

bool ClassDefinition::is_enum() const {
  return PyType_IsSubtype(metaclass, reinterpret_cast<PyTypeObject*>(library_object("enum", "EnumMeta")));
}

ValuePtr make_class_of_body(Executor& ex, const CallArgs& args) {
  auto* body = args.positional.empty() ? nullptr : dynamic_cast<FunctionValue*>(args.positional[0].get());
  if (!body || args.positional.size() < 2) break_graph("CD0008", "");
  ClassDefinition definition{
      .name = string_argument(ex, args.positional[1]), .keywords = args.keywords, .names = nullptr};
  const PyRef given = known_bases(ex, definition, {args.positional.begin() + 2, args.positional.end()});
  definition.bases =
      checked_user(ex, PyObject_CallOneArg(library_object("types", "resolve_bases"), given.get()));
  check_bases(ex, definition);
  choose_metaclass(ex, definition, take_metaclass(definition));
  definition.names = prepared_names(ex, definition);
  run_body(ex, *body, definition.names);
  PyObject* named_tuple = library_object("typing", "NamedTuple");
  if (PyTuple_GET_SIZE(given.get()) == 1 && PyTuple_GET_ITEM(given.get(), 0) == named_tuple &&
      definition.keywords.empty())
    if (ValuePtr made = make_typed_named_tuple(ex, definition.name.get(), *definition.names)) return made;
  if (definition.is_read_by_metaclass()) refuse_reading_body(ex, definition, *body);
  if (definition.bases.get() != given.get())
    definition.names->store(ex, ex.constant(PyRef::borrow(interned("__orig_bases__"))), ex.constant(given));
  return definition.has_known_metaclass() ? make_real_class(ex, definition) : call_metaclass(ex, definition);
}

ValuePtr make_class_of_namespace(Executor& ex, PyTypeObject* metaclass, const CallArgs& args) {
  require_count(ex, "type.__new__", {args.positional, {}}, 3, 3);
  DictValue* names = dict_in(args.positional[2]);
  if (!names) break_graph("CD0216", "type with a " + args.positional[2]->describe());
  ClassDefinition definition{
      .name = string_argument(ex, args.positional[0]), .keywords = args.keywords, .names = new_dict()};
  for (const DictValue::Entry& entry : names->entries(ex))
    definition.names->store(ex, entry.key, entry.value);
  definition.bases = known_bases(ex, definition, items_of(ex, args.positional[1]));
  check_bases(ex, definition);
  choose_metaclass(ex, definition, as_object(metaclass));
  if (definition.metaclass != metaclass) definition.refuse(", whose bases have another metaclass");
  if (!definition.has_known_metaclass()) refuse_hooks_of_metaclass(definition);
  // type_new_set_module: where type is called from.
  PyObject* module = PyDict_GetItemString(frame_globals(ex), "__name__");
  if (module && !definition.names->lookup_string(ex, interned("__module__")))
    definition.names->store(ex, ex.constant(PyRef::borrow(interned("__module__"))),
                            ex.constant(PyRef::borrow(module)));
  return make_real_class(ex, definition);
}

}  // namespace cdynamo::symbolic
