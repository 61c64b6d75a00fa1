// What a SymContext holds; shared by the files that implement it.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "graph/sizes/sym_poly.h"

namespace cdynamo::graph {

struct SymFactory {
  static SymContext::Impl& impl(SymContext* context);
};

struct SymContext::Impl {
  std::vector<SymbolInfo> symbols;
  int data_symbols = 0;
  std::vector<Range> ranges;                                       // of the symbols, narrowed by guards
  mutable absl::flat_hash_map<const SymNode*, Range> atom_ranges;  // known so far
  std::vector<const SymNode*> symbol_nodes;
  std::vector<SymGuard> guards;
  std::deque<SymNode> nodes;  // addresses are kept
  std::unordered_multimap<size_t, const SymNode*> interned;

  // What guards say, as expressions over resolved atoms.
  std::map<const SymNode*, Sym> replacements;  // atom == expression
  std::vector<Sym> zero, nonzero, nonnegative;
  struct Exact {
    const SymNode* quotient;
    Sym dividend, divisor;
  };
  std::vector<Exact> exact;  // quotient * divisor == dividend

  const SymNode* intern(SymContext* context, SymKind kind, int32_t symbol, std::vector<Sym> operands);
  Range range(const Sym& expression) const;
  Range range(const Poly& poly) const;
  Sym resolve(const Sym& expression) const;
  void assume_nonnegative(const Sym& difference);
  bool proves_nonnegative(const Sym& difference) const;
  void assume(Relation relation, const Sym& a, const Sym& b);
  void assume_zero(const Sym& difference);
};

// Quotient and remainder in normal form; the divisor is not the constant 0.
Sym make_floordiv(const Sym& a, const Sym& b);
Sym make_mod(const Sym& a, const Sym& b);
Sym make_min_max(SymKind kind, const Sym& a, const Sym& b);
int64_t floor_divide(int64_t a, int64_t b);

}  // namespace cdynamo::graph
