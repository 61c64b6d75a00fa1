#include "graph/sizes/sym.h"

#include <gtest/gtest.h>

#include <random>

namespace cdynamo::graph {
namespace {

TEST(Sym, ConstantsFold) {
  EXPECT_EQ(Sym(3) + 4, Sym(7));
  EXPECT_EQ(floordiv(-7, 2), Sym(-4));
  EXPECT_EQ(mod(-7, 2), Sym(1));
  EXPECT_EQ(min(Sym(3), 4), Sym(3));
}

TEST(Sym, EqualExpressionsAreOneObject) {
  SymContext context;
  Sym a = context.new_symbol("s0", 8), b = context.new_symbol("s1", 3);
  EXPECT_EQ((a + b) * 2, b * 2 + a + a);
  EXPECT_EQ((a + 1) * (a - 1), a * a - 1);
  EXPECT_EQ(a - a, Sym(0));
  EXPECT_EQ(a * 0, Sym(0));
}

TEST(Sym, PrintsAsPython) {
  SymContext context;
  Sym a = context.new_symbol("s0", 8), b = context.new_symbol("s1", 3);
  EXPECT_EQ((a * 4 + 1).str(), "4*s0 + 1");
  EXPECT_EQ((b - a).str(), "-s0 + s1");
  EXPECT_EQ((a * b * 2 - 3).str(), "2*s0*s1 - 3");
  EXPECT_EQ(floordiv(a + 1, 2).str(), "(s0 + 1)//2");
  EXPECT_EQ((mod(a, 3) * b).str(), "s1*(s0%3)");
}

TEST(Sym, QuotientsAndRemaindersSimplify) {
  SymContext context;
  Sym a = context.new_symbol("s0", 8), b = context.new_symbol("s1", 3);
  EXPECT_EQ(floordiv(a * 6, 3), a * 2);
  EXPECT_EQ(floordiv(a * b, a), b);
  EXPECT_EQ(floordiv(a * b + a, a), b + 1);
  EXPECT_EQ(floordiv(a * a + a * 2 + 1, a + 1), a + 1);
  EXPECT_EQ(mod(a * 4 + 1, 4), Sym(1));
  EXPECT_EQ(mod(a * b, b), Sym(0));
  EXPECT_EQ(floordiv(floordiv(a, 2), 3), floordiv(a, 6));
  EXPECT_EQ(floordiv(a * 2, 4), floordiv(a, 2));
  EXPECT_EQ(floordiv(mod(a, 4), 4), Sym(0));
}

TEST(Sym, RangesDecide) {
  SymContext context;
  Sym a = context.new_symbol("s0", 8), b = context.new_symbol("s1", 3);  // both at least 2
  EXPECT_EQ(context.known(Relation::kEq, a, 1), false);
  EXPECT_EQ(context.known(Relation::kLt, 0, a), true);
  EXPECT_EQ(context.known(Relation::kLe, a, a * b), true);
  EXPECT_EQ(context.known(Relation::kEq, a, b), std::nullopt);
  EXPECT_EQ(context.known(Relation::kLt, mod(a, 4), 4), true);
}

TEST(Sym, GuardsAreRecordedOnceAndBelieved) {
  SymContext context;
  Sym a = context.new_symbol("s0", 8), b = context.new_symbol("s1", 8);
  EXPECT_TRUE(context.guard_eq(a, b, "same length"));
  EXPECT_TRUE(context.guard_eq(b, a));
  ASSERT_EQ(context.guards().size(), 1u);
  EXPECT_EQ(context.guards()[0].reason, "same length");
  EXPECT_EQ(context.known(Relation::kEq, a * 2, b * 2), true);
  EXPECT_FALSE(context.guard(Relation::kLt, a, 8));
  EXPECT_EQ(context.guards().size(), 2u);  // 8 <= s0
  EXPECT_EQ(context.known(Relation::kLe, 7, b), true);
}

TEST(Sym, DivisibilityIsBelieved) {
  SymContext context;
  Sym a = context.new_symbol("s0", 12);
  EXPECT_TRUE(context.guard_eq(mod(a, 4), 0));
  EXPECT_EQ(context.known(Relation::kEq, floordiv(a, 4) * 4, a), true);
}

TEST(Sym, SpecializeGivesAConstant) {
  SymContext context;
  Sym a = context.new_symbol("s0", 12);
  EXPECT_EQ(context.specialize(a + 1), 13);
  EXPECT_EQ(context.simplify(a * 2), Sym(24));
}

// Random expressions against plain arithmetic on the symbols' values.
class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      symbols_.push_back(context.new_symbol("s" + std::to_string(i), 2 + pick(30)));
      values.push_back(context.symbols()[i].hint);
    }
  }
  struct Pair {
    Sym sym;
    int64_t value;
  };
  Pair expression(int depth) {
    if (depth == 0) {
      if (pick(2) == 0) {
        int64_t constant = pick(13) - 4;
        return {constant, constant};
      }
      int i = static_cast<int>(pick(3));
      return {symbols_[i], values[i]};
    }
    Pair a = expression(depth - 1), b = expression(depth - 1);
    switch (pick(7)) {
      case 0: return {a.sym + b.sym, a.value + b.value};
      case 1: return {a.sym - b.sym, a.value - b.value};
      case 2: return {a.sym * b.sym, a.value * b.value};
      case 3: return {min(a.sym, b.sym), std::min(a.value, b.value)};
      case 4: return {max(a.sym, b.sym), std::max(a.value, b.value)};
      default: break;
    }
    if (b.value <= 0 || context.known(Relation::kLt, 0, b.sym) != true) return a;
    int64_t q = a.value / b.value - (a.value % b.value < 0);
    return pick(2) ? Pair{floordiv(a.sym, b.sym), q} : Pair{mod(a.sym, b.sym), a.value - q * b.value};
  }
  int64_t pick(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  SymContext context;
  std::vector<int64_t> values;

 private:
  std::mt19937 random_;
  std::vector<Sym> symbols_;
};

// Differences of what is near the ends of 64 bits wrap around: nothing follows from them.
TEST(SymGuards, FactsBesideLargeNumbers) {
  constexpr int64_t kSymbol = int64_t{1} << 53, kLarge = int64_t{1} << 62;
  SymContext context;
  const Sym i = context.new_symbol("i", 4, -kSymbol, kSymbol);
  EXPECT_TRUE(context.guard(Relation::kLe, i * i, Sym(kLarge)));
  EXPECT_TRUE(context.guard(Relation::kLe, Sym(-kLarge), i * i));
  EXPECT_TRUE(context.guard(Relation::kLt, i, i * i));
}

TEST(SymGuards, TheStrongestOfFactsThatDifferByANumber) {
  for (const std::vector<int>& order : {std::vector{0, 1, 2, 5}, {5, 2, 1, 0}, {2, 5, 0, 1}}) {
    SymContext context;
    const Sym a = context.new_symbol("a", 4), b = context.new_symbol("b", 5);
    for (int i : order) EXPECT_TRUE(context.guard(Relation::kLt, i, a * b - 10));
    EXPECT_EQ(context.known(Relation::kLt, 5, a * b - 10), std::optional(true));
    EXPECT_EQ(context.known(Relation::kLt, 3, a * b - 10), std::optional(true));
    EXPECT_EQ(context.known(Relation::kLe, a * b, 15), std::optional(false));
    EXPECT_EQ(context.known(Relation::kLt, 6, a * b - 10), std::nullopt);
  }
}

TEST(SymFuzz, NormalFormKeepsTheValue) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Fuzz fuzz(seed);
    Fuzz::Pair e = fuzz.expression(1 + static_cast<int>(fuzz.pick(4)));
    ASSERT_EQ(fuzz.context.evaluate(e.sym, fuzz.values.data()), e.value) << seed << ": " << e.sym.str();
    ASSERT_EQ(e.sym + 0, e.sym) << seed;
    ASSERT_EQ((e.sym + 1) * 1 - 1, e.sym) << seed << ": " << e.sym.str();
  }
}

TEST(SymFuzz, WhatIsKnownIsTrue) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Fuzz fuzz(seed);
    Fuzz::Pair a = fuzz.expression(2), b = fuzz.expression(2);
    fuzz.context.guard(Relation::kEq, a.sym, b.sym);
    for (int number : {0, -2, 3, 1}) fuzz.context.guard(Relation::kLt, a.sym + number, b.sym);
    Fuzz::Pair c = fuzz.expression(2), d = fuzz.expression(2);
    if (auto known = fuzz.context.known(Relation::kEq, c.sym, d.sym)) {
      ASSERT_EQ(*known, c.value == d.value) << seed << ": " << c.sym.str() << " == " << d.sym.str();
    }
    if (auto known = fuzz.context.known(Relation::kLt, c.sym, d.sym)) {
      ASSERT_EQ(*known, c.value < d.value) << seed << ": " << c.sym.str() << " < " << d.sym.str();
    }
    ASSERT_EQ(fuzz.context.evaluate(fuzz.context.simplify(c.sym), fuzz.values.data()), c.value) << seed;
  }
}

}  // namespace
}  // namespace cdynamo::graph
