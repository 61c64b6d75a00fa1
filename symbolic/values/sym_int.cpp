#include "symbolic/values/sym_int.h"

#include <cmath>

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/data_relation.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Relation;
using graph::Sym;

namespace {

graph::SymContext& sym_context(Executor& ex) { return *ex.graph().sym; }

// Values beyond this are left to Python's own integers: expressions are kept in 64 bits.
constexpr int64_t kSafe = int64_t{1} << 53;
bool safe(int64_t value) { return -kSafe <= value && value <= kSafe; }
bool safe(Executor& ex, const Sym& sym) { return safe(sym_context(ex).hint(sym)); }
// Whether a result is computed right in 64 bits at run time too: by the ranges of its symbols, else by a guard.
bool fits(Executor& ex, const Sym& result) {
  constexpr int64_t kLargest = int64_t{1} << 62;
  return sym_context(ex).guard(Relation::kLe, result, Sym(kLargest), "size of an int") &&
         sym_context(ex).guard(Relation::kLe, Sym(-kLargest), result, "size of an int");
}
bool safe_product(Executor& ex, const Sym& a, const Sym& b) {
  int64_t product;
  return !__builtin_mul_overflow(sym_context(ex).hint(a), sym_context(ex).hint(b), &product) && safe(product);
}

std::optional<Sym> symbolic_operation(Executor& ex, int nb_op, const Sym& a, const Sym& b) {
  switch (plain_number_operation(nb_op)) {
    case kNbAdd: return a + b;
    case kNbSubtract: return a - b;
    case kNbMultiply:
      if (!safe_product(ex, a, b)) return std::nullopt;
      return a * b;
    case kNbFloorDivide:
    case kNbRemainder:
      // The sign of the divisor has to be known: zero raises.
      if (!sym_context(ex).guard(Relation::kLt, Sym(0), b, "divisor")) return std::nullopt;
      return plain_number_operation(nb_op) == kNbRemainder ? mod(a, b) : floordiv(a, b);
    case kNbPower: {
      auto exponent = b.maybe_constant();
      if (!exponent || *exponent < 0 || *exponent > 4) return std::nullopt;
      Sym result(1);
      for (int64_t i = 0; i < *exponent; ++i) {
        if (!safe_product(ex, result, a)) return std::nullopt;
        result = result * a;
      }
      return result;
    }
    case kNbLshift: {
      auto shift = b.maybe_constant();
      if (!shift || *shift < 0 || *shift > 40 || !safe_product(ex, a, Sym(int64_t{1} << *shift)))
        return std::nullopt;
      return a * Sym(int64_t{1} << *shift);
    }
    case kNbRshift: {
      auto shift = b.maybe_constant();
      if (!shift || *shift < 0 || *shift > 62) return std::nullopt;
      return floordiv(a, Sym(int64_t{1} << *shift));
    }
    default: return std::nullopt;
  }
}

ValuePtr bit_length(Executor& ex, const ValuePtr& self, const CallArgs&) {
  PyRef number = materialize(ex, self);
  return ex.constant(checked_user(ex, PyObject_CallMethod(number.get(), "bit_length", nullptr)));
}
ValuePtr itself(Executor&, const ValuePtr& self, const CallArgs&) { return self; }
ValuePtr to_index(Executor&, const ValuePtr& self, const CallArgs&) { return self; }

constexpr BuiltinMethodRow kSymIntMethods[] = {
    {"bit_length", bit_length},
    {"conjugate", itself},
    {"__index__", to_index},
    {"__int__", to_index},
};

ValuePtr compared(Executor& ex, Relation relation, const Sym& a, const Sym& b, const char* reason) {
  if (!sym_context(ex).known(relation, a, b) && sym_context(ex).reads_data({relation, a, b, {}}))
    return data_relation(ex, relation, a, b);
  if ((is_random(ex, a) || is_random(ex, b)) && !sym_context(ex).known(relation, a, b))
    decide_at_random(ex, 2);
  return ex.constant_bool(sym_context(ex).guard(relation, a, b, reason));
}

}  // namespace

ValuePtr make_int(Executor& ex, const Sym& sym) {
  if (sym.is_constant()) return ex.constant_int(sym.constant());
  return std::make_shared<SymIntValue>(sym);
}

std::optional<Sym> as_sym(const ValuePtr& value) {
  if (auto* sym = dynamic_cast<SymIntValue*>(value.get())) return sym->sym();
  PyObject* object = constant_object(value);
  if (!object || !PyLong_Check(object)) return std::nullopt;
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow) return std::nullopt;
  return Sym(number);
}

std::optional<Sym> index_sym(Executor& ex, const ValuePtr& value) {
  if (auto sym = as_sym(value)) return sym;
  const ValuePtr index = value->as_index(ex);
  return index ? as_sym(index) : std::nullopt;
}

int64_t SymIntValue::specialize(Executor& ex) {
  if (is_random(ex, sym_)) decide_at_random(ex, number_of_values(ex, sym_));
  return sym_context(ex).specialize(sym_, "int used as a constant");
}

PyRef SymIntValue::materialize(Executor& ex) { return checked(PyLong_FromLongLong(specialize(ex))); }
PyRef SymIntValue::hash_key(Executor& ex) { return materialize(ex); }

ValuePtr SymIntValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto method = find_builtin_method(shared_from_this(), name, kSymIntMethods)) return method;
  const char* text = PyUnicode_AsUTF8(name);
  if (std::string_view(text) == "real" || std::string_view(text) == "numerator") return shared_from_this();
  if (std::string_view(text) == "imag") return ex.constant_int(0);
  PyRef number = materialize(ex);
  return ex.constant(checked_user(ex, PyObject_GetAttr(number.get(), name)));
}

// What depends on data is decided where it is proven, else known when the graph has run.
std::optional<bool> SymIntValue::truth(Executor& ex) {
  return is_true(ex, compared(ex, Relation::kNe, sym_, Sym(0), "truth of an int"));
}

ValuePtr SymIntValue::unary(Executor& ex, Op op) {
  if (op == Op::UNARY_NEGATIVE) return make_int(ex, -sym_);
  if (op == Op::UNARY_INVERT) return make_int(ex, -sym_ - Sym(1));
  if (op == Op::UNARY_POSITIVE) return shared_from_this();
  return SymbolicValue::unary(ex, op);
}

// As a float, where the operation is one of floats that the graph can do: with a float, or a division by a number. Null: it is
// none. Python divides ints as they are, which is the same while they are floats.
ValuePtr SymIntValue::real_operand(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  const int operation = plain_number_operation(nb_op);
  const bool is_sum = operation == kNbAdd || operation == kNbSubtract || operation == kNbMultiply;
  PyObject* constant = constant_object(other);
  const bool with_float = constant && PyFloat_CheckExact(constant);
  bool is_division = operation == kNbTrueDivide && !reflected && constant;
  if (is_division && PyLong_CheckExact(constant)) {
    const auto divisor = as_sym(other);
    is_division = divisor && safe(ex, *divisor) &&
                  sym_context(ex).guard(Relation::kLe, sym_, Sym(kSafe), "a float") &&
                  sym_context(ex).guard(Relation::kLe, Sym(-kSafe), sym_, "a float");
  }
  const bool is_captured = (is_sum && with_float) || (is_division && PyObject_IsTrue(constant) == 1);
  return is_captured ? float_of_int(ex, shared_from_this(), sym_) : nullptr;
}

// number / i, where the graph can do it; null: it cannot.
ValuePtr SymIntValue::quotient(Executor& ex, const ValuePtr& dividend) {
  PyObject* constant = constant_object(dividend);
  const bool is_float = constant && PyFloat_CheckExact(constant);
  if (!is_float && !(constant && PyLong_CheckExact(constant))) return nullptr;
  if (!sym_context(ex).guard(Relation::kNe, sym_, Sym(0), "a divisor")) return nullptr;
  if (is_float) return quotient_by_int(ex, PyFloat_AS_DOUBLE(constant), shared_from_this(), sym_);
  const auto number = as_sym(dividend);
  const bool fits = number && safe(ex, *number) &&
                    sym_context(ex).guard(Relation::kLe, sym_, Sym(kSafe), "a float") &&
                    sym_context(ex).guard(Relation::kLe, Sym(-kSafe), sym_, "a float");
  return fits ? quotient_by_int(ex, static_cast<double>(number->constant()), shared_from_this(), sym_)
              : nullptr;
}

ValuePtr SymIntValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  PyObject* constant = constant_object(other);
  bool is_int = is_integer_value(other);
  if (!is_int && !(constant && (PyFloat_CheckExact(constant) || PyComplex_CheckExact(constant))))
    return nullptr;
  if (is_int) {
    auto sym = as_sym(other);
    if (sym && safe(ex, sym_) && safe(ex, *sym)) {
      auto result = symbolic_operation(ex, nb_op, reflected ? *sym : sym_, reflected ? sym_ : *sym);
      if (result && fits(ex, *result)) return make_int(ex, *result);
    }
  }
  if (const ValuePtr real = real_operand(ex, nb_op, other, reflected))
    return real->binary(ex, nb_op, other, reflected);
  if (reflected && plain_number_operation(nb_op) == kNbTrueDivide)
    if (ValuePtr result = quotient(ex, other)) return result;
  const ValuePtr self = shared_from_this();
  if (ValuePtr result = computed_number(ex, operator_function(nb_op),
                                        reflected ? std::vector{other, self} : std::vector{self, other}))
    return result;
  PyRef mine = materialize(ex);
  PyRef theirs = other->materialize(ex);
  PyObject* left = reflected ? theirs.get() : mine.get();
  PyObject* right = reflected ? mine.get() : theirs.get();
  return ex.constant(checked_user(ex, apply_number_operation(nb_op, left, right)));
}

namespace {
// An int is compared with a float that it is far from, or cannot be: the same for all ints of 64 bits.
std::optional<bool> same_for_all(int py_op, double number) {
  constexpr double kBeyond = 0x1p63;
  const bool is_equality = py_op == Py_EQ || py_op == Py_NE;
  if (std::isnan(number)) return py_op == Py_NE;
  if (is_equality && (std::abs(number) >= kBeyond || std::floor(number) != number)) return py_op == Py_NE;
  if (number >= kBeyond) return py_op == Py_LT || py_op == Py_LE;
  if (number < -kBeyond) return py_op == Py_GT || py_op == Py_GE;
  return std::nullopt;
}

// The int that an int compares with as with `number`: i < 2.5 is i < 3. Nothing where it is not exact.
std::optional<int64_t> bound_of(int py_op, double number) {
  if (!(std::abs(number) <= static_cast<double>(kSafe))) return std::nullopt;
  return static_cast<int64_t>(py_op == Py_LT || py_op == Py_GE ? std::ceil(number) : std::floor(number));
}
}  // namespace

ValuePtr SymIntValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto sym = as_sym(other);
  if (!sym) {
    PyObject* constant = constant_object(other);
    if (!constant || !PyFloat_CheckExact(constant)) return nullptr;
    if (const auto known = same_for_all(py_op, PyFloat_AS_DOUBLE(constant))) return ex.constant_bool(*known);
    if (const auto bound = bound_of(py_op, PyFloat_AS_DOUBLE(constant)))
      return compare(ex, py_op, ex.constant_int(*bound));
    if (ValuePtr result = computed_number(ex, comparison_function(py_op), {shared_from_this(), other}))
      return result;
    PyRef mine = materialize(ex);
    return ex.constant(checked_user(ex, PyObject_RichCompare(mine.get(), constant, py_op)));
  }
  // An int of the graph is far from what hardly fits, where differences would not.
  if (sym->is_constant() && std::abs(static_cast<double>(sym->constant())) > 0x1p62)
    return ex.constant(
        PyRef::borrow(*same_for_all(py_op, sym->constant() < 0 ? -0x1p64 : 0x1p64) ? Py_True : Py_False));
  auto decide = [&](Relation relation, const Sym& a, const Sym& b) {
    return compared(ex, relation, a, b, "comparison");
  };
  switch (py_op) {
    case Py_LT: return decide(Relation::kLt, sym_, *sym);
    case Py_LE: return decide(Relation::kLe, sym_, *sym);
    case Py_EQ: return decide(Relation::kEq, sym_, *sym);
    case Py_NE: return decide(Relation::kNe, sym_, *sym);
    case Py_GT: return decide(Relation::kLt, *sym, sym_);
    default: return decide(Relation::kLe, *sym, sym_);
  }
}

bool SymIntValue::is_same_object(const SymbolicValue& other) const {
  if (this == &other) return true;
  auto* sym = dynamic_cast<const SymIntValue*>(&other);
  return sym && source && sym->source && same_source(*source, *sym->source);
}

RecipePtr SymIntValue::recipe(Executor&) {
  if (!recipe_) {
    recipe_ = source ? source_recipe(source) : make_recipe(RecipeKind::kInt);
    if (!source) recipe_->size = sym_;
  }
  return recipe_;
}

}  // namespace cdynamo::symbolic
