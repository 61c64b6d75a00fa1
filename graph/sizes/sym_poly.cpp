#include "graph/sizes/sym_poly.h"

#include <algorithm>

#include "graph/sizes/sym_context.h"

namespace cdynamo::graph {

bool MonomialLess::operator()(const Monomial& a, const Monomial& b) const {
  if (a.size() != b.size()) return a.size() > b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return a[i]->id < b[i]->id;
  return false;
}

static int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
static int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

void Poly::add(const Monomial& monomial, int64_t coefficient) {
  if (coefficient == 0) return;
  auto [it, inserted] = terms.emplace(monomial, coefficient);
  if (inserted) return;
  it->second = wrapping_add(it->second, coefficient);
  if (it->second == 0) terms.erase(it);
}

int64_t Poly::constant_term() const {
  auto it = terms.find({});
  return it == terms.end() ? 0 : it->second;
}

SymContext* Poly::context() const {
  for (const auto& [monomial, coefficient] : terms)
    if (!monomial.empty()) return monomial[0]->context;
  return nullptr;
}

Poly operator+(const Poly& a, const Poly& b) {
  Poly result = a;
  for (const auto& [monomial, coefficient] : b.terms) result.add(monomial, coefficient);
  return result;
}

static Monomial multiply(const Monomial& a, const Monomial& b) {
  Monomial result(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), result.begin(),
             [](const SymNode* x, const SymNode* y) { return x->id < y->id; });
  return result;
}

Poly operator*(const Poly& a, const Poly& b) {
  Poly result;
  for (const auto& [m, c] : a.terms)
    for (const auto& [n, d] : b.terms) result.add(multiply(m, n), wrapping_mul(c, d));
  return result;
}

Poly scale(const Poly& a, int64_t factor) {
  Poly result;
  for (const auto& [m, c] : a.terms) result.add(m, wrapping_mul(c, factor));
  return result;
}

std::optional<Monomial> divide(const Monomial& numerator, const Monomial& denominator) {
  Monomial rest;
  size_t d = 0;
  for (const SymNode* atom : numerator) {
    if (d < denominator.size() && atom == denominator[d])
      ++d;
    else
      rest.push_back(atom);
  }
  if (d != denominator.size()) return std::nullopt;
  return rest;
}

std::optional<Poly> divide_exactly(const Poly& a, const Poly& b) {
  if (b.terms.empty()) return std::nullopt;
  Poly rest = a, quotient;
  const auto& [lead, lead_coefficient] = *b.terms.begin();
  for (int step = 0; !rest.terms.empty(); ++step) {
    if (step > 64) return std::nullopt;
    const auto& [m, c] = *rest.terms.begin();
    std::optional<Monomial> factor = divide(m, lead);
    if (!factor || c % lead_coefficient != 0) return std::nullopt;
    Poly term;
    term.add(*factor, c / lead_coefficient);
    quotient = quotient + term;
    rest = rest + scale(term * b, -1);
  }
  return quotient;
}

static void add_product(Poly& poly, const SymNode* node) {
  if (node->kind != SymKind::kMul) return poly.add({node}, 1);
  Monomial monomial;
  int64_t coefficient = 1;
  for (const Sym& factor : node->operands) {
    if (factor.is_constant())
      coefficient = factor.constant();
    else
      monomial.push_back(factor.node());
  }
  poly.add(monomial, coefficient);
}

Poly to_poly(const Sym& expression) {
  if (expression.is_constant()) return Poly(expression.constant());
  Poly poly;
  if (expression.node()->kind != SymKind::kAdd) {
    add_product(poly, expression.node());
    return poly;
  }
  for (const Sym& term : expression.node()->operands) {
    if (term.is_constant())
      poly.add({}, term.constant());
    else
      add_product(poly, term.node());
  }
  return poly;
}

static Sym to_sym(const Monomial& monomial, int64_t coefficient) {
  if (monomial.empty()) return coefficient;
  if (monomial.size() == 1 && coefficient == 1) return Sym(monomial[0]);
  std::vector<Sym> factors;
  for (const SymNode* atom : monomial) factors.emplace_back(atom);
  if (coefficient != 1) factors.emplace_back(coefficient);
  SymContext* context = monomial[0]->context;
  return Sym(SymFactory::impl(context).intern(context, SymKind::kMul, -1, std::move(factors)));
}

Sym to_sym(const Poly& poly) {
  if (poly.terms.empty()) return 0;
  if (poly.terms.size() == 1) return to_sym(poly.terms.begin()->first, poly.terms.begin()->second);
  std::vector<Sym> terms;
  for (const auto& [monomial, coefficient] : poly.terms) terms.push_back(to_sym(monomial, coefficient));
  SymContext* context = poly.context();
  return Sym(SymFactory::impl(context).intern(context, SymKind::kAdd, -1, std::move(terms)));
}

}  // namespace cdynamo::graph
