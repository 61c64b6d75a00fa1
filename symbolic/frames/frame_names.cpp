// Opcodes of globals, names, attributes and imports.
#include <string>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/module_value.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// ---- globals

bool is_root_namespace(Executor& ex, PyObject* globals) {
  return globals == ex.state().request.roots.globals;
}

SourcePtr global_source(Executor& ex, PyObject* globals, PyObject* key) {
  if (!is_root_namespace(ex, globals)) {
    auto source = std::make_shared<Source>();
    source->kind = SourceKind::kModuleGlobal;
    source->base = constant_source(globals);
    source->key = PyRef::borrow(key);
    return source;
  }
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::kGlobal;
  source->key = PyRef::borrow(key);
  return source;
}

SourcePtr namespace_source(Executor& ex, PyObject* globals) {
  if (!is_root_namespace(ex, globals)) return constant_source(globals);
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::kGlobal;
  return source;
}

SourcePtr builtin_source(Executor& ex, PyObject* builtins, PyObject* key) {
  auto source = std::make_shared<Source>();
  source->key = PyRef::borrow(key);
  if (builtins == ex.state().request.roots.builtins) {
    source->kind = SourceKind::kBuiltin;
  } else {
    source->kind = SourceKind::kModuleGlobal;
    source->base = constant_source(builtins);
  }
  return source;
}

// The namespace of a polyfill.
bool is_of_package(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text && std::string_view(text).starts_with("cdynamo.");
}

PyObject* dict_item(PyObject* dict, PyObject* key) {
  PyObject* item = PyDict_GetItemWithError(dict, key);
  if (!item && PyErr_Occurred()) throw PythonError{};
  return item;
}

// Whether the name is there before the graph runs, as it must be whenever it does.
bool guarded_presence(Executor& ex, PyObject* globals, PyObject* name) {
  PyObject* object = dict_item(globals, name);
  if (object)  // its type tells
    guard_exact_type(ex, object, global_source(ex, globals, name));
  else
    add_guard(ex, GuardKind::kKeyAbsent, namespace_source(ex, globals), name);
  return object != nullptr;
}

}  // namespace

PyObject* name_of(const SymbolicFrame& frame, const Instruction& in) {
  return in.value ? in.value.get() : PyTuple_GET_ITEM(frame.code->object()->co_names, in.arg);
}

void raise_unknown_name(Executor& ex, PyObject* name) {
  raise_error(ex, PyExc_NameError, std::string("name '") + PyUnicode_AsUTF8(name) + "' is not defined");
}

ValuePtr find_builtin(Executor& ex, SymbolicFrame& frame, PyObject* name) {
  PyObject* object = dict_item(frame.builtins.get(), name);
  if (!object) {
    add_guard(ex, GuardKind::kKeyAbsent, constant_source(frame.builtins.get()), name);
    return nullptr;
  }
  return ex.wrap(object, frame.code->is_library ? constant_source(object)
                                                : builtin_source(ex, frame.builtins.get(), name));
}

ValuePtr find_global(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject* name = name_of(frame, in);
  PyObject* globals = frame.globals.get();
  const auto& assigned = ex.state().globals;
  const auto it = assigned.find({globals, name});
  const bool is_assigned = it != assigned.end();  // or deleted
  if (is_assigned) {
    if (it->second) return it->second;
  } else if (PyObject* object = dict_item(globals, name)) {
    const SourcePtr source = global_source(ex, globals, name);
    if (!frame.code->is_library || !is_library_definition(globals, name, object))
      return ex.wrap(object, source);
    // It is what it was, but the program may put another one in its place.
    if (!is_of_package(globals)) add_guard(ex, GuardKind::kIdentity, source, object);
    return ex.wrap(object, constant_source(object));
  }
  if (!frame.code->is_library && !is_assigned)
    add_guard(ex, GuardKind::kKeyAbsent, namespace_source(ex, globals), name);
  return find_builtin(ex, frame, name);
}

namespace {

void load_global(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr value = find_global(ex, frame, in);
  if (!value) raise_unknown_name(ex, name_of(frame, in));
  frame.push(std::move(value));
}

void assign_global(Executor& ex, SymbolicFrame& frame, PyObject* name, ValuePtr value) {
  assign_name(ex, frame.globals.get(), name, std::move(value));
}

void store_global(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  assign_global(ex, frame, name_of(frame, in), frame.pop());
}

void delete_global(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject *name = name_of(frame, in), *globals = frame.globals.get();
  const auto assigned = ex.state().globals.find({globals, name});
  bool bound = assigned != ex.state().globals.end() && assigned->second;
  if (assigned == ex.state().globals.end()) bound = guarded_presence(ex, globals, name);
  if (!bound) raise_unknown_name(ex, name);
  assign_global(ex, frame, name, nullptr);
}

void load_assertion_error(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  frame.push(ex.wrap(PyExc_AssertionError, constant_source(PyExc_AssertionError)));
}

// ---- attributes

void push_call_slots(SymbolicFrame& frame, ValuePtr callable) {
  if (kNullIsLower) frame.push(nullptr);
  frame.push(std::move(callable));
  if (!kNullIsLower) frame.push(nullptr);
}

void load_attr(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr object = frame.pop();
  frame.push(object->get_attribute(ex, name_of(frame, in)));
}

void load_method(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr object = frame.pop();
  push_call_slots(frame, object->get_attribute(ex, name_of(frame, in)));
}

ValuePtr super_attribute(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  std::vector<ValuePtr> operands = frame.pop_many(3);  // super, class, self
  CallArgs args;
  if (in.arg2 || operands[0]->real_object() == reinterpret_cast<PyObject*>(&PySuper_Type))
    args.positional = {operands[1], operands[2]};
  return operands[0]->call(ex, args)->get_attribute(ex, name_of(frame, in));
}

void load_super_attr(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(super_attribute(ex, frame, in));
}

void load_super_method(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  push_call_slots(frame, super_attribute(ex, frame, in));
}

void store_attr(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr object = frame.pop();
  ValuePtr value = frame.pop();
  object->set_attribute(ex, name_of(frame, in), value);
}

void delete_attr(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr object = frame.pop();
  object->set_attribute(ex, name_of(frame, in), nullptr);
}

// ---- imports

// The absolute name of `import name` in a package: importlib's resolve_name, for modules that are loaded.
std::string absolute_name(Executor& ex, SymbolicFrame& frame, const char* name, long level) {
  if (level == 0) return name;
  PyObject* package = PyDict_GetItemString(frame.globals.get(), "__package__");
  if (!package || !PyUnicode_Check(package)) break_graph("CD0005", name);
  std::string base = PyUnicode_AsUTF8(package);
  for (long i = 1; i < level; ++i) {
    size_t dot = base.rfind('.');
    if (dot == std::string::npos) break_graph("CD0005", name);
    base.resize(dot);
  }
  return *name ? base + "." + name : base;
}

PyObject* loaded_module(Executor& ex, const std::string& name) {
  PyObject* modules = PyImport_GetModuleDict();
  const PyRef key = checked(PyUnicode_FromString(name.c_str()));
  PyObject* module = dict_item(modules, key.get());
  if (!module || !PyModule_Check(module)) break_graph("CD0005", name);
  add_guard(ex, GuardKind::kIdentity, key_source(constant_source(modules), key.get()), module);
  return module;
}

// What an import statement calls is Python's own.
void require_plain_import(Executor& ex, const SymbolicFrame& frame) {
  if (frame.code->is_library) return;
  PyObject* name = interned("__import__");
  PyObject* function = dict_item(frame.builtins.get(), name);
  if (!function || !PyCFunction_Check(function)) break_graph("CD0005", "builtins.__import__");
  add_guard(ex, GuardKind::kIdentity, builtin_source(ex, frame.builtins.get(), name), function);
}

// _handle_fromlist (importlib): what a package does not have is a module of it, which the import loads.
void require_names(Executor& ex, PyObject* module, const std::string& full, const ValuePtr& names) {
  PyObject* dict = PyModule_GetDict(module);
  PyRef wanted = names->as_constant().value_or(PyRef());
  if (!wanted || !PyTuple_CheckExact(wanted.get()) || !PyDict_GetItemString(dict, "__path__")) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted.get()); ++i)
    if (PyObject* name = PyTuple_GET_ITEM(wanted.get(), i); !dict_item(dict, name))
      loaded_module(ex, full + "." + PyUnicode_AsUTF8(name));
}

// A module that is loaded is the result of its import. PyImport_ImportModuleLevelObject, Python/import.c
void import_name(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr names = frame.pop();
  PyRef level = frame.pop()->as_constant().value_or(PyRef());
  const char* name = PyUnicode_AsUTF8(name_of(frame, in));
  if (!level || !PyLong_Check(level.get())) break_graph("CD0005", name);
  long depth = PyLong_AsLong(level.get());
  std::string full = absolute_name(ex, frame, name, depth);
  require_plain_import(ex, frame);
  PyObject* module = loaded_module(ex, full);
  require_names(ex, module, full, names);
  bool wants_top = is_none(names) && std::string(name).find('.') != std::string::npos;
  if (wants_top) {
    if (depth > 0) break_graph("CD0005", full);
    module = loaded_module(ex, full.substr(0, full.find('.')));
  }
  frame.push(ex.wrap(module, constant_source(module)));
}

void import_from(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject* name = name_of(frame, in);
  PyObject* module = frame.peek(1)->real_object();
  if (!module || !PyModule_Check(module)) break_graph("CD0005", PyUnicode_AsUTF8(name));
  PyObject* dict = PyModule_GetDict(module);
  if (dict_item(dict, name) || dict_item(dict, interned("__getattr__"))) {
    frame.push(frame.peek(1)->get_attribute(ex, name));
    return;
  }
  add_guard(ex, GuardKind::kKeyAbsent, constant_source(dict), name);
  const char* package = PyModule_GetName(module);
  if (!package) throw PythonError{};
  PyObject* submodule = loaded_module(ex, std::string(package) + "." + PyUnicode_AsUTF8(name));
  frame.push(ex.wrap(submodule, constant_source(submodule)));
}

constexpr OpRow kNameRows[] = {
    {Op::LOAD_GLOBAL, load_global},
    {Op::STORE_GLOBAL, store_global},
    {Op::DELETE_GLOBAL, delete_global},
    {Op::LOAD_ASSERTION_ERROR, load_assertion_error},
    {Op::LOAD_ATTR, load_attr},
    {Op::LOAD_METHOD, load_method},
    {Op::LOAD_SUPER_ATTR, load_super_attr},
    {Op::LOAD_SUPER_METHOD, load_super_method},
    {Op::STORE_ATTR, store_attr},
    {Op::DELETE_ATTR, delete_attr},
    {Op::IMPORT_NAME, import_name},
    {Op::IMPORT_FROM, import_from},
};

}  // namespace

std::span<const OpRow> name_ops() { return kNameRows; }

// Names of namespaces that were assigned become effects, in the order of their first assignment.
void emit_global_effects(Executor& ex) {
  Executor::State& state = ex.state();
  for (const auto& key : state.globals_order) {
    const ValuePtr value = state.globals[key];
    if (!value && !guarded_presence(ex, key.first, key.second)) continue;  // made and deleted here
    Effect effect;
    effect.kind = value ? EffectKind::kSetGlobal : EffectKind::kDeleteGlobal;
    effect.target = source_recipe(namespace_source(ex, key.first));
    effect.key = make_recipe(RecipeKind::kConstant, key.second);
    if (value) effect.value = value->recipe(ex);
    ex.effect(std::move(effect));
  }
}

}  // namespace cdynamo::symbolic
