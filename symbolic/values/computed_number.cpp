#include "symbolic/values/computed_number.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
SourcePtr source_of(std::shared_ptr<Computation> computation) {
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::kComputed;
  source->computation = std::move(computation);
  return source;
}

namespace {

// Of the numbers of math, what takes long for large ones.
bool takes_long(const char* name) {
  for (const char* known : {"factorial", "comb", "perm"})
    if (std::string_view(name) == known) return true;
  return false;
}

bool reads_data(Executor& ex, const ValuePtr& value) {
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get())) return real->is_from_data();
  auto* integer = dynamic_cast<SymIntValue*>(value.get());
  return integer && ex.graph().sym->reads_data(integer->sym());
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
    std::optional<KnownNumber> number = known_number(ex, value);
    if (!number) return std::nullopt;
    changes |= !number->operand.constant;
    has_float |= PyFloat_CheckExact(number->now.get());
    computation->steps += number->steps;
    computation->is_random |= number->is_random;
    computation->operands.push_back(std::move(number->operand));
    result.now.push_back(std::move(number->now));
    add_roots(result.roots, number->roots);
  }
  // Ints have as many digits as it takes.
  const bool grows =
      !has_float && (function == operator_function(kNbPower) || function == operator_function(kNbLshift));
  if (!changes || grows || computation->steps > Computation::kMostSteps) return std::nullopt;
  result.source = source_of(std::move(computation));
  return result;
}

// What the computation gives: `result` in this call. Null: no number that has a value.
ValuePtr number_of_source(Executor& ex, const SourcePtr& source, PyRef result, std::vector<FloatRoot> roots) {
  const Computation& computation = *source->computation;
  if (PyBool_Check(result.get())) {
    if (computation.is_random) decide_at_random(ex, 2);
    add_guard(ex, GuardKind::kIdentity, source, result.get());
    return ex.constant(std::move(result));
  }
  // That it is a number holds even where nobody reads it: `1 / x`.
  if (PyFloat_CheckExact(result.get()) && !never_raises(computation.function.get()))
    add_guard(ex, GuardKind::kDynamicFloat, source);
  if (PyFloat_CheckExact(result.get()))
    return std::make_shared<DynamicFloatValue>(ex, source, PyFloat_AS_DOUBLE(result.get()), std::move(roots));
  if (!PyLong_CheckExact(result.get())) return nullptr;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(result.get(), &overflow);
  if (overflow || number > kLargestSymbol || number < -kLargestSymbol) return nullptr;
  const graph::Sym symbol = ex.size_symbol(source, -1, number, true);
  if (symbol.is_constant()) return nullptr;
  if (computation.is_random) note_random(ex, symbol);
  add_guard(ex, GuardKind::kDynamicInt, source, nullptr, symbol.node()->symbol);
  return make_int(ex, symbol);
}

}  // namespace

std::optional<KnownNumber> known_number(Executor& ex, const ValuePtr& value) {
  KnownNumber number;
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get())) {
    if (!real->origin() || real->is_from_data()) return std::nullopt;
    number.operand.source = real->origin();
    number.now = checked(PyFloat_FromDouble(real->now()));
    if (const Computation* made = real->origin()->computation.get()) {
      number.steps = made->steps;
      number.is_random = made->is_random;
    }
    number.roots = real->roots();
    return number;
  }
  if (auto* integer = dynamic_cast<SymIntValue*>(value.get())) {
    const graph::SymContext& context = *ex.graph().sym;
    if (context.reads_data(integer->sym())) return std::nullopt;
    number.operand.integer = integer->sym();
    number.is_random = is_random(ex, integer->sym());
    number.now = checked(PyLong_FromLongLong(context.hint(integer->sym())));
    number.roots.push_back({.source = nullptr, .object = {}, .integer = integer->sym()});
    return number;
  }
  PyObject* constant = constant_object(value);
  if (!constant || !(PyFloat_CheckExact(constant) || PyLong_CheckExact(constant))) return std::nullopt;
  number.operand.constant = number.now = PyRef::borrow(constant);
  return number;
}

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
  return number_of_source(ex, made->source, std::move(result), std::move(made->roots));
}

ValuePtr number_of_process(Executor& ex, PyObject* function) {
  auto computation = std::make_shared<Computation>();
  computation->function = PyRef::borrow(function);
  PyRef now = computation->call(nullptr);
  return now ? number_of_source(ex, source_of(std::move(computation)), std::move(now), {}) : nullptr;
}

bool is_random_index(Executor& ex, const ValuePtr& index) {
  auto* place = dynamic_cast<SymIntValue*>(index.get());
  return place && is_random(ex, place->sym());
}

bool is_within(Executor& ex, const ValuePtr& index, int64_t size) {
  const graph::Sym& place = dynamic_cast<SymIntValue&>(*index).sym();
  graph::SymContext& context = *ex.graph().sym;
  return context.guard(graph::Relation::kLe, graph::Sym(0), place, "an index") &&
         context.guard(graph::Relation::kLt, place, graph::Sym(size), "an index");
}

namespace {
// A tuple of exact ints and floats; null: not all of the values are such constants.
PyRef table_of(const std::vector<ValuePtr>& values) {
  constexpr size_t kMost = 4096;
  if (values.size() > kMost) return {};
  PyRef numbers = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyObject* number = constant_object(values[i]);
    if (!number || !(PyLong_CheckExact(number) || PyFloat_CheckExact(number))) return {};
    PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i), Py_NewRef(number));
  }
  return numbers;
}

struct OfTable {
  SourcePtr source;
  PyRef now;
  std::vector<FloatRoot> roots;
};
// function(table, number, *rest)
std::optional<OfTable> found_in_table(Executor& ex, PyObject* function, const std::vector<ValuePtr>& table,
                                      const ValuePtr& number, std::initializer_list<int64_t> rest = {}) {
  std::optional<KnownNumber> known = known_number(ex, number);
  const PyRef numbers = known && !known->operand.constant ? table_of(table) : PyRef();
  if (!numbers) return std::nullopt;
  auto computation = std::make_shared<Computation>();
  computation->function = PyRef::borrow(function);
  computation->operands.push_back({.source = nullptr, .integer = {}, .constant = numbers});
  computation->operands.push_back(known->operand);
  for (const int64_t more : rest)
    computation->operands.push_back(
        {.source = nullptr, .integer = {}, .constant = checked(PyLong_FromLongLong(more))});
  computation->steps += known->steps;
  computation->is_random = known->is_random;
  if (computation->steps > Computation::kMostSteps) return std::nullopt;
  std::vector<PyObject*> now = {numbers.get(), known->now.get()};
  for (size_t i = now.size(); i < computation->operands.size(); ++i)
    now.push_back(computation->operands[i].constant.get());
  PyRef result = computation->call(now.data());
  if (!result) return std::nullopt;
  return OfTable{source_of(std::move(computation)), std::move(result), std::move(known->roots)};
}
}  // namespace

ValuePtr computed_of_table(Executor& ex, PyObject* function, const std::vector<ValuePtr>& table,
                           const ValuePtr& number) {
  if (!dynamic_cast<SymIntValue*>(number.get())) return nullptr;
  std::optional<OfTable> found = found_in_table(ex, function, table, number);
  return found ? number_of_source(ex, found->source, std::move(found->now), std::move(found->roots))
               : nullptr;
}

ValuePtr place_in_table(Executor& ex, PyObject* function, const std::vector<ValuePtr>& table,
                        const ValuePtr& number, int64_t least, int64_t most) {
  if (least < 0 || least > most || most > std::ssize(table)) return nullptr;
  std::optional<OfTable> found = found_in_table(ex, function, table, number, {least, most});
  if (!found || !PyLong_CheckExact(found->now.get())) return nullptr;
  if (found->source->computation->is_random)
    return random_int(ex, found->source, PyLong_AsLongLong(found->now.get()), least, most);
  return number_of_source(ex, found->source, std::move(found->now), std::move(found->roots));
}

ValuePtr number_in_table(Executor& ex, const std::vector<ValuePtr>& table, const ValuePtr& index) {
  const auto of_one_type = [&](const ValuePtr& value) { return value->type() == table[0]->type(); };
  if (table.empty() || !std::ranges::all_of(table, of_one_type)) return nullptr;
  if (!is_within(ex, index, static_cast<int64_t>(table.size()))) return nullptr;
  return computed_of_table(ex, library_object("operator", "getitem"), table, index);
}

std::optional<bool> table_contains(Executor& ex, const std::vector<ValuePtr>& table, const ValuePtr& number) {
  const ValuePtr found = computed_of_table(ex, library_object("operator", "contains"), table, number);
  return found ? found->truth(ex) : std::nullopt;
}

}  // namespace cdynamo::symbolic
