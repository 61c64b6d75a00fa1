// numpy.ndarray and NumPy's scalars: attributes, items, operators.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/library.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/numpy/number.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/tensor_indexing.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Framework;
using graph::Sym;
using graph::Value;

// ---- values

PyTypeObject* NumpyValue::type() const {
  if (!is_scalar_) return numpy_access::api()->array_type;
  PyRef dtype = numpy_dtype_object(array_type().dtype);
  return reinterpret_cast<numpy_access::Descr*>(dtype.get())->scalar_type;
}

ValuePtr numpy_array_value(Executor& ex, Value* value) {
  auto [it, inserted] = tensor_capture(ex).objects.try_emplace(value);
  if (inserted) it->second = std::make_shared<NumpyValue>(value, false);
  return it->second;
}

ValuePtr make_numpy_result(Executor& ex, Value* value) {
  if (value->type.rank() > 0) return numpy_array_value(ex, value);
  auto [it, inserted] = tensor_capture(ex).objects.try_emplace(value);
  if (inserted) it->second = std::make_shared<NumpyValue>(value, true);
  return it->second;
}

RecipePtr NumpyValue::recipe(Executor& ex) {
  RecipePtr made = ArrayValue::recipe(ex);
  if (is_scalar_ || source || !is_read_only_view(value())) return made;
  if (!read_only_) read_only_ = call_recipe(python_side(PythonSide::kReadOnly), {made});
  return read_only_;
}

// ---- attributes

ValuePtr NumpyValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  PyObject* attribute = _PyType_Lookup(type(), name);
  if (attribute) {  // what this NumPy has: ndarray.ptp is gone
    if (ValuePtr property = numpy_property(ex, *this, text)) return property;
    if (ValuePtr method = numpy_method(ex, shared_from_this(), text)) return method;
  }
  if (attribute &&
      (Py_IS_TYPE(attribute, &PyMethodDescr_Type) || Py_IS_TYPE(attribute, &PyWrapperDescr_Type)))
    return make_unknown_method(shared_from_this(), name, nullptr);
  if (!attribute)
    raise_error(
        ex, PyExc_AttributeError,
        absl::StrCat("'", type()->tp_name, "' object has no attribute '", PyUnicode_AsUTF8(name), "'"));
  break_graph("CD0503", std::string(text) + " of " + describe());
}

void NumpyValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (value && PyUnicode_CompareWithASCIIString(name, "flat") == 0 && !is_scalar_)
    return get_attribute(ex, name)->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), value);
  break_graph("CD0503", std::string("assignment to ") + PyUnicode_AsUTF8(name));
}

// ---- items

namespace {

bool has_ellipsis(Executor& ex, const ValuePtr& key) {
  const std::vector<ValuePtr> keys =
      key->type() == &PyTuple_Type ? items_of(ex, key) : std::vector<ValuePtr>{key};
  return std::ranges::any_of(keys, [](const ValuePtr& item) { return constant_object(item) == Py_Ellipsis; });
}

}  // namespace

bool NumpyValue::is_known(Executor& ex) const {
  return known_ && !tensor_capture(ex).written_at.contains(graph::view_history(value()).counter);
}

std::optional<bool> NumpyValue::truth(Executor& ex) { return known_truth(ex, *this); }

ValuePtr NumpyValue::known_number(Executor& ex) const {
  if (!is_known(ex)) return nullptr;
  PyRef number = PyRef::steal(PyObject_CallMethod(known_.get(), "item", nullptr));
  if (!number) return PyErr_Clear(), nullptr;  // of several elements
  return ex.constant(std::move(number));
}

// The item of an array of constants that nothing has written to; null: it is not known.
ValuePtr NumpyValue::known_item(Executor& ex, const ValuePtr& key, PyRef* part) const {
  if (!is_known(ex)) return nullptr;
  const std::optional<PyRef> index = key->as_constant();
  if (!index || !(PyLong_CheckExact(index->get()) || PyTuple_CheckExact(index->get()))) return nullptr;
  PyRef item = PyRef::steal(PyObject_GetItem(known_.get(), index->get()));
  PyErr_Clear();
  if (item && numpy_access::is_scalar(item.get())) return ex.constant(std::move(item));
  *part = std::move(item);
  return nullptr;
}

ValuePtr NumpyValue::get_item(Executor& ex, const ValuePtr& key) {
  PyRef part;
  if (ValuePtr known = known_item(ex, key, &part)) return known;
  CallArgs args{.positional = {shared_from_this(), key}, .keywords = {}};
  const ValuePtr item = numpy_call(
      ex, "call_function", PyRef::borrow(library_object("operator", "getitem")), args, [&]() -> ValuePtr {
        // Of a scalar, which nothing writes to, a copy is viewed.
        Value* viewed = is_scalar_ ? append_call1(ex, "clone", {value()}) : value();
        Selection selection = select_items(ex, viewed, key, Framework::kNumpy);
        Value* result = read_selection(ex, selection);
        // x[2, 3] is a scalar: a copy, which later writes to x do not reach; so is x[()]. x[...] is a new array on
        // the same memory.
        if (result->type.rank() == 0 && !has_ellipsis(ex, key))
          return make_numpy_result(ex, append_call1(ex, "clone", {result}));
        return numpy_array_value(ex, result == viewed ? append_call1(ex, "alias", {result}) : result);
      });
  if (auto* array = dynamic_cast<NumpyValue*>(item.get()); array && part)
    array->note_content(std::move(part));
  return item;
}

// Whether no integer of `from` is out of range for `to`; true where either has no integers.
static bool holds_every_integer_of(graph::DType to, graph::DType from) {
  const runtime::DTypeInfo &wide = runtime::info(to), &narrow = runtime::info(from);
  if (wide.category != runtime::Category::kInteger || narrow.category != runtime::Category::kInteger)
    return true;
  if (wide.is_signed == narrow.is_signed) return wide.bytes >= narrow.bytes;
  return wide.is_signed && wide.bytes > narrow.bytes;
}

void NumpyValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& given) {
  if (!given || is_scalar_) break_graph("CD0503", "item assignment");
  // A list becomes an array of the array's dtype: of floats and int64 what numpy.asarray makes of it says the same.
  const bool is_list = sequence_items(ex, given) &&
                       (runtime::is_float(array_type().dtype) || array_type().dtype == graph::DType::kI64);
  const ValuePtr source_value = is_tensor(given) ? array_of_tensor(ex, given)
                                : is_list        ? call_numpy_function(ex, "asarray", {given})
                                                 : given;
  CallArgs args{.positional = {shared_from_this(), key, source_value}, .keywords = {}};
  numpy_call(
      ex, "call_function", PyRef::borrow(library_object("operator", "setitem")), args, [&]() -> ValuePtr {
        note_write(ex, value());
        Selection selection = select_items(ex, value(), key, Framework::kNumpy);
        ValuePtr source = source_value;
        if (Value* held = numpy_graph_value(ex, source_value); held && !graph_value(source_value))
          source = make_numpy_result(ex, held);
        const Value* held = graph_value(source);
        if (is_list && held && selection.indices.empty() && held->type.rank() > selection.view->type.rank())
          break_graph("CD0503", "a list of more dims as an element");
        if (held && held->type.rank() > 0 && selection.view->type.rank() == 0 && selection.indices.empty() &&
            !has_ellipsis(ex, key))
          break_graph("CD0503", "an array as one element");
        // NumPy makes a Python int of it first, which raises for NaN and what is out of range.
        const auto* scalar = dynamic_cast<const NumpyValue*>(source.get());
        if (scalar && scalar->is_scalar() && held && runtime::is_float(held->type.dtype) &&
            selection.indices.empty() && !runtime::is_float(array_type().dtype) &&
            array_type().dtype != graph::DType::kBool)
          break_graph("CD0503", "a float as an element of integers");
        if (scalar && scalar->is_scalar() && held && selection.indices.empty() &&
            !holds_every_integer_of(array_type().dtype, held->type.dtype))
          break_graph("CD0503", "an integer as an element of smaller ones");
        write_selection(ex, selection, source, Framework::kNumpy);
        return nullptr;
      });
}

ValuePtr NumpyValue::length(Executor& ex) {
  if (rank() == 0) break_graph("CD0403", "len() of a 0-dim array");
  return make_int(ex, array_type().sizes[0]);
}

std::optional<std::vector<ValuePtr>> NumpyValue::unpack(Executor& ex) {
  if (rank() == 0) break_graph("CD0403", "iteration over a 0-dim array");
  int64_t count = ex.graph().sym->specialize(array_type().sizes[0], "iteration over an array");
  std::vector<ValuePtr> items;
  for (int64_t i = 0; i < count; ++i) items.push_back(get_item(ex, ex.constant_int(i)));
  return items;
}

namespace {

// Reads each item when it is asked for: scalars are copies, and the loop may write to the array.
class ArrayIterator final : public IteratorValue {
 public:
  ArrayIterator(ValuePtr array, int64_t count) : array_(std::move(array)), count_(count) {}
  PyTypeObject* type() const override { return &PySeqIter_Type; }
  ValuePtr next(Executor& ex) override {
    return position_ < count_ ? array_->get_item(ex, ex.constant_int(position_++)) : nullptr;
  }
  RecipePtr make_recipe_now(Executor& ex) override {
    return advanced_recipe(call_recipe(library_object("builtins", "iter"), {array_->recipe(ex)}), position_);
  }

 private:
  ValuePtr array_;
  int64_t count_, position_ = 0;
};

}  // namespace

ValuePtr make_array_iterator(ValuePtr array, int64_t count) {
  return std::make_shared<ArrayIterator>(std::move(array), count);
}

ValuePtr NumpyValue::iterate(Executor& ex) {
  if (rank() == 0) break_graph("CD0403", "iteration over a 0-dim array");
  return make_array_iterator(shared_from_this(),
                             ex.graph().sym->specialize(array_type().sizes[0], "iteration over an array"));
}

// ---- operators

namespace {

struct OperatorRow {
  int op, in_place;
  const char *path, *function, *in_place_function;
};
constexpr OperatorRow kOperators[] = {
    {kNbAdd, kNbInplaceAdd, "numpy.add", "add", "iadd"},
    {kNbSubtract, kNbInplaceSubtract, "numpy.subtract", "sub", "isub"},
    {kNbMultiply, kNbInplaceMultiply, "numpy.multiply", "mul", "imul"},
    {kNbTrueDivide, kNbInplaceTrueDivide, "numpy.divide", "truediv", "itruediv"},
    {kNbFloorDivide, kNbInplaceFloorDivide, "numpy.floor_divide", "floordiv", "ifloordiv"},
    {kNbRemainder, kNbInplaceRemainder, "numpy.remainder", "mod", "imod"},
    {kNbPower, kNbInplacePower, "numpy.power", "pow", "ipow"},
    {kNbMatrixMultiply, kNbInplaceMatrixMultiply, "numpy.matmul", "matmul", "imatmul"},
    {kNbAnd, kNbInplaceAnd, "numpy.bitwise_and", "and_", "iand"},
    {kNbOr, kNbInplaceOr, "numpy.bitwise_or", "or_", "ior"},
    {kNbXor, kNbInplaceXor, "numpy.bitwise_xor", "xor", "ixor"},
    {kNbLshift, kNbInplaceLshift, "numpy.left_shift", "lshift", "ilshift"},
    {kNbRshift, kNbInplaceRshift, "numpy.right_shift", "rshift", "irshift"},
};

constexpr std::string_view kModule = "numpy.";

bool is_operand(const ValuePtr& value) {
  return number_argument(value) || graph_value(value) || is_numpy_scalar_constant(value) ||
         is_upper_uint64(value);
}

bool is_two(const ValuePtr& value) {
  PyObject* object = constant_object(value);
  return object && PyLong_CheckExact(object) && PyLong_AsLong(object) == 2;
}

PyRef operator_function(const char* name) { return PyRef::borrow(library_object("operator", name)); }

}  // namespace

const char* ufunc_of_operator(int nb_op) {
  for (const OperatorRow& row : kOperators)
    if (row.op == nb_op) return row.path + kModule.size();
  return nullptr;
}

// tensor + array: NumPy's reflected operator, as the tensor's gives up. array + tensor is an error, and a scalar leaves it to the
// tensor.
ValuePtr NumpyValue::beside_tensor(Executor& ex, int nb_op, const ValuePtr& tensor, bool reflected) {
  if (is_scalar_) return nullptr;
  if (!reflected) break_graph("CD0409", "an operator of an array and a tensor");
  return wrapped_for_tensor(ex, binary(ex, nb_op, array_of_tensor(ex, tensor), true));
}

// array + [1, 2]: an array is made of the list. Of scalars some repeat it.
ValuePtr NumpyValue::made_operand(Executor& ex, const ValuePtr& other) const {
  return is_scalar_ || !sequence_items(ex, other) ? other : call_numpy_function(ex, "asarray", {other});
}

ValuePtr NumpyValue::binary(Executor& ex, int nb_op, const ValuePtr& given, bool reflected) {
  if (is_tensor(given)) return beside_tensor(ex, nb_op, given, reflected);
  const ValuePtr other = made_operand(ex, given);
  // Python's complex numbers take what is a float for one.
  if (reflected && is_scalar_ &&
      PyComplex_CheckExact(constant_object(other) ? constant_object(other) : Py_None) &&
      array_type().dtype == graph::DType::kF64)
    break_graph("CD0401", "a complex number of Python's that depends on data");
  if (is_complex_operand(ex, other))
    return reflected ? complex_array_operator(ex, nb_op, other, shared_from_this())
                     : complex_array_operator(ex, nb_op, shared_from_this(), other);
  for (const OperatorRow& row : kOperators) {
    if (nb_op != row.op && nb_op != row.in_place) continue;
    if (!is_operand(other))
      break_graph("CD0401", std::string(row.function) + " of " + describe() + " and " + other->describe());
    ValuePtr self = shared_from_this();
    // A scalar has no in-place operators; `scalar += array` is a new array, and so is `a += b` where a number
    // is on the left.
    bool in_place = nb_op == row.in_place && !reflected && !is_scalar_;
    std::vector<ValuePtr> operands = reflected ? std::vector{other, self} : std::vector{self, other};
    const char* function = in_place ? row.in_place_function : row.function;
    if (in_place && nb_op == kNbInplaceMatrixMultiply) break_graph("CD0500", "@=");
    // An array's x**2 is numpy.square(x), which makes int8 of bool, where numpy.power and scalars make int64.
    if (row.op == kNbPower && array_type().dtype == graph::DType::kBool && !is_scalar_ && !reflected &&
        is_two(other)) {
      if (in_place) break_graph("CD0500", "**= of bool");
      return numpy_call(ex, "call_function", operator_function(function), positional(operands),
                        [&] { return call_numpy_named(ex, "numpy.square", {self}); });
    }
    try {
      return numpy_call(ex, "call_function", operator_function(function), positional(operands),
                        [&] { return call_numpy_named(ex, row.path, operands, in_place); });
    } catch (const GraphBreak& broken) {
      if (in_place || broken.record.id != "CD0404") throw;
    }
    // A case that the operator of the table does not cover, as int ** int.
    return recorded_numpy_library(ex, "call_function", operator_function(function),
                                  library_object("numpy", row.path + kModule.size()), positional(operands));
  }
  return nullptr;
}

ValuePtr NumpyValue::compare(Executor& ex, int py_op, const ValuePtr& given) {
  struct Row {
    const char *path, *function;
  };
  static constexpr Row kRows[] = {{"numpy.less", "lt"},    {"numpy.less_equal", "le"},
                                  {"numpy.equal", "eq"},   {"numpy.not_equal", "ne"},
                                  {"numpy.greater", "gt"}, {"numpy.greater_equal", "ge"}};  // Py_LT ... Py_GE
  if (is_tensor(given) && is_scalar_) return nullptr;
  if (is_tensor(given)) break_graph("CD0409", "a comparison of an array and a tensor");
  const ValuePtr other = made_operand(ex, given);
  if (is_complex_operand(ex, other))
    return call_numpy_function(ex, kRows[py_op].path + kModule.size(), {shared_from_this(), other});
  if (!is_operand(other))
    break_graph("CD0401",
                std::string(kRows[py_op].function) + " of " + describe() + " and " + other->describe());
  std::vector<ValuePtr> operands = {shared_from_this(), other};
  try {
    return numpy_call(ex, "call_function", operator_function(kRows[py_op].function), positional(operands),
                      [&] { return call_numpy_named(ex, kRows[py_op].path, operands); });
  } catch (const GraphBreak& broken) {
    if (broken.record.id != "CD0404") throw;
  }
  return recorded_numpy_library(ex, "call_function", operator_function(kRows[py_op].function),
                                library_object("numpy", kRows[py_op].path + kModule.size()),
                                positional(operands));
}

namespace {

bool is_number(const ValuePtr& value) {
  PyTypeObject* type = value->type();
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type;
}

[[noreturn]] void refuse_beside_scalar(const ValuePtr& scalar, const ValuePtr& other) {
  break_graph("CD0401", "an operator of " + scalar->describe() + " and " + other->describe());
}

// Its own operators take scalars.
bool has_numpys_operators(const ValuePtr& value) {
  return dynamic_cast<ArrayValue*>(value.get()) || dynamic_cast<ComplexArray*>(value.get());
}

// A NumPy integer beside an int that changes from call to call, which stays one. Null: they are others.
ValuePtr beside_symbol(Executor& ex, const ValuePtr& scalar, const ValuePtr& other) {
  graph::DType dtype;
  if (!ex.state().request.is_native) return nullptr;
  if (!dynamic_cast<SymIntValue*>(other.get()) || !is_numpy_integer(constant_object(scalar), &dtype))
    return nullptr;
  const ValuePtr number = scalar->as_index(ex);
  return as_sym(number) ? std::make_shared<NumpyNumberValue>(number, dtype) : nullptr;
}
}  // namespace

ValuePtr numpy_scalar_binary(Executor& ex, const ValuePtr& scalar, int nb_op, const ValuePtr& other,
                             bool reflected) {
  if (has_numpys_operators(other)) return nullptr;
  if (!is_number(other)) refuse_beside_scalar(scalar, other);
  if (const ValuePtr number = beside_symbol(ex, scalar, other))
    return number->binary(ex, nb_op, other, reflected);
  if (Value* held = graph_value(other); held) {
    use_framework(ex, Framework::kNumpy);
    return std::make_shared<NumpyValue>(held, /*is_scalar=*/true)
        ->binary(ex, plain_number_operation(nb_op), scalar, !reflected);
  }
  PyRef number = other->materialize(ex);
  if (!number) refuse_beside_scalar(scalar, other);
  PyObject* object = constant_object(scalar);
  return wrap_fresh(ex, checked_user(ex, reflected ? apply_number_operation(nb_op, number.get(), object)
                                                   : apply_number_operation(nb_op, object, number.get())));
}

ValuePtr numpy_scalar_compare(Executor& ex, const ValuePtr& scalar, int py_op, const ValuePtr& other) {
  if (has_numpys_operators(other)) return nullptr;
  if (const ValuePtr number = beside_symbol(ex, scalar, other)) return number->compare(ex, py_op, other);
  PyRef number = is_number(other) ? other->materialize(ex) : PyRef();
  if (!number) refuse_beside_scalar(scalar, other);
  return wrap_fresh(ex, checked_user(ex, PyObject_RichCompare(constant_object(scalar), number.get(), py_op)));
}

ValuePtr NumpyValue::unary(Executor& ex, Op op) {
  struct Row {
    Op op;
    const char *path, *function;
  };
  static constexpr Row kRows[] = {{Op::UNARY_NEGATIVE, "numpy.negative", "neg"},
                                  {Op::UNARY_INVERT, "numpy.invert", "inv"},
                                  {Op::UNARY_POSITIVE, "numpy.positive", "pos"}};
  std::vector<ValuePtr> operands = {shared_from_this()};
  for (const Row& row : kRows)
    if (row.op == op)
      return numpy_call(ex, "call_function", operator_function(row.function), positional(operands),
                        [&] { return call_numpy_named(ex, row.path, operands); });
  return SymbolicValue::unary(ex, op);
}

}  // namespace cdynamo::symbolic
