// What is compiled grows with the graph, not with the number of ways through it: statements of all kernels are counted
// over chains of every kind of read, of different lengths.
#include <functional>

#include "lowering/fusion/memory_plan.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Tensor;

constexpr int64_t kSide = 12;

struct Chain {
  const char* name;
  std::function<Tensor(Builder&, Tensor)> step;
};

Tensor rolled(Tensor x, int64_t dim, int64_t by) {
  const int64_t cut = by > 0 ? kSide - by : -by;
  return graph::concat({slice(x, dim, cut, kSide - cut), slice(x, dim, 0, cut)}, dim);
}

Tensor call(Builder& builder, std::string_view op, std::vector<graph::Arg> args) {
  return graph::wrap(builder, builder.call1(op, std::move(args)));
}

// Index 0, 1, 2 … of the side, from the highest.
Tensor descending(Builder& builder) {
  Tensor count = call(builder, "core.iota", {std::vector<Sym>{kSide}, Sym(0), DType::kI64});
  return flip(count, {0});
}

const std::vector<Chain>& chains() {
  static const auto* const list = new std::vector<Chain>{
      {"plain", [](Builder&, Tensor u) { return (u + 0.1) * (u - 0.1) * 0.1; }},
      {"roll", [](Builder&, Tensor u) { return rolled(u, 0, 1); }},
      {"rolls", [](Builder&, Tensor u) { return (rolled(u, 0, 1) + rolled(u, 1, 1)) * 0.5; }},
      {"stencil",
       [](Builder&, Tensor u) { return u + (rolled(u, 0, 1) - u * 2.0 + rolled(u, 0, -1)) * 0.1; }},
      {"pad",
       [](Builder&, Tensor u) {
         Tensor p = pad(u, {0, 1}, {0, 1}, 0.0);
         return u + (slice(p, 1, 2, kSide) - u * 2.0 + slice(p, 1, 0, kSide)) * 0.1;
       }},
      {"flip", [](Builder&, Tensor u) { return (flip(u, {0}) + flip(u, {1})) * 0.5; }},
      {"slice", [](Builder&, Tensor u) { return rolled(u, 1, -1) * 0.5 + u * 0.5; }},
      {"transpose", [](Builder&, Tensor u) { return transpose(u, 0, 1) * 0.5 + u * 0.5; }},
      {"reshape",
       [](Builder&, Tensor u) {
         return reshape(transpose(reshape(u, {kSide / 2, 2 * kSide}), 0, 1), {kSide, kSide}) * 0.5 + u * 0.5;
       }},
      {"broadcast",
       [](Builder&, Tensor u) { return u * 0.5 + slice(u, 1, 0, 1) * 0.3 + slice(u, 0, 0, 1) * 0.1; }},
      {"gather",
       [](Builder& builder, Tensor u) {
         return call(builder, "core.index", {u.value, std::vector<Value*>{descending(builder).value}}) * 0.5 +
                u * 0.5;
       }},
      {"window",
       [](Builder& builder, Tensor u) {
         auto pair = [](int64_t a, int64_t b) { return std::vector<Sym>{a, b}; };
         Tensor x = reshape(u, {1, 1, kSide, kSide});
         Tensor windows = call(
             builder, "core.window",
             {x.value, pair(3, 3), pair(1, 1), pair(1, 1), pair(1, 1), pair(1, 1), pair(kSide, kSide), 0.0});
         return reshape(sum(windows, {4, 5}), {kSide, kSide}) * 0.1;
       }},
      {"mean", [](Builder&, Tensor u) { return u - mean(u, {0}, true) * 0.1 + mean(u, {1}, true) * 0.1; }},
  };
  return *list;
}

struct Program {
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  Program(const Chain& chain, int steps) {
    std::mt19937 rng{7};
    Value* x = graph.add_input(tensor_type({kSide, kSide}), "x");
    inputs.push_back(random_tensor(DType::kF32, {kSide, kSide}, rng));
    Tensor u = graph::wrap(builder, x) * 0.125;
    for (int i = 0; i < steps; ++i) u = chain.step(builder, u);
    graph.outputs.push_back(u.value);
  }
};

// Counts statements as fusion made them.
class CountingTarget : public InterpretedTarget {
 public:
  mutable size_t statements = 0;
  std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels, const graph::SymContext& context,
                                       const EmitOptions& options) const override {
    for (const Kernel& kernel : kernels)
      for (const Phase& phase : kernel.phases) statements += phase.body.size();
    return InterpretedTarget::emit(kernels, context, options);
  }
};

size_t count_statements(const Graph& graph) {
  const CountingTarget target;
  compile_for(target, graph, {}, nullptr);
  return target.statements;
}

TEST(Growth, StatementsGrowWithTheChain) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    const size_t few = count_statements(Program(chain, 8).graph),
                 many = count_statements(Program(chain, 96).graph);
    EXPECT_LE(many, 14 * few);
    EXPECT_LE(few, 8 * 64);
  }
}

TEST(Growth, ChainsAreComputedRight) {
  for (const Chain& chain : chains())
    for (int steps : {1, 2, 3, 9, 40}) {
      SCOPED_TRACE(std::string(chain.name) + ", steps: " + std::to_string(steps));
      Program program(chain, steps);
      compile_and_compare(program.graph, program.inputs);
    }
}

// Ways through a graph whose values have two readers each: 2 to the number of steps.
TEST(Growth, CostsOfManyWaysDoNotOverflow) {
  for (int steps : {30, 33, 62, 66, 130}) {
    SCOPED_TRACE(steps);
    Program program(chains()[0], steps);
    EXPECT_LE(count_statements(program.graph), static_cast<size_t>(16 * steps));
  }
}

// One value with many readers: as many kernels as before for few, and not each with each for many.
TEST(Growth, ManyReaders) {
  const auto program = [](int readers) {
    auto graph = std::make_unique<Graph>();
    Builder builder{*graph, graph::Level::kCore};
    Tensor x = exp(graph::wrap(builder, graph->add_input(tensor_type({64}), "x")));
    for (int i = 0; i < readers; ++i) graph->outputs.push_back((x * (i + 0.5)).value);
    return graph;
  };
  const size_t few = count_statements(*program(40)), many = count_statements(*program(400));
  EXPECT_LE(many, 12 * few);
}

TEST(MemorySets, MeetWhereBytesAreShared) {
  MemorySet a, b, c, symbolic;
  a.add_arena(Sym(0), Sym(64));
  a.add_arena(Sym(128), Sym(64));
  b.add_arena(Sym(64), Sym(64));
  EXPECT_FALSE(a.meets(b));
  EXPECT_FALSE(b.meets(a));
  c.add_arena(Sym(100), Sym(100));
  EXPECT_TRUE(a.meets(c));
  EXPECT_TRUE(c.meets(b));
  a.merge(b);
  a.add_own(7);
  EXPECT_TRUE(a.meets(b));
  b.add_input();
  MemorySet inputs, own;
  inputs.add_input();
  EXPECT_TRUE(inputs.meets(b));
  EXPECT_FALSE(inputs.meets(a));
  own.add_own(7);
  EXPECT_TRUE(own.meets(a));
  EXPECT_FALSE(own.meets(b));
  graph::SymContext context;
  symbolic.add_arena(context.new_symbol("s0", 8, 2), Sym(64));
  EXPECT_TRUE(symbolic.meets(c));
  EXPECT_FALSE(symbolic.meets(own));
}

}  // namespace
}  // namespace cdynamo::lowering::testing
