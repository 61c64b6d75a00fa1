#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/builder.h"
#include "graph/passes.h"
#include "tests/graph/passes/eager_oracle.h"

namespace cdynamo::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// NaNs are all alike.
bool same_bits(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  const auto same = [](double x, double y) {
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  };
  for (size_t i = 0; i < a.size(); ++i)
    if (!std::equal(a[i].begin(), a[i].end(), b[i].begin(), b[i].end(), same)) return false;
  return a.size() == b.size();
}

// A core graph made by `body` of one matrix and one vector input.
struct CoreProgram {
  Graph graph;
  Builder b{graph, Level::kCore};
  Tensor x, y;
  explicit CoreProgram(DType dtype = DType::kF32) {
    x = input({4, 6}, dtype, "x");
    y = input({6}, dtype, "y");
  }
  Tensor input(std::vector<Sym> sizes, DType dtype, std::string name) {
    std::vector<Sym> strides = contiguous_strides(sizes);
    return wrap(b, graph.add_input({.dtype = dtype, .sizes = std::move(sizes), .strides = std::move(strides)},
                                   std::move(name)));
  }
  Tensor call(std::string_view name, std::vector<Arg> args) {
    return wrap(b, b.call1(name, std::move(args)));
  }
  // The operators that are left, in order.
  std::vector<std::string> simplified(Tensor result) {
    graph.outputs = {result.value};
    EXPECT_THAT(verify(graph, true), IsEmpty()) << print_readable(graph);
    const auto before = testing::run_core(graph);
    simplify(graph);
    eliminate_common_subexpressions(graph);
    eliminate_dead_code(graph);
    EXPECT_THAT(verify(graph, true), IsEmpty()) << print_readable(graph);
    EXPECT_TRUE(same_bits(testing::run_core(graph), before)) << print_readable(graph);
    EXPECT_FALSE(simplify(graph)) << "not idempotent\n" << print_readable(graph);
    std::vector<std::string> names;
    for (const auto& node : graph.nodes) names.emplace_back(node->op->name);
    return names;
  }
};

TEST(Simplify, ThePowerOfOneIsTheOperand) {
  CoreProgram program;
  const Tensor power = program.call("core.pow_scalar", {program.x.value, 1.0});
  EXPECT_THAT(program.simplified(program.call("neg", {power.value})), ElementsAre("neg"));
}

TEST(Simplify, UnitFactorsGo) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(p.x * 1 * 1.0)), ElementsAre("neg"));
}

TEST(Simplify, AdditionOfZeroStaysForFloats) {
  CoreProgram p;  // -0 + 0 is 0
  EXPECT_THAT(p.simplified(p.x + 0.0), ElementsAre("core.full", "add"));
}

TEST(Simplify, SubtractionOfZeroGoes) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(p.x - 0.0)), ElementsAre("neg"));
}

TEST(Simplify, IntegerZeros) {
  CoreProgram p(DType::kI64);
  EXPECT_THAT(p.simplified(neg(p.x + Operand(0))), ElementsAre("neg"));
  CoreProgram q(DType::kI64);
  EXPECT_THAT(q.simplified(q.x * Operand(0)), ElementsAre("core.full"));
}

TEST(Simplify, OutputThatIsAnInputKeepsItsCopy) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(p.x * 1), ElementsAre("core.full", "mul"));
}

TEST(Simplify, DivisionByPowerOfTwoIsMultiplication) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(p.x / 8.0), ElementsAre("core.full", "mul"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(q.x / 3.0), ElementsAre("core.full", "core.true_divide"));
}

TEST(Simplify, ViewsAreMerged) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(reshape(reshape(p.x, {24}), {2, 12}))), ElementsAre("core.reshape", "neg"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(neg(permute(permute(q.x, {1, 0}), {1, 0}))), ElementsAre("neg"));
  CoreProgram r;
  EXPECT_THAT(r.simplified(neg(slice(slice(r.x, 1, 1, 5), 1, 2, 3))), ElementsAre("core.slice", "neg"));
  CoreProgram s;
  EXPECT_THAT(s.simplified(neg(expand(expand(reshape(s.y, {1, 6}), {4, 6}), {2, 4, 6}))),
              ElementsAre("core.reshape", "core.expand", "neg"));
}

TEST(Simplify, ConversionsAreMergedWhereNothingIsLost) {
  CoreProgram p(DType::kI32);
  EXPECT_THAT(p.simplified(neg(cast(cast(p.x, DType::kI64), DType::kI32))), ElementsAre("neg"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(neg(cast(cast(q.x, DType::kI32), DType::kF32))),
              ElementsAre("core.cast", "core.cast", "neg"));
}

TEST(Simplify, BitsAreTakenForOthersOnce) {
  const auto bits = [](CoreProgram& p, Tensor x, DType dtype) {
    return p.call("core.bitcast", {x.value, dtype});
  };
  CoreProgram p;
  EXPECT_THAT(p.simplified(neg(bits(p, bits(p, p.x, DType::kI32), DType::kF32))), ElementsAre("neg"));
  CoreProgram q;
  EXPECT_THAT(q.simplified(neg(bits(q, bits(q, q.x, DType::kU32), DType::kI32))),
              ElementsAre("core.bitcast", "neg"));
}

TEST(Simplify, WritesThatAreReadBack) {
  CoreProgram p;
  const std::vector<Sym> start = {1, 0}, step = {1, 1}, size = {2, 6};
  Tensor part = neg(p.call("core.slice", {p.x.value, start, size, step}));
  Tensor written = p.call("core.slice_scatter", {p.x.value, part.value, start, step});
  EXPECT_THAT(p.simplified(exp(p.call("core.slice", {written.value, start, size, step}))),
              ElementsAre("core.slice", "neg", "exp"));
}

TEST(Simplify, ConstantsAreFolded) {
  CoreProgram p;
  Tensor half = exp(full(p.b, {6}, 0.0, DType::kF32)) / 2.0;
  EXPECT_THAT(p.simplified(p.x * half), ElementsAre("core.full", "mul"));
}

TEST(Simplify, CommonSubexpressions) {
  CoreProgram p;
  EXPECT_THAT(p.simplified(exp(p.x) * exp(p.x)), ElementsAre("exp", "mul"));
}

TEST(Simplify, SymbolicViews) {
  CoreProgram p;
  const Sym n = p.graph.sym->new_symbol("s0", 8);
  Tensor z = p.input({n, 4}, DType::kF32, "z");
  EXPECT_THAT(p.simplified(neg(reshape(reshape(z, {n * 4}), {n, 4}))), ElementsAre("neg"));
}

// Random core graphs of views, writes, conversions and arithmetic with the numbers that rewrites look for.
class RandomGraph {
 public:
  RandomGraph(uint32_t seed, CoreProgram& p) : random_(seed), p_(p), values_{p.x, p.y} {}
  Tensor build() {
    for (int step = 0; step < 20; ++step) {
      Tensor made = next(any());
      if (made.rank() <= 4 && made.type().numel().constant() <= 400) values_.push_back(made);
    }
    return values_.back();
  }

 private:
  int below(int64_t n) { return static_cast<int>(random_() % n); }
  Tensor any() { return values_[values_.size() - 1 - below(std::min<int64_t>(5, values_.size()))]; }
  static int64_t size(const Tensor& x, int dim) { return x.size(dim).constant(); }

  Tensor arithmetic(Tensor x) {
    static constexpr double kNumbers[] = {0, -0.0, 1, -1, 2, 0.5, 3};
    const Operand number = kNumbers[below(7)];
    switch (below(8)) {
      case 0: return x * number;
      case 1: return x + number;
      case 2: return x - number;
      case 3: return x / number;
      case 4: return neg(x);
      case 5: return abs(x);
      case 6: return maximum(x, x);
      default: return where(gt(x, number), x, x);
    }
  }

  Tensor sliced(Tensor x, std::vector<Sym>& start, std::vector<Sym>& size, std::vector<Sym>& step) {
    for (int d = 0; d < x.rank(); ++d) {
      const int64_t extent = RandomGraph::size(x, d), first = below(2) ? 0 : below(extent),
                    stride = 1 + below(2) * below(2);
      start.push_back(first);
      step.push_back(stride);
      size.push_back((extent - first + stride - 1) / stride);
    }
    return p_.call("core.slice", {x.value, start, size, step});
  }

  Tensor next(Tensor x) {
    const int rank = x.rank();
    std::vector<Sym> start, size, step;
    switch (below(11)) {
      case 0: return reshape(x, {x.type().numel()});
      case 1: return unsqueeze(x, below(rank + 1));
      case 2: return rank ? transpose(x, below(rank), below(rank)) : x;
      case 3: {
        std::vector<Sym> sizes = x.sizes();
        sizes.insert(sizes.begin(), 2);
        return expand(x, sizes);
      }
      case 4: return sliced(x, start, size, step);
      case 5: {
        Tensor part = sliced(x, start, size, step);
        return p_.call("core.slice_scatter", {x.value, arithmetic(part).value, start, step});
      }
      case 6: return cast(cast(x, below(2) ? DType::kF64 : DType::kI32), x.dtype());
      case 7: return rank ? amax(x, {below(rank)}, below(2)) : x;
      case 8: return full_like(x, static_cast<double>(below(3) - 1));
      default: return arithmetic(x);
    }
  }

  std::mt19937 random_;
  CoreProgram& p_;
  std::vector<Tensor> values_;
};

TEST(Simplify, RandomGraphsKeepTheirValues) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    CoreProgram p;
    p.simplified(neg(RandomGraph(seed, p).build()));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace cdynamo::graph
