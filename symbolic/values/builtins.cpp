#include "symbolic/values/builtins.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/substitute.h"
#include "graph/sizes/sym.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/instance_key.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/length_hint.h"
#include "symbolic/values/list.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/text.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// The real function where all arguments are known; null otherwise.
ValuePtr folded(Executor& ex, const char* name, const CallArgs& args) {
  ValuePtr result;
  return try_fold_call(ex, library_object("builtins", name), args, &result) ? result : nullptr;
}
bool all_constants(const std::vector<ValuePtr>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const ValuePtr& value) { return constant_object(value) != nullptr; });
}

ValuePtr len(Executor& ex, const CallArgs& args) {
  require_count(ex, "len", args, 1, 1);
  const PyTypeObject* type = args.positional[0]->type();
  const bool has_length = (type->tp_as_sequence && type->tp_as_sequence->sq_length) ||
                          (type->tp_as_mapping && type->tp_as_mapping->mp_length);
  if (!has_length)
    raise_error(ex, PyExc_TypeError, "object of type '" + type_name(args.positional[0]) + "' has no len()");
  return args.positional[0]->length(ex);
}
ValuePtr isinstance(Executor& ex, const CallArgs& args) {
  require_count(ex, "isinstance", args, 2, 2);
  return ex.constant_bool(is_instance(ex, args.positional[0], args.positional[1]));
}
ValuePtr issubclass(Executor& ex, const CallArgs& args) {
  require_count(ex, "issubclass", args, 2, 2);
  return ex.constant_bool(is_subclass(ex, args.positional[0], args.positional[1]));
}
// What ABCMeta's methods call.
ValuePtr abc_instancecheck(Executor& ex, const CallArgs& args) {
  require_count(ex, "_abc_instancecheck", args, 2, 2);
  PyObject* cls = args.positional[0]->real_object();
  if (!cls || !PyType_Check(cls)) break_graph("CD0216", args.positional[0]->describe());
  return ex.constant_bool(is_plain_instance(ex, args.positional[1], cls));
}
ValuePtr abc_subclasscheck(Executor& ex, const CallArgs& args) {
  require_count(ex, "_abc_subclasscheck", args, 2, 2);
  PyObject *cls = args.positional[0]->real_object(), *type = args.positional[1]->real_object();
  if (!cls || !type || !PyType_Check(cls) || !PyType_Check(type))
    break_graph("CD0216", args.positional[0]->describe());
  return ex.constant_bool(is_plain_subclass(ex, reinterpret_cast<PyTypeObject*>(type), cls));
}

ValuePtr callable(Executor& ex, const CallArgs& args) {
  require_count(ex, "callable", args, 1, 1);
  PyTypeObject* type = args.positional[0]->type();
  guard_class(ex, type);
  return ex.constant_bool(type->tp_call != nullptr);
}

ValuePtr sorted(Executor& ex, const CallArgs& args) {
  require_count(ex, "sorted", positional(args.positional), 1, 1);
  auto bound = bind_arguments(ex, "sorted", {{}, args.keywords}, {"*key?", "*reverse?"});
  bool reverse = reverse_argument(ex, bound[1]);
  std::vector<ValuePtr> items = listed_items(ex, args.positional[0]);
  sort_values(ex, items, bound[0], reverse);
  return new_list(std::move(items));
}

// ---- min, max, sum

bool is_read_float(const ValuePtr& value) {
  auto* number = dynamic_cast<DynamicFloatValue*>(value.get());
  return number && number->is_from_data();
}
bool is_plain_float(const ValuePtr& value) {
  PyObject* constant = constant_object(value);
  return dynamic_cast<DynamicFloatValue*>(value.get()) || (constant && PyFloat_CheckExact(constant));
}

bool is_numpy_scalar_type(PyTypeObject* type) {
  const numpy_access::Api* numpy = numpy_access::api();
  return numpy && PyType_IsSubtype(type, numpy->generic_type);
}

// The second of two scalars of NumPy's of one type where it is less (greater), else the first.
ValuePtr extreme_scalar(Executor& ex, const ValuePtr& first, const ValuePtr& second, bool largest) {
  const ValuePtr is_better = compare_operation(ex, largest ? Py_GT : Py_LT, second, first);
  if (const std::optional<bool> known = is_better->truth(ex)) return *known ? second : first;
  PyObject* where = library_object("numpy", "where");
  const ValuePtr chosen =
      ex.wrap(where, constant_source(where))->call(ex, positional({is_better, second, first}));
  return chosen->get_item(ex, make_tuple(ex, {}));
}

// min_max (Python/bltinmodule.c): the first of equal items stays.
ValuePtr extreme(Executor& ex, const CallArgs& args, bool largest) {
  const char* name = largest ? "max" : "min";
  CallArgs options{{}, args.keywords};
  auto bound = bind_arguments(ex, name, options, {"*key?", "*default?"});
  require_count(ex, name, positional(args.positional), 1, SIZE_MAX);
  if (bound[1] && args.positional.size() > 1)
    raise_error(
        ex, PyExc_TypeError,
        absl::Substitute("Cannot specify a default for $0() with multiple positional arguments", name));
  const bool keyed = bound[0] && !is_none(bound[0]);
  std::vector<ValuePtr> items, keys;
  ValuePtr iterator =
      iterate_value(ex, args.positional.size() == 1 ? args.positional[0] : new_tuple(args.positional));
  while (ValuePtr item = next_value(ex, iterator)) {
    keys.push_back(keyed ? bound[0]->call(ex, positional({item})) : item);
    items.push_back(std::move(item));
    require_short(items.size(), *iterator);
  }
  if (items.empty()) {
    if (bound[1]) return bound[1];
    return folded(ex, name, positional({new_list({})}));  // raises in the version's own words
  }
  // A bool that is the largest stays one.
  bool ints = !keyed && std::all_of(items.begin(), items.end(), [](const ValuePtr& item) {
    PyObject* constant = constant_object(item);
    return as_sym(item).has_value() && !(constant && PyBool_Check(constant));
  });
  bool symbolic = std::any_of(items.begin(), items.end(),
                              [](const ValuePtr& item) { return dynamic_cast<SymIntValue*>(item.get()); });
  if (ints && symbolic) {
    graph::Sym best = *as_sym(items[0]);
    for (size_t i = 1; i < items.size(); ++i)
      best = largest ? max(best, *as_sym(items[i])) : min(best, *as_sym(items[i]));
    return make_int(ex, best);
  }
  if (!keyed && std::ranges::all_of(items, is_plain_float) && std::ranges::any_of(items, is_read_float)) {
    ValuePtr best = items[0];
    for (size_t i = 1; i < items.size(); ++i) best = extreme_float(ex, best, items[i], largest);
    return best;
  }
  const auto is_numpys = [&](const ValuePtr& item) {
    return item->type() == items[0]->type() && is_numpy_scalar_type(item->type());
  };
  if (!keyed && std::ranges::all_of(items, is_numpys) && !all_constants(items)) {
    ValuePtr best = items[0];
    for (size_t i = 1; i < items.size(); ++i) best = extreme_scalar(ex, best, items[i], largest);
    return best;
  }
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i)
    if (is_true(ex, compare_operation(ex, largest ? Py_GT : Py_LT, keys[i], keys[best]))) best = i;
  return items[best];
}
ValuePtr min_of(Executor& ex, const CallArgs& args) { return extreme(ex, args, false); }
ValuePtr max_of(Executor& ex, const CallArgs& args) { return extreme(ex, args, true); }

ValuePtr sum(Executor& ex, const CallArgs& args) {
  if (args.positional.empty())
    raise_error(ex, PyExc_TypeError, "sum() takes at least 1 positional argument (0 given)");
  auto bound = bind_arguments(ex, "sum", args, {"iterable", "start?"});
  std::vector<ValuePtr> items = items_of(ex, bound[0]);
  ValuePtr total = bound[1] ? bound[1] : ex.constant_int(0);
  // The real one adds floats more exactly from 3.12 on.
  if (all_constants(items) && constant_object(total))
    if (ValuePtr result = folded(ex, "sum", positional({new_list(items), total}))) return result;
  for (const ValuePtr& item : items) total = binary_operation(ex, kNbAdd, total, item);
  return total;
}

ValuePtr any_true(Executor& ex, const CallArgs& args) {
  require_count(ex, "any", args, 1, 1);
  ValuePtr iterator = iterate_value(ex, args.positional[0]);
  while (ValuePtr item = next_value(ex, iterator))
    if (is_true(ex, item)) return ex.constant_bool(true);
  return ex.constant_bool(false);
}
ValuePtr all_true(Executor& ex, const CallArgs& args) {
  require_count(ex, "all", args, 1, 1);
  ValuePtr iterator = iterate_value(ex, args.positional[0]);
  while (ValuePtr item = next_value(ex, iterator))
    if (!is_true(ex, item)) return ex.constant_bool(false);
  return ex.constant_bool(true);
}

// ---- numbers

ValuePtr absolute(Executor& ex, const CallArgs& args) {
  require_count(ex, "abs", args, 1, 1);
  const ValuePtr& value = args.positional[0];
  if (is_read_float(value)) return absolute_float(ex, value);
  if (auto* integer = dynamic_cast<SymIntValue*>(value.get())) {
    const graph::Sym& number = integer->sym();
    if (ex.graph().sym->reads_data(number)) return make_int(ex, max(number, 0 - number));
    bool negative = is_true(ex, compare_operation(ex, Py_LT, value, ex.constant_int(0)));
    return negative ? value->unary(ex, Op::UNARY_NEGATIVE) : value;
  }
  const bool changes = value->as_index(ex) && !constant_object(value);
  if (ValuePtr result = changes ? nullptr : folded(ex, "abs", args)) return result;
  require_special(ex, value, "__abs__", "bad operand type for abs(): '$0'");
  return call_method(ex, value, "__abs__");
}
ValuePtr round_value(Executor& ex, const CallArgs& args) {
  if (ValuePtr result = folded(ex, "round", args)) return result;
  auto bound = bind_arguments(ex, "round", args, {"number", "ndigits?"});
  require_special(ex, bound[0], "__round__", "type $0 doesn't define __round__ method");
  return bound[1] ? call_method(ex, bound[0], "__round__", {bound[1]})
                  : call_method(ex, bound[0], "__round__");
}
// What an operand's method of Python's gives for divmod; null: it has none, or does not know the other one.
ValuePtr asked_for_divmod(Executor& ex, const ValuePtr& value, const char* name, const ValuePtr& other) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  const ValuePtr method = object ? object->special(ex, name, builtin_storage(value) != nullptr) : nullptr;
  return method ? implemented(method->call(ex, positional({other}))) : nullptr;
}

bool divides_with_remainder(const ValuePtr& value) {
  const PyNumberMethods* numbers = value->type()->tp_as_number;
  const bool is_builtin = builtin_storage(value) || !dynamic_cast<UserObjectValue*>(value.get());
  return is_builtin && numbers && numbers->nb_divmod;
}

// binary_op1 with the methods of divmod
ValuePtr divide_with_remainder(Executor& ex, const CallArgs& args) {
  require_count(ex, "divmod", args, 2, 2);
  if (all_constants(args.positional)) return folded(ex, "divmod", args);
  const ValuePtr &left = args.positional[0], &right = args.positional[1];
  PyObject* reflected = interned("__rdivmod__");
  const bool right_first =
      left->type() != right->type() && PyType_IsSubtype(right->type(), left->type()) &&
      lookup_type(ex, left->type(), reflected) != lookup_type(ex, right->type(), reflected);
  if (right_first)
    if (ValuePtr result = asked_for_divmod(ex, right, "__rdivmod__", left)) return result;
  if (ValuePtr result = asked_for_divmod(ex, left, "__divmod__", right)) return result;
  const ValuePtr& part = builtin_storage(left);
  const ValuePtr dividend = part ? part : left;
  const ValuePtr divisor = is_builtin_number(dividend->type()) ? seen_by(dividend->type(), right) : right;
  if (!right_first && dynamic_cast<UserObjectValue*>(divisor.get()))
    if (ValuePtr result = asked_for_divmod(ex, right, "__rdivmod__", left)) return result;
  if (!divides_with_remainder(left) || !divides_with_remainder(right)) {
    // A tensor of PyTorch's has // and %, and no divmod.
    if (!dynamic_cast<UserObjectValue*>(left.get()) && !dynamic_cast<UserObjectValue*>(right.get()))
      break_graph("CD0202", "divmod");
    raise_error(ex, PyExc_TypeError,
                absl::Substitute("unsupported operand type(s) for divmod(): '$0' and '$1'", type_name(left),
                                 type_name(right)));
  }
  const ValuePtr by = plain_number(divisor);
  return new_tuple(
      {binary_operation(ex, kNbFloorDivide, dividend, by), binary_operation(ex, kNbRemainder, dividend, by)});
}
ValuePtr power(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "pow", args, {"base", "exp", "mod?"});
  if (!bound[2] || is_none(bound[2])) return binary_operation(ex, kNbPower, bound[0], bound[1]);
  return fold_call(ex, library_object("builtins", "pow"), args);
}

// ---- attributes

ValuePtr get_attribute(Executor& ex, const CallArgs& args) {
  require_count(ex, "getattr", args, 2, 3);
  PyRef name = string_argument(ex, args.positional[1]);
  if (args.positional.size() == 2) return args.positional[0]->get_attribute(ex, name.get());
  ValuePtr value = get_attribute_or_null(ex, args.positional[0], name.get());
  return value ? value : args.positional[2];
}
ValuePtr has_attribute(Executor& ex, const CallArgs& args) {
  require_count(ex, "hasattr", args, 2, 2);
  PyRef name = string_argument(ex, args.positional[1]);
  return ex.constant_bool(get_attribute_or_null(ex, args.positional[0], name.get()) != nullptr);
}
ValuePtr set_attribute(Executor& ex, const CallArgs& args) {
  require_count(ex, "setattr", args, 3, 3);
  args.positional[0]->set_attribute(ex, string_argument(ex, args.positional[1]).get(), args.positional[2]);
  return ex.none();
}
ValuePtr delete_attribute(Executor& ex, const CallArgs& args) {
  require_count(ex, "delattr", args, 2, 2);
  args.positional[0]->set_attribute(ex, string_argument(ex, args.positional[1]).get(), nullptr);
  return ex.none();
}
ValuePtr variables(Executor& ex, const CallArgs& args) {
  if (args.positional.size() != 1) break_graph("CD0219", "vars");
  if (ValuePtr value = get_attribute_or_null(ex, args.positional[0], interned("__dict__"))) return value;
  raise_error(ex, PyExc_TypeError, "vars() argument must have __dict__ attribute");
}
ValuePtr globals(Executor& ex, const CallArgs&) {
  PyObject* dict = frame_globals(ex);
  return ex.wrap(dict, constant_source(dict));
}

// ---- iteration, text

ValuePtr iterate(Executor& ex, const CallArgs& args) {
  require_count(ex, "iter", args, 1, 2);
  if (args.positional.size() == 2) {
    guard_class(ex, args.positional[0]->type());
    // What it says of what cannot be called is not the same in every release.
    if (!args.positional[0]->type()->tp_call)
      checked_user(
          ex, PyObject_CallFunctionObjArgs(library_object("builtins", "iter"), Py_None, Py_None, nullptr));
    return new_callable_iterator(args.positional[0], args.positional[1]);
  }
  return iterate_value(ex, args.positional[0]);
}
ValuePtr next_item(Executor& ex, const CallArgs& args) {
  require_count(ex, "next", args, 1, 2);
  if (!is_iterator_type(args.positional[0]->type()))
    raise_error(ex, PyExc_TypeError, "'" + type_name(args.positional[0]) + "' object is not an iterator");
  if (args.positional.size() == 1)  // what it raises at its end may say more: what a generator has returned
    if (ValuePtr method = lookup_special(ex, args.positional[0], "__next__")) return method->call(ex, {});
  if (ValuePtr item = next_value(ex, args.positional[0])) return item;
  if (args.positional.size() == 2) return args.positional[1];
  raise_new(ex, make_exception(ex, exception_type(PyExc_StopIteration), {}));
}
ValuePtr repr(Executor& ex, const CallArgs& args) {
  require_count(ex, "repr", args, 1, 1);
  return to_string(ex, args.positional[0], true);
}
ValuePtr format(Executor& ex, const CallArgs& args) {
  require_count(ex, "format", args, 1, 2);
  return format_value(ex, args.positional[0], 0, args.positional.size() == 2 ? args.positional[1] : nullptr);
}
// slot_tp_hash: a __hash__ of Python's; null: the class has none.
ValuePtr own_hash(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  ValuePtr method = object ? object->special(ex, "__hash__", true) : method_of_enum(ex, value, "__hash__");
  if (!method) return nullptr;
  return ex.constant_int(hash_of_returned(ex, value, method->call(ex, {})));
}
ValuePtr hash(Executor& ex, const CallArgs& args) {
  require_count(ex, "hash", args, 1, 1);
  if (ValuePtr own = own_hash(ex, args.positional[0])) return own;
  PyRef object = args.positional[0]->materialize(ex);
  if (!object) return ex.constant_int(hash_of_value(ex, args.positional[0]));
  return ex.constant_int(PyObject_Hash(object.get()) == -1 && PyErr_Occurred() ? (raise_current_error(ex), 0)
                                                                               : PyObject_Hash(object.get()));
}
// Whether it is reached through a module, a class or an object, as parameters are; an argument is another one in each call.
bool is_kept_by_another(const SourcePtr& source) {
  for (const Source* at = source.get(); at; at = at->base.get())
    if (at->kind == SourceKind::kAttribute || at->kind == SourceKind::kInstanceDict ||
        at->kind == SourceKind::kGlobal || at->kind == SourceKind::kModuleGlobal ||
        at->kind == SourceKind::kConstant)
      return true;
  return false;
}

// The live object, of a tensor as well, whose value knows its source alone.
PyObject* live_object(Executor& ex, const ValuePtr& value) {
  if (PyObject* object = value->real_object()) return object;
  for (const auto& [object, known] : ex.state().by_object)
    if (known == value) return object;
  return nullptr;
}

// Of what stays where it is while an entry is in use: a class, a function, an instance of the program's that came in, a parameter.
ValuePtr identity(Executor& ex, const CallArgs& args) {
  const ValuePtr& value = args.positional[0];
  require_count(ex, "id", args, 1, 1);
  PyObject* object = value->source ? live_object(ex, value) : nullptr;
  const bool stays =
      object && (PyType_Check(object) || PyFunction_Check(object) || PyModule_Check(object) ||
                 dynamic_cast<UserObjectValue*>(value.get()) || is_kept_by_another(value->source));
  if (!stays) break_graph("CD0214", "id of " + value->describe());
  if (value->source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, value->source, object);
  return ex.constant(checked(PyLong_FromVoidPtr(object)));
}
ValuePtr input(Executor&, const CallArgs&) { break_graph("CD0213", "input"); }
ValuePtr open_file(Executor&, const CallArgs&) { break_graph("CD0213", "open"); }
// object.__dir__ asks the instance for its class and for its dict: as every object has them?
bool has_plain_parts(PyTypeObject* type) {
  PyObject* own_dict = _PyType_Lookup(type, interned("__dict__"));
  return type->tp_getattro == PyObject_GenericGetAttr &&
         _PyType_Lookup(type, interned("__class__")) ==
             _PyType_Lookup(&PyBaseObject_Type, interned("__class__")) &&
         (!own_dict || Py_IS_TYPE(own_dict, &PyGetSetDescr_Type));
}

// Of an instance, with what its class has: object.__dir__.
ValuePtr directory(Executor& ex, const CallArgs& args) {
  if (args.positional.size() != 1) break_graph("CD0219", "dir");
  const ValuePtr& value = args.positional[0];
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  auto* cls = dynamic_cast<ClassValue*>(value.get());
  if (ValuePtr method = object ? object->special(ex, "__dir__", true) : nullptr)
    return sorted(ex, positional({method->call(ex, {})}));
  PyTypeObject* type = object ? value->type()
                       : cls  ? reinterpret_cast<PyTypeObject*>(cls->real_object())
                              : nullptr;
  if (!type || (cls && (cls->is_stand_in() || Py_TYPE(type) != &PyType_Type)) || builtin_storage(value) ||
      (object && !has_plain_parts(type)))
    break_graph("CD0219", "dir of " + value->describe());
  guard_class(ex, type);
  const PyRef names = checked_user(ex, PyObject_Dir(reinterpret_cast<PyObject*>(type)));
  std::vector<ValuePtr> all;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    all.push_back(ex.constant(PyRef::borrow(PyList_GET_ITEM(names.get(), i))));
  if (cls) return new_list(std::move(all));
  if (type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT))
    for (const ValuePtr& name : items_of(ex, value->get_attribute(ex, interned("__dict__"))))
      all.push_back(name);
  return sorted(ex, positional({new_set(ex, all, &PySet_Type)}));
}
ValuePtr introspect(Executor&, const CallArgs&) { break_graph("CD0219", "locals, eval or exec"); }

constexpr BuiltinRow kBuiltinFunctions[] = {
    {"builtins", "len", len},
    {"builtins", "isinstance", isinstance},
    {"builtins", "issubclass", issubclass},
    {"_abc", "_abc_instancecheck", abc_instancecheck},
    {"_abc", "_abc_subclasscheck", abc_subclasscheck},
    {"builtins", "callable", callable},
    {"builtins", "sorted", sorted},
    {"builtins", "min", min_of},
    {"builtins", "max", max_of},
    {"builtins", "sum", sum},
    {"builtins", "any", any_true},
    {"builtins", "all", all_true},
    {"builtins", "abs", absolute},
    {"builtins", "round", round_value},
    {"builtins", "divmod", divide_with_remainder},
    {"builtins", "pow", power},
    {"builtins", "getattr", get_attribute},
    {"builtins", "hasattr", has_attribute},
    {"builtins", "setattr", set_attribute},
    {"builtins", "delattr", delete_attribute},
    {"builtins", "vars", variables},
    {"builtins", "globals", globals},
    {"builtins", "iter", iterate},
    {"builtins", "next", next_item},
    {"builtins", "repr", repr},
    {"builtins", "format", format},
    {"builtins", "hash", hash},
    {"builtins", "id", identity},
    {"builtins", "input", input},
    {"builtins", "open", open_file},
    {"builtins", "dir", directory},
    {"builtins", "locals", introspect},
    {"builtins", "eval", introspect},
    {"builtins", "exec", introspect},
};

}  // namespace

std::span<const BuiltinRow> builtin_functions() { return kBuiltinFunctions; }

// ---- what others call too

ValuePtr get_attribute_or_null(Executor& ex, const ValuePtr& object, PyObject* name) {
  try {
    return object->get_attribute(ex, name);
  } catch (const PythonRaise& raised) {
    if (!matches_exception(raised, PyExc_AttributeError)) throw;
    return nullptr;
  }
}

namespace {
// The order that a set shows its items in is its own; an equal one has another.
bool shows_a_set(PyObject* object) {
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object) > 1;
  if (PyDict_CheckExact(object)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);)
      if (shows_a_set(key) || shows_a_set(value)) return true;
    return false;
  }
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (shows_a_set(PySequence_Fast_GET_ITEM(object, i))) return true;
  return false;
}

// The part of an instance of a subclass that its text is that of; null: the text names the class, or is another's.
ValuePtr shown_part(const UserObjectValue& object, bool repr) {
  static constexpr PyTypeObject* kTypes[] = {&PyUnicode_Type, &PyLong_Type,  &PyFloat_Type, &PyComplex_Type,
                                             &PyBytes_Type,   &PyTuple_Type, &PyList_Type,  &PyDict_Type};
  const PyTypeObject *type = object.type(), *base = builtin_base(object.type());
  const bool is_base_s = repr ? type->tp_repr == base->tp_repr : type->tp_str == base->tp_str;
  return is_base_s && std::ranges::find(kTypes, base) != std::end(kTypes) ? object.storage() : nullptr;
}

// What a list, tuple or dict shows of its items; within itself, that it is one (Py_ReprEnter).
ValuePtr text_of_container(Executor& ex, const ValuePtr& container) {
  static thread_local std::vector<const SymbolicValue*> shown;
  if (std::ranges::find(shown, container.get()) != shown.end()) {
    const PyTypeObject* type = container->type();
    return ex.constant(PyRef::borrow(interned(type == &PyList_Type    ? "[...]"
                                              : type == &PyTuple_Type ? "(...)"
                                                                      : "{...}")));
  }
  shown.push_back(container.get());
  absl::Cleanup leave = [] { shown.pop_back(); };
  return polyfill(ex, PythonSide::kStandardPolyfills, "container_repr")->call(ex, positional({container}));
}

}  // namespace

ValuePtr to_string(Executor& ex, const ValuePtr& value, bool repr) {
  check_stack();
  if (!repr && dynamic_cast<TextValue*>(value.get())) return value;
  const char* name = repr ? "__repr__" : "__str__";
  if (const ValuePtr method = method_of_enum(ex, value, name))
    return checked_text(ex, method->call(ex, {}), name);
  if (is_changing(value)) {
    PyRef function = PyRef::borrow(library_object("builtins", repr ? "repr" : "str"));
    if (ValuePtr text = text_made_later(ex, std::move(function), {value})) return text;
  }
  if (auto* object = dynamic_cast<UserObjectValue*>(value.get())) {
    ValuePtr method = repr ? nullptr : object->special(ex, "__str__", true);
    // object_str calls __repr__, str's own does not.
    if (!method && (repr || value->type()->tp_str == PyBaseObject_Type.tp_str)) {
      method = object->special(ex, "__repr__", true);
      name = "__repr__";
    }
    if (method) return checked_text(ex, method->call(ex, {}), name);
    if (const ValuePtr part = shown_part(*object, repr)) return to_string(ex, part, repr);
    const auto* type = reinterpret_cast<PyTypeObject*>(library_object("types", "SimpleNamespace"));
    if (value->type()->tp_repr == type->tp_repr)
      return polyfill(ex, PythonSide::kStandardPolyfills, "namespace_repr")->call(ex, positional({value}));
    break_graph("CD0215", "text of " + value->describe());
  }
  PyRef object = value->materialize(ex);
  // Enum's own texts ask nothing of the program.
  if (!object && dynamic_cast<EnumMemberValue*>(value.get())) object = PyRef::borrow(value->real_object());
  // A class that captured code has made is named as the program's.
  if (!object && value->type()->tp_repr == PyType_Type.tp_repr) object = PyRef::borrow(value->real_object());
  if (!object && PyExceptionClass_Check(reinterpret_cast<PyObject*>(value->type())))
    return call_method(ex, value, repr ? "__repr__" : "__str__");
  // What holds instances of the program's shows them as their classes say.
  if (!object &&
      (value->type() == &PyList_Type || value->type() == &PyTuple_Type || value->type() == &PyDict_Type))
    return text_of_container(ex, value);
  if (!object || shows_a_set(object.get())) break_graph("CD0215", "text of " + value->describe());
  refuse_long_number(nullptr, object.get());
  refuse_limited_text(object.get());
  return ex.constant(checked_user(ex, repr ? PyObject_Repr(object.get()) : PyObject_Str(object.get())));
}

}  // namespace cdynamo::symbolic
