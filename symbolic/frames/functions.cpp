#include "symbolic/frames/functions.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/generators.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/holder_search.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

PyFunctionObject* as_function(PyObject* object) { return reinterpret_cast<PyFunctionObject*>(object); }

}  // namespace

// ---- cells

CellValue::CellValue(PyObject* cell, SourcePtr cell_source, SourcePtr contents_source)
    : cell_(PyRef::borrow(cell)), contents_source_(std::move(contents_source)) {
  source = std::move(cell_source);
}

ValuePtr CellValue::contents(Executor& ex) {
  if (loaded_) return contents_;
  PyObject* object = PyCell_GET(cell_.get());
  if (!object) break_graph("CD0107", source ? source->name() : "");
  contents_ = ex.wrap(object, contents_source_);
  loaded_ = true;
  return contents_;
}

PyObject* CellValue::live_contents() const {
  if (loaded_) return contents_ ? contents_->real_object() : nullptr;
  return PyCell_GET(cell_.get());
}

void CellValue::set_contents(Executor& ex, ValuePtr value) {
  contents_ = std::move(value);
  loaded_ = true;
  ex.changing(shared_from_this(), static_cast<bool>(cell_));
}

void CellValue::note_read(Executor& ex) {
  // Of the closure, of this value and of what the capture keeps: nobody else has the variable, to assign to it.
  constexpr Py_ssize_t kOfOneFunction = 3;
  if (!cell_) return ex.reads_later(*this, false);
  PyObject* object = contents_->real_object();
  if (Py_REFCNT(cell_.get()) > kOfOneFunction && (!object || is_plain_constant(object)))
    ex.reads_later(*this, true);
}

ValuePtr CellValue::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "cell_contents") != 0)
    return SymbolicValue::get_attribute(ex, name);
  ValuePtr value = contents(ex);
  if (!value) raise_error(ex, PyExc_ValueError, "Cell is empty");
  return value;
}

RecipePtr CellValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (cell_) return recipe_ = source_recipe(source);
  recipe_ =
      make_recipe(RecipeKind::kCell);  // known before its contents are: a function may be in its own closure
  if (contents_) recipe_->items.push_back(contents_->recipe(ex));
  return recipe_;
}

void CellValue::emit_effects(Executor& ex) {
  Effect effect;
  effect.kind = EffectKind::kSetCell;
  effect.target = recipe(ex);
  if (contents_) effect.value = contents_->recipe(ex);
  ex.effect(std::move(effect));
}

ValuePtr wrap_cell(Executor&, PyObject* cell, SourcePtr source) {
  SourcePtr contents;
  if (source && source->kind == SourceKind::kClosureCell) {
    auto closure = std::make_shared<Source>(*source);
    closure->kind = SourceKind::kClosure;
    contents = closure;
  } else if (source) {
    contents = derived_source(SourceKind::kCellContents, source);
  }
  return std::make_shared<CellValue>(cell, std::move(source), std::move(contents));
}

// ---- functions

FunctionValue::FunctionValue(PyRef code, PyRef globals, ValuePtr qualified_name)
    : code_(std::move(code)), globals_(std::move(globals)), qualified_name_(std::move(qualified_name)) {}

FunctionValue::FunctionValue(PyObject* function, SourcePtr from)
    : function_(PyRef::borrow(function)),
      code_(PyRef::borrow(as_function(function)->func_code)),
      globals_(PyRef::borrow(as_function(function)->func_globals)) {
  source = std::move(from);
}

std::string FunctionValue::describe() const {
  PyObject* name = function_ ? as_function(function_.get())->func_qualname : code()->co_qualname;
  const char* text = PyUnicode_AsUTF8(name);
  return std::string(text ? text : "?") + "()";
}

ValuePtr wrap_function(Executor& ex, PyObject* function, SourcePtr source) {
  // For those who ask for its type or its attributes; who calls it guards its code.
  if (source) guard_exact_type(ex, function, source);
  return std::make_shared<FunctionValue>(function, std::move(source));
}

// What is looked at of a function in a variable: its code, and then what it uses of its defaults and closure;
// not which object it is, so that functions that are made anew each time (lambdas, decorators) stand for each
// other.
void FunctionValue::guard_code(Executor& ex) {
  if (guarded_ || !function_ || !source) return;
  guarded_ = true;
  add_guard(ex, GuardKind::kFunctionCode, source, code_.get(), has_constant_defaults() ? kSameDefaults : -1);
}

bool FunctionValue::has_constant_defaults() const {
  if (!source) return true;
  const PyFunctionObject* function = as_function(function_.get());
  const auto can_be_held = [](PyObject* defaults) { return !defaults || !runs_code_when_it_dies(defaults); };
  return is_known() && can_be_held(function->func_defaults) && can_be_held(function->func_kwdefaults);
}

std::vector<ValuePtr> FunctionValue::closure(Executor& ex) {
  if (!function_) return cells ? items_of(ex, cells) : std::vector<ValuePtr>();
  std::vector<ValuePtr> values;
  PyObject* tuple = as_function(function_.get())->func_closure;
  if (!tuple) return values;
  // A known function's cells too are reached through it: they may hold the class that it is a method of.
  SourcePtr tuple_source = source ? attribute_source(source, interned("__closure__")) : nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(tuple, i);
    values.push_back(ex.wrap(cell, source ? index_source(tuple_source, i) : constant_source(cell)));
  }
  return values;
}

ValuePtr FunctionValue::positional_default(Executor& ex, int parameter) {
  int count = code()->co_argcount;
  if (function_) {
    PyObject* tuple = as_function(function_.get())->func_defaults;
    Py_ssize_t at = tuple ? parameter - (count - PyTuple_GET_SIZE(tuple)) : -1;
    if (at < 0) return nullptr;
    PyObject* object = PyTuple_GET_ITEM(tuple, at);
    return ex.wrap(object, has_constant_defaults()
                               ? constant_source(object)
                               : index_source(attribute_source(source, interned("__defaults__")), at));
  }
  if (!defaults) return nullptr;
  std::vector<ValuePtr> items = items_of(ex, defaults);
  int at = parameter - (count - static_cast<int>(items.size()));
  return at < 0 ? nullptr : items[static_cast<size_t>(at)];
}

// Their dict may change while the function, and the dict itself, stay the same.
ValuePtr FunctionValue::keyword_default(Executor& ex, PyObject* name) {
  ValuePtr dict = keyword_defaults;
  if (function_) {
    PyObject* object = as_function(function_.get())->func_kwdefaults;
    if (!object) return nullptr;
    dict = ex.wrap(object, has_constant_defaults() ? constant_source(object)
                                                   : attribute_source(source, interned("__kwdefaults__")));
  }
  if (!dict) return nullptr;
  ValuePtr key = ex.constant(PyRef::borrow(name));
  return dict->contains(ex, key) ? dict->get_item(ex, key) : nullptr;
}

PyRef FunctionValue::hash_key(Executor& ex) {
  if (PyRef function = materialize(ex)) return function;
  if (!identity_) identity_ = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  return identity_;
}

// A live function stands for itself where a guard says that it is the same one.
PyRef FunctionValue::materialize(Executor& ex) {
  if (function_ && source && source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, source, function_.get());
  return function_;
}

RecipePtr FunctionValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (function_)
    return recipe_ = source ? source_recipe(source) : make_recipe(RecipeKind::kConstant, function_.get());
  recipe_ = make_recipe(RecipeKind::kFunction);
  ValuePtr none = ex.none();
  std::vector<RecipePtr> items{make_recipe(RecipeKind::kConstant, code_.get()),
                               make_recipe(RecipeKind::kConstant, globals_.get()),
                               qualified_name_->recipe(ex), (defaults ? defaults : none)->recipe(ex),
                               (keyword_defaults ? keyword_defaults : none)->recipe(ex)};
  if (cells)
    for (const ValuePtr& cell : items_of(ex, cells)) items.push_back(cell->recipe(ex));
  recipe_->items = std::move(items);
  if (!attributes_.empty() || annotations) ex.mutated(shared_from_this());
  return recipe_;
}

void FunctionValue::emit_effects(Executor& ex) {
  auto emit = [&](EffectKind kind, PyObject* name, RecipePtr value) {
    Effect effect;
    effect.kind = kind;
    effect.target = recipe(ex);
    effect.key = make_recipe(RecipeKind::kConstant, name);
    effect.value = std::move(value);
    ex.effect(std::move(effect));
  };
  if (annotations && !function_) {
    // (name, annotation, name, annotation ...) in a tuple, or a dict
    if (PyType_IsSubtype(annotations->type(), &PyTuple_Type))
      emit(EffectKind::kSetAttribute, interned("__annotations__"),
           make_recipe(RecipeKind::kDict, nullptr, recipes_of(ex, items_of(ex, annotations))));
    else
      emit(EffectKind::kSetAttribute, interned("__annotations__"), annotations->recipe(ex));
  }
  for (const auto& [name, value] : attributes_)
    if (value)
      emit(EffectKind::kSetAttribute, name.get(), value->recipe(ex));
    else if (guarded_presence(ex, name.get()))
      emit(EffectKind::kDeleteAttribute, name.get(), nullptr);
}

// Whether a live function has the attribute before the graph runs, as it must whenever it does.
bool FunctionValue::guarded_presence(Executor& ex, PyObject* name) {
  PyObject* dict = function_ ? as_function(function_.get())->func_dict : nullptr;
  PyObject* own = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (own && source)  // its type tells
    guard_exact_type(ex, own, key_source(instance_dict_source(source), name));
  else if (source)
    add_guard(ex, GuardKind::kAttributeAbsent, source, name);
  return own != nullptr;
}

// ---- attributes

namespace {

// function.__get__(instance, owner)
ValuePtr get_bound(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__get__", args, 1, 2);
  return is_none(args.positional[0]) ? self : make_bound_method(ex, self, args.positional[0]);
}
ValuePtr call_function(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return self->call(ex, args);
}

constexpr BuiltinMethodRow kFunctionMethods[] = {{"__get__", get_bound}, {"__call__", call_function}};

bool is_any(PyObject* name, std::initializer_list<const char*> texts) {
  for (const char* text : texts)
    if (PyUnicode_CompareWithASCIIString(name, text) == 0) return true;
  return false;
}

ValuePtr made_function_attribute(Executor& ex, FunctionValue& function, const ValuePtr& qualified_name,
                                 PyObject* name) {
  if (is_any(name, {"__name__"})) return ex.constant(PyRef::borrow(function.code()->co_name));
  if (is_any(name, {"__qualname__"})) return qualified_name;
  // From 3.12 on; functions with type parameters are not made here.
  if (is_any(name, {"__type_params__"}) && _PyType_Lookup(&PyFunction_Type, name)) return make_tuple(ex, {});
  if (is_any(name, {"__annotations__"})) {
    if (function.annotations && dict_in(function.annotations)) return function.annotations;
    // (name, annotation, name, annotation ...)
    std::vector<std::pair<ValuePtr, ValuePtr>> items;
    const std::vector<ValuePtr> parts =
        function.annotations ? items_of(ex, function.annotations) : std::vector<ValuePtr>();
    for (size_t i = 0; i + 1 < parts.size(); i += 2) items.emplace_back(parts[i], parts[i + 1]);
    ValuePtr made = make_dict(ex, items);
    function.set_attribute(ex, name, made);  // whoever reads it again finds the same dict
    return made;
  }
  if (is_any(name, {"__defaults__"})) return function.defaults ? function.defaults : ex.none();
  if (is_any(name, {"__kwdefaults__"}))
    return function.keyword_defaults ? function.keyword_defaults : ex.none();
  if (is_any(name, {"__closure__"})) return function.cells ? function.cells : ex.none();
  if (is_any(name, {"__module__"})) {
    PyObject* module = PyDict_GetItemString(function.globals(), "__name__");
    return module ? ex.constant(PyRef::borrow(module)) : ex.none();
  }
  if (is_any(name, {"__doc__"})) {
    PyObject* consts = function.code()->co_consts;
    PyObject* first = PyTuple_GET_SIZE(consts) > 0 ? PyTuple_GET_ITEM(consts, 0) : nullptr;
    return first && PyUnicode_Check(first) ? ex.constant(PyRef::borrow(first)) : ex.none();
  }
  return nullptr;
}

}  // namespace

DictValue* FunctionValue::shown_dict(Executor& ex) const {
  return looked_at_dict(ex, function_ ? as_function(function_.get())->func_dict : nullptr);
}

ValuePtr FunctionValue::own_attribute(Executor& ex, PyObject* name) {
  for (const auto& [key, value] : attributes_)
    if (PyUnicode_Compare(key.get(), name) == 0) return value;
  PyObject* descriptor = _PyType_Lookup(&PyFunction_Type, name);
  if (!function_ || (descriptor && is_data_descriptor(ex, descriptor))) return nullptr;
  if (DictValue* shown = shown_dict(ex)) return shown->lookup_string(ex, name);
  PyObject* dict = as_function(function_.get())->func_dict;
  PyObject* own = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (own)
    return ex.wrap(own, source ? key_source(instance_dict_source(source), name) : constant_source(own));
  if (source) add_guard(ex, GuardKind::kAttributeAbsent, source, name);
  return nullptr;
}

bool FunctionValue::is_renamed() const {
  return std::ranges::any_of(attributes_, [](const auto& attribute) {
    return is_any(attribute.first.get(), {"__name__", "__qualname__"});
  });
}

std::vector<PyRef> FunctionValue::own_names(Executor& ex) {
  std::vector<PyRef> names;
  if (DictValue* changed = shown_dict(ex); changed && changed->changed()) {
    for (const DictValue::Entry& entry : changed->entries(ex, true))
      names.push_back(string_argument(ex, entry.key));
    return names;
  }
  // Its names are guarded, not itself: an entry would keep alive what each call makes anew.
  PyRef shown = function_ ? checked(PyObject_GenericGetDict(function_.get(), nullptr)) : PyRef();
  PyObject* dict = shown.get();
  if (dict && source)
    add_guard(ex, GuardKind::kDictKeys, instance_dict_source(source),
              checked(PySequence_Tuple(checked(PyDict_Keys(dict)).get())).get());
  PyObject *key, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &value);)
    if (own_attribute(ex, key)) names.push_back(PyRef::borrow(key));
  for (const auto& [name, changed] : attributes_)
    if (changed && !(dict && PyDict_GetItemWithError(dict, name.get())) &&
        !_PyType_Lookup(&PyFunction_Type, name.get()))
      names.push_back(name);
  return names;
}

ValuePtr FunctionValue::get_attribute(Executor& ex, PyObject* name) {
  if (is_any(name, {"__code__"})) {
    guard_code(ex);
    return ex.constant(code_);
  }
  if (is_any(name, {"__class__"})) {
    auto* type = reinterpret_cast<PyObject*>(&PyFunction_Type);
    return ex.wrap(type, constant_source(type));
  }
  if (is_any(name, {"__globals__"}))
    return ex.wrap(globals_.get(),
                   is_known() ? constant_source(globals_.get()) : attribute_source(source, name));
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kFunctionMethods)) return method;
  if (ValuePtr own = own_attribute(ex, name)) return own;
  if (!function_)
    if (ValuePtr value = made_function_attribute(ex, *this, qualified_name_, name)) return value;
  if (!_PyType_Lookup(&PyFunction_Type, name))
    raise_error(ex, PyExc_AttributeError,
                std::string("'function' object has no attribute '") + PyUnicode_AsUTF8(name) + "'");
  const bool is_its_dict = is_any(name, {"__dict__"});
  if (!function_ || is_any(name, {"__builtins__"}) || (is_its_dict && !attributes_.empty()))
    break_graph("CD0105", PyUnicode_AsUTF8(name));
  PyRef value = checked_user(ex, PyObject_GetAttr(function_.get(), name));
  return ex.wrap(value.get(), source ? attribute_source(source, name) : constant_source(value.get()));
}

// What function objects take for an attribute of their own. Others are refused by them, cannot be set or change calls.
bool can_be_set(PyObject* name, const ValuePtr& value) {
  if (!value) return false;
  if (is_any(name, {"__doc__", "__module__"})) return true;
  const PyTypeObject* type = is_any(name, {"__name__", "__qualname__"}) ? &PyUnicode_Type
                             : is_any(name, {"__annotations__"})        ? &PyDict_Type
                             : is_any(name, {"__type_params__"})        ? &PyTuple_Type
                                                                        : nullptr;
  return type == value->type();
}

void FunctionValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  PyObject* descriptor = _PyType_Lookup(&PyFunction_Type, name);
  if (descriptor && is_data_descriptor(ex, descriptor) && !can_be_set(name, value))
    break_graph("CD0105", PyUnicode_AsUTF8(name));
  if (!value && !own_attribute(ex, name))
    raise_error(ex, PyExc_AttributeError,
                std::string("'function' object has no attribute '") + PyUnicode_AsUTF8(name) + "'");
  DictValue* shown = descriptor && is_data_descriptor(ex, descriptor) ? nullptr : shown_dict(ex);
  if (shown && value) return shown->store(ex, ex.constant(PyRef::borrow(name)), value);
  if (shown) return static_cast<void>(shown->erase(ex, ex.constant(PyRef::borrow(name))));
  if (function_) ex.mutated(shared_from_this());
  ex.state().cyclic[this] = weak_from_this();
  for (auto& [key, old] : attributes_) {
    if (PyUnicode_Compare(key.get(), name) != 0) continue;
    old = value;
    return;
  }
  attributes_.emplace_back(PyRef::borrow(name), value);
}

// ---- bound methods

ValuePtr make_bound_method(Executor&, ValuePtr function, ValuePtr self) {
  return std::make_shared<BoundMethodValue>(std::move(function), std::move(self));
}

ValuePtr wrap_method(Executor& ex, PyObject* method, SourcePtr source) {
  PyObject* function = PyMethod_GET_FUNCTION(method);
  PyObject* self = PyMethod_GET_SELF(method);
  bool constant = !source || source->kind == SourceKind::kConstant;
  if (!constant) guard_exact_type(ex, method, source);
  const auto part = [&](PyObject* object, SourceKind kind) {
    return constant ? constant_source(object) : derived_source(kind, source);
  };
  const SourcePtr function_source = part(function, SourceKind::kMethodFunction);
  ValuePtr self_value = ex.wrap(self, part(self, SourceKind::kMethodSelf));
  // A function of the module random is a method of the generator that it has.
  if (ValuePtr drawing = method_of_generator(ex, self_value, function)) {
    if (!constant) add_guard(ex, GuardKind::kIdentity, function_source, function);
    return drawing;
  }
  ValuePtr function_value = ex.wrap(function, function_source);
  auto value = std::make_shared<BoundMethodValue>(std::move(function_value), std::move(self_value));
  value->object = PyRef::borrow(method);
  value->source = std::move(source);
  return value;
}

std::vector<ValuePtr> FunctionValue::held() const {
  std::vector<ValuePtr> values{defaults, keyword_defaults, annotations};
  for (const auto& [name, value] : attributes_) values.push_back(value);
  std::erase(values, nullptr);
  return values;
}

std::vector<ValuePtr> held_by_function(const ValuePtr& holder) {
  if (auto* function = dynamic_cast<FunctionValue*>(holder.get())) return function->held();
  auto* method = dynamic_cast<BoundMethodValue*>(holder.get());
  return method ? std::vector<ValuePtr>{method->self(), method->function()} : std::vector<ValuePtr>();
}

ValuePtr BoundMethodValue::get_attribute(Executor& ex, PyObject* name) {
  if (is_any(name, {"__self__"})) return self_;
  if (is_any(name, {"__func__"})) return function_;
  if (is_any(name, {"__class__"})) {
    auto* type = reinterpret_cast<PyObject*>(&PyMethod_Type);
    return ex.wrap(type, constant_source(type));
  }
  if (is_any(name, {"__call__"})) return shared_from_this();
  if (is_any(name, {"__get__"})) break_graph("CD0105", "__get__ of a bound method");  // it stays bound
  return function_->get_attribute(ex, name);
}

ValuePtr BoundMethodValue::call(Executor& ex, const CallArgs& args) {
  CallArgs with_self{{self_}, args.keywords};
  with_self.positional.insert(with_self.positional.end(), args.positional.begin(), args.positional.end());
  ex.state().hand_call_on(*this, *function_);
  return function_->call(ex, with_self);
}

// method_richcompare: the same function of the same object.
ValuePtr BoundMethodValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* method = dynamic_cast<BoundMethodValue*>(other.get());
  if (!method || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  bool equal = function_->is_same_object(*method->function_) && same_object(ex, self_, method->self_);
  return ex.constant_bool(equal == (py_op == Py_EQ));
}

RecipePtr BoundMethodValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  return first_recipe(
      recipe_, make_recipe(RecipeKind::kBoundMethod, nullptr, {function_->recipe(ex), self_->recipe(ex)}));
}

// ---- polyfills

ValuePtr polyfill(Executor& ex, PythonSide module, const char* function) {
  PyRef found = PyRef::steal(PyObject_GetAttrString(python_side(module), function));
  if (!found) {
    PyErr_Clear();
    throw graph::InternalError(absl::StrCat("there is no polyfill ", function));
  }
  return ex.wrap(found.get(), constant_source(found.get()));
}

ValuePtr result_of_rule(Executor& ex, const ValuePtr& rule, const CallArgs& args, const char* what) {
  try {
    ValuePtr result = rule->call(ex, args);
    return result->real_object() == Py_NotImplemented ? nullptr : result;
  } catch (const PythonRaise&) {
    break_graph("CD0403", what);
  }
}

}  // namespace cdynamo::symbolic
