// Calls of C callables: by identity in the tables, then by kind.
#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/decimal_context.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/mirrored.h"
#include "symbolic/values/patterns.h"
#include "symbolic/values/set.h"
#include "symbolic/values/text.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

const char* itertools_name(PyTypeObject* type);  // builtin_classes.cpp

namespace {

using Table = absl::flat_hash_map<PyObject*, BuiltinFunction>;

Table make_table(std::initializer_list<std::span<const BuiltinRow>> parts) {
  Table table;
  for (const auto& rows : parts)
    for (const BuiltinRow& row : rows)
      if (PyObject* object = library_object(row.module, row.name)) table.emplace(object, row.apply);
  return table;
}

// No static's initializer makes a table: it imports modules, so that other threads run meanwhile, and one of them that came
// to the same static would wait for it with the GIL in its hands. Where two threads make one, the first stays.
const Table& made_once(const Table*& kept, std::initializer_list<std::span<const BuiltinRow>> parts) {
  if (!kept) {
    auto made = std::make_unique<const Table>(make_table(parts));
    if (!kept) kept = made.release();
  }
  return *kept;
}

const Table& functions() {
  static const Table* table = nullptr;
  return made_once(table, {builtin_functions(), library_functions(), copy_functions(), json_functions(),
                           introspection_functions(), class_functions(), output_functions(),
                           warning_functions(), decimal_functions()});
}
const Table& classes() {
  static const Table* table = nullptr;
  return made_once(table, {builtin_classes(), definition_classes(), class_classes()});
}

// Modules of C whose functions compute from their arguments alone.
bool is_pure_module(PyObject* name) {
  static constexpr const char* kModules[] = {
      "math",    "cmath",    "_operator", "unicodedata", "_bisect",
      "_struct", "binascii", "zlib",      "_json",       "numpy.lib.array_utils"};
  if (!name || !PyUnicode_Check(name)) return false;
  for (const char* module : kModules)
    if (PyUnicode_CompareWithASCIIString(name, module) == 0) return true;
  return false;
}
// Functions of those modules that write to an argument, use it up or call it.
bool changes_arguments(const char* name) {
  static constexpr const char* kNames[] = {
      "setitem", "delitem", "indexOf", "countOf", "length_hint", "call",    "insort",    "insort_left",
      "iadd",    "iand",    "iconcat", "ior",     "ifloordiv",   "ilshift", "imatmul",   "imod",
      "imul",    "ipow",    "irshift", "isub",    "itruediv",    "ixor",    "pack_into", "insort_right"};
  for (const char* known : kNames)
    if (std::strcmp(known, name) == 0) return true;
  return false;
}
bool is_pure_builtin(const char* name) {
  static constexpr const char* kNames[] = {"chr", "ord", "bin", "hex", "oct", "ascii"};
  for (const char* pure : kNames)
    if (std::strcmp(pure, name) == 0) return true;
  return false;
}

CallArgs without_first(const CallArgs& args) {
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return rest;
}

// dict.fromkeys(iterable, value=None)
ValuePtr dict_from_keys(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  require_count(ex, "fromkeys", args, 1, 2);
  if (type != &PyDict_Type && type != ordered_dict_type())
    break_graph("CD0212", std::string(type->tp_name) + ".fromkeys");
  auto dict = new_dict(type);
  ValuePtr value = args.positional.size() == 2 ? args.positional[1] : ex.none();
  for (const ValuePtr& key : items_of(ex, args.positional[0])) dict->store(ex, key, value);
  return dict;
}

// A method of a class in C: `__new__`, `dict.fromkeys`, `int.from_bytes`.
ValuePtr call_class_method(Executor& ex, PyObject* callable, PyTypeObject* of, const char* name,
                           const CallArgs& args) {
  if (std::strcmp(name, "__new__") == 0) {
    PyObject* cls = args.positional.empty() ? nullptr : args.positional[0]->real_object();
    if (!cls || !PyType_Check(cls))
      raise_error(ex, PyExc_TypeError, std::string(of->tp_name) + ".__new__(X): X is not a type object");
    if (auto* type = reinterpret_cast<PyTypeObject*>(cls); !PyType_IsSubtype(type, of))
      raise_error(ex, PyExc_TypeError,
                  absl::Substitute("$0.__new__($1): $1 is not a subtype of $0", of->tp_name, type->tp_name));
    const bool is_exception = PyExceptionClass_Check(reinterpret_cast<PyObject*>(of));
    // Without its __init__ a UnicodeError has no attributes, and any arguments.
    const bool is_group = PyObject_IsSubclass(reinterpret_cast<PyObject*>(of),
                                              library_object("builtins", "BaseExceptionGroup"));
    if (is_exception && !is_group &&
        of->tp_init != reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_init)
      break_graph("CD0202", std::string(of->tp_name) + ".__new__");
    if (is_exception)
      return new_exception(ex, reinterpret_cast<PyTypeObject*>(cls), without_first(args).positional);
    return construct_builtin(ex, of, reinterpret_cast<PyTypeObject*>(cls), without_first(args));
  }
  if (std::strcmp(name, "fromkeys") == 0 && PyType_IsSubtype(of, &PyDict_Type))
    return dict_from_keys(ex, of, args);
  if (std::strcmp(name, "__init_subclass__") == 0) {
    if (!args.positional.empty() || !args.keywords.empty()) break_graph("CD0202", "object.__init_subclass__");
    return ex.none();
  }
  if (std::strcmp(name, "__prepare__") == 0 && of == &PyType_Type) return make_dict(ex, {});
  if (std::strcmp(name, "from_iterable") == 0 && itertools_name(of))
    return polyfill(ex, PythonSide::kItertoolsPolyfills, "chain_from_iterable")->call(ex, args);
  if (is_pure_type(of)) return fold_call(ex, callable, args);
  break_graph("CD0212", std::string(of->tp_name) + "." + name);
}

// str.format and str.join of what changes from call to call; null: it is none of these.
ValuePtr text_of_changing(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!self || !PyUnicode_CheckExact(self) || !args.keywords.empty()) return nullptr;
  if (name == "format") return text_made_later(ex, PyRef::borrow(callable), args.positional);
  if (name != "join" || args.positional.size() != 1) return nullptr;
  const ValuePtr& parts = args.positional[0];
  if (parts->type() != &PyList_Type && parts->type() != &PyTuple_Type) return nullptr;
  return text_made_later(ex, PyRef::borrow(callable), {new_tuple(items_of(ex, parts))});
}

// str.format and str.format_map of objects that are known to capture alone; null: it is none of these.
ValuePtr format_objects(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  const bool is_map = name == "format_map" && args.positional.size() == 1 && args.keywords.empty();
  if (!self || !PyUnicode_CheckExact(self) || !(name == "format" || is_map)) return nullptr;
  const auto is_known = [&](const ValuePtr& value) { return static_cast<bool>(value->materialize(ex)); };
  if (std::ranges::all_of(args.positional, is_known) &&
      std::ranges::all_of(args.keywords, is_known, &Keyword::value))
    return nullptr;
  auto names = new_dict();
  for (const Keyword& keyword : args.keywords) names->store(ex, ex.constant(keyword.name), keyword.value);
  return text_of_objects(ex, PythonSide::kFormatParts, self, PyRef::borrow(is_map ? Py_False : Py_True),
                         new_tuple(is_map ? std::vector<ValuePtr>() : args.positional),
                         is_map ? args.positional[0] : ValuePtr(names));
}

// NumPy's scalars do not change; some of their methods write files.
bool is_pure_numpy_method(PyObject* self, std::string_view name) {
  return numpy_access::is_scalar(self) && name != "tofile" && name != "dump";
}

ValuePtr call_c_function(Executor& ex, PyObject* callable, const CallArgs& args) {
  PyObject* self =
      reinterpret_cast<PyCFunctionObject*>(callable)->m_self;  // of static methods too: the class
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (self && PyType_Check(self))
    return call_class_method(ex, callable, reinterpret_cast<PyTypeObject*>(self), name, args);
  if (ValuePtr text = text_of_changing(ex, callable, name, args)) return text;
  if (ValuePtr text = format_objects(ex, callable, name, args)) return text;
  if (PyObject* method =
          self && !PyModule_Check(self) ? _PyType_Lookup(Py_TYPE(self), interned(name)) : nullptr)
    if (const ValuePtr rule = torch_method_rule(ex, self, method)) {
      CallArgs with_self = args;
      with_self.positional.insert(with_self.positional.begin(), ex.wrap(self, constant_source(self)));
      return rule->call(ex, with_self);
    }
  if (ValuePtr result = call_pattern_method(ex, callable, name, args)) return result;
  if (self && is_pure_type(Py_TYPE(self)) && changes_arguments(name))
    break_graph("CD0212", name);  // Struct.pack_into
  bool number_or_text = self && (PyUnicode_Check(self) || PyLong_Check(self) || PyFloat_Check(self));
  if (self && (number_or_text || is_plain_constant(self) || is_pure_type(Py_TYPE(self)) ||
               is_pure_numpy_method(self, name)))
    return fold_call(ex, callable, args);
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (is_pure_module(module) && !changes_arguments(name)) return fold_call(ex, callable, args);
  if (module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "_hashlib") == 0)
    return make_hash(ex, callable, args);
  bool builtin =
      module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0;
  if (builtin && is_pure_builtin(name)) return fold_call(ex, callable, args);
  if (self && !PyModule_Check(self) && !module) {
    // A method bound to a live object: asked of the object's value.
    ValuePtr value = ex.wrap(self, constant_source(self));
    if (!constant_object(value)) return call_method(ex, value, name, args.positional);
  }
  std::string full =
      module && PyUnicode_Check(module) ? std::string(PyUnicode_AsUTF8(module)) + "." + name : name;
  break_graph("CD0212", full);
}

// cfunction_vectorcall_O (Objects/methodobject.c)
void require_one_argument(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (!PyCFunction_Check(callable) || !(PyCFunction_GET_FLAGS(callable) & METH_O)) return;
  if (args.positional.size() == 1 && args.keywords.empty()) return;
  const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  const char* module =
      function->m_module && PyUnicode_Check(function->m_module) ? PyUnicode_AsUTF8(function->m_module) : "";
  const std::string name =
      absl::StrCat(std::string_view(module) == "builtins" || !*module ? "" : absl::StrCat(module, "."),
                   function->m_ml->ml_name, "()");
  raise_error(ex, PyExc_TypeError,
              args.keywords.empty()
                  ? absl::StrCat(name, " takes exactly one argument (", args.positional.size(), " given)")
                  : absl::StrCat(name, " takes no keyword arguments"));
}

// operator.methodcaller reduces to (methodcaller, (name, *args)), and with keywords to
// (partial(methodcaller, name, **keywords), args).
ValuePtr call_method_of(Executor& ex, const ValuePtr& subject, PyObject* maker, PyObject* wanted) {
  PyRef name, keywords;
  Py_ssize_t first = 1;
  if (PyType_Check(maker)) {
    name = PyRef::borrow(PyTuple_GET_ITEM(wanted, 0));
  } else {
    PyRef bound = checked(PyObject_GetAttrString(maker, "args"));
    keywords = checked(PyObject_GetAttrString(maker, "keywords"));
    name = PyRef::borrow(PyTuple_GET_ITEM(bound.get(), 0));
    first = 0;
  }
  CallArgs args;
  for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(wanted); ++i)
    args.positional.push_back(ex.constant(PyRef::borrow(PyTuple_GET_ITEM(wanted, i))));
  PyObject *key, *value;
  for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords.get(), &at, &key, &value);)
    args.keywords.push_back({PyRef::borrow(key), ex.constant(PyRef::borrow(value))});
  return subject->get_attribute(ex, name.get())->call(ex, args);
}

// operator.itemgetter, attrgetter, methodcaller: their arguments are what they reduce to.
ValuePtr call_operator_object(Executor& ex, PyObject* callable, const CallArgs& args) {
  PyRef reduced = checked(PyObject_CallMethod(callable, "__reduce__", nullptr));
  PyObject* wanted = PyTuple_GET_ITEM(reduced.get(), 1);
  std::string_view kind = Py_TYPE(callable)->tp_name;
  require_count(ex, "operator", args, 1, 1);
  const ValuePtr& subject = args.positional[0];
  if (kind == "operator.methodcaller")
    return call_method_of(ex, subject, PyTuple_GET_ITEM(reduced.get(), 0), wanted);
  std::vector<ValuePtr> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
    PyObject* key = PyTuple_GET_ITEM(wanted, i);
    if (kind == "operator.itemgetter") {
      found.push_back(subject->get_item(ex, ex.constant(PyRef::borrow(key))));
      continue;
    }
    PyRef dot = checked(PyUnicode_FromString("."));
    PyRef parts = checked(PyUnicode_Split(key, dot.get(), -1));
    ValuePtr value = subject;
    for (Py_ssize_t p = 0; p < PyList_GET_SIZE(parts.get()); ++p)
      value = value->get_attribute(ex, PyList_GET_ITEM(parts.get(), p));
    found.push_back(value);
  }
  return found.size() == 1 ? found[0] : make_tuple(ex, std::move(found));
}

bool is_operator_object(PyObject* callable) {
  std::string_view name = Py_TYPE(callable)->tp_name;
  return name == "operator.itemgetter" || name == "operator.attrgetter" || name == "operator.methodcaller";
}

}  // namespace

bool is_pure_type(PyTypeObject* type) {
  static constexpr const char* kTypes[] = {"int",
                                           "float",
                                           "complex",
                                           "bool",
                                           "str",
                                           "bytes",
                                           "NoneType",
                                           "range",
                                           "slice",
                                           "re.Pattern",
                                           "re.Match",
                                           "datetime.timedelta",
                                           "datetime.date",
                                           "datetime.datetime",
                                           "datetime.time",
                                           "datetime.timezone",
                                           "decimal.Decimal",
                                           "_struct.Struct",
                                           "types.GenericAlias",
                                           "types.UnionType",
                                           "code"};
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return false;
  for (const char* name : kTypes)
    if (std::strcmp(name, type->tp_name) == 0) return true;
  return false;
}

bool is_pure_c_object(PyObject* object) {
  return is_pure_type(Py_TYPE(object)) || is_operator_object(object) ||
         std::strcmp(Py_TYPE(object)->tp_name, "optree.PyTreeSpec") == 0;
}

ValuePtr call_substitute(Executor& ex, PyObject* function, const CallArgs& args) {
  const PyRef found = checked(PyObject_CallOneArg(python_side(PythonSide::kSubstituteOf), function));
  return Py_IsNone(found.get()) ? nullptr
                                : ex.wrap(found.get(), constant_source(found.get()))->call(ex, args);
}

ValuePtr call_opaque(Executor& ex, const ValuePtr& callable, const CallArgs& args) {
  if (is_cached_function(callable->real_object())) return call_cached_function(ex, callable, args);
  break_graph("CD0202", callable->describe());
}

namespace {

// What CPython says of a call without self: slots (wrapperdescr_call) in other words than methods (method_check_args).
std::string needs_an_argument(PyObject* descriptor) {
  const auto* header = reinterpret_cast<PyDescrObject*>(descriptor);
  if (Py_IS_TYPE(descriptor, &PyWrapperDescr_Type))
    return absl::StrCat("descriptor '", PyUnicode_AsUTF8(header->d_name), "' of '", header->d_type->tp_name,
                        "' object needs an argument");
  const PyRef name = checked(PyObject_GetAttrString(descriptor, "__qualname__"));
  return absl::StrCat("unbound method ", PyUnicode_AsUTF8(name.get()), "() needs an argument");
}

}  // namespace

ValuePtr call_builtin(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (auto row = functions().find(callable); row != functions().end()) {
    require_one_argument(ex, callable, args);
    return row->second(ex, args);
  }
  PyTypeObject* kind = Py_TYPE(callable);
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type) {
    if (args.positional.empty()) raise_error(ex, PyExc_TypeError, needs_an_argument(callable));
    return call_method_descriptor(ex, callable, args.positional[0], without_first(args));
  }
  if (PyCFunction_Check(callable)) {
    ValuePtr result = call_substitute(ex, callable, args);
    return result ? result : call_c_function(ex, callable, args);
  }
  if (is_operator_object(callable)) return call_operator_object(ex, callable, args);
  if (std::strcmp(kind->tp_name, "method-wrapper") == 0) {
    PyRef self = checked(PyObject_GetAttrString(callable, "__self__"));
    PyRef name = checked(PyObject_GetAttrString(callable, "__name__"));
    PyObject* descriptor = _PyType_Lookup(Py_TYPE(self.get()), name.get());
    ValuePtr owner = ex.wrap(self.get(), constant_source(self.get()));
    // A constant's own attribute is this method again.
    if (constant_object(owner)) {
      if (is_plain_constant(self.get())) return fold_call(ex, callable, args);
      break_graph("CD0212", PyUnicode_AsUTF8(name.get()));
    }
    if (descriptor && Py_IS_TYPE(descriptor, &PyWrapperDescr_Type))
      return call_method_descriptor(ex, descriptor, owner, args);
  }
  if (is_plain_constant(callable))
    raise_error(ex, PyExc_TypeError, std::string("'") + kind->tp_name + "' object is not callable");
  break_graph("CD0212", std::string(kind->tp_name));
}

ValuePtr call_library_function(Executor& ex, PyObject* function, const CallArgs& args) {
  auto row = functions().find(function);
  return row == functions().end() ? nullptr : row->second(ex, args);
}

ValuePtr call_builtin_class(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  if (auto row = classes().find(reinterpret_cast<PyObject*>(type)); row != classes().end())
    return row->second(ex, args);
  if (const char* name = itertools_name(type))
    return polyfill(ex, PythonSide::kItertoolsPolyfills, name)->call(ex, args);
  static constexpr const char* kOperators[] = {"itemgetter", "attrgetter", "methodcaller"};
  for (const char* name : kOperators)
    if (library_object("operator", name) == reinterpret_cast<PyObject*>(type))
      return fold_call(ex, reinterpret_cast<PyObject*>(type), args);
  meet_decimal(ex, type);
  if (is_pure_type(type)) return fold_call(ex, reinterpret_cast<PyObject*>(type), args);
  return nullptr;
}

}  // namespace cdynamo::symbolic
