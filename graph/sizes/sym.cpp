#include "graph/sizes/sym.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "graph/sizes/sym_context.h"

namespace cdynamo::graph {

// ---- arithmetic -----------------------------------------------------------------------------------------

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw std::domain_error("integer division or modulo by zero");
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

static int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
static uint64_t bits(const Sym& value) { return static_cast<uint64_t>(value.constant()); }

Sym operator+(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return wrap(bits(a) + bits(b));
  if (a == Sym(0)) return b;
  if (b == Sym(0)) return a;
  return to_sym(to_poly(a) + to_poly(b));
}

Sym operator-(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return wrap(bits(a) - bits(b));
  if (a == b) return 0;
  return to_sym(to_poly(a) + scale(to_poly(b), -1));
}

Sym operator*(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return wrap(bits(a) * bits(b));
  if (a == Sym(1)) return b;
  if (b == Sym(1)) return a;
  return to_sym(to_poly(a) * to_poly(b));
}

Sym floordiv(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return floor_divide(a.constant(), b.constant());
  return make_floordiv(a, b);
}

Sym mod(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant())
    return a.constant() - b.constant() * floor_divide(a.constant(), b.constant());
  return make_mod(a, b);
}

Sym min(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.constant(), b.constant());
  return make_min_max(SymKind::kMin, a, b);
}

Sym max(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  return make_min_max(SymKind::kMax, a, b);
}

// ---- printing -------------------------------------------------------------------------------------------

static std::string join(const std::vector<Sym>& operands, const char* separator) {
  std::string text;
  for (const Sym& operand : operands) text += (text.empty() ? "" : separator) + operand.str();
  return text;
}

// Parentheses around what binds less tightly than a product.
static std::string factor(const Sym& operand) {
  bool simple = operand.is_constant()
                    ? operand.constant() >= 0
                    : operand.node()->kind == SymKind::kSymbol || operand.node()->kind == SymKind::kMin ||
                          operand.node()->kind == SymKind::kMax;
  return simple ? operand.str() : "(" + operand.str() + ")";
}

static std::string product(const SymNode& node) {
  std::string text;
  size_t count = node.operands.size();
  if (node.operands.back().is_constant()) {
    int64_t coefficient = node.operands.back().constant();
    text = coefficient == -1 ? "-" : std::to_string(coefficient) + "*";
    --count;
  }
  for (size_t i = 0; i < count; ++i) text += (i ? "*" : "") + factor(node.operands[i]);
  return text;
}

std::string Sym::str() const {
  if (!node_) return std::to_string(constant_);
  const SymNode& node = *node_;
  switch (node.kind) {
    case SymKind::kSymbol: return node.context->symbols()[node.symbol].name;
    case SymKind::kMul: return product(node);
    case SymKind::kFloorDiv: return factor(node.operands[0]) + "//" + factor(node.operands[1]);
    case SymKind::kMod: return factor(node.operands[0]) + "%" + factor(node.operands[1]);
    case SymKind::kMin: return "min(" + join(node.operands, ", ") + ")";
    case SymKind::kMax: return "max(" + join(node.operands, ", ") + ")";
    case SymKind::kAdd: break;
  }
  std::string text;
  for (const Sym& term : node.operands) {
    std::string part = term.str();
    if (text.empty())
      text = part;
    else if (part[0] == '-')
      text += " - " + part.substr(1);
    else
      text += " + " + part;
  }
  return text;
}

// ---- context --------------------------------------------------------------------------------------------

SymContext::Impl& SymFactory::impl(SymContext* context) { return *context->impl_; }

static size_t hash_node(SymKind kind, int32_t symbol, const std::vector<Sym>& operands) {
  size_t hash = static_cast<size_t>(kind) * 31 + static_cast<size_t>(symbol + 1);
  for (const Sym& operand : operands) {
    size_t part = operand.is_constant() ? static_cast<size_t>(operand.constant())
                                        : reinterpret_cast<size_t>(operand.node()) >> 4;
    hash = hash * 0x9E3779B97F4A7C15ull + part;
  }
  return hash;
}

// Sizes are evaluated in each call: what a loop makes of what it read in the last turn grows with a power of its turns.
static constexpr int32_t kMostParts = 4096;

const SymNode* SymContext::Impl::intern(SymContext* context, SymKind kind, int32_t symbol,
                                        std::vector<Sym> operands) {
  size_t hash = hash_node(kind, symbol, operands);
  auto [first, last] = interned.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const SymNode& node = *it->second;
    if (node.kind == kind && node.symbol == symbol && node.operands == operands) return &node;
  }
  SymNode node;
  node.kind = kind;
  node.context = context;
  node.id = static_cast<int32_t>(nodes.size());
  node.symbol = symbol;
  node.operands = std::move(operands);
  for (const Sym& operand : node.operands) node.parts += operand.is_constant() ? 1 : operand.node()->parts;
  if (node.parts > kMostParts) throw Unsupported(absl::StrCat("sizes of more than ", kMostParts, " parts"));
  nodes.push_back(std::move(node));
  interned.emplace(hash, &nodes.back());
  return &nodes.back();
}

SymContext::SymContext() : impl_(std::make_unique<Impl>()) {}
SymContext::~SymContext() = default;

Sym SymContext::new_symbol(std::string name, int64_t hint, int64_t min, int64_t max) {
  int32_t index = static_cast<int32_t>(impl_->symbols.size());
  impl_->symbols.push_back({std::move(name), hint, min, max});
  impl_->ranges.push_back({min, max});
  const SymNode* node = impl_->intern(this, SymKind::kSymbol, index, {});
  impl_->symbol_nodes.push_back(node);
  return Sym(node);
}

// What is decided with it is checked later on; it should be what most numbers do.
static constexpr int64_t kHintOfData = 1009;

Sym SymContext::new_data_symbol(int64_t min, int64_t max) {
  Sym symbol = new_symbol("u" + std::to_string(impl_->symbols.size()), kHintOfData, min, max);
  impl_->symbols.back().from_data = true;
  ++impl_->data_symbols;
  return symbol;
}

bool SymContext::reads_data(const Sym& expression) const {
  if (expression.is_constant() || impl_->data_symbols == 0) return false;
  const SymNode& node = *expression.node();
  if (node.kind == SymKind::kSymbol) return impl_->symbols[node.symbol].from_data;
  return std::ranges::any_of(node.operands, [&](const Sym& operand) { return reads_data(operand); });
}

void mark_symbols(const Sym& expression, std::vector<bool>& symbols) {
  if (expression.is_constant()) return;
  const SymNode& node = *expression.node();
  if (node.kind == SymKind::kSymbol) symbols[node.symbol] = true;
  for (const Sym& operand : node.operands) mark_symbols(operand, symbols);
}

const std::vector<SymbolInfo>& SymContext::symbols() const { return impl_->symbols; }
const std::vector<SymGuard>& SymContext::guards() const { return impl_->guards; }
Sym SymContext::simplify(const Sym& expression) const { return impl_->resolve(expression); }

// Wraps around where 64 bits do not hold a part, and says so.
static int64_t evaluate_noting(const Sym& expression, const int64_t* values, bool& overflowed) {
  if (expression.is_constant()) return expression.constant();
  const SymNode& node = *expression.node();
  if (node.kind == SymKind::kSymbol) return values[node.symbol];
  int64_t result = evaluate_noting(node.operands[0], values, overflowed);
  for (size_t i = 1; i < node.operands.size(); ++i) {
    int64_t next = evaluate_noting(node.operands[i], values, overflowed);
    switch (node.kind) {
      case SymKind::kAdd: overflowed |= __builtin_add_overflow(result, next, &result); break;
      case SymKind::kMul: overflowed |= __builtin_mul_overflow(result, next, &result); break;
      case SymKind::kFloorDiv: result = floor_divide(result, next); break;
      case SymKind::kMod: result = result - next * floor_divide(result, next); break;
      case SymKind::kMin: result = std::min(result, next); break;
      case SymKind::kMax: result = std::max(result, next); break;
      case SymKind::kSymbol: break;
    }
  }
  return result;
}

int64_t SymContext::evaluate(const Sym& expression, const int64_t* values) const {
  bool overflowed = false;
  return evaluate_noting(expression, values, overflowed);
}

int64_t SymContext::hint(const Sym& expression) const {
  if (expression.is_constant()) return expression.constant();
  std::vector<int64_t> values;
  values.reserve(impl_->symbols.size());
  for (const SymbolInfo& symbol : impl_->symbols) values.push_back(symbol.hint);
  return evaluate(expression, values.data());
}

// ---- decisions ------------------------------------------------------------------------------------------

static bool holds(Relation relation, int64_t a, int64_t b) {
  switch (relation) {
    case Relation::kEq: return a == b;
    case Relation::kNe: return a != b;
    case Relation::kLt: return a < b;
    case Relation::kLe: return a <= b;
  }
  return false;
}

static std::optional<bool> known_equal(const SymContext::Impl& impl, const Sym& difference);

std::optional<bool> SymContext::known(Relation relation, const Sym& a, const Sym& b) const {
  if (a.is_constant() && b.is_constant()) return holds(relation, a.constant(), b.constant());
  if (a == b) return relation == Relation::kEq || relation == Relation::kLe;
  Sym difference = impl_->resolve(b - a);  // b - a >= 0  <=>  a <= b
  switch (relation) {
    case Relation::kEq: return known_equal(*impl_, difference);
    case Relation::kNe: {
      std::optional<bool> equal = known_equal(*impl_, difference);
      return equal ? std::optional(!*equal) : std::nullopt;
    }
    case Relation::kLt:
      if (impl_->proves_nonnegative(difference - 1)) return true;
      if (impl_->proves_nonnegative(0 - difference)) return false;
      return std::nullopt;
    case Relation::kLe:
      if (impl_->proves_nonnegative(difference)) return true;
      if (impl_->proves_nonnegative(0 - difference - 1)) return false;
      return std::nullopt;
  }
  return std::nullopt;
}

static std::optional<bool> known_equal(const SymContext::Impl& impl, const Sym& difference) {
  if (difference.is_constant()) return difference.constant() == 0;
  Sym negated = 0 - difference;
  for (const Sym& fact : impl.zero)
    if (fact == difference || fact == negated) return true;
  for (const Sym& fact : impl.nonzero)
    if (fact == difference || fact == negated) return false;
  if (impl.proves_nonnegative(difference - 1) || impl.proves_nonnegative(negated - 1)) return false;
  return std::nullopt;
}

bool SymContext::guard(Relation relation, const Sym& a, const Sym& b, const char* reason) {
  if (std::optional<bool> answer = known(relation, a, b)) return *answer;
  SymGuard fact{relation, a, b, reason};
  bool result = holds(relation, hint(a), hint(b));
  if (!result) {
    switch (relation) {
      case Relation::kEq: fact.relation = Relation::kNe; break;
      case Relation::kNe: fact.relation = Relation::kEq; break;
      case Relation::kLt: fact = {Relation::kLe, b, a, reason}; break;
      case Relation::kLe: fact = {Relation::kLt, b, a, reason}; break;
    }
  }
  impl_->assume(fact.relation, fact.left, fact.right);
  impl_->guards.push_back(std::move(fact));
  return result;
}

bool SymContext::expect(Relation relation, const Sym& a, const Sym& b, const char* reason) {
  if (!reads_data(a) && !reads_data(b)) return guard(relation, a, b, reason);
  if (std::optional<bool> answer = known(relation, a, b)) return *answer;
  require(relation, a, b, reason);
  return true;
}

void SymContext::require(Relation relation, const Sym& a, const Sym& b, const char* reason) {
  if (known(relation, a, b) == std::optional(true)) return;
  impl_->assume(relation, a, b);
  impl_->guards.push_back({relation, a, b, reason});
}

int64_t SymContext::specialize(const Sym& expression, const char* reason) {
  if (reads_data(expression)) {
    const Sym fixed = simplify(expression);
    if (!fixed.is_constant()) throw DataDependent(reason);
    return fixed.constant();
  }
  int64_t value = hint(expression);
  guard(Relation::kEq, expression, value, reason);
  return value;
}

bool holds(const SymContext&, const SymGuard& guard, const int64_t* symbol_values) {
  bool overflowed = false;
  const int64_t left = evaluate_noting(guard.left, symbol_values, overflowed),
                right = evaluate_noting(guard.right, symbol_values, overflowed);
  return !overflowed && holds(guard.relation, left, right);
}

}  // namespace cdynamo::graph
