#include "symbolic/values/computed_number.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Of the numbers of math, what takes long for large ones.
bool takes_long(const char* name) {
  for (const char* known : {"factorial", "comb", "perm"})
    if (std::string_view(name) == known) return true;
  return false;
}

struct Number {
  Computation::Operand operand;
  PyRef now;  // in the call that is being captured
  int steps = 0;
  std::vector<FloatRoot> roots;
};

bool reads_data(Executor& ex, const ValuePtr& value) {
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get())) return real->is_from_data();
  auto* integer = dynamic_cast<SymIntValue*>(value.get());
  return integer && ex.graph().sym->reads_data(integer->sym());
}

std::optional<Number> number_of(Executor& ex, const ValuePtr& value) {
  Number number;
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get())) {
    if (!real->origin() || real->is_from_data()) return std::nullopt;
    number.operand.source = real->origin();
    number.now = checked(PyFloat_FromDouble(real->now()));
    number.steps = real->origin()->computation ? real->origin()->computation->steps : 0;
    number.roots = real->roots();
    return number;
  }
  if (auto* integer = dynamic_cast<SymIntValue*>(value.get())) {
    const graph::SymContext& context = *ex.graph().sym;
    if (context.reads_data(integer->sym())) return std::nullopt;
    number.operand.integer = integer->sym();
    number.now = checked(PyLong_FromLongLong(context.hint(integer->sym())));
    number.roots.push_back({.source = nullptr, .object = {}, .integer = integer->sym()});
    return number;
  }
  PyObject* constant = constant_object(value);
  if (!constant || !(PyFloat_CheckExact(constant) || PyLong_CheckExact(constant))) return std::nullopt;
  number.operand.constant = number.now = PyRef::borrow(constant);
  return number;
}

// Whatever the numbers are.
bool never_raises(PyObject* function) {
  for (const char* name : {"add", "sub", "mul", "neg", "pos", "abs"})
    if (function == library_object("operator", name)) return true;
  return function == library_object("builtins", "abs");
}

struct Computed {
  SourcePtr source;
  std::vector<PyRef> now;  // the operands
  std::vector<FloatRoot> roots;
};

std::optional<Computed> computed(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands) {
  if (operands.empty() || operands.size() > Computation::kMostOperands) return std::nullopt;
  auto computation = std::make_shared<Computation>();
  computation->function = PyRef::borrow(function);
  Computed result;
  bool changes = false, has_float = false;
  for (const ValuePtr& value : operands) {
    std::optional<Number> number = number_of(ex, value);
    if (!number) return std::nullopt;
    changes |= !number->operand.constant;
    has_float |= PyFloat_CheckExact(number->now.get());
    computation->steps += number->steps;
    computation->operands.push_back(std::move(number->operand));
    result.now.push_back(std::move(number->now));
    result.roots.insert(result.roots.end(), number->roots.begin(), number->roots.end());
  }
  // Ints have as many digits as it takes.
  const bool grows =
      !has_float && (function == operator_function(kNbPower) || function == operator_function(kNbLshift));
  if (!changes || grows || computation->steps > Computation::kMostSteps) return std::nullopt;
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::kComputed;
  source->computation = std::move(computation);
  result.source = std::move(source);
  return result;
}

}  // namespace

bool is_numeric_function(PyObject* callable) {
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyFloat_Type))
    return true;
  if (!PyCFunction_CheckExact(callable)) return false;
  if (callable == library_object("builtins", "abs") || callable == library_object("builtins", "round"))
    return true;
  const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  return function->m_module && PyUnicode_Check(function->m_module) &&
         PyUnicode_CompareWithASCIIString(function->m_module, "math") == 0 &&
         !takes_long(function->m_ml->ml_name);
}

PyObject* operator_function(int nb_op) {
  return library_object("operator", number_method(plain_number_operation(nb_op), false));
}

PyObject* comparison_function(int py_op) {
  static constexpr const char* kNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};  // by Py_LT ...
  return library_object("operator", kNames[py_op]);
}

SourcePtr computed_source(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands) {
  std::optional<Computed> made = computed(ex, function, operands);
  return made ? std::move(made->source) : nullptr;
}

ValuePtr computed_number(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands) {
  if (std::ranges::any_of(operands, [&](const ValuePtr& operand) { return reads_data(ex, operand); }))
    return number_when_run(ex, function, operands);
  std::optional<Computed> made = computed(ex, function, operands);
  if (!made) return nullptr;
  PyObject* now[Computation::kMostOperands];
  for (size_t i = 0; i < made->now.size(); ++i) now[i] = made->now[i].get();
  PyRef result = made->source->computation->call(now);
  if (!result) return nullptr;
  if (PyBool_Check(result.get())) {
    add_guard(ex, GuardKind::kIdentity, made->source, result.get());
    return ex.constant(std::move(result));
  }
  // That it is a number holds even where nobody reads it: `1 / x`.
  if (PyFloat_CheckExact(result.get()) && !never_raises(function))
    add_guard(ex, GuardKind::kDynamicFloat, made->source);
  if (PyFloat_CheckExact(result.get()))
    return std::make_shared<DynamicFloatValue>(ex, made->source, PyFloat_AS_DOUBLE(result.get()),
                                               std::move(made->roots));
  if (!PyLong_CheckExact(result.get())) return nullptr;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(result.get(), &overflow);
  if (overflow || number > kLargestSymbol || number < -kLargestSymbol) return nullptr;
  const graph::Sym symbol = ex.size_symbol(made->source, -1, number, true);
  if (symbol.is_constant()) return nullptr;
  add_guard(ex, GuardKind::kDynamicInt, made->source, nullptr, symbol.node()->symbol);
  return make_int(ex, symbol);
}

}  // namespace cdynamo::symbolic
