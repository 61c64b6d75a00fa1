#include "symbolic/numpy/complex_array.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/complex_access.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

ComplexArray* complex_of(const ValuePtr& value) { return dynamic_cast<ComplexArray*>(value.get()); }

bool is_complex_type(PyObject* object) {
  return object == reinterpret_cast<PyObject*>(&PyComplex_Type) ||
         object == library_object("numpy", "complex64") || object == library_object("numpy", "complex128");
}

bool is_complex_descr(PyObject* object) {
  if (!PyObject_TypeCheck(object, numpy_access::api()->descr_type)) return false;
  const auto* descr = reinterpret_cast<numpy_access::Descr*>(object);
  return descr->kind == 'c' && (descr->type == 'F' || descr->type == 'D');  // not long double's
}

bool is_complex_number(PyObject* object) {
  return PyComplex_Check(object) || is_complex_type(reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

ValuePtr apply_rule(Executor& ex, const ValuePtr& rule, const CallArgs& args) {
  return result_of_rule(ex, rule, args, "an operation on complex arrays");
}

ValuePtr wrap_rule(Executor& ex, PyObject* function) { return ex.wrap(function, constant_source(function)); }

ValuePtr find_rule(Executor& ex, PythonSide table, PyObject* key) {
  PyObject* function = PyDict_GetItemWithError(python_side(table), key);
  if (!function && PyErr_Occurred()) PyErr_Clear();  // of what has no hash
  return function ? wrap_rule(ex, function) : nullptr;
}

}  // namespace

bool is_complex_dtype_object(PyObject* object) { return is_complex_descr(object); }

bool is_complex_operand(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (complex_of(value)) return true;
  if (PyObject* object = constant_object(value))
    return is_complex_number(object) || is_complex_type(object) || is_complex_descr(object);
  if (PyObject* object = value->real_object()) return is_complex_type(object);
  if (value->type() != &PyList_Type && value->type() != &PyTuple_Type) return false;
  const auto items = sequence_items(ex, value);
  return items &&
         std::ranges::any_of(*items, [&](const ValuePtr& item) { return is_complex_operand(ex, item); });
}

bool any_complex(Executor& ex, const CallArgs& args) {
  return std::ranges::any_of(args.positional,
                             [&](const ValuePtr& value) { return is_complex_operand(ex, value); }) ||
         std::ranges::any_of(args.keywords, [&](const Keyword& keyword) {
           return is_complex_operand(ex, keyword.value) ||
                  (PyUnicode_CompareWithASCIIString(keyword.name.get(), "dtype") == 0 &&
                   is_complex_dtype(keyword.value));
         });
}

bool is_complex_dtype(const ValuePtr& value) {
  PyObject* object = value->real_object();
  if (!object || (!PyUnicode_Check(object) && !is_complex_type(object) && !is_complex_descr(object)))
    return false;
  const PyRef made = PyRef::steal(PyObject_CallOneArg(library_object("numpy", "dtype"), object));
  PyErr_Clear();
  return made && is_complex_descr(made.get());
}

ValuePtr try_complex_rule(Executor& ex, PyObject* function, const CallArgs& args) {
  const ValuePtr rule = find_rule(ex, PythonSide::kComplexArrayRules, function);
  return rule ? apply_rule(ex, rule, args) : nullptr;
}

ValuePtr complex_polyfill(Executor& ex, const char* name, std::vector<ValuePtr> args) {
  return apply_rule(ex, polyfill(ex, PythonSide::kComplexArrayPolyfills, name), positional(std::move(args)));
}

ValuePtr wrap_complex_array(Executor& ex, PyObject* object, const SourcePtr& source) {
  PyRef pairs = real_view(object);
  if (!pairs) return nullptr;
  guard_exact_type(ex, object, source);
  auto value = std::dynamic_pointer_cast<NumpyValue>(
      ex.wrap(pairs.get(), derived_source(SourceKind::kRealView, source)));
  return value ? std::make_shared<ComplexArray>(std::move(value), false, source) : nullptr;
}

PyTypeObject* ComplexArray::type() const {
  if (!is_scalar_) return numpy_access::api()->array_type;
  const bool is_double = pairs_->array_type().dtype == graph::DType::kF64;
  return reinterpret_cast<PyTypeObject*>(library_object("numpy", is_double ? "complex128" : "complex64"));
}

RecipePtr ComplexArray::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  PyObject* made_of_pairs = python_side(is_scalar_ ? PythonSide::kComplexScalar : PythonSide::kComplexArray);
  return first_recipe(recipe_, call_recipe(made_of_pairs, {pairs_->recipe(ex)}));
}

// ---- attributes

namespace {

class ComplexArrayMethod final : public BoundMethod {
 public:
  ComplexArrayMethod(ValuePtr self, PyRef name, ValuePtr rule)
      : BoundMethod(std::move(self), std::move(name)), rule_(std::move(rule)) {}
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    const CallArgs all = with_self(args);
    if (ValuePtr result = apply_rule(ex, rule_, all)) return result;
    return call_function_of_the_name(ex, all);
  }

 private:
  // z.sum(...) is numpy.sum(z, ...).
  ValuePtr call_function_of_the_name(Executor& ex, const CallArgs& args) {
    PyObject* function = library_object("numpy", PyUnicode_AsUTF8(name().get()));
    if (!function) break_graph("CD0500", PyUnicode_AsUTF8(name().get()));
    return wrap_rule(ex, function)->call(ex, args);
  }

  ValuePtr rule_;
};

}  // namespace

// Sizes and strides of a complex array, in its own elements, by its pairs'.
static graph::TensorType complex_layout(graph::TensorType type) {
  type.sizes.pop_back();
  type.strides.pop_back();
  for (graph::Sym& stride : type.strides) stride = floordiv(stride, graph::Sym(int64_t{2}));
  return type;
}

ValuePtr ComplexArray::get_attribute(Executor& ex, PyObject* name) {
  const std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__class__") return wrap_rule(ex, reinterpret_cast<PyObject*>(type()));
  if (text == "flags" && !is_scalar_)
    return make_array_flags(shared_from_this(), complex_layout(pairs_->array_type()));
  if (const ValuePtr property = find_rule(ex, PythonSide::kComplexArrayProperties, name))
    return apply_rule(ex, property, positional({shared_from_this()}));
  if (const ValuePtr rule = find_rule(ex, PythonSide::kComplexArrayMethods, name))
    return std::make_shared<ComplexArrayMethod>(shared_from_this(), PyRef::borrow(name), rule);
  PyObject* attribute = _PyType_Lookup(type(), name);
  if (attribute &&
      (Py_IS_TYPE(attribute, &PyMethodDescr_Type) || Py_IS_TYPE(attribute, &PyWrapperDescr_Type)))
    return make_unknown_method(shared_from_this(), name, nullptr);
  if (!attribute)
    raise_error(ex, PyExc_AttributeError,
                std::string("'") + type()->tp_name + "' object has no attribute '" + std::string(text) + "'");
  break_graph("CD0503", std::string(text) + " of " + describe());
}

void ComplexArray::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (!value) break_graph("CD0503", "deletion of an attribute");
  complex_polyfill(ex, "setattribute", {shared_from_this(), ex.constant(PyRef::borrow(name)), value});
}

// ---- items

ValuePtr ComplexArray::get_item(Executor& ex, const ValuePtr& key) {
  return complex_polyfill(ex, "getitem", {shared_from_this(), key});
}

void ComplexArray::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (!value || is_scalar_) break_graph("CD0503", "item assignment");
  complex_polyfill(ex, "setitem", {shared_from_this(), key, value});
}

ValuePtr ComplexArray::length(Executor& ex) {
  if (pairs_->rank() == 1) break_graph("CD0403", "len() of a 0-dim array");
  return pairs_->length(ex);
}

std::optional<std::vector<ValuePtr>> ComplexArray::unpack(Executor& ex) {
  if (pairs_->rank() == 1) break_graph("CD0403", "iteration over a 0-dim array");
  const int64_t count = ex.graph().sym->specialize(pairs_->array_type().sizes[0], "iteration over an array");
  std::vector<ValuePtr> items;
  for (int64_t i = 0; i < count; ++i) items.push_back(get_item(ex, ex.constant_int(i)));
  return items;
}

ValuePtr ComplexArray::iterate(Executor& ex) {
  if (pairs_->rank() == 1) break_graph("CD0403", "iteration over a 0-dim array");
  return make_array_iterator(shared_from_this(), ex.graph().sym->specialize(pairs_->array_type().sizes[0],
                                                                            "iteration over an array"));
}

// ---- operators

static bool is_no_scalar(const ValuePtr& value) {
  const auto* real = dynamic_cast<NumpyValue*>(value.get());
  const ComplexArray* complex = complex_of(value);
  return (real && !real->is_scalar()) || (complex && !complex->is_scalar());
}

ValuePtr complex_array_operator(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  const int plain = plain_number_operation(nb_op);
  const char* function = ufunc_of_operator(plain);
  if (!function || (plain == kNbMatrixMultiply && !is_no_scalar(left) && !is_no_scalar(right)))
    break_graph("CD0403", "an operator of complex arrays");
  const ValuePtr result = call_numpy_function(ex, function, {left, right});
  const bool in_place = nb_op != plain && is_no_scalar(left);
  if (in_place && plain == kNbMatrixMultiply) break_graph("CD0500", "@=");
  return in_place ? complex_polyfill(ex, "write", {left, result}) : result;
}

ValuePtr ComplexArray::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  const bool is_operand = number_argument(other) || dynamic_cast<NumpyValue*>(other.get()) ||
                          is_numpy_scalar_constant(other) || complex_of(other) ||
                          (constant_object(other) && is_complex_number(constant_object(other)));
  if (!is_operand) break_graph("CD0401", "an operator of " + describe() + " and " + other->describe());
  const ValuePtr self = shared_from_this();
  return reflected ? complex_array_operator(ex, nb_op, other, self)
                   : complex_array_operator(ex, nb_op, self, other);
}

ValuePtr ComplexArray::compare(Executor& ex, int py_op, const ValuePtr& other) {
  static constexpr const char* kFunctions[] = {"less",      "less_equal", "equal",
                                               "not_equal", "greater",    "greater_equal"};
  const bool is_operand = number_argument(other) || dynamic_cast<NumpyValue*>(other.get()) ||
                          is_complex_operand(ex, other) || is_numpy_scalar_constant(other);
  if (!is_operand) break_graph("CD0401", "a comparison of " + describe() + " and " + other->describe());
  return call_numpy_function(ex, kFunctions[py_op], {shared_from_this(), other});
}

ValuePtr ComplexArray::unary(Executor& ex, Op op) {
  if (op == Op::UNARY_NEGATIVE) return call_numpy_function(ex, "negative", {shared_from_this()});
  if (op == Op::UNARY_POSITIVE) return call_numpy_function(ex, "positive", {shared_from_this()});
  return SymbolicValue::unary(ex, op);
}

}  // namespace cdynamo::symbolic
