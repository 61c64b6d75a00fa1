#include "symbolic/values/dynamic_float.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {
ValuePtr derived(graph::Value* value, double now, std::vector<FloatRoot> roots, SourcePtr origin,
                 bool from_data) {
  value->type.weak = true;
  return std::make_shared<DynamicFloatValue>(value, now, std::move(roots), std::move(origin), from_data);
}

graph::Value* float_input(Executor& ex, const SourcePtr& source) {
  add_guard(ex, GuardKind::kDynamicFloat, source);
  graph::TensorType type;
  type.dtype = graph::DType::kF64;
  type.weak = true;
  return ex.add_input(InputKind::kFloat, source, type);
}
}  // namespace

DynamicFloatValue::DynamicFloatValue(Executor& ex, SourcePtr origin, double now, std::vector<FloatRoot> roots)
    : make_input_([this, &ex] {
        ex.state().computed_inputs.emplace(origin_, now_);
        return float_input(ex, origin_);
      }),
      now_(now),
      roots_(std::move(roots)),
      origin_(std::move(origin)) {}

ValuePtr make_dynamic_float(Executor& ex, double now, const SourcePtr& source) {
  std::vector<FloatRoot> roots{{source, checked(PyFloat_FromDouble(now))}};
  auto value = std::make_shared<DynamicFloatValue>(float_input(ex, source), now, std::move(roots), source);
  value->source = source;
  return value;
}

namespace {
// The nodes of float(integer), within a recorded call.
std::shared_ptr<DynamicFloatValue> real_value(Executor& ex, const ValuePtr& self, const graph::Sym& integer) {
  const graph::SymContext& context = *ex.graph().sym;
  graph::Value* number =
      ex.builder().call1("core.full", {std::vector<graph::Sym>{}, integer, graph::DType::kI64});
  const bool from_data = context.reads_data(integer);
  const double now = from_data ? 0 : static_cast<double>(context.hint(integer));
  return std::static_pointer_cast<DynamicFloatValue>(
      derived(ex.builder().call1("core.cast", {number, graph::DType::kF64}), now,
              {{.source = nullptr, .object = {}, .integer = integer}},
              computed_source(ex, reinterpret_cast<PyObject*>(&PyFloat_Type), {self}), from_data));
}
}  // namespace

ValuePtr float_of_int(Executor& ex, const ValuePtr& self, const graph::Sym& integer) {
  return recorded_operator(ex, "truediv", {self, ex.constant_int(1)},
                           [&] { return real_value(ex, self, integer); });
}

ValuePtr quotient_by_int(Executor& ex, double dividend, const ValuePtr& self, const graph::Sym& divisor) {
  const ValuePtr number = ex.constant(checked(PyFloat_FromDouble(dividend)));
  return recorded_operator(ex, "truediv", {number, self}, [&] {
    const auto real = real_value(ex, self, divisor);
    graph::Builder& b = ex.builder();
    graph::Value* full = b.call1("core.full", {std::vector<graph::Sym>{}, dividend, graph::DType::kF64});
    return derived(b.call1("div", {full, real->value()}), dividend / real->now(), real->roots(),
                   computed_source(ex, operator_function(kNbTrueDivide), {number, self}),
                   real->is_from_data());
  });
}

void add_roots(std::vector<FloatRoot>& roots, const std::vector<FloatRoot>& more) {
  for (const FloatRoot& root : more)
    if (std::ranges::none_of(roots, [&](const FloatRoot& known) { return known.is_same(root); }))
      roots.push_back(root);
}

double DynamicFloatValue::specialize(Executor& ex) {
  if (from_data_) break_graph("CD0406", "a float that was read from a tensor");
  for (const FloatRoot& root : roots_) {
    if (root.integer ? is_random(ex, *root.integer) : is_random(root.source))
      break_graph("CD0225", "a float that is used as a constant");
    if (root.integer)
      ex.graph().sym->specialize(*root.integer, "int in a float that is used as a constant");
    else
      add_guard(ex, GuardKind::kEquals, root.source, root.object.get());
  }
  return now_;
}

PyRef DynamicFloatValue::materialize(Executor& ex) { return checked(PyFloat_FromDouble(specialize(ex))); }

namespace {
// float.is_integer: what is left of the float without its whole part is 0, and NaN of an infinity.
ValuePtr is_integer(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "float.is_integer", args);
  require_count(ex, "float.is_integer", args, 0, 0);
  graph::Value* number = dynamic_cast<DynamicFloatValue&>(*self).value();
  return recorded_operator(ex, "eq", {self, self}, [&] {
    graph::Builder& b = ex.builder();
    return make_data_bool(ex, b.call1("eq", {b.call1("sub", {number, b.call1("floor", {number})}), 0.0}));
  });
}
constexpr BuiltinMethodRow kMethodsOfData[] = {{"is_integer", is_integer}};
}  // namespace

ValuePtr DynamicFloatValue::get_attribute(Executor& ex, PyObject* name) {
  ValuePtr method = from_data_ ? find_builtin_method(shared_from_this(), name, kMethodsOfData) : nullptr;
  if (method) return method;
  PyRef number = materialize(ex);
  return ex.constant(checked_user(ex, PyObject_GetAttr(number.get(), name)));
}

ValuePtr DynamicFloatValue::unary(Executor& ex, Op op) {
  if (op == Op::UNARY_POSITIVE) return shared_from_this();
  if (op != Op::UNARY_NEGATIVE) return SymbolicValue::unary(ex, op);
  return recorded_operator(ex, "neg", {shared_from_this()}, [&] {
    return derived(ex.builder().call1("neg", {value()}), -now_, roots_,
                   computed_source(ex, library_object("operator", "neg"), {shared_from_this()}), from_data_);
  });
}

namespace {
// Only what IEEE arithmetic says alone: Python raises on division by zero, and its ** and % have rules of
// their own. `divisor`: what is divided by is a number that is not zero.
const char* node_name(int nb_op, bool divisor) {
  switch (plain_number_operation(nb_op)) {
    case kNbAdd: return "add";
    case kNbSubtract: return "sub";
    case kNbMultiply: return "mul";
    case kNbTrueDivide: return divisor ? "div" : nullptr;
    default: return nullptr;
  }
}
}  // namespace

namespace {
// An int of the graph as the other operand, a float; null: it is none, or Python has to do it.
ValuePtr real_of(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  auto* integer = dynamic_cast<SymIntValue*>(other.get());
  const bool divides = plain_number_operation(nb_op) == kNbTrueDivide && !reflected;
  if (!integer || !node_name(nb_op, divides)) return nullptr;
  if (divides && ex.graph().sym->reads_data(integer->sym())) return nullptr;
  if (divides && !ex.graph().sym->guard(graph::Relation::kNe, integer->sym(), graph::Sym(0), "a divisor"))
    return nullptr;
  return float_of_int(ex, other, integer->sym());
}
}  // namespace

ValuePtr DynamicFloatValue::binary(Executor& ex, int nb_op, const ValuePtr& given, bool reflected) {
  const ValuePtr real = real_of(ex, nb_op, given, reflected);
  const ValuePtr& other = real ? real : given;
  PyObject* constant = constant_object(other);
  auto* dynamic = dynamic_cast<DynamicFloatValue*>(other.get());
  bool number = constant && (PyFloat_CheckExact(constant) || PyLong_Check(constant));
  if (constant && PyComplex_CheckExact(constant)) {  // complex numbers are constants
    const PyRef mine = materialize(ex);
    return ex.constant(checked_user(
        ex, reflected ? apply_number_operation(plain_number_operation(nb_op), constant, mine.get())
                      : apply_number_operation(plain_number_operation(nb_op), mine.get(), constant)));
  }
  if (!dynamic && !number && !is_integer_value(other)) return nullptr;
  const bool is_divisor = !reflected && (real || (number && PyObject_IsTrue(constant) == 1));
  const char* name = node_name(nb_op, is_divisor);
  if (!name || (!dynamic && !number)) {
    const ValuePtr self = shared_from_this();
    if (ValuePtr result = computed_number(ex, operator_function(nb_op),
                                          reflected ? std::vector{other, self} : std::vector{self, other}))
      return result;
    PyRef mine = materialize(ex), theirs = other->materialize(ex);
    PyObject* left = reflected ? theirs.get() : mine.get();
    PyObject* right = reflected ? mine.get() : theirs.get();
    return ex.constant(checked_user(ex, apply_number_operation(nb_op, left, right)));
  }
  double theirs = dynamic ? dynamic->now_ : PyFloat_AsDouble(constant);
  if (theirs == -1.0 && PyErr_Occurred()) raise_current_error(ex);
  graph::Arg mine_arg = value();
  graph::Arg their_arg = dynamic ? graph::Arg(dynamic->value()) : graph::Arg(theirs);
  PyRef left = checked(PyFloat_FromDouble(reflected ? theirs : now_));
  PyRef right = checked(PyFloat_FromDouble(reflected ? now_ : theirs));
  PyRef now = checked(apply_number_operation(plain_number_operation(nb_op), left.get(), right.get()));
  std::vector<FloatRoot> roots = roots_;
  if (dynamic) add_roots(roots, dynamic->roots_);
  const ValuePtr self = shared_from_this();
  const char* function = std::string_view(name) == "div" ? "truediv" : name;
  const auto operands = reflected ? std::vector{other, self} : std::vector{self, other};
  return recorded_operator(ex, function, operands, [&] {
    graph::Builder& b = ex.builder();
    graph::Value* result = nullptr;
    // The first operand of a node is a tensor: number - x is x * -1 + number.
    if (reflected && !dynamic && plain_number_operation(nb_op) == kNbSubtract)
      result = b.call1("add", {b.call1("neg", {value()}), their_arg});
    else
      result =
          reflected && dynamic ? b.call1(name, {their_arg, mine_arg}) : b.call1(name, {mine_arg, their_arg});
    return derived(result, PyFloat_AS_DOUBLE(now.get()), std::move(roots),
                   computed_source(ex, operator_function(nb_op), operands),
                   from_data_ || (dynamic && dynamic->from_data_));
  });
}

namespace {

// What a float of the graph is compared with: a float, or an integer that is one. Nothing for other values.
std::optional<graph::Arg> comparable(const ValuePtr& other) {
  if (auto* dynamic = dynamic_cast<DynamicFloatValue*>(other.get())) return dynamic->value();
  PyObject* constant = constant_object(other);
  if (!constant) return std::nullopt;
  if (PyFloat_CheckExact(constant)) return PyFloat_AS_DOUBLE(constant);
  if (!PyLong_CheckExact(constant)) return std::nullopt;
  constexpr int64_t kExact = int64_t{1} << 53;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(constant, &overflow);
  if (overflow || number > kExact || number < -kExact) return std::nullopt;
  return static_cast<double>(number);
}

constexpr const char* kComparisonNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};  // by Py_LT ...

}  // namespace

ValuePtr DynamicFloatValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  PyObject* constant = constant_object(other);
  auto* dynamic = dynamic_cast<DynamicFloatValue*>(other.get());
  bool number = constant && (PyFloat_Check(constant) || PyLong_Check(constant));
  if (!number && !is_integer_value(other) && !dynamic) return nullptr;
  const std::optional<graph::Arg> theirs_in_graph =
      from_data_ || (dynamic && dynamic->from_data_) ? comparable(other) : std::nullopt;
  if (theirs_in_graph)
    return recorded_operator(ex, kComparisonNames[py_op], {shared_from_this(), other}, [&] {
      return make_data_bool(ex, ex.builder().call1(kComparisonNames[py_op], {value(), *theirs_in_graph}));
    });
  if (ValuePtr result = computed_number(ex, comparison_function(py_op), {shared_from_this(), other}))
    return result;
  PyRef mine = materialize(ex), theirs = other->materialize(ex);
  return ex.constant(checked_user(ex, PyObject_RichCompare(mine.get(), theirs.get(), py_op)));
}

namespace {
graph::Value* held(Executor& ex, const ValuePtr& number) {
  if (auto* real = dynamic_cast<DynamicFloatValue*>(number.get())) return real->value();
  const double known = PyFloat_AS_DOUBLE(constant_object(number));
  return ex.builder().call1("core.full", {std::vector<graph::Sym>{}, known, graph::DType::kF64});
}
}  // namespace

ValuePtr absolute_float(Executor& ex, const ValuePtr& number) {
  return recorded_operator(ex, "abs", {number}, [&] {
    return derived(ex.builder().call1("abs", {held(ex, number)}), 0, {}, nullptr, true);
  });
}

ValuePtr extreme_float(Executor& ex, const ValuePtr& first, const ValuePtr& later, bool greater) {
  const char* comparison = greater ? "gt" : "lt";
  return recorded_operator(ex, comparison, {later, first}, [&] {
    graph::Builder& b = ex.builder();
    graph::Value *x = held(ex, first), *y = held(ex, later);
    return derived(b.call1("where", {b.call1(comparison, {y, x}), y, x}), 0, {}, nullptr, true);
  });
}

std::optional<bool> DynamicFloatValue::truth(Executor& ex) {
  const ValuePtr is_true = compare(ex, Py_NE, ex.constant(checked(PyFloat_FromDouble(0.0))));
  return is_true->truth(ex);
}

RecipePtr DynamicFloatValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  const graph::Value* held = value();
  if (make_input_ && (recipe_ = input_recipe(ex, held))) return recipe_;
  recipe_ = make_recipe(RecipeKind::kPythonScalar);
  recipe_->index = static_cast<int>(ex.graph().outputs.size());
  ex.graph().outputs.push_back(value_);
  return recipe_;
}

}  // namespace cdynamo::symbolic
