// Ranges, facts from guards, and the simplification of quotients, remainders, minima and maxima that rests on
// them.
#include <algorithm>
#include <numeric>

#include "graph/sizes/sym_context.h"

namespace cdynamo::graph {

// ---- intervals ------------------------------------------------------------------------------------------

static int64_t saturate(__int128 value) {
  if (value >= INT64_MAX) return INT64_MAX;
  if (value <= INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(value);
}

static bool infinite(int64_t value) { return value == INT64_MAX || value == INT64_MIN; }

static int64_t add_bounds(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return saturate(static_cast<__int128>(a) + b);
}

static int64_t multiply_bounds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
  return saturate(static_cast<__int128>(a) * b);
}

static Range multiply(const Range& a, const Range& b) {
  int64_t corners[] = {multiply_bounds(a.low, b.low), multiply_bounds(a.low, b.high),
                       multiply_bounds(a.high, b.low), multiply_bounds(a.high, b.high)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

static int64_t divide_bound(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (b == INT64_MAX) return a >= 0 ? 0 : -1;
  return floor_divide(a, b);
}

static Range quotient_range(const Range& a, const Range& b) {
  if (b.low < 1) return {};
  return {std::min(divide_bound(a.low, b.low), divide_bound(a.low, b.high)),
          std::max(divide_bound(a.high, b.low), divide_bound(a.high, b.high))};
}

static Range remainder_range(const Range& a, const Range& b) {
  if (b.low < 1) return {};
  int64_t high = b.high == INT64_MAX ? INT64_MAX : b.high - 1;
  if (a.low >= 0) high = std::min(high, a.high);
  return {0, high};
}

static Range compute_range(const SymContext::Impl& impl, const SymNode* atom) {
  Range a = impl.range(atom->operands[0]), b = impl.range(atom->operands[1]);
  switch (atom->kind) {
    case SymKind::kFloorDiv: return quotient_range(a, b);
    case SymKind::kMod: return remainder_range(a, b);
    case SymKind::kMin: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case SymKind::kMax: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default: return {};
  }
}

// Minima of maxima of minima have few nodes and many paths to each.
static Range atom_range(const SymContext::Impl& impl, const SymNode* atom) {
  if (atom->kind == SymKind::kSymbol) return impl.ranges[atom->symbol];
  if (const auto known = impl.atom_ranges.find(atom); known != impl.atom_ranges.end()) return known->second;
  const Range range = compute_range(impl, atom);
  impl.atom_ranges.emplace(atom, range);
  return range;
}

static Range interval(const SymContext::Impl& impl, const Poly& poly) {
  Range total{0, 0};
  for (const auto& [monomial, coefficient] : poly.terms) {
    Range term{coefficient, coefficient};
    for (const SymNode* atom : monomial) term = multiply(term, atom_range(impl, atom));
    total = {add_bounds(total.low, term.low), add_bounds(total.high, term.high)};
  }
  return total;
}

// Writes each atom as its least value plus something that is not negative; where all coefficients of the
// result have one sign, its constant term is a bound. This sees that s0*s1 - s0 is at least 2 for s0, s1
// >= 2.
static Range shifted(const SymContext::Impl& impl, const Poly& poly) {
  Poly moved;
  for (const auto& [monomial, coefficient] : poly.terms) {
    Poly term(coefficient);
    for (const SymNode* atom : monomial) {
      int64_t low = atom_range(impl, atom).low;
      if (low == INT64_MIN || low < -(int64_t{1} << 31) || low > (int64_t{1} << 31)) return {};
      Poly factor(low);
      factor.add({atom}, 1);
      term = term * factor;
    }
    moved = moved + term;
  }
  Range range;
  bool all_up = true, all_down = true;
  for (const auto& [monomial, coefficient] : moved.terms) {
    if (monomial.empty()) continue;
    (coefficient > 0 ? all_down : all_up) = false;
  }
  if (all_up) range.low = moved.constant_term();
  if (all_down) range.high = moved.constant_term();
  return range;
}

Range SymContext::Impl::range(const Poly& poly) const {
  if (poly.is_constant()) return {poly.constant_term(), poly.constant_term()};
  Range a = interval(*this, poly);
  if (poly.terms.size() == 1) return a;
  Range b = shifted(*this, poly);
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

Range SymContext::Impl::range(const Sym& expression) const {
  if (expression.is_constant()) return {expression.constant(), expression.constant()};
  return range(to_poly(expression));
}

// ---- quotients and remainders ---------------------------------------------------------------------------

static SymContext* context_of(const Sym& a, const Sym& b) {
  return (a.is_constant() ? b : a).node()->context;
}

// Splits a into whole * b + rest, term by term, where b has one term.
static void split(const Poly& a, const Poly& b, Poly* whole, Poly* rest) {
  const auto& [factor, divisor] = *b.terms.begin();
  for (const auto& [monomial, coefficient] : a.terms) {
    std::optional<Monomial> left = divide(monomial, factor);
    if (!left) {
      rest->add(monomial, coefficient);
    } else {
      int64_t q = floor_divide(coefficient, divisor);
      whole->add(*left, q);
      rest->add(monomial, coefficient - q * divisor);
    }
  }
}

static int64_t content(const Poly& poly, int64_t start) {
  for (const auto& [monomial, coefficient] : poly.terms) start = std::gcd(start, coefficient);
  return start;
}

static Poly divide_coefficients(const Poly& poly, int64_t by) {
  Poly result;
  for (const auto& [monomial, coefficient] : poly.terms) result.add(monomial, coefficient / by);
  return result;
}

struct Division {
  Poly whole, rest, divisor;  // a // b == whole + rest // divisor;  a % b == scale * (rest % divisor)
  int64_t scale = 1;
  bool rest_is_small = false;  // 0 <= rest < divisor
};

static Division reduce(const Sym& a, const Sym& b) {
  Division d;
  Poly dividend = to_poly(a);
  d.divisor = to_poly(b);
  if (std::optional<Poly> exact = divide_exactly(dividend, d.divisor)) {
    d.whole = *exact;
    d.rest_is_small = true;
    return d;
  }
  if (d.divisor.terms.size() == 1)
    split(dividend, d.divisor, &d.whole, &d.rest);
  else
    d.rest = dividend;
  const auto& impl = SymFactory::impl(context_of(a, b));
  Range gap = impl.range(d.divisor + scale(d.rest, -1));
  if (impl.range(d.rest).low >= 0 && gap.low >= 1) {
    d.rest_is_small = true;
    return d;
  }
  int64_t common = content(d.rest, content(d.divisor, 0));
  if (common > 1) {
    d.scale = common;
    d.rest = divide_coefficients(d.rest, common);
    d.divisor = divide_coefficients(d.divisor, common);
  }
  return d;
}

static Sym atom(SymKind kind, const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return kind == SymKind::kFloorDiv ? floordiv(a, b) : mod(a, b);
  SymContext* context = context_of(a, b);
  return Sym(SymFactory::impl(context).intern(context, kind, -1, {a, b}));
}

Sym make_floordiv(const Sym& a, const Sym& b) {
  if (b == Sym(1)) return a;
  if (a == Sym(0)) return 0;
  Division d = reduce(a, b);
  if (d.rest_is_small) return to_sym(d.whole);
  Sym rest = to_sym(d.rest), divisor = to_sym(d.divisor);
  // (x // p) // q == x // (p * q) for positive p, q
  if (!rest.is_constant() && rest.node()->kind == SymKind::kFloorDiv && divisor.is_constant() &&
      divisor.constant() > 0) {
    const std::vector<Sym>& inner = rest.node()->operands;
    if (inner[1].is_constant() && inner[1].constant() > 0)
      return to_sym(d.whole) + floordiv(inner[0], inner[1] * divisor);
  }
  return to_sym(d.whole) + atom(SymKind::kFloorDiv, rest, divisor);
}

Sym make_mod(const Sym& a, const Sym& b) {
  if (b == Sym(1) || a == Sym(0)) return 0;
  Division d = reduce(a, b);
  if (d.rest_is_small) return to_sym(d.rest);
  return atom(SymKind::kMod, to_sym(d.rest), to_sym(d.divisor)) * d.scale;
}

Sym make_min_max(SymKind kind, const Sym& a, const Sym& b) {
  SymContext* context = context_of(a, b);
  bool is_min = kind == SymKind::kMin;
  if (std::optional<bool> less = context->known(Relation::kLe, a, b)) return *less == is_min ? a : b;
  if (std::optional<bool> less = context->known(Relation::kLe, b, a)) return *less == is_min ? b : a;
  bool swap = a.is_constant() || (!b.is_constant() && b.node()->id < a.node()->id);
  std::vector<Sym> operands = swap ? std::vector<Sym>{b, a} : std::vector<Sym>{a, b};
  return Sym(SymFactory::impl(context).intern(context, kind, -1, std::move(operands)));
}

// ---- facts ----------------------------------------------------------------------------------------------

static Sym rebuild(SymKind kind, const Sym& a, const Sym& b) {
  switch (kind) {
    case SymKind::kFloorDiv: return floordiv(a, b);
    case SymKind::kMod: return mod(a, b);
    case SymKind::kMin: return min(a, b);
    default: return max(a, b);
  }
}

static Sym resolve_atom(const SymContext::Impl& impl, const SymNode* atom) {
  auto it = impl.replacements.find(atom);
  if (it != impl.replacements.end()) return impl.resolve(it->second);
  if (atom->kind == SymKind::kSymbol) return Sym(atom);
  Sym a = impl.resolve(atom->operands[0]), b = impl.resolve(atom->operands[1]);
  if (a == atom->operands[0] && b == atom->operands[1]) return Sym(atom);
  if (b == Sym(0)) return Sym(atom);
  return rebuild(atom->kind, a, b);
}

// Puts dividend for quotient * divisor wherever a term holds both.
static Poly multiply_back(const SymContext::Impl& impl, Poly poly) {
  for (const auto& fact : impl.exact) {
    Poly divisor = to_poly(fact.divisor);
    if (divisor.terms.size() != 1) continue;
    Poly product = divisor;
    Poly quotient;
    quotient.add({fact.quotient}, 1);
    product = product * quotient;
    const auto [pattern, by] = *product.terms.begin();
    Poly result;
    for (const auto& [monomial, coefficient] : poly.terms) {
      std::optional<Monomial> rest = divide(monomial, pattern);
      if (!rest || coefficient % by != 0) {
        result.add(monomial, coefficient);
        continue;
      }
      Poly factor;
      factor.add(*rest, coefficient / by);
      result = result + factor * to_poly(fact.dividend);
    }
    poly = result;
  }
  return poly;
}

Sym SymContext::Impl::resolve(const Sym& expression) const {
  if (expression.is_constant() || (replacements.empty() && exact.empty())) return expression;
  Poly result;
  for (const auto& [monomial, coefficient] : to_poly(expression).terms) {
    Poly term(coefficient);
    for (const SymNode* atom : monomial) term = term * to_poly(resolve_atom(*this, atom));
    result = result + term;
  }
  return to_sym(multiply_back(*this, std::move(result)));
}

// A sum's constant comes last.
static int64_t constant_term(const Sym& sum) {
  if (sum.is_constant()) return sum.constant();
  if (sum.node()->kind != SymKind::kAdd) return 0;
  return sum.node()->operands.back().maybe_constant().value_or(0);
}

// Arithmetic of expressions wraps around.
static bool can_subtract(const Sym& a, const Sym& b) {
  int64_t difference;
  return !__builtin_sub_overflow(constant_term(a), constant_term(b), &difference);
}

bool SymContext::Impl::proves_nonnegative(const Sym& difference) const {
  if (range(difference).low >= 0) return true;
  for (const Sym& fact : nonnegative)
    if (can_subtract(difference, fact) && range(difference - fact).low >= 0) return true;
  return false;
}

static bool mentions(const Sym& expression, const SymNode* atom) {
  if (expression.is_constant()) return false;
  if (expression.node() == atom) return true;
  for (const Sym& operand : expression.node()->operands)
    if (mentions(operand, atom)) return true;
  return false;
}

// Finds an atom that the equation gives (coefficient 1 or -1, or all the rest constant), symbols made last
// first.
void SymContext::Impl::assume_zero(const Sym& difference) {
  zero.push_back(difference);
  Poly poly = to_poly(difference);
  const SymNode* best = nullptr;
  Sym value;
  for (const auto& [monomial, coefficient] : poly.terms) {
    if (monomial.size() != 1) continue;
    Poly rest = poly;
    rest.add(monomial, -coefficient);
    bool divides = true;
    for (const auto& [m, c] : rest.terms) divides &= c % coefficient == 0;
    Sym solved = to_sym(scale(divides ? divide_coefficients(rest, coefficient) : rest, -1));
    if (!divides || mentions(solved, monomial[0])) continue;
    if (!best || monomial[0]->id > best->id) best = monomial[0], value = solved;
  }
  if (!best) return;
  replacements[best] = value;
  if (best->kind == SymKind::kMod && value == Sym(0)) {
    Sym quotient = floordiv(best->operands[0], best->operands[1]);
    if (!quotient.is_constant() && quotient.node()->kind == SymKind::kFloorDiv)
      exact.push_back({quotient.node(), quotient.node()->operands[0], quotient.node()->operands[1]});
  }
}

// Of facts that differ by a number the strongest says it all: an unrolled loop that indexes a dim adds one for each index.
void SymContext::Impl::assume_nonnegative(const Sym& difference) {
  for (Sym& known : nonnegative) {
    if (!can_subtract(known, difference)) continue;
    const Sym weaker_by = known - difference;
    if (!weaker_by.is_constant()) continue;
    if (weaker_by.constant() > 0) known = difference;
    return;
  }
  nonnegative.push_back(difference);
}

void SymContext::Impl::assume(Relation relation, const Sym& a, const Sym& b) {
  Sym difference = resolve(b - a);
  if (difference.is_constant()) return;
  switch (relation) {
    case Relation::kEq: return assume_zero(difference);
    case Relation::kNe: nonzero.push_back(difference); return;
    case Relation::kLt: difference = difference - 1; break;
    case Relation::kLe: break;
  }
  assume_nonnegative(difference);
  // c*s + k >= 0 narrows the range of s.
  Poly poly = to_poly(difference);
  const auto& [monomial, coefficient] = *poly.terms.begin();
  if (monomial.size() != 1 || monomial[0]->kind != SymKind::kSymbol || poly.terms.size() > 2) return;
  if (poly.terms.size() == 2 && !poly.terms.rbegin()->first.empty()) return;
  atom_ranges.clear();
  Range& range = ranges[monomial[0]->symbol];
  int64_t k = poly.constant_term();
  if (coefficient > 0)
    range.low = std::max(range.low, -floor_divide(k, coefficient));
  else
    range.high = std::min(range.high, floor_divide(k, -coefficient));
}

}  // namespace cdynamo::graph
