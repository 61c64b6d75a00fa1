#include "symbolic/values/data_bool.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {
std::shared_ptr<DataBoolValue> derived(graph::Value* value, std::function<ValuePtr()> number) {
  value->type.weak = true;
  return std::make_shared<DataBoolValue>(value, std::move(number));
}
}  // namespace

ValuePtr DataBoolValue::real(Executor& ex) {
  return recorded_operator(ex, "truediv", {shared_from_this(), ex.constant_int(1)}, [&] {
    graph::Value* real = ex.builder().call1("core.cast", {value(), graph::DType::kF64});
    real->type.weak = true;
    return std::make_shared<DynamicFloatValue>(real);
  });
}

ValuePtr DataBoolValue::get_attribute(Executor& ex, PyObject* name) {
  return number()->get_attribute(ex, name);
}

ValuePtr DataBoolValue::unary(Executor& ex, Op op) {
  if (op != Op::UNARY_NOT) return number()->unary(ex, op);
  const ValuePtr self = shared_from_this();
  return recorded_operator(ex, "not_", {self}, [&] {
    return derived(ex.builder().call1("logical_not", {value()}), [&ex, self] {
      auto& positive = dynamic_cast<DataBoolValue&>(*self);
      return binary_operation(ex, kNbSubtract, ex.constant_int(1), positive.number());
    });
  });
}

// `b is True` is known when the graph has run.
bool DataBoolValue::is_same_object(const SymbolicValue& other) const {
  if (this == &other) return true;
  if (other.type() == &PyBool_Type) break_graph("CD0406", describe());
  return false;
}

namespace {
// What a bool that is not known gives with one that is; null: no bool's operation.
ValuePtr with_known(Executor& ex, const ValuePtr& self, int operation, bool known) {
  switch (operation) {
    case kNbAnd: return known ? self : ex.constant(PyRef::borrow(Py_False));
    case kNbOr: return known ? ex.constant(PyRef::borrow(Py_True)) : self;
    case kNbXor: return known ? self->unary(ex, Op::UNARY_NOT) : self;
    default: return nullptr;
  }
}
}  // namespace

// Of two bools &, | and ^ give a bool; everything else is an int's.
ValuePtr DataBoolValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  auto* bool_value = dynamic_cast<DataBoolValue*>(other.get());
  const int operation = plain_number_operation(nb_op);
  const char* name = operation == kNbAnd   ? "bitwise_and"
                     : operation == kNbOr  ? "bitwise_or"
                     : operation == kNbXor ? "bitwise_xor"
                                           : nullptr;
  if (bool_value && name) {
    const ValuePtr self = shared_from_this();
    return recorded_operator(ex, number_method(operation, false), {self, other}, [&] {
      graph::Value* result = ex.builder().call1(name, {value(), bool_value->value()});
      return derived(result, [&ex, self, other, operation] {
        return binary_operation(ex, operation, dynamic_cast<DataBoolValue&>(*self).number(),
                                dynamic_cast<DataBoolValue&>(*other).number());
      });
    });
  }
  if (PyObject* known = constant_object(other); known && PyBool_Check(known))
    if (ValuePtr result = with_known(ex, shared_from_this(), operation, known == Py_True)) return result;
  if (is_array(other)) return nullptr;  // its own operator
  if (!bool_value && !is_integer_value(other) && other->type() != &PyFloat_Type)
    break_graph("CD0406", describe());
  const ValuePtr theirs = bool_value ? bool_value->number() : other;
  return reflected ? binary_operation(ex, nb_op, theirs, number())
                   : binary_operation(ex, nb_op, number(), theirs);
}

ValuePtr DataBoolValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* bool_value = dynamic_cast<DataBoolValue*>(other.get());
  if (!bool_value && !is_integer_value(other) && other->type() != &PyFloat_Type) return nullptr;
  return compare_operation(ex, py_op, number(), bool_value ? bool_value->number() : other);
}

RecipePtr DataBoolValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  recipe_ = make_recipe(RecipeKind::kPythonScalar);
  recipe_->index = static_cast<int>(ex.graph().outputs.size());
  ex.graph().outputs.push_back(value());
  return recipe_;
}

}  // namespace cdynamo::symbolic
