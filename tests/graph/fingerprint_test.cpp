#include "graph/fingerprint.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace cdynamo::graph {
namespace {

// neg(x + x) of [size, 3], with a dead value first where `renumber`, so that ids and names differ.
Fingerprint program(Sym size, std::shared_ptr<SymContext> context, bool renumber, const char* last = "neg",
                    DType dtype = DType::kF32) {
  Graph graph(context);
  Builder b(graph, Level::kCore);
  Value* x = graph.add_input({.dtype = dtype, .sizes = {size, 3}, .strides = {3, 1}}, renumber ? "a" : "b");
  if (renumber) {
    b.call1("abs", {x});
    graph.nodes.clear();
    b.set_location(7, 8, 0);
  }
  graph.outputs = {b.call1(last, {b.call1("add", {x, x})})};
  return fingerprint(graph);
}

TEST(Fingerprint, NamesDoNotMatter) {
  EXPECT_EQ(program(2, std::make_shared<SymContext>(), false),
            program(2, std::make_shared<SymContext>(), true));
}

TEST(Fingerprint, OperatorsSizesAndDtypesDo) {
  auto context = std::make_shared<SymContext>();
  const Fingerprint base = program(2, context, false);
  EXPECT_NE(base, program(3, context, false));
  EXPECT_NE(base, program(2, context, false, "abs"));
  EXPECT_NE(base, program(2, context, false, "neg", DType::kF64));
}

TEST(Fingerprint, SymbolsByTheirRanges) {
  const auto with_symbol = [](const char* name, int64_t hint, int64_t min) {
    auto context = std::make_shared<SymContext>();
    const Sym n = context->new_symbol(name, hint, min);
    return program(n, context, false);
  };
  EXPECT_EQ(with_symbol("s0", 8, 2), with_symbol("n", 16, 2));
  EXPECT_NE(with_symbol("s0", 8, 2), with_symbol("s0", 8, 4));
}

TEST(Fingerprint, HexHasThirtyTwoDigits) {
  const Fingerprint bytes = fingerprint_bytes("cdynamo", 7);
  EXPECT_EQ(bytes.hex().size(), 32u);
  EXPECT_EQ(bytes, fingerprint_bytes("cdynamo", 7));
  EXPECT_NE(bytes, fingerprint_bytes("cdynamp", 7));
}

}  // namespace
}  // namespace cdynamo::graph
