// What calling a builtin class makes.
#include <algorithm>

#include <cstring>

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/context_var.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/length_hint.h"
#include "symbolic/values/list.h"
#include "symbolic/values/mirrored.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/partial.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/range.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {

ValuePtr to_float(Executor& ex, const CallArgs& args);

// int(x) and float(x) of an object with a conversion of its own (a tensor, a user's class).
ValuePtr convert(Executor& ex, const char* name, std::initializer_list<const char*> methods,
                 const CallArgs& args) {
  auto* type = reinterpret_cast<PyTypeObject*>(library_object("builtins", name));
  ValuePtr result;
  if (try_fold_call(ex, library_object("builtins", name), args, &result)) return result;
  if (args.positional.size() == 1 && args.keywords.empty())
    for (const char* method : methods)
      if (ValuePtr bound = lookup_special(ex, args.positional[0], method)) {
        if (std::strcmp(method, "__trunc__") == 0)
          break_graph("CD0216", std::string(name) + " by way of __trunc__, which warns");
        ValuePtr converted = bound->call(ex, {});
        if (converted->type() == type) return converted;
        // float(x) by way of x.__index__().
        if (std::strcmp(method, "__index__") == 0 && type == &PyFloat_Type &&
            converted->type() == &PyLong_Type)
          return to_float(ex, positional({converted}));
        // Another type is an error, a subclass a warning: in the interpreter's words.
        break_graph("CD0216", name + (" of " + args.positional[0]->describe()));
      }
  return fold_call(ex, library_object("builtins", name), args);
}

// The only argument, an int or an integer of NumPy's, as an int; null: it is none that changes from call to call.
ValuePtr changing_int(Executor& ex, const CallArgs& args) {
  const ValuePtr index = args.positional.size() == 1 ? args.positional[0]->as_index(ex) : nullptr;
  return dynamic_cast<SymIntValue*>(index.get()) ? index : nullptr;
}

ValuePtr to_int(Executor& ex, const CallArgs& args) {
  if (const ValuePtr integer = changing_int(ex, args)) return integer;
  if (auto* read =
          args.positional.size() == 1 ? dynamic_cast<DataBoolValue*>(args.positional[0].get()) : nullptr)
    return read->number();
  return convert(ex, "int", {"__int__", "__index__", "__trunc__"}, args);
}
ValuePtr to_float(Executor& ex, const CallArgs& args) {
  if (args.positional.size() == 1 && dynamic_cast<DynamicFloatValue*>(args.positional[0].get()))
    return args.positional[0];
  if (auto* read =
          args.positional.size() == 1 ? dynamic_cast<DataBoolValue*>(args.positional[0].get()) : nullptr)
    return read->real(ex);
  if (const ValuePtr integer = changing_int(ex, args)) return float_of_int(ex, integer, *as_sym(integer));
  return convert(ex, "float", {"__float__", "__index__"}, args);
}
ValuePtr to_complex(Executor& ex, const CallArgs& args) {
  return convert(ex, "complex", {"__complex__"}, args);
}
ValuePtr to_bytes(Executor& ex, const CallArgs& args) { return convert(ex, "bytes", {"__bytes__"}, args); }

ValuePtr to_bool(Executor& ex, const CallArgs& args) {
  require_count(ex, "bool", args, 0, 1);
  if (args.positional.empty()) return ex.constant_bool(false);
  if (dynamic_cast<DataBoolValue*>(args.positional[0].get())) return args.positional[0];
  std::optional<bool> truth = args.positional[0]->truth(ex);
  if (!truth) truth = follow_branch(ex, args.positional[0]);
  if (truth) return ex.constant_bool(*truth);
  return call_method(ex, args.positional[0], "__bool__");
}
ValuePtr to_str(Executor& ex, const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty())
    return fold_call(ex, reinterpret_cast<PyObject*>(&PyUnicode_Type), args);
  return to_string(ex, args.positional[0], false);
}

ValuePtr to_list(Executor& ex, const CallArgs& args) {
  require_count(ex, "list", args, 0, 1);
  return new_list(args.positional.empty() ? std::vector<ValuePtr>() : listed_items(ex, args.positional[0]));
}
ValuePtr to_tuple(Executor& ex, const CallArgs& args) {
  require_count(ex, "tuple", args, 0, 1);
  if (args.positional.empty()) return new_tuple({});
  if (args.positional[0]->type() == &PyTuple_Type) return args.positional[0];
  return new_tuple(listed_items(ex, args.positional[0]));
}
// One mapping or iterable of pairs, and any keywords.
void require_one_at_most(Executor& ex, const CallArgs& args, const char* message) {
  if (args.positional.size() > 1)
    raise_error(ex, PyExc_TypeError, message + std::to_string(args.positional.size()));
}
ValuePtr to_dict(Executor& ex, const CallArgs& args) {
  require_one_at_most(ex, args, "dict expected at most 1 argument, got ");
  auto dict = new_dict();
  update_dict(ex, *dict, args);
  return dict;
}
ValuePtr to_ordered_dict(Executor& ex, const CallArgs& args) {
  require_one_at_most(ex, args, "expected at most 1 arguments, got ");
  auto dict = new_dict(ordered_dict_type());
  update_dict(ex, *dict, args);
  return dict;
}
ValuePtr to_default_dict(Executor& ex, const CallArgs& args) {
  auto dict = new_dict(default_dict_type());
  CallArgs rest = args;
  dict->set_default_factory(ex.none());
  if (!rest.positional.empty()) {
    if (!is_none(rest.positional.front()))
      require_callable(ex, rest.positional.front(), "first argument must be callable or None");
    dict->set_default_factory(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
  }
  require_one_at_most(ex, rest, "dict expected at most 1 argument, got ");
  update_dict(ex, *dict, rest);
  return dict;
}
ValuePtr to_set(Executor& ex, const CallArgs& args) {
  require_count(ex, "set", args, 0, 1);
  return args.positional.empty() ? new_set(ex, {}, &PySet_Type)
                                 : set_from(ex, args.positional[0], &PySet_Type);
}
ValuePtr to_frozenset(Executor& ex, const CallArgs& args) {
  require_count(ex, "frozenset", args, 0, 1);
  if (!args.positional.empty() && args.positional[0]->type() == &PyFrozenSet_Type) return args.positional[0];
  return args.positional.empty() ? new_set(ex, {}, &PyFrozenSet_Type)
                                 : set_from(ex, args.positional[0], &PyFrozenSet_Type);
}
ValuePtr to_slice(Executor& ex, const CallArgs& args) {
  require_count(ex, "slice", args, 1, 3);
  const auto& given = args.positional;
  if (given.size() == 1) return make_slice(ex, nullptr, given[0], nullptr);
  return make_slice(ex, given[0], given[1], given.size() == 3 ? given[2] : nullptr);
}
ValuePtr to_proxy(Executor& ex, const CallArgs& args) {
  require_count(ex, "mappingproxy", args, 1, 1);
  if (!dict_in(args.positional[0]))
    break_graph("CD0202", "mappingproxy of " + args.positional[0]->describe());
  return std::make_shared<MappingProxyValue>(args.positional[0]);
}

ValuePtr to_method(Executor& ex, const CallArgs& args) {
  require_count(ex, "method", args, 2, 2);
  if (!args.positional[0]->type()->tp_call || is_none(args.positional[1]))
    return fold_call(ex, reinterpret_cast<PyObject*>(&PyMethod_Type), args);  // raises
  return make_bound_method(ex, args.positional[0], args.positional[1]);
}

ValuePtr type_call(Executor& ex, const CallArgs& args) {
  if (args.positional.size() != 1 && args.positional.size() != 3)
    raise_error(ex, PyExc_TypeError, "type() takes 1 or 3 arguments");
  if (args.positional.size() != 1 || !args.keywords.empty())
    return make_class_of_namespace(ex, &PyType_Type, args);
  return type_of(ex, args.positional[0]);
}
ValuePtr new_object(Executor& ex, const CallArgs& args) {
  if (!args.positional.empty() || !args.keywords.empty())
    raise_error(ex, PyExc_TypeError, "object() takes no arguments");
  return UserObjectValue::make(&PyBaseObject_Type, nullptr);
}
ValuePtr to_namespace(Executor& ex, const CallArgs& args) {
  if (!args.positional.empty()) break_graph("CD0212", "SimpleNamespace of " + args.positional[0]->describe());
  auto* type = reinterpret_cast<PyTypeObject*>(library_object("types", "SimpleNamespace"));
  ValuePtr made = UserObjectValue::make(type, nullptr);
  for (const Keyword& keyword : args.keywords) made->set_attribute(ex, keyword.name.get(), keyword.value);
  return made;
}
ValuePtr to_reversed(Executor& ex, const CallArgs& args) {
  require_count(ex, "reversed", args, 1, 1);
  return new_reversed_iterator(ex, args.positional[0]);
}

// What functools.lru_cache makes of a function.
ValuePtr make_cache(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kStandardPolyfills, "lru_cache_wrapper")->call(ex, args);
}

template <const char* name>
ValuePtr make_hash_of(Executor& ex, const CallArgs& args) {
  return make_hash(ex, library_object("hashlib", name), args);
}
constexpr char kBlake2b[] = "blake2b", kBlake2s[] = "blake2s";

// json's encoder and scanner in C, as Python.
ValuePtr make_json_encoder(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kJsonPolyfills, "make_encoder")->call(ex, args);
}
ValuePtr make_json_scanner(Executor& ex, const CallArgs& args) {
  PyObject* in_python = library_object("json.scanner", "py_make_scanner");
  return ex.wrap(in_python, constant_source(in_python))->call(ex, args);
}

constexpr BuiltinRow kClasses[] = {
    {"builtins", "int", to_int},
    {"builtins", "float", to_float},
    {"builtins", "complex", to_complex},
    {"builtins", "bool", to_bool},
    {"builtins", "str", to_str},
    {"builtins", "bytes", to_bytes},
    {"builtins", "list", to_list},
    {"builtins", "tuple", to_tuple},
    {"builtins", "dict", to_dict},
    {"builtins", "set", to_set},
    {"builtins", "frozenset", to_frozenset},
    {"builtins", "slice", to_slice},
    {"builtins", "range", make_range},
    {"builtins", "enumerate", new_enumerate},
    {"builtins", "zip", new_zip},
    {"builtins", "map", new_map},
    {"builtins", "filter", new_filter},
    {"builtins", "reversed", to_reversed},
    {"builtins", "super", make_super},
    {"builtins", "type", type_call},
    {"builtins", "object", new_object},
    {"types", "MappingProxyType", to_proxy},
    {"types", "SimpleNamespace", to_namespace},
    {"collections", "OrderedDict", to_ordered_dict},
    {"collections", "defaultdict", to_default_dict},
    {"collections", "deque", make_deque},
    {"types", "MethodType", to_method},
    {"functools", "partial", make_partial},
    {"functools", "_lru_cache_wrapper", make_cache},
    {"weakref", "ref", make_weak_reference},
    {"contextvars", "ContextVar", make_context_var},
    {"random", "Random", make_random_generator},
    {"array", "array", make_array},
    {"builtins", "bytearray", make_bytearray},
    {"io", "StringIO", make_string_stream},
    {"io", "BytesIO", make_bytes_stream},
    {"hashlib", kBlake2b, make_hash_of<kBlake2b>},
    {"hashlib", kBlake2s, make_hash_of<kBlake2s>},
    {"json.encoder", "c_make_encoder", make_json_encoder},
    {"json.scanner", "c_make_scanner", make_json_scanner},
};

// Iterators of itertools are generators of python/cdynamo/polyfills/itertools.py.
constexpr const char* kItertools[] = {"chain",
                                      "repeat",
                                      "count",
                                      "product",
                                      "accumulate",
                                      "islice",
                                      "starmap",
                                      "cycle",
                                      "takewhile",
                                      "dropwhile",
                                      "zip_longest",
                                      "pairwise",
                                      "compress",
                                      "groupby",
                                      "filterfalse",
                                      "batched",
                                      "permutations",
                                      "combinations",
                                      "combinations_with_replacement"};

}  // namespace

std::span<const BuiltinRow> builtin_classes() { return kClasses; }

const char* itertools_name(PyTypeObject* type) {
  for (const char* name : kItertools)
    if (library_object("itertools", name) == reinterpret_cast<PyObject*>(type)) return name;
  return nullptr;
}

}  // namespace cdynamo::symbolic
