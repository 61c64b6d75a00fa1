#include "symbolic/values/constant.h"

#include "absl/algorithm/container.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/shown.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/decimal_context.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/enum_member.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/range.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/text.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool is_plain_constant(PyObject* o) {
  return o == Py_None || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) ||
         PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || o == Py_Ellipsis ||
         o == Py_NotImplemented;
}

// Tuples, frozensets, slices, ranges and classes get their own kinds.
ValuePtr make_constant(Executor& ex, PyRef object) {
  PyObject* o = object.get();
  if (PyTuple_CheckExact(o)) {
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      items.push_back(make_constant(ex, PyRef::borrow(PyTuple_GET_ITEM(o, i))));
    return new_constant_tuple(std::move(object), std::move(items));
  }
  if (PyFrozenSet_CheckExact(o)) {
    PyRef list = checked(PySequence_List(o));
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
      items.push_back(make_constant(ex, PyRef::borrow(PyList_GET_ITEM(list.get(), i))));
    return new_set(ex, items, &PyFrozenSet_Type);
  }
  if (PySlice_Check(o)) return slice_from_object(ex, o);
  if (PyRange_Check(o))
    if (ValuePtr range = range_from_object(ex, o)) return range;
  bool has_own_kind = PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) || PyMethod_Check(o);
  if (has_own_kind) return ex.wrap(o, constant_source(o));
  meet_decimal(ex, Py_TYPE(o));
  if (is_enum_class(Py_TYPE(o))) return std::make_shared<EnumMemberValue>(std::move(object));
  return std::make_shared<ConstantValue>(std::move(object));
}

ValuePtr wrap_constant(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!is_plain_constant(object)) return nullptr;
  bool known = source->kind == SourceKind::kConstant;
  if (object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented) {
    if (!known) add_guard(ex, GuardKind::kIdentity, source, object);
    return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
  }
  if (!known && PyLong_CheckExact(object)) {
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) {
      graph::Sym sym = ex.size_symbol(source, -1, number);
      if (!sym.is_constant()) {
        add_guard(ex, GuardKind::kDynamicInt, source, nullptr, sym.node()->symbol);
        return std::make_shared<SymIntValue>(sym, source);
      }
    }
  }
  if (!known && PyFloat_CheckExact(object) && ex.is_dynamic(source))
    return make_dynamic_float(ex, PyFloat_AS_DOUBLE(object), source);
  if (!known) add_guard(ex, GuardKind::kEquals, source, object);
  return std::make_shared<ConstantValue>(PyRef::borrow(object), source);
}

// ---- the data model

std::string ConstantValue::describe() const {
  if (!is_plain_constant(object_.get())) {
    PyRef name = PyRef::steal(PyObject_GetAttrString(object_.get(), "__qualname__"));
    if (name && PyUnicode_Check(name.get()))
      return std::string(type()->tp_name) + " " + PyUnicode_AsUTF8(name.get());
    PyErr_Clear();
    return type()->tp_name;
  }
  std::string shown = shown_repr(object_.get());
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  return std::string(type()->tp_name) + " " + shown;
}

// Attributes of C objects are read from the object itself: their getters run no user code.
ValuePtr ConstantValue::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return type_of(ex, shared_from_this());
  if (type() == &PyProperty_Type)
    if (ValuePtr method = method_of_property(ex, object_.get(), name)) return method;
  PyRef attribute = checked_user(ex, PyObject_GetAttr(object_.get(), name));
  if (numpy_access::is_scalar(object_.get()) &&
      (PyDict_CheckExact(attribute.get()) || PyIter_Check(attribute.get())))  // a new one each time
    break_graph("CD0200", "an attribute of " + describe());
  const bool is_bound = PyCFunction_Check(attribute.get()) ||
                        std::string_view(Py_TYPE(attribute.get())->tp_name) == "method-wrapper";
  if (is_plain_constant(object_.get()) || is_bound || is_plain_constant(attribute.get()))
    return ex.constant(std::move(attribute));
  // A method of an enum class; anything else that the object holds for good.
  if (PyMethod_Check(attribute.get()) && PyMethod_GET_SELF(attribute.get()) == object_.get()) {
    PyObject* function = PyMethod_GET_FUNCTION(attribute.get());
    return make_bound_method(ex, ex.wrap(function, constant_source(function)), shared_from_this());
  }
  return ex.wrap(attribute.get(), constant_source(attribute.get()));
}

void ConstantValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (!is_plain_constant(object_.get())) return SymbolicValue::set_attribute(ex, name, value);
  // Numbers, strings and the like have no attribute that can be set, whatever to: the error is Python's.
  const int result = PyObject_SetAttr(object_.get(), name, value ? Py_None : nullptr);
  checked_user(ex, result < 0 ? nullptr : Py_NewRef(Py_None));
  throw graph::InternalError("an attribute of a constant was set");
}

ValuePtr ConstantValue::call(Executor& ex, const CallArgs& args) {
  return call_builtin(ex, object_.get(), args);
}

ValuePtr ConstantValue::as_index(Executor& ex) {
  if (PyLong_Check(object_.get())) return shared_from_this();
  return is_numpy_integer(object_.get()) ? ex.constant(checked(PyNumber_Index(object_.get()))) : nullptr;
}

ValuePtr ConstantValue::get_item(Executor& ex, const ValuePtr& key) {
  if (PyTuple_CheckExact(object_.get()) && is_random_index(ex, key))
    if (ValuePtr number = number_in_table(ex, *unpack(ex), key)) return number;
  PyRef index = key->materialize(ex);
  if (!index) return SymbolicValue::get_item(ex, key);
  PyRef item = checked_user(ex, PyObject_GetItem(object_.get(), index.get()));
  if (tensor_kind(item.get()) != TensorKind::kNumpy) return ex.constant(std::move(item));
  // A NumPy scalar with a new axis: an array of its own each time.
  PyObject* array = library_object("numpy", "array");
  return ex.wrap(array, constant_source(array))
      ->call(ex, positional({shared_from_this()}))
      ->get_item(ex, key);
}

bool ConstantValue::contains(Executor& ex, const ValuePtr& item) {
  auto object = item->as_constant();
  if (!object) return SymbolicValue::contains(ex, item);
  int found = PySequence_Contains(object_.get(), object->get());
  if (found < 0) raise_current_error(ex);
  return found;
}

ValuePtr ConstantValue::length(Executor& ex) {
  Py_ssize_t size = PyObject_Size(object_.get());
  if (size < 0) raise_current_error(ex);
  return ex.constant_int(size);
}

ValuePtr ConstantValue::iterate(Executor& ex) {
  if (auto items = unpack(ex)) return new_constant_iterator(new_tuple(std::move(*items)), shared_from_this());
  if (!type()->tp_iter)
    raise_error(ex, PyExc_TypeError, "'" + std::string(type()->tp_name) + "' object is not iterable");
  break_graph("CD0207", describe());
}

std::optional<bool> ConstantValue::truth(Executor& ex) {
  int result = PyObject_IsTrue(object_.get());
  if (result < 0) raise_current_error(ex);
  return result != 0;
}

ValuePtr ConstantValue::unary(Executor& ex, Op op) {
  PyObject* result = op == Op::UNARY_NEGATIVE   ? PyNumber_Negative(object_.get())
                     : op == Op::UNARY_INVERT   ? PyNumber_Invert(object_.get())
                     : op == Op::UNARY_POSITIVE ? PyNumber_Positive(object_.get())
                                                : nullptr;
  if (!result && !PyErr_Occurred()) return SymbolicValue::unary(ex, op);
  return ex.constant(checked_user(ex, result));
}

namespace {

// What answers every type but its own (and the numbers among themselves) with NotImplemented, by the slots of CPython's
// types; other C types may ask the operand (decimal.Decimal takes any numbers.Rational), and Python alone knows.
bool refuses_strangers(const PyTypeObject* type) {
  const PyTypeObject* kTypes[] = {&PyLong_Type,     &PyFloat_Type,        &PyComplex_Type, &PyBool_Type,
                                  &PyUnicode_Type,  &PyBytes_Type,        &PyRange_Type,   &PySlice_Type,
                                  Py_TYPE(Py_None), Py_TYPE(Py_Ellipsis), &PyCode_Type};
  return absl::c_linear_search(kTypes, type);
}

bool compares_by_identity(const PyTypeObject* type) {
  return !type->tp_richcompare || type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

}  // namespace

// An IntEnum's member: a number that changes takes it for its int, and answers itself.
static bool inherits_from_int(PyTypeObject* type, const char* method) {
  return type != &PyLong_Type && PyType_IsSubtype(type, &PyLong_Type) &&
         _PyType_Lookup(type, interned(method)) == _PyType_Lookup(&PyLong_Type, interned(method));
}

ValuePtr ConstantValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  bool formats =
      !reflected && plain_number_operation(nb_op) == kNbRemainder && PyUnicode_Check(object_.get());
  // PyUnicode_Format: an instance of a subclass of tuple is its items.
  if (const ValuePtr& items = builtin_storage(other); formats && items && items->type() == &PyTuple_Type)
    return binary(ex, nb_op, items, reflected);
  if (formats)
    if (ValuePtr text = text_made_later(ex, PyRef::borrow(library_object("operator", "mod")),
                                        {shared_from_this(), other}))
      return text;
  const bool is_text = PyUnicode_CheckExact(object_.get()) && dynamic_cast<TextValue*>(other.get());
  if (is_text && !reflected && plain_number_operation(nb_op) == kNbAdd) return nullptr;  // it answers itself
  // An enum's member that says in Python what the operator does is asked as itself.
  if (!formats && (method_of_enum(ex, other, number_method(plain_number_operation(nb_op), !reflected))))
    return nullptr;
  auto object = formats ? std::optional(other->materialize(ex)) : other->as_constant();
  if (formats && !*object && PyUnicode_CheckExact(object_.get())) {
    const bool is_tuple = other->type() == &PyTuple_Type;
    const ValuePtr args = is_tuple ? other : new_tuple({other});
    const PyRef count = checked(PyLong_FromSize_t(items_of(ex, args).size()));
    if (ValuePtr text =
            text_of_objects(ex, PythonSide::kPercentParts, object_.get(), count, args, make_dict(ex, {})))
      return text;
  }
  if (formats && !*object) break_graph("CD0215", "% formatting with " + other->describe());
  if (!object && numpy_access::is_scalar(object_.get()))
    return numpy_scalar_binary(ex, shared_from_this(), nb_op, other, reflected);
  if (!object && inherits_from_int(type(), number_method(plain_number_operation(nb_op), reflected)))
    return nullptr;
  const bool formats_bytes = PyBytes_Check(object_.get()) && plain_number_operation(nb_op) == kNbRemainder;
  if (!object && type()->tp_as_number && (!refuses_strangers(type()) || formats_bytes))
    break_graph("CD0209", "operator of " + describe() + " with " + other->describe());
  if (!object) return nullptr;
  PyObject* left = reflected ? object->get() : object_.get();
  PyObject* right = reflected ? object_.get() : object->get();
  return wrap_fresh(ex, checked_user(ex, apply_number_operation(nb_op, left, right)));
}

ValuePtr ConstantValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (method_of_enum(ex, other, kComparisons[kComparisons[py_op].swapped].method)) return nullptr;
  auto object = other->as_constant();
  if (!object && numpy_access::is_scalar(object_.get()))
    return numpy_scalar_compare(ex, shared_from_this(), py_op, other);
  if (!object && inherits_from_int(type(), kComparisons[py_op].method)) return nullptr;
  if (!object && !refuses_strangers(type()) && !compares_by_identity(type()))
    break_graph("CD0209", "comparison of " + describe() + " with " + other->describe());
  if (!object || !type()->tp_richcompare) return nullptr;
  PyRef result = checked_user(ex, type()->tp_richcompare(object_.get(), object->get(), py_op));
  return result.get() == Py_NotImplemented ? nullptr : wrap_fresh(ex, std::move(result));
}

bool ConstantValue::is_same_object(const SymbolicValue& other) const {
  const bool is_unknown_bool = other.type() == &PyBool_Type && !dynamic_cast<const ConstantValue*>(&other);
  if (is_unknown_bool) return other.is_same_object(*this);
  return this == &other || other.real_object() == object_.get();
}

std::optional<std::vector<ValuePtr>> ConstantValue::unpack(Executor& ex) {
  if (!PyUnicode_CheckExact(object_.get()) && !PyBytes_CheckExact(object_.get())) return std::nullopt;
  require_short(static_cast<size_t>(PyObject_Size(object_.get())), *this);
  PyRef list = checked(PySequence_List(object_.get()));
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    items.push_back(ex.constant(PyRef::borrow(PyList_GET_ITEM(list.get(), i))));
  return items;
}

bool is_singleton(PyObject* object) {
  if (PyUnicode_CheckExact(object)) return PyUnicode_CHECK_INTERNED(object) != 0;
  if (!PyLong_CheckExact(object)) return PyBool_Check(object) || object == Py_None || object == Py_Ellipsis;
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(object, &overflow);
  return !overflow && number >= kSmallInts.first && number <= kSmallInts.second;
}

// What came in goes out as the same object, also where an equal one came in when it was compiled.
RecipePtr ConstantValue::recipe(Executor&) {
  if (recipe_) return recipe_;
  const bool came_in = source && source->kind != SourceKind::kConstant;
  const bool is_data = is_plain_constant(object_.get()) || PyCFunction_Check(object_.get());
  const bool by_source = came_in && is_data && !is_singleton(object_.get());
  return recipe_ = by_source ? source_recipe(source) : make_recipe(RecipeKind::kConstant, object_.get());
}

// ---- numbers

namespace {

PyObject* power(PyObject* left, PyObject* right) { return PyNumber_Power(left, right, Py_None); }
PyObject* in_place_power(PyObject* left, PyObject* right) {
  return PyNumber_InPlacePower(left, right, Py_None);
}

struct NumberRow {
  const char* symbol;
  const char* method;
  const char* reflected;
  PyObject* (*apply)(PyObject*, PyObject*);
};

// In the order of NB_* in CPython's opcode.h.
constexpr NumberRow kNumberRows[] = {
    {"+", "__add__", "__radd__", PyNumber_Add},
    {"&", "__and__", "__rand__", PyNumber_And},
    {"//", "__floordiv__", "__rfloordiv__", PyNumber_FloorDivide},
    {"<<", "__lshift__", "__rlshift__", PyNumber_Lshift},
    {"@", "__matmul__", "__rmatmul__", PyNumber_MatrixMultiply},
    {"*", "__mul__", "__rmul__", PyNumber_Multiply},
    {"%", "__mod__", "__rmod__", PyNumber_Remainder},
    {"|", "__or__", "__ror__", PyNumber_Or},
    {"**", "__pow__", "__rpow__", power},
    {">>", "__rshift__", "__rrshift__", PyNumber_Rshift},
    {"-", "__sub__", "__rsub__", PyNumber_Subtract},
    {"/", "__truediv__", "__rtruediv__", PyNumber_TrueDivide},
    {"^", "__xor__", "__rxor__", PyNumber_Xor},
    {"+=", "__iadd__", "__radd__", PyNumber_InPlaceAdd},
    {"&=", "__iand__", "__rand__", PyNumber_InPlaceAnd},
    {"//=", "__ifloordiv__", "__rfloordiv__", PyNumber_InPlaceFloorDivide},
    {"<<=", "__ilshift__", "__rlshift__", PyNumber_InPlaceLshift},
    {"@=", "__imatmul__", "__rmatmul__", PyNumber_InPlaceMatrixMultiply},
    {"*=", "__imul__", "__rmul__", PyNumber_InPlaceMultiply},
    {"%=", "__imod__", "__rmod__", PyNumber_InPlaceRemainder},
    {"|=", "__ior__", "__ror__", PyNumber_InPlaceOr},
    {"**=", "__ipow__", "__rpow__", in_place_power},
    {">>=", "__irshift__", "__rrshift__", PyNumber_InPlaceRshift},
    {"-=", "__isub__", "__rsub__", PyNumber_InPlaceSubtract},
    {"/=", "__itruediv__", "__rtruediv__", PyNumber_InPlaceTrueDivide},
    {"^=", "__ixor__", "__rxor__", PyNumber_InPlaceXor},
};
static_assert(std::size(kNumberRows) == kNbInplaceXor + 1);

}  // namespace

PyObject* apply_number_operation(int nb_op, PyObject* left, PyObject* right) {
  return kNumberRows[nb_op].apply(left, right);
}
const char* number_symbol(int nb_op) { return kNumberRows[nb_op].symbol; }
const char* number_method(int nb_op, bool reflected) {
  return reflected ? kNumberRows[nb_op].reflected : kNumberRows[nb_op].method;
}
int plain_number_operation(int nb_op) { return nb_op >= kNbInplaceAdd ? nb_op - kNbInplaceAdd : nb_op; }

// ---- f-strings

namespace {
PyObject* convert(PyObject* object, int conversion) {
  switch (conversion) {
    case 's': return PyObject_Str(object);
    case 'r': return PyObject_Repr(object);
    case 'a': return PyObject_ASCII(object);
    default: return Py_NewRef(object);
  }
}
}  // namespace

namespace {
// The __format__ of an instance's class, where it is not object's; null: it is.
ValuePtr own_format(Executor& ex, const ValuePtr& value) {
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  if (object) return object->special(ex, "__format__", true);
  if (ValuePtr method = method_of_enum(ex, value, "__format__")) return method;
  // Enum.__format__ is that of str(self).
  return method_of_enum(ex, value, "__str__") ? lookup_special(ex, value, "__format__") : nullptr;
}
}  // namespace

ValuePtr format_value(Executor& ex, const ValuePtr& value, int conversion, const ValuePtr& spec) {
  if (ValuePtr method = conversion ? nullptr : own_format(ex, value)) {
    ValuePtr text = method->call(ex, positional({spec ? spec : ex.constant(PyRef::borrow(interned("")))}));
    if (!PyType_IsSubtype(text->type(), &PyUnicode_Type))
      raise_error(ex, PyExc_TypeError, "__format__ must return a str, not " + type_name(text));
    return text;
  }
  if (is_changing(value) && conversion != 'a') {
    ValuePtr text = conversion ? to_string(ex, value, conversion == 'r') : value;
    if (!spec && dynamic_cast<TextValue*>(text.get())) return text;
    const ValuePtr format = spec ? spec : ex.constant(PyRef::borrow(interned("")));
    PyRef function = PyRef::borrow(library_object("builtins", "format"));
    if (ValuePtr made = text_made_later(ex, std::move(function), {text, format})) return made;
  }
  ValuePtr converted = value;
  PyRef object = materialize(ex, value);
  if (!object && (conversion == 's' || conversion == 'r' || (!conversion && !spec))) {
    // A class's own __str__, __repr__ or __format__ is inlined.
    converted = to_string(ex, value, conversion == 'r');
    object = materialize(ex, converted);
    conversion = 0;
  }
  if (!object) break_graph("CD0215", "f-string with " + value->describe());
  refuse_limited_text(object.get());
  PyRef text = checked_user(ex, convert(object.get(), conversion));
  PyRef format = spec ? string_argument(ex, spec) : PyRef();
  return ex.constant(checked_user(ex, PyObject_Format(text.get(), format.get())));
}

ValuePtr join_strings(Executor& ex, const std::vector<ValuePtr>& parts) {
  PyRef join = checked(PyObject_GetAttrString(interned(""), "join"));
  if (ValuePtr text = text_made_later(ex, std::move(join), {new_tuple(parts)})) return text;
  PyRef list = checked(PyList_New(0));
  for (const ValuePtr& part : parts) {
    PyRef text = string_argument(ex, part);
    if (PyList_Append(list.get(), text.get()) < 0) throw PythonError{};
  }
  PyRef empty = checked(PyUnicode_FromString(""));
  return ex.constant(checked(PyUnicode_Join(empty.get(), list.get())));
}

}  // namespace cdynamo::symbolic
