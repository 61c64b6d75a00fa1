// Symbolic sizes: hash-consed integer expressions over size symbols. A static size is a constant and costs
// nothing.
//
//   SymContext context;
//   Sym s = context.new_symbol("s0", /*hint=*/8, /*min=*/2);
//   Sym n = s * 4 + 1;                          // one object for equal expressions
//   if (context.guard(Relation::kEq, n, 33)) …  // decided with the hints; a guard is recorded unless it is a
//   known fact
//
// A `Sym` is a value: either a constant, or a pointer to a node that its SymContext owns and outlives.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cdynamo::graph {

class SymContext;
enum class SymKind : uint8_t { kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };  // Python's // and %

struct SymNode;

class Sym {
 public:
  Sym() = default;
  template <std::integral T>
  Sym(T constant) : constant_(static_cast<int64_t>(constant)) {}  // implicit: a size is mostly a number
  explicit Sym(const SymNode* node) : node_(node) {}
  bool is_constant() const { return node_ == nullptr; }
  int64_t constant() const { return constant_; }  // only where is_constant()
  const SymNode* node() const { return node_; }
  std::optional<int64_t> maybe_constant() const { return node_ ? std::nullopt : std::optional(constant_); }
  // Structural identity (expressions are hash-consed and kept in a normal form), not a decision by hints.
  friend bool operator==(const Sym& a, const Sym& b) {
    return a.node_ == b.node_ && a.constant_ == b.constant_;
  }
  friend Sym operator+(const Sym& a, const Sym& b);
  friend Sym operator-(const Sym& a, const Sym& b);
  friend Sym operator*(const Sym& a, const Sym& b);
  friend Sym floordiv(const Sym& a, const Sym& b);
  friend Sym mod(const Sym& a, const Sym& b);
  friend Sym min(const Sym& a, const Sym& b);
  friend Sym max(const Sym& a, const Sym& b);
  std::string str() const;  // as Python would write it: "4*s0 + 1"
 private:
  int64_t constant_ = 0;
  const SymNode* node_ = nullptr;
};

// Python's // and %: the quotient rounds towards minus infinity.
Sym floordiv(const Sym& a, const Sym& b);
Sym mod(const Sym& a, const Sym& b);
inline Sym operator-(const Sym& a) { return Sym(0) - a; }

// Operands are in a canonical order. kAdd and kMul are n-ary with at most one constant, which comes last;
// sums are polynomials multiplied out, so equal polynomials are one object.
struct SymNode {
  SymKind kind;
  SymContext* context;
  int32_t id = 0;       // order of creation in the context
  int32_t symbol = -1;  // kSymbol: index in the context
  std::vector<Sym> operands;
  int32_t parts = 1;  // written out, where nothing is shared
};

enum class Relation : uint8_t { kEq, kNe, kLt, kLe };

// What was assumed of the symbols; checked before a compiled graph is run again.
struct SymGuard {
  Relation relation;
  Sym left, right;
  std::string reason;  // the user's line and why, for the recompilation log
};

bool holds(const SymContext& context, const SymGuard& guard, const int64_t* symbol_values);

struct SymbolInfo {
  std::string name;                  // "s0"
  int64_t hint;                      // the value in the call that is being captured
  int64_t min = 2, max = INT64_MAX;  // sizes 0 and 1 are specialised unless the user asks otherwise
  // A number that is read from a tensor while the graph runs (core.read_int): it has no value in the call that is being
  // captured. What is assumed of it is checked when it is known.
  bool from_data = false;
};

// A decision on a number that is known only when the graph runs.
struct DataDependent : std::exception {
  explicit DataDependent(std::string what) : text(std::move(what)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

// A case that an operator's entry, or what sizes are written with, does not cover: a graph break that names it.
struct Unsupported : std::exception {
  explicit Unsupported(std::string message) : message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

// Marks the symbols that an expression is made of, by index.
void mark_symbols(const Sym& expression, std::vector<bool>& symbols);

class SymContext {
 public:
  SymContext();
  ~SymContext();
  Sym new_symbol(std::string name, int64_t hint, int64_t min = 2, int64_t max = INT64_MAX);
  // A symbol whose value the graph reads itself.
  Sym new_data_symbol(int64_t min, int64_t max);
  bool reads_data(const Sym& expression) const;  // depends on such a symbol
  bool reads_data(const SymGuard& guard) const { return reads_data(guard.left) || reads_data(guard.right); }
  const std::vector<SymbolInfo>& symbols() const;
  int64_t hint(const Sym& expression) const;  // its value under the hints
  // Proven from ranges and the guards recorded so far: true, false, or unknown.
  std::optional<bool> known(Relation relation, const Sym& a, const Sym& b) const;
  // Decides with the hints; records what was assumed when it is not known already. Numbers that the graph reads are taken for
  // large and equal to nothing else.
  bool guard(Relation relation, const Sym& a, const Sym& b, const char* reason = "");
  bool guard_eq(const Sym& a, const Sym& b, const char* reason = "") {
    return guard(Relation::kEq, a, b, reason);
  }
  // As guard, of what makes eager raise an error where it does not hold: numbers that the graph reads are expected to fit.
  bool expect(Relation relation, const Sym& a, const Sym& b, const char* reason = "");
  bool expect_eq(const Sym& a, const Sym& b, const char* reason = "") {
    return expect(Relation::kEq, a, b, reason);
  }
  // Records what has to hold, whatever the hints say.
  void require(Relation relation, const Sym& a, const Sym& b, const char* reason = "");
  // Pins an expression to its hint. Throws DataDependent where it has none.
  int64_t specialize(const Sym& expression, const char* reason = "");
  const std::vector<SymGuard>& guards() const;
  // The expression with what equalities among the guards say put in: constant where they fix it.
  Sym simplify(const Sym& expression) const;
  int64_t evaluate(const Sym& expression, const int64_t* symbol_values) const;

  struct Impl;  // graph/sizes/sym_context.h

 private:
  friend struct SymFactory;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cdynamo::graph
