// Polynomials over atoms (symbols, quotients, remainders, minima, maxima): the normal form behind Sym's
// arithmetic.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/sizes/sym.h"

namespace cdynamo::graph {

// Product of atoms, sorted by id, with repetition. Empty: 1.
using Monomial = std::vector<const SymNode*>;

// Higher degree first, then by ids, so that the constant comes last.
struct MonomialLess {
  bool operator()(const Monomial& a, const Monomial& b) const;
};

struct Poly {
  std::map<Monomial, int64_t, MonomialLess> terms;  // no zero coefficients

  Poly() = default;
  explicit Poly(int64_t constant) { add({}, constant); }
  void add(const Monomial& monomial, int64_t coefficient);
  bool is_constant() const { return terms.empty() || (terms.size() == 1 && terms.begin()->first.empty()); }
  int64_t constant_term() const;
  SymContext* context() const;  // null where constant
};

Poly operator+(const Poly& a, const Poly& b);
Poly operator*(const Poly& a, const Poly& b);
Poly scale(const Poly& a, int64_t factor);
// numerator / denominator where it is a monomial; nullopt where an atom is missing.
std::optional<Monomial> divide(const Monomial& numerator, const Monomial& denominator);
// The q with a == q * b, if there is one.
std::optional<Poly> divide_exactly(const Poly& a, const Poly& b);

Poly to_poly(const Sym& expression);
Sym to_sym(const Poly& poly);  // interns in the context of its atoms

// Saturating interval; the ends of int64 stand for infinity.
struct Range {
  int64_t low = INT64_MIN, high = INT64_MAX;
};

}  // namespace cdynamo::graph
