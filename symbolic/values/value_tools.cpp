#include "symbolic/values/value_tools.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/shown.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/list.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"

namespace cdynamo::symbolic {

// ---- sources

namespace {
std::shared_ptr<Source> new_source(SourceKind kind, const SourcePtr& base) {
  auto source = std::make_shared<Source>();
  source->kind = kind;
  source->base = base;
  return source;
}
SourcePtr named_source(SourceKind kind, const SourcePtr& base, PyObject* key) {
  auto source = new_source(kind, base);
  source->key = PyRef::borrow(key);
  return source;
}
}  // namespace

SourcePtr constant_source(PyObject* object) {
  auto source = new_source(SourceKind::kConstant, nullptr);
  source->object = ConstantRef::to(object);
  return source;
}
ValuePtr constant_value(Executor& ex, PyObject* object) { return ex.wrap(object, constant_source(object)); }
SourcePtr held_by_guarded_source(PyObject* object) {
  auto source = new_source(SourceKind::kConstant, nullptr);
  source->object = ConstantRef::weakly(object);
  return source;
}
SourcePtr attribute_source(const SourcePtr& base, PyObject* name) {
  return named_source(SourceKind::kAttribute, base, name);
}
SourcePtr index_source(const SourcePtr& base, Py_ssize_t index) {
  return numbered_source(SourceKind::kItem, base, index);
}
SourcePtr key_source(const SourcePtr& base, PyObject* key) {
  return named_source(SourceKind::kItem, base, key);
}
SourcePtr value_at_source(const SourcePtr& base, Py_ssize_t index) {
  return numbered_source(SourceKind::kDictValueAt, base, index);
}
SourcePtr key_at_source(const SourcePtr& base, Py_ssize_t index) {
  return numbered_source(SourceKind::kDictKeyAt, base, index);
}
SourcePtr instance_dict_source(const SourcePtr& base) { return new_source(SourceKind::kInstanceDict, base); }
SourcePtr module_global_source(PyObject* module, PyObject* name) {
  return named_source(SourceKind::kModuleGlobal, constant_source(module), name);
}
SourcePtr derived_source(SourceKind kind, const SourcePtr& base) { return new_source(kind, base); }
SourcePtr numbered_source(SourceKind kind, const SourcePtr& base, Py_ssize_t index) {
  auto source = new_source(kind, base);
  source->index = static_cast<int>(index);
  return source;
}

// ---- guards

void add_guard(Executor& ex, GuardKind kind, const SourcePtr& source, PyObject* object, Py_ssize_t index) {
  if (!source) return;
  Guard guard;
  guard.kind = kind;
  guard.source = source;
  // What is only compared need not live on.
  guard.object = kind == GuardKind::kIdentity ? ConstantRef::weakly(object) : ConstantRef::to(object);
  guard.index = static_cast<int>(index);
  ex.guard(std::move(guard));
}

void guard_exact_type(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (source && source->kind == SourceKind::kConstant) return;  // the object itself is known
  add_guard(ex, GuardKind::kType, source, reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

bool has_names_only(PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (!PyUnicode_CheckExact(key)) return false;
  return true;
}

namespace {

// A lookup along the MRO compares the name with the keys of each class that have its hash.
void require_names(Executor& ex, PyTypeObject* type) {
  PyObject* mro = type->tp_mro;
  if (!mro) return;  // it is being made
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) || !ex.state().named_classes.insert(base).second)
      continue;
    if (has_names_only(base->tp_dict)) continue;
    ex.state().named_classes.erase(base);
    break_graph("CD0222", std::string("class ") + base->tp_name);
  }
}

}  // namespace

void guard_class(Executor& ex, PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
    return;
  PyObject* object = reinterpret_cast<PyObject*>(type);
  require_names(ex, type);
  add_guard(ex, GuardKind::kTypeUnchanged, constant_source(object), object);
}

// ---- recipes

RecipePtr make_recipe(RecipeKind kind, PyObject* object, std::vector<RecipePtr> items) {
  auto recipe = std::make_shared<Recipe>();
  recipe->kind = kind;
  recipe->object = ConstantRef::to(object);
  recipe->items = std::move(items);
  return recipe;
}

RecipePtr source_recipe(const SourcePtr& source) {
  const bool is_constant = source->kind == SourceKind::kConstant;
  auto recipe = make_recipe(is_constant ? RecipeKind::kConstant : RecipeKind::kSource);
  if (is_constant)
    recipe->object = source->object;  // as weak as it is there
  else
    recipe->source = source;
  return recipe;
}

RecipePtr input_recipe(Executor& ex, const graph::Value* value) {
  const auto& inputs = ex.state().result.inputs;
  const auto input = std::ranges::find(inputs, value, &GraphInput::value);
  if (input == inputs.end()) return nullptr;
  RecipePtr recipe = make_recipe(RecipeKind::kInput);
  recipe->index = static_cast<int>(input - inputs.begin());
  return recipe;
}

RecipePtr first_recipe(RecipePtr& slot, RecipePtr made) {
  if (!slot) slot = std::move(made);
  return slot;
}

RecipePtr call_recipe(PyObject* callable, std::vector<RecipePtr> arguments) {
  arguments.insert(arguments.begin(), make_recipe(RecipeKind::kConstant, callable));
  return make_recipe(RecipeKind::kCall, nullptr, std::move(arguments));
}

std::vector<RecipePtr> recipes_of(Executor& ex, const std::vector<ValuePtr>& values) {
  std::vector<RecipePtr> recipes;
  recipes.reserve(values.size());
  for (const ValuePtr& value : values) recipes.push_back(value->recipe(ex));
  return recipes;
}

// ---- constants

bool is_none(const ValuePtr& value) { return value->real_object() == Py_None; }

PyObject* constant_object(const ValuePtr& value) {
  if (auto* constant = dynamic_cast<ConstantValue*>(value.get())) return constant->object();
  return nullptr;
}

bool is_integer_value(const ValuePtr& value) {
  if (dynamic_cast<SymIntValue*>(value.get())) return true;
  PyObject* object = constant_object(value);
  return object && PyLong_Check(object);
}

Py_ssize_t index_argument(Executor& ex, const ValuePtr& value) {
  if (auto* sym = dynamic_cast<SymIntValue*>(value.get()))
    return static_cast<Py_ssize_t>(sym->specialize(ex));
  if (const ValuePtr index = value->as_index(ex); index && index != value) return index_argument(ex, index);
  if (PyObject* object = constant_object(value); object && !method_of_enum(ex, value, "__index__")) {
    Py_ssize_t index = PyNumber_AsSsize_t(object, nullptr);
    if (index == -1 && PyErr_Occurred()) raise_current_error(ex);
    return index;
  }
  // An int's own __index__ is not asked.
  if (const ValuePtr& number = builtin_storage(value); number && is_integer_value(number))
    return index_argument(ex, number);
  if (ValuePtr method = lookup_special(ex, value, "__index__")) {
    ValuePtr index = method->call(ex, {});
    // What is no int is an error, and of a subclass there is a warning.
    if (index->type() != &PyLong_Type) break_graph("CD0212", "__index__ that gives a " + type_name(index));
    return index_argument(ex, index);
  }
  raise_error(ex, PyExc_TypeError,
              absl::StrCat("'", type_name(value), "' object cannot be interpreted as an integer"));
}

bool is_instance_of(const ValuePtr& value, PyTypeObject* type) {
  return PyType_IsSubtype(value->type(), type);
}

PyRef string_argument(Executor& ex, const ValuePtr& value) {
  PyObject* object = constant_object(value);
  if (object && PyUnicode_Check(object)) return PyRef::borrow(object);
  const std::optional<PyRef> made = value->as_constant();  // of numbers that change: the text of this call
  if (made && *made && PyUnicode_Check(made->get())) return *made;
  break_graph("CD0215", value->describe());
}

PyRef materialize(Executor& ex, const ValuePtr& value) { return value->materialize(ex); }

namespace {
std::vector<ValuePtr> wrap_fresh_items(Executor& ex, PyObject* fast_sequence) {
  std::vector<ValuePtr> items;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(fast_sequence);
  for (Py_ssize_t i = 0; i < count; ++i)
    items.push_back(wrap_fresh(ex, PyRef::borrow(PySequence_Fast_GET_ITEM(fast_sequence, i))));
  return items;
}
}  // namespace

ValuePtr wrap_fresh(Executor& ex, PyRef object) {
  PyObject* o = object.get();
  if (PyList_CheckExact(o)) return new_list(wrap_fresh_items(ex, o));
  if (PyTuple_CheckExact(o)) return new_tuple(wrap_fresh_items(ex, o));
  if (PyDict_CheckExact(o)) {
    auto dict = new_dict();
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value))
      dict->set_item(ex, wrap_fresh(ex, PyRef::borrow(key)), wrap_fresh(ex, PyRef::borrow(value)));
    return dict;
  }
  if (PySet_CheckExact(o)) {
    PyRef list = checked(PySequence_List(o));
    return new_set(ex, wrap_fresh_items(ex, list.get()), &PySet_Type);
  }
  // It would go on from call to call.
  if (PyIter_Check(o)) break_graph("CD0207", Py_TYPE(o)->tp_name);
  // Each call of the program makes one of its own.
  const numpy_access::Api* numpy = numpy_access::api();
  if (numpy && PyObject_TypeCheck(o, numpy->array_type)) break_graph("CD0415", "Python objects");
  return ex.constant(std::move(object));
}

namespace {
// Pure functions consume the iterators that they are given (is_used_up).
PyRef fold_argument(Executor& ex, const ValuePtr& value) {
  PyRef object = materialize(ex, value);
  if (object) return object;
  const bool is_iterator = is_iterator_type(value->type());
  if (!is_iterator && !dynamic_cast<DictViewValue*>(value.get())) return {};
  PyRef items = materialize(ex, new_list(items_of(ex, value)));
  return items && is_iterator ? checked(PyObject_GetIter(items.get())) : items;
}

// A function that raises an error, or does not ask for items (operator.truth), leaves some in an iterator.
bool is_used_up(PyObject* arguments) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool used_up = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, i);
    used_up &= !Py_IS_TYPE(argument, &PyListIter_Type) || PyObject_LengthHint(argument, 0) == 0;
  }
  PyErr_Restore(type, value, traceback);
  return used_up;
}

std::string name_of_callable(PyObject* callable) {
  PyRef name = PyRef::steal(PyObject_GetAttrString(callable, "__qualname__"));
  if (!name) PyErr_Clear();
  return name ? PyUnicode_AsUTF8(name.get()) : Py_TYPE(callable)->tp_name;
}

constexpr Py_ssize_t kMostDigits = 10'000;
// The least that sys.set_int_max_str_digits() takes, and the bits of so many digits.
constexpr Py_ssize_t kDigitsWithoutLimit = 640;
constexpr size_t kBitsWithoutLimit = 2126;

}  // namespace

void refuse_long_number(PyObject* callable, PyObject* argument) {
  const bool is_text = callable == reinterpret_cast<PyObject*>(&PyLong_Type) && PyUnicode_Check(argument);
  if (is_long_number(argument) || (is_text && PyUnicode_GET_LENGTH(argument) > kMostDigits))
    break_graph("CD0220", Py_TYPE(argument)->tp_name);
  if (is_text && PyUnicode_GET_LENGTH(argument) > kDigitsWithoutLimit)
    break_graph("CD0228", "an int of so many digits");
}

void refuse_limited_text(PyObject* object) {
  if (PyLong_Check(object) && _PyLong_NumBits(object) > kBitsWithoutLimit)
    break_graph("CD0228", "an int of so many digits");
}

bool try_fold_call(Executor& ex, PyObject* callable, const CallArgs& args, ValuePtr* result) {
  if (args.keywords.empty() && is_numeric_function(callable))
    if ((*result = computed_number(ex, callable, args.positional))) return true;
  PyRef positional_args = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef object = fold_argument(ex, args.positional[i]);
    if (!object) return false;
    refuse_long_number(callable, object.get());
    PyTuple_SET_ITEM(positional_args.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  PyRef keywords;
  if (!args.keywords.empty()) {
    keywords = checked(PyDict_New());
    for (const Keyword& keyword : args.keywords) {
      PyRef object = materialize(ex, keyword.value);
      if (!object) return false;
      if (PyDict_SetItem(keywords.get(), keyword.name.get(), object.get()) < 0) throw PythonError{};
    }
  }
  PyRef object = PyRef::steal(PyObject_Call(callable, positional_args.get(), keywords.get()));
  if (!is_used_up(positional_args.get())) {
    PyErr_Clear();
    break_graph("CD0215", name_of_callable(callable) + ", which leaves items in an iterator");
  }
  *result = wrap_fresh(ex, checked_user(ex, object.release()));
  return true;
}

ValuePtr fold_call(Executor& ex, PyObject* callable, const CallArgs& args) {
  ValuePtr result;
  if (try_fold_call(ex, callable, args, &result)) return result;
  std::string detail = name_of_callable(callable);
  for (const ValuePtr& value : args.positional)
    if (!materialize(ex, value)) absl::StrAppend(&detail, " with ", value->describe());
  break_graph("CD0215", detail);
}

// ---- arguments

CallArgs positional(std::vector<ValuePtr> values) {
  CallArgs args;
  args.positional = std::move(values);
  return args;
}

void require_no_keywords(Executor& ex, const char* function, const CallArgs& args) {
  if (!args.keywords.empty())
    raise_error(ex, PyExc_TypeError, absl::StrCat(function, "() takes no keyword arguments"));
}

void require_count(Executor& ex, const char* function, const CallArgs& args, size_t least, size_t most) {
  require_no_keywords(ex, function, args);
  size_t given = args.positional.size();
  if (given >= least && given <= most) return;
  size_t expected = given < least ? least : most;
  const char* bound = least == most ? "" : given < least ? "at least " : "at most ";
  raise_error(ex, PyExc_TypeError,
              absl::Substitute("$0 expected $1$2 argument$3, got $4", function, bound, expected,
                               expected == 1 ? "" : "s", given));
}

// _PyArg_UnpackKeywords, with its words and its order of looking.
std::vector<ValuePtr> bind_arguments(Executor& ex, const char* function, const CallArgs& args,
                                     std::initializer_list<const char*> names) {
  struct Parameter {
    absl::string_view name;
    bool by_position, optional;
  };
  std::vector<Parameter> parameters;
  size_t most_by_position = 0;
  bool all_required = true;
  for (absl::string_view name : names) {
    const bool by_position = !absl::ConsumePrefix(&name, "*"), optional = absl::ConsumeSuffix(&name, "?");
    parameters.push_back({name, by_position, optional});
    most_by_position += by_position;
    all_required &= !optional;
  }
  const auto refuse = [&](std::string message) { raise_error(ex, PyExc_TypeError, std::move(message)); };
  const auto refuse_count = [&](bool exactly, size_t most, const char* kind, size_t given) {
    refuse(absl::Substitute("$0() takes $1 $2 $3argument$4 ($5 given)", function,
                            exactly ? "exactly" : "at most", most, kind, most == 1 ? "" : "s", given));
  };
  const size_t by_position = args.positional.size(), given = by_position + args.keywords.size();
  if (given > parameters.size())
    refuse_count(all_required, parameters.size(), by_position == 0 ? "keyword " : "", given);
  if (by_position > most_by_position) {
    if (most_by_position == 0) refuse(absl::StrCat(function, "() takes no positional arguments"));
    refuse_count(false, most_by_position, "positional ", by_position);
  }
  std::vector<ValuePtr> bound = args.positional;
  bound.resize(parameters.size());
  const Keyword *unexpected = nullptr, *repeated = nullptr;
  size_t repeated_at = 0;
  for (const Keyword& keyword : args.keywords) {
    const absl::string_view name = PyUnicode_AsUTF8(keyword.name.get());
    const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                        [&](const Parameter& p) { return p.name == name; });
    const size_t at = parameter - parameters.begin();
    if (parameter == parameters.end()) {
      if (!unexpected) unexpected = &keyword;
    } else if (at < by_position) {
      if (!repeated) repeated = &keyword, repeated_at = at;
    } else {
      bound[at] = keyword.value;
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!bound[i] && !parameters[i].optional)
      refuse(absl::StrCat(function, "() missing required argument '", parameters[i].name, "'",
                          parameters[i].by_position ? absl::StrCat(" (pos ", i + 1, ")") : ""));
  if (repeated)
    refuse(absl::Substitute("argument for $0() given by name ('$1') and position ($2)", function,
                            PyUnicode_AsUTF8(repeated->name.get()), repeated_at + 1));
  constexpr const char* kUnexpected = PY_VERSION_HEX < 0x030D0000
                                          ? "'$1' is an invalid keyword argument for $0()"
                                          : "$0() got an unexpected keyword argument '$1'";
  if (unexpected) refuse(absl::Substitute(kUnexpected, function, PyUnicode_AsUTF8(unexpected->name.get())));
  return bound;
}

// ---- protocols

std::vector<ValuePtr> items_of(Executor& ex, const ValuePtr& iterable) {
  if (auto items = iterable->unpack(ex)) return *items;
  ValuePtr iterator = iterable->iterate(ex);
  std::vector<ValuePtr> items;
  while (ValuePtr item = next_value(ex, iterator)) {
    items.push_back(std::move(item));
    require_short(items.size(), *iterable);
  }
  return items;
}

ValuePtr call_method(Executor& ex, const ValuePtr& self, const char* name, std::vector<ValuePtr> arguments) {
  return self->get_attribute(ex, interned(name))->call(ex, positional(std::move(arguments)));
}

void note_identity(Executor& ex, const SymbolicValue& value) {
  if (value.source && value.source->kind != SourceKind::kConstant) ex.state().identities.insert(&value);
}

bool same_object(Executor& ex, const ValuePtr& a, const ValuePtr& b) {
  if (a->is_same_object(*b)) return true;
  if (a->type() == b->type()) {
    note_identity(ex, *a);
    note_identity(ex, *b);
  }
  return false;
}

bool values_equal(Executor& ex, const ValuePtr& a, const ValuePtr& b) {
  // Containers of equal contents are equal, whether they are one or two.
  if (dynamic_cast<UserObjectValue*>(a.get()) ? same_object(ex, a, b) : a->is_same_object(*b)) return true;
  PyObject* x = constant_object(a);
  PyObject* y = constant_object(b);
  if (x && y) {
    int equal = PyObject_RichCompareBool(x, y, Py_EQ);
    if (equal < 0) raise_current_error(ex);
    return equal;
  }
  return is_true(ex, compare_operation(ex, Py_EQ, a, b));
}

bool is_iterator_type(PyTypeObject* type) { return _PyType_Lookup(type, interned("__next__")) != nullptr; }

std::string type_name(const ValuePtr& value) { return value->type()->tp_name; }

}  // namespace cdynamo::symbolic
