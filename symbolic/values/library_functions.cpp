// C functions of the standard library: operator, functools, collections, warnings; and what must not be
// folded.
#include <algorithm>
#include <cstring>

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/list.h"
#include "symbolic/values/mirrored.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_proxy.h"

namespace cdynamo::symbolic {

namespace {

// ---- operator

// The function of operator that does what the method does: "add" for "__add__", "and_" for "__and__".
void require_two(Executor& ex, const char* method, const CallArgs& args) {
  std::string name = std::string(method).substr(2, std::strlen(method) - 4);
  if (name == "and" || name == "or") name += "_";
  require_count(ex, name.c_str(), args, 2, 2);
}

template <int nb_op>
ValuePtr binary(Executor& ex, const CallArgs& args) {
  require_two(ex, number_method(nb_op, false), args);
  return binary_operation(ex, nb_op, args.positional[0], args.positional[1]);
}
// PySequence_Concat
ValuePtr concatenate(Executor& ex, const CallArgs& args) {
  require_count(ex, "concat", args, 2, 2);
  const auto methods = [&](size_t i) { return args.positional[i]->type()->tp_as_sequence; };
  const auto has_items = [&](size_t i) {
    return methods(i) && methods(i)->sq_item && !is_instance_of(args.positional[i], &PyDict_Type);
  };
  if (!(methods(0) && methods(0)->sq_concat) && !(has_items(0) && has_items(1)))
    raise_error(ex, PyExc_TypeError, "'" + type_name(args.positional[0]) + "' object can't be concatenated");
  return binary_operation(ex, kNbAdd, args.positional[0], args.positional[1]);
}
template <int py_op>
ValuePtr compare(Executor& ex, const CallArgs& args) {
  require_two(ex, kComparisons[py_op].method, args);
  return compare_operation(ex, py_op, args.positional[0], args.positional[1]);
}
template <Op op>
ValuePtr unary(Executor& ex, const CallArgs& args) {
  require_count(ex, "operator", args, 1, 1);
  return args.positional[0]->unary(ex, op);
}
ValuePtr not_true(Executor& ex, const CallArgs& args) {
  require_count(ex, "not_", args, 1, 1);
  return ex.constant_bool(!is_true(ex, args.positional[0]));
}
ValuePtr truth(Executor& ex, const CallArgs& args) {
  require_count(ex, "truth", args, 1, 1);
  return ex.constant_bool(is_true(ex, args.positional[0]));
}
bool is_one_object(Executor& ex, const CallArgs& args) {
  const bool same = same_object(ex, args.positional[0], args.positional[1]);
  if (!same) refuse_unknown_identity(ex, args.positional[0], args.positional[1]);
  return same;
}
ValuePtr is_same(Executor& ex, const CallArgs& args) {
  require_count(ex, "is_", args, 2, 2);
  return ex.constant_bool(is_one_object(ex, args));
}
ValuePtr is_not_same(Executor& ex, const CallArgs& args) {
  require_count(ex, "is_not", args, 2, 2);
  return ex.constant_bool(!is_one_object(ex, args));
}
ValuePtr get_item(Executor& ex, const CallArgs& args) {
  require_count(ex, "getitem", args, 2, 2);
  return args.positional[0]->get_item(ex, args.positional[1]);
}
ValuePtr set_item(Executor& ex, const CallArgs& args) {
  require_count(ex, "setitem", args, 3, 3);
  args.positional[0]->set_item(ex, args.positional[1], args.positional[2]);
  return ex.none();
}
ValuePtr delete_item(Executor& ex, const CallArgs& args) {
  require_count(ex, "delitem", args, 2, 2);
  args.positional[0]->set_item(ex, args.positional[1], nullptr);
  return ex.none();
}
ValuePtr contains(Executor& ex, const CallArgs& args) {
  require_count(ex, "contains", args, 2, 2);
  return ex.constant_bool(args.positional[0]->contains(ex, args.positional[1]));
}
ValuePtr index(Executor& ex, const CallArgs& args) {
  require_count(ex, "index", args, 1, 1);
  return is_integer_value(args.positional[0]) ? args.positional[0]
                                              : ex.constant_int(index_argument(ex, args.positional[0]));
}

// ---- functools, collections, warnings

ValuePtr reduce(Executor& ex, const CallArgs& args) {
  require_count(ex, "reduce", args, 2, 3);
  if (!is_iterable(args.positional[1]))
    raise_error(ex, PyExc_TypeError, "reduce() arg 2 must support iteration");
  ValuePtr iterator = iterate_value(ex, args.positional[1]);
  ValuePtr total = args.positional.size() == 3 ? args.positional[2] : next_value(ex, iterator);
  if (!total) raise_error(ex, PyExc_TypeError, "reduce() of empty iterable with no initial value");
  while (ValuePtr item = next_value(ex, iterator))
    total = args.positional[0]->call(ex, positional({total, item}));
  return total;
}

// collections._count_elements(mapping, iterable): what Counter counts with.
ValuePtr count_elements(Executor& ex, const CallArgs& args) {
  require_count(ex, "_count_elements", args, 2, 2);
  const ValuePtr& mapping = args.positional[0];
  DictValue* dict = dict_in(mapping);
  if (!dict) break_graph("CD0212", "_count_elements");
  const auto is_dicts_own = [&](const char* name) {
    return lookup_type(ex, mapping->type(), interned(name)) == _PyType_Lookup(&PyDict_Type, interned(name));
  };
  ValuePtr iterator = iterate_value(ex, args.positional[1]);
  if (!is_dicts_own("get") || !is_dicts_own("__setitem__")) {
    ValuePtr get = mapping->get_attribute(ex, interned("get"));
    while (ValuePtr item = next_value(ex, iterator)) {
      ValuePtr old = get->call(ex, positional({item, ex.constant_int(0)}));
      mapping->set_item(ex, item, binary_operation(ex, kNbAdd, old, ex.constant_int(1)));
    }
    return ex.none();
  }
  while (ValuePtr item = next_value(ex, iterator)) {
    ValuePtr old = dict->lookup(ex, item);
    dict->store(ex, item, binary_operation(ex, kNbAdd, old ? old : ex.constant_int(0), ex.constant_int(1)));
  }
  return ex.none();
}

template <const char* name>
ValuePtr standard(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kStandardPolyfills, name)->call(ex, args);
}
constexpr char kInsortRight[] = "insort_right", kInsortLeft[] = "insort_left", kHeapPush[] = "heappush",
               kHeapPop[] = "heappop", kHeapReplace[] = "heapreplace", kHeapPushPop[] = "heappushpop",
               kHeapify[] = "heapify", kCompareToKey[] = "cmp_to_key", kCountOf[] = "count_of",
               kIndexOf[] = "index_of", kCall[] = "call", kLengthHint[] = "length_hint",
               kHeapifyMax[] = "_heapify_max", kHeapPopMax[] = "_heappop_max",
               kHeapReplaceMax[] = "_heapreplace_max", kBisectLeft[] = "bisect_left",
               kBisectRight[] = "bisect_right", kFloor[] = "floor", kCeil[] = "ceil", kTrunc[] = "trunc",
               kFloorMethod[] = "__floor__", kCeilMethod[] = "__ceil__", kTruncMethod[] = "__trunc__",
               kExceptionOnly[] = "format_exception_only", kCsvReader[] = "csv_reader",
               kCsvWriter[] = "csv_writer";

// With a key they call the program's code.
template <const char* name>
ValuePtr bisect(Executor& ex, const CallArgs& args) {
  const bool has_key = std::ranges::any_of(args.keywords, [](const Keyword& keyword) {
    return PyUnicode_CompareWithASCIIString(keyword.name.get(), "key") == 0 && !is_none(keyword.value);
  });
  const std::vector<ValuePtr>& given = args.positional;
  if (given.size() >= 2 && given.size() <= 4 && args.keywords.empty() && given[0]->type() == &PyList_Type) {
    const std::vector<ValuePtr> items = items_of(ex, given[0]);
    const auto bound = [&](size_t i, int64_t otherwise) {
      PyObject* known = i < given.size() ? constant_object(given[i]) : nullptr;
      if (i >= given.size() || known == Py_None) return otherwise;
      const auto number = as_sym(given[i]);
      return number && number->is_constant() ? number->constant() : -1;
    };
    if (ValuePtr place = place_in_table(ex, library_object("_bisect", name), items, given[1], bound(2, 0),
                                        bound(3, std::ssize(items))))
      return place;
  }
  if (!has_key) return fold_call(ex, library_object("_bisect", name), args);
  return polyfill(ex, PythonSide::kStandardPolyfills,
                  name == kBisectLeft ? "keyed_bisect_left" : "keyed_bisect_right")
      ->call(ex, args);
}

// Functions of the standard library that compute from arguments alone, called while capturing.
template <const char* module, const char* name>
ValuePtr pure(Executor& ex, const CallArgs& args) {
  return fold_call(ex, library_object(module, name), args);
}
constexpr char kPosix[] = "posix", kNormalPath[] = "_path_normpath", kAst[] = "ast",
               kLiteral[] = "literal_eval", kInspect[] = "inspect", kFormatAnnotation[] = "formatannotation";

// The parser of string.Formatter gives an iterator.
ValuePtr parse_format(Executor& ex, const CallArgs& args) {
  require_count(ex, "formatter_parser", args, 1, 1);
  const PyRef parts = checked_user(ex, PyObject_CallOneArg(library_object("_string", "formatter_parser"),
                                                           string_argument(ex, args.positional[0]).get()));
  return wrap_fresh(ex, checked_user(ex, PySequence_List(parts.get())))->iterate(ex);
}
ValuePtr split_field(Executor& ex, const CallArgs& args) {
  require_count(ex, "formatter_field_name_split", args, 1, 1);
  const PyRef parts =
      checked_user(ex, PyObject_CallOneArg(library_object("_string", "formatter_field_name_split"),
                                           string_argument(ex, args.positional[0]).get()));
  const ValuePtr rest = wrap_fresh(ex, checked_user(ex, PySequence_List(PyTuple_GET_ITEM(parts.get(), 1))));
  return new_tuple({wrap_fresh(ex, PyRef::borrow(PyTuple_GET_ITEM(parts.get(), 0))), rest->iterate(ex)});
}

// traceback.format_exception_only: of what has no place in the source, no suggestion and no parts.
ValuePtr format_exception(Executor& ex, const CallArgs& args) {
  const bool is_plain = args.keywords.empty() && (args.positional.size() == 1 || args.positional.size() == 2);
  const ValuePtr shown = is_plain ? args.positional.back() : ex.none();
  const auto is = [&](PyObject* type) { return is_instance_of(shown, exception_type(type)); };
  if (!is(PyExc_BaseException) || is(PyExc_SyntaxError) || is(PyExc_NameError) || is(PyExc_AttributeError) ||
      is(PyExc_ImportError) || is(library_object("builtins", "BaseExceptionGroup")))
    break_graph("CD0106", "traceback.format_exception_only");
  return polyfill(ex, PythonSide::kStandardPolyfills, kExceptionOnly)->call(ex, positional({shown}));
}

// csv.reader and writer with a dialect of Python's own: another one may change, as may what its name stands for.
template <const char* name>
ValuePtr csv_object(Executor& ex, const CallArgs& args) {
  const auto is_known = [&](const ValuePtr& dialect) {
    static constexpr const char *kNames[] = {"excel", "excel-tab", "unix"},
                                *kClasses[] = {"excel", "excel_tab", "unix_dialect"};
    PyObject* object = dialect->real_object();
    const auto is_name = [&](const char* text) {
      return object && PyUnicode_CheckExact(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
    };
    const auto is_class = [&](const char* text) { return object == library_object("csv", text); };
    return std::ranges::any_of(kNames, is_name) || std::ranges::any_of(kClasses, is_class);
  };
  bool all_known = args.positional.size() < 2 || is_known(args.positional[1]);
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), "dialect") == 0)
      all_known &= is_known(keyword.value);
  if (!all_known) break_graph("CD0212", "csv with a dialect of the program's");
  return standard<name>(ex, args);
}

// Of known bytes: all items are known.
ValuePtr iter_unpack(Executor& ex, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) {
    PyRef object = value->materialize(ex);
    if (!object) break_graph("CD0215", "struct.iter_unpack of " + value->describe());
    return object;
  };
  const PyRef items =
      checked_user(ex, call_with_objects(library_object("_struct", "iter_unpack"), args, known).release());
  return wrap_fresh(ex, checked_user(ex, PySequence_List(items.get())))->iterate(ex);
}

// struct.pack_into a bytearray that captured code has made.
ValuePtr pack_into(Executor& ex, const CallArgs& args) {
  const bool is_known = args.positional.size() >= 3 && args.keywords.empty() &&
                        dynamic_cast<MirroredValue*>(args.positional[1].get()) &&
                        args.positional[1]->type() == &PyByteArray_Type;
  if (!is_known) break_graph("CD0212", "struct.pack_into");
  return polyfill(ex, PythonSide::kStandardPolyfills, "pack_into")->call(ex, args);
}

// math's functions that ask an object's own method first.
template <const char* name, const char* method>
ValuePtr rounded(Executor& ex, const CallArgs& args) {
  if (args.positional.size() == 1 && dynamic_cast<UserObjectValue*>(args.positional[0].get()))
    if (ValuePtr own = lookup_special(ex, args.positional[0], method)) return own->call(ex, {});
  return fold_call(ex, library_object("math", name), args);
}

// sys.intern: the same text.
ValuePtr intern(Executor& ex, const CallArgs& args) {
  require_count(ex, "intern", args, 1, 1);
  PyObject* text = string_argument(ex, args.positional[0]).release();
  if (PyUnicode_CheckExact(text)) PyUnicode_InternInPlace(&text);
  return ex.constant(PyRef::steal(text));
}
// re._compile keeps what it makes: the same pattern each time.
ValuePtr compile_pattern(Executor& ex, const CallArgs& args) {
  require_count(ex, "_compile", args, 2, 2);
  const ValuePtr flags =
      ex.constant_int(index_argument(ex, args.positional[1]));  // 3.13 has ints of its own class
  return fold_call(ex, library_object("re", "_compile"), positional({args.positional[0], flags}));
}
template <const char* module, const char* name>
ValuePtr of_process(Executor& ex, const CallArgs& args) {
  require_count(ex, name, args, 0, 0);
  if (ValuePtr number = number_of_process(ex, library_object(module, name))) return number;
  break_graph("CD0212", std::string(module) + "." + name);
}
// It never changes.
template <const char* name>
ValuePtr of_interpreter(Executor& ex, const CallArgs& args) {
  return fold_call(ex, library_object("sys", name), args);
}
constexpr char kSys[] = "sys", kRecursionLimit[] = "getrecursionlimit", kEncoding[] = "getdefaultencoding";
constexpr char kFileEncoding[] = "getfilesystemencoding", kThread[] = "_thread", kThreadId[] = "get_ident";
constexpr char kProcessId[] = "getpid";
// sys.exit raises SystemExit as PyErr_SetObject makes one.
ValuePtr exit_program(Executor& ex, const CallArgs& args) {
  require_count(ex, "exit", args, 0, 1);
  std::vector<ValuePtr> given = args.positional;
  if (!given.empty() && is_none(given[0])) given.clear();
  if (!given.empty() && given[0]->type() == &PyTuple_Type) given = items_of(ex, ValuePtr(given[0]));
  if (!given.empty() && is_instance_of(given[0], exception_type(PyExc_BaseException)))
    break_graph("CD0212", "sys.exit of an exception");
  raise_new(ex, make_exception(ex, exception_type(PyExc_SystemExit), std::move(given)));
}
// os.fspath: a text itself, or what its __fspath__ gives.
ValuePtr file_path(Executor& ex, const CallArgs& args) {
  require_count(ex, "fspath", args, 1, 1);
  const ValuePtr& path = args.positional[0];
  if (is_instance_of(path, &PyUnicode_Type) || is_instance_of(path, &PyBytes_Type)) return path;
  const ValuePtr method = lookup_special(ex, path, "__fspath__");
  ValuePtr text = method ? method->call(ex, {}) : nullptr;
  if (text && (is_instance_of(text, &PyUnicode_Type) || is_instance_of(text, &PyBytes_Type))) return text;
  break_graph("CD0212", "os.fspath of " + path->describe());
}
ValuePtr tee(Executor& ex, const CallArgs& args) {
  return polyfill(ex, PythonSide::kItertoolsPolyfills, "tee")->call(ex, args);
}

constexpr BuiltinRow kLibraryFunctions[] = {
    {"operator", "add", binary<kNbAdd>},
    {"operator", "and_", binary<kNbAnd>},
    {"operator", "floordiv", binary<kNbFloorDivide>},
    {"operator", "lshift", binary<kNbLshift>},
    {"operator", "matmul", binary<kNbMatrixMultiply>},
    {"operator", "mul", binary<kNbMultiply>},
    {"operator", "mod", binary<kNbRemainder>},
    {"operator", "or_", binary<kNbOr>},
    {"operator", "pow", binary<kNbPower>},
    {"operator", "rshift", binary<kNbRshift>},
    {"operator", "sub", binary<kNbSubtract>},
    {"operator", "truediv", binary<kNbTrueDivide>},
    {"operator", "xor", binary<kNbXor>},
    {"operator", "concat", concatenate},
    {"operator", "iadd", binary<kNbInplaceAdd>},
    {"operator", "isub", binary<kNbInplaceSubtract>},
    {"operator", "imul", binary<kNbInplaceMultiply>},
    {"operator", "itruediv", binary<kNbInplaceTrueDivide>},
    {"operator", "ior", binary<kNbInplaceOr>},
    {"operator", "iand", binary<kNbInplaceAnd>},
    {"operator", "ifloordiv", binary<kNbInplaceFloorDivide>},
    {"operator", "ilshift", binary<kNbInplaceLshift>},
    {"operator", "imatmul", binary<kNbInplaceMatrixMultiply>},
    {"operator", "imod", binary<kNbInplaceRemainder>},
    {"operator", "ipow", binary<kNbInplacePower>},
    {"operator", "irshift", binary<kNbInplaceRshift>},
    {"operator", "ixor", binary<kNbInplaceXor>},
    {"operator", "lt", compare<Py_LT>},
    {"operator", "le", compare<Py_LE>},
    {"operator", "eq", compare<Py_EQ>},
    {"operator", "ne", compare<Py_NE>},
    {"operator", "gt", compare<Py_GT>},
    {"operator", "ge", compare<Py_GE>},
    {"operator", "neg", unary<Op::UNARY_NEGATIVE>},
    {"operator", "pos", unary<Op::UNARY_POSITIVE>},
    {"operator", "invert", unary<Op::UNARY_INVERT>},
    {"operator", "inv", unary<Op::UNARY_INVERT>},
    {"operator", "not_", not_true},
    {"operator", "truth", truth},
    {"operator", "is_", is_same},
    {"operator", "is_not", is_not_same},
    {"operator", "getitem", get_item},
    {"operator", "setitem", set_item},
    {"operator", "delitem", delete_item},
    {"operator", "contains", contains},
    {"operator", "index", index},
    {"functools", "reduce", reduce},
    {"collections", "_count_elements", count_elements},
    {"itertools", "tee", tee},
    {"sys", "intern", intern},
    {kSys, kRecursionLimit, of_process<kSys, kRecursionLimit>},
    {kThread, kThreadId, of_process<kThread, kThreadId>},
    {kPosix, kProcessId, of_process<kPosix, kProcessId>},
    {kSys, kEncoding, of_interpreter<kEncoding>},
    {kSys, kFileEncoding, of_interpreter<kFileEncoding>},
    {"sys", "exit", exit_program},
    {"re", "_compile", compile_pattern},
    {"os", "fspath", file_path},
    {kPosix, kNormalPath, pure<kPosix, kNormalPath>},
    {kAst, kLiteral, pure<kAst, kLiteral>},
    {kInspect, kFormatAnnotation, pure<kInspect, kFormatAnnotation>},
    {"_csv", "reader", csv_object<kCsvReader>},
    {"_csv", "writer", csv_object<kCsvWriter>},
    {"_struct", "iter_unpack", iter_unpack},
    {"_struct", "pack_into", pack_into},
    {"_string", "formatter_parser", parse_format},
    {"_string", "formatter_field_name_split", split_field},
    {"traceback", "format_exception_only", format_exception},
    {"weakref", "proxy", make_weak_proxy},
    {"_bisect", kInsortRight, standard<kInsortRight>},
    {"_bisect", kInsortLeft, standard<kInsortLeft>},
    {"_heapq", kHeapPush, standard<kHeapPush>},
    {"_heapq", kHeapPop, standard<kHeapPop>},
    {"_heapq", kHeapReplace, standard<kHeapReplace>},
    {"_heapq", kHeapPushPop, standard<kHeapPushPop>},
    {"_heapq", kHeapify, standard<kHeapify>},
    {"_heapq", kHeapifyMax, standard<kHeapifyMax>},
    {"_heapq", kHeapPopMax, standard<kHeapPopMax>},
    {"_heapq", kHeapReplaceMax, standard<kHeapReplaceMax>},
    {"_bisect", kBisectLeft, bisect<kBisectLeft>},
    {"_bisect", kBisectRight, bisect<kBisectRight>},
    {"_operator", kLengthHint, standard<kLengthHint>},
    {"math", kFloor, rounded<kFloor, kFloorMethod>},
    {"math", kCeil, rounded<kCeil, kCeilMethod>},
    {"math", kTrunc, rounded<kTrunc, kTruncMethod>},
    {"functools", kCompareToKey, standard<kCompareToKey>},
    {"_operator", "countOf", standard<kCountOf>},
    {"collections", "namedtuple", make_named_tuple_class},
    {"_operator", "indexOf", standard<kIndexOf>},
    {"_operator", kCall, standard<kCall>},
};

}  // namespace

std::span<const BuiltinRow> library_functions() { return kLibraryFunctions; }

}  // namespace cdynamo::symbolic
