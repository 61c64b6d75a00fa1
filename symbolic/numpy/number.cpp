#include "symbolic/numpy/number.h"

#include <algorithm>

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::DType;
using graph::Sym;
using graph::Value;

namespace {

// An operand whose value is known when the call begins. Python's own numbers have no dtype: NumPy takes the other's.
struct Operand {
  ValuePtr number;
  std::optional<DType> dtype;
  bool is_float = false;
};

std::optional<Operand> known_operand(Executor& ex, const ValuePtr& value) {
  if (auto* number = dynamic_cast<NumpyNumberValue*>(value.get()))
    return Operand{number->number(), number->dtype(), runtime::is_float(number->dtype())};
  if (dynamic_cast<SymIntValue*>(value.get())) return Operand{value, std::nullopt};
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get()))
    return real->is_from_data() ? std::nullopt : std::optional(Operand{value, std::nullopt, true});
  PyObject* object = constant_object(value);
  if (!object) return std::nullopt;
  if (PyLong_CheckExact(object)) return Operand{value, std::nullopt};
  if (PyFloat_CheckExact(object)) return Operand{value, std::nullopt, true};
  DType dtype;
  if (!is_numpy_integer(object, &dtype) && !(is_numpy_real(object, &dtype) && dtype == DType::kF64))
    return std::nullopt;
  return Operand{ex.constant(checked(PyObject_CallMethod(object, "item", nullptr))), dtype,
                 runtime::is_float(dtype)};
}

bool holds(Executor& ex, const ValuePtr& number, int py_op, int64_t bound) {
  return is_true(ex, compare_operation(ex, py_op, number, ex.constant_int(bound)));
}

bool is_exact_as_float(Executor& ex, const Operand& operand) {
  constexpr int64_t kExact = int64_t{1} << 53;
  return operand.is_float ||
         (holds(ex, operand.number, Py_LE, kExact) && holds(ex, operand.number, Py_GE, -kExact));
}

// Whether Python's operator gives what NumPy's gives of int64 and float64, and raises no error.
bool agrees(Executor& ex, int op, const Operand& left, const Operand& right) {
  const bool any_float = left.is_float || right.is_float;
  switch (op) {
    case kNbAdd:
    case kNbSubtract:
    case kNbMultiply: return true;
    case kNbTrueDivide:
      return is_exact_as_float(ex, left) && is_exact_as_float(ex, right) &&
             !holds(ex, right.number, Py_EQ, 0);
    case kNbFloorDivide:
    case kNbRemainder: return !any_float && !holds(ex, right.number, Py_EQ, 0);
    case kNbPower: return !any_float && holds(ex, right.number, Py_GE, 0);
    case kNbLshift:
    case kNbRshift:
      return !any_float && holds(ex, right.number, Py_GE, 0) && holds(ex, right.number, Py_LT, 63);
    case kNbAnd:
    case kNbOr:
    case kNbXor: return !any_float;
    default: return false;
  }
}

bool fits(Executor& ex, const ValuePtr& number, DType dtype) {
  if (number->type() != &PyLong_Type || !as_sym(number)) return false;
  if (dtype == DType::kI64) return true;
  const bool is_unsigned = runtime::is_unsigned(dtype);
  if (dtype == DType::kU64) return holds(ex, number, Py_GE, 0);
  const int bits = 8 * runtime::bytes(dtype) - !is_unsigned;
  return holds(ex, number, Py_LT, int64_t{1} << bits) &&
         holds(ex, number, Py_GE, is_unsigned ? 0 : -(int64_t{1} << bits));
}

// The dtype in which NumPy computes with both, where it is one of theirs; Python's numbers take it too, if they fit.
std::optional<DType> common_dtype(Executor& ex, const Operand& a, const Operand& b) {
  if (a.dtype && b.dtype) return *a.dtype == *b.dtype ? a.dtype : std::nullopt;
  const Operand &strong = a.dtype ? a : b, &weak = a.dtype ? b : a;
  if (strong.is_float || weak.is_float) return strong.dtype;
  return fits(ex, weak.number, *strong.dtype) ? strong.dtype : std::nullopt;
}

bool gives_float64(const Operand& operand) {
  return !operand.dtype || *operand.dtype == DType::kF64 || *operand.dtype == DType::kI64 ||
         *operand.dtype == DType::kI32 || *operand.dtype == DType::kU64 || *operand.dtype == DType::kU32;
}

// The result where it is known too; null: the graph computes it.
ValuePtr known_result(Executor& ex, int op, const ValuePtr& left, const ValuePtr& right) {
  const std::optional<Operand> a = known_operand(ex, left), b = known_operand(ex, right);
  if (!a || !b || !agrees(ex, op, *a, *b)) return nullptr;
  const auto number = [&] { return binary_operation(ex, op, a->number, b->number); };
  if (a->is_float || b->is_float || op == kNbTrueDivide) {
    if (!gives_float64(*a) || !gives_float64(*b)) return nullptr;
    const ValuePtr real = number();
    return real->type() == &PyFloat_Type ? make_numpy_number(ex, real, DType::kF64) : nullptr;
  }
  const std::optional<DType> dtype = common_dtype(ex, *a, *b);
  if (!dtype) return nullptr;
  const ValuePtr integer = number();
  return fits(ex, integer, *dtype) ? make_numpy_number(ex, integer, *dtype) : nullptr;
}

PyTypeObject* scalar_type(DType dtype) {
  const PyRef descr = numpy_dtype_object(dtype);
  return reinterpret_cast<numpy_access::Descr*>(descr.get())->scalar_type;
}

ValuePtr numpy_bool(Executor& ex, bool value) {
  return ex.constant(PyRef::borrow(library_object("numpy", value ? "True_" : "False_")));
}

NumpyNumberValue& number_of(const ValuePtr& self) { return static_cast<NumpyNumberValue&>(*self); }

ValuePtr python_number(Executor&, const ValuePtr& self, const CallArgs& args) {
  return args.positional.empty() && args.keywords.empty() ? number_of(self).number() : nullptr;
}
template <PyTypeObject* kType>
ValuePtr converted(Executor& ex, const ValuePtr& self, const CallArgs&) {
  PyObject* type = reinterpret_cast<PyObject*>(kType);
  return ex.wrap(type, constant_source(type))->call(ex, positional({number_of(self).number()}));
}

ValuePtr absolute(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return holds(ex, number_of(self).number(), Py_LT, 0) ? self->unary(ex, Op::UNARY_NEGATIVE) : self;
}

ValuePtr rounded(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  if (ValuePtr result = rounded_to_digits(ex, self, args)) return result;
  PyObject* round = library_object("builtins", "round");
  return ex.wrap(round, constant_source(round))->call(ex, positional({number_of(self).number()}));
}

constexpr BuiltinMethodRow kNumberMethods[] = {
    {"__abs__", absolute},
    {"__round__", rounded},
    {"item", python_number},
    {"tolist", python_number},
    {"__int__", converted<&PyLong_Type>},
    {"__float__", converted<&PyFloat_Type>},
    {"__bool__", converted<&PyBool_Type>},
};
constexpr BuiltinMethodRow kIndexMethod[] = {{"__index__", python_number}};

}  // namespace

ValuePtr make_numpy_number(Executor& ex, const ValuePtr& number, DType dtype) {
  PyObject* constant = constant_object(number);
  if (!constant) return std::make_shared<NumpyNumberValue>(number, dtype);
  return ex.constant(
      checked_user(ex, PyObject_CallOneArg(reinterpret_cast<PyObject*>(scalar_type(dtype)), constant)));
}

Value* graph_value_of_number(Executor& ex, const ValuePtr& value) {
  auto* number = dynamic_cast<NumpyNumberValue*>(value.get());
  if (!number) return nullptr;
  const auto sym = as_sym(number->number());
  return sym ? append_call1(ex, "core.full", {std::vector<Sym>{}, *sym, number->dtype()})
             : graph_number(ex, number->number());
}

PyTypeObject* NumpyNumberValue::type() const { return scalar_type(dtype_); }

ValuePtr NumpyNumberValue::as_index(Executor&) { return runtime::is_float(dtype_) ? nullptr : number_; }

// As a value of the graph.
ValuePtr NumpyNumberValue::as_scalar(Executor& ex) {
  if (!scalar_)
    scalar_ = numpy_call(ex, "call_function", PyRef::borrow(library_object("operator", "pos")),
                         positional({shared_from_this()}), [&] {
                           return make_numpy_result(ex, graph_value_of_number(ex, shared_from_this()));
                         });
  return scalar_;
}

ValuePtr NumpyNumberValue::get_attribute(Executor& ex, PyObject* name) {
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kNumberMethods)) return method;
  if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0) return ex.constant(numpy_dtype_object(dtype_));
  if (!runtime::is_float(dtype_))
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kIndexMethod)) return method;
  return as_scalar(ex)->get_attribute(ex, name);
}

ValuePtr NumpyNumberValue::unary(Executor& ex, Op op) {
  if (dtype_ == DType::kF64 && op != Op::UNARY_INVERT)
    return make_numpy_number(ex, number_->unary(ex, op), dtype_);
  const ValuePtr result = runtime::is_float(dtype_) ? nullptr : number_->unary(ex, op);
  return result && fits(ex, result, dtype_) ? make_numpy_number(ex, result, dtype_)
                                            : as_scalar(ex)->unary(ex, op);
}

ValuePtr NumpyNumberValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (dynamic_cast<ArrayValue*>(other.get())) return nullptr;  // its own operators take scalars
  const ValuePtr self = shared_from_this();
  const int op = plain_number_operation(nb_op);
  if (ValuePtr known = known_result(ex, op, reflected ? other : self, reflected ? self : other)) return known;
  return as_scalar(ex)->binary(ex, op, other, reflected);
}

ValuePtr NumpyNumberValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (dynamic_cast<ArrayValue*>(other.get())) return nullptr;
  PyObject* constant = constant_object(other);
  if (constant == Py_None || (constant && PyUnicode_CheckExact(constant))) {
    if (py_op != Py_EQ && py_op != Py_NE) return nullptr;
    const PyRef any = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type())));
    return ex.constant(checked_user(ex, PyObject_RichCompare(any.get(), constant, py_op)));
  }
  if (const std::optional<Operand> operand = known_operand(ex, other)) {
    const ValuePtr result = compare_operation(ex, py_op, number_, operand->number);
    if (PyObject* known = constant_object(result)) return numpy_bool(ex, known == Py_True);
  }
  return as_scalar(ex)->compare(ex, py_op, other);
}

PyRef NumpyNumberValue::materialize(Executor& ex) {
  const PyRef number = number_->materialize(ex);
  if (!number) return {};
  return checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type()), number.get()));
}

RecipePtr NumpyNumberValue::recipe(Executor& ex) {
  if (!recipe_)
    recipe_ = source ? source_recipe(source)
                     : call_recipe(reinterpret_cast<PyObject*>(type()), {number_->recipe(ex)});
  return recipe_;
}

}  // namespace cdynamo::symbolic
