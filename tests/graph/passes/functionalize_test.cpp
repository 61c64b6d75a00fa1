#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/passes.h"
#include "tests/graph/passes/eager_oracle.h"

namespace cdynamo::graph {
namespace {

using testing::compare_with_eager;

TensorType floats(std::vector<Sym> sizes) {
  std::vector<Sym> strides = contiguous_strides(sizes);
  return {.dtype = DType::kF64, .sizes = std::move(sizes), .strides = std::move(strides)};
}
TensorType floats(std::vector<Sym> sizes, std::vector<Sym> strides) {
  return {.dtype = DType::kF64, .sizes = std::move(sizes), .strides = std::move(strides)};
}

// A captured program, written as its calls.
struct Program {
  Graph graph;
  Builder builder{graph};
  Value* input(TensorType type) {
    return graph.add_input(std::move(type), "x" + std::to_string(graph.inputs.size()));
  }
  Value* call(std::string_view name, std::vector<Arg> args) { return builder.call1(name, std::move(args)); }
  Value* in_place(std::string_view name, std::vector<Arg> args) {
    const OpDef& def = op(name);
    for (size_t i = args.size(); i < def.parsed[0].params.size(); ++i)
      args.push_back(def.parsed[0].params[i].default_value);
    return builder.call(def, 0, std::move(args), /*in_place=*/true).at(0);
  }
  Value* select(Value* x, int64_t dim, int64_t index) { return call("select", {x, Sym(dim), Sym(index)}); }
  Value* slice(Value* x, int64_t dim, int64_t start, int64_t end, int64_t step = 1) {
    return call("slice", {x, Sym(dim), Sym(start), Sym(end), Sym(step)});
  }
  Value* transpose(Value* x, int64_t a, int64_t b) { return call("transpose", {x, Sym(a), Sym(b)}); }
  Value* view(Value* x, std::vector<Sym> sizes) { return call("view", {x, std::move(sizes)}); }
  Value* reshape(Value* x, std::vector<Sym> sizes) { return call("reshape", {x, std::move(sizes)}); }
  void returns(std::vector<Value*> values) { graph.outputs = std::move(values); }
};

#define EXPECT_LIKE_EAGER(program)                                                         \
  do {                                                                                     \
    EXPECT_THAT(verify((program).graph, false), ::testing::IsEmpty());                     \
    EXPECT_EQ(compare_with_eager((program).graph), "") << print_readable((program).graph); \
  } while (false)

TEST(Functionalize, PureProgramIsDecomposed) {
  Program p;
  Value* x = p.input(floats({2, 3}));
  p.returns({p.call("mul", {p.call("add", {x, x}), x})});
  EXPECT_LIKE_EAGER(p);
  const Prepared prepared = functionalize(p.graph);
  EXPECT_TRUE(prepared.core->mutations.empty());
  EXPECT_EQ(prepared.outputs[0].kind, OutputAlias::kFresh);
}

TEST(Functionalize, WriteToInputBecomesOneMutation) {
  Program p;
  Value* x = p.input(floats({2, 3}));
  p.in_place("add", {x, x});
  p.in_place("mul", {x, x});
  p.returns({p.call("neg", {x})});
  EXPECT_LIKE_EAGER(p);
  EXPECT_EQ(functionalize(p.graph).core->mutations.size(), 1u);
}

TEST(Functionalize, WriteThroughViewOfView) {
  Program p;
  Value* x = p.input(floats({4, 6}));
  Value* row = p.select(p.transpose(x, 0, 1), 0, 2);
  p.in_place("add", {row, row});
  p.returns({p.call("neg", {x}), row});
  EXPECT_LIKE_EAGER(p);
}

TEST(Functionalize, StaleViewsAreDerivedAgain) {
  Program p;
  Value* x = p.input(floats({4, 6}));
  Value* t = p.call("clone", {x});
  Value* left = p.slice(t, 1, 0, 4);
  Value* right = p.slice(t, 1, 2, 6);
  Value* before = p.call("neg", {right});
  p.in_place("mul", {left, left});
  p.returns({p.call("add", {right, before}), t});
  EXPECT_LIKE_EAGER(p);
  EXPECT_TRUE(functionalize(p.graph).core->mutations.empty());
}

TEST(Functionalize, WriteThroughDiagonalAndStridedSlice) {
  Program p;
  Value* x = p.input(floats({5, 5}));
  Value* t = p.call("clone", {x});
  p.in_place("fill", {p.call("diagonal", {t, Sym(1), Sym(0), Sym(1)}), Sym(0)});
  p.in_place("neg", {p.slice(p.slice(t, 0, 0, 5, 2), 1, 1, 5, 3)});
  p.returns({t});
  EXPECT_LIKE_EAGER(p);
}

TEST(Functionalize, WriteThroughReshape) {
  Program p;
  Value* x = p.input(floats({2, 6}));
  Value* flat = p.view(x, {12});
  Value* cube = p.view(x, {2, 3, 2});
  p.in_place("add", {p.select(cube, 2, 1), p.select(flat, 0, 5)});
  p.returns({flat, cube});
  EXPECT_LIKE_EAGER(p);
}

TEST(Functionalize, ReshapeOfTransposedIsACopy) {
  Program p;
  Value* x = p.input(floats({2, 6}));
  Value* copy = p.reshape(p.transpose(x, 0, 1), {12});
  p.in_place("add", {x, x});
  p.returns({copy});
  EXPECT_LIKE_EAGER(p);
  EXPECT_EQ(functionalize(p.graph).outputs[0].kind, OutputAlias::kFresh);
}

TEST(Functionalize, ContiguousIsTheTensorItselfWhereItIsContiguous) {
  Program p;
  Value* x = p.input(floats({2, 6}));
  Value* y = p.input(floats({2, 6}, {1, 2}));
  p.returns(
      {p.call("contiguous", {x}), p.call("contiguous", {y}), p.call("contiguous", {p.select(x, 0, 1)})});
  EXPECT_LIKE_EAGER(p);
  const Prepared prepared = functionalize(p.graph);
  EXPECT_EQ(prepared.outputs[0].kind, OutputAlias::kInput);
  EXPECT_EQ(prepared.outputs[1].kind, OutputAlias::kFresh);
  EXPECT_EQ(prepared.outputs[2].kind, OutputAlias::kViewOfInput);
  EXPECT_EQ(prepared.outputs[2].offset, Sym(6));
}

TEST(Functionalize, OutputsTellTheirStorage) {
  Program p;
  Value* x = p.input(floats({3, 4}));
  Value* t = p.call("add", {x, x});
  Value* row = p.select(t, 0, 1);
  Value* written = p.in_place("mul", {t, x});
  Value* other = p.select(p.call("neg", {x}), 1, 3);  // the view of a temporary that is no output
  p.returns({row, t, written, other, x, p.transpose(x, 0, 1), t});
  EXPECT_LIKE_EAGER(p);
  const Prepared prepared = functionalize(p.graph);
  using Kind = OutputAlias::Kind;
  std::vector<std::pair<Kind, int>> found;
  for (const OutputAlias& output : prepared.outputs) found.emplace_back(output.kind, output.index);
  EXPECT_THAT(found, ::testing::ElementsAre(std::pair(Kind::kViewOfOutput, 0), std::pair(Kind::kFresh, 0),
                                            std::pair(Kind::kFresh, 0), std::pair(Kind::kViewOfOutput, 1),
                                            std::pair(Kind::kInput, 0), std::pair(Kind::kViewOfInput, 0),
                                            std::pair(Kind::kFresh, 0)));
  EXPECT_EQ(prepared.core->outputs.size(), 2u);
  EXPECT_EQ(prepared.outputs[3].offset, Sym(3));
  EXPECT_EQ(prepared.outputs[3].strides, std::vector<Sym>{4});
}

TEST(Functionalize, ViewsAsAnotherDtypeTellIt) {
  Program p;
  Value* x = p.input(floats({3, 4}));
  const OpDef& view = op("view");
  Value* bits = p.builder.call(view, 1, {x, DType::kI64}).at(0);
  p.in_place("bitwise_not", {p.select(bits, 0, 1)});
  p.returns({p.select(bits, 0, 2), p.builder.call(view, 1, {bits, DType::kF64}).at(0)});
  const Prepared prepared = functionalize(p.graph);
  EXPECT_EQ(prepared.outputs[0].kind, OutputAlias::kViewOfInput);
  EXPECT_EQ(prepared.outputs[0].dtype, DType::kI64);
  EXPECT_EQ(prepared.outputs[0].offset, Sym(8));
  EXPECT_EQ(prepared.outputs[1].kind, OutputAlias::kViewOfInput);
  EXPECT_EQ(prepared.outputs[1].dtype, std::nullopt);
  ASSERT_EQ(prepared.core->mutations.size(), 1u);
  EXPECT_EQ(prepared.core->mutations[0].value->type.dtype, DType::kF64);
}

TEST(Functionalize, EqualValuesInTwoStoragesAreTwoOutputs) {
  Program p;
  Value* x = p.input(floats({3}));
  Value* y = p.call("neg", {x});
  p.returns({y, p.call("clone", {y}), p.call("clone", {x})});
  EXPECT_LIKE_EAGER(p);
  const Prepared prepared = prepare(p.graph);
  EXPECT_EQ(prepared.core->outputs.size(), 3u);
  EXPECT_THAT(verify(*prepared.core, true), ::testing::IsEmpty());
}

TEST(Functionalize, ResultsKeepEagersStrides) {
  Program p;
  Value* x = p.input(floats({3, 4}, {1, 3}));
  p.returns({p.call("neg", {x})});
  EXPECT_LIKE_EAGER(p);
  EXPECT_EQ(functionalize(p.graph).core->outputs[0]->type.strides, (std::vector<Sym>{1, 3}));
}

TEST(Functionalize, InputsThatAreSwapped) {
  Program p;
  Value* x = p.input(floats({3}));
  Value* y = p.input(floats({3}));
  Value* old = p.call("clone", {x});
  p.in_place("copy", {x, y});
  p.in_place("copy", {y, old});
  p.returns({old});
  EXPECT_LIKE_EAGER(p);
  const Prepared prepared = functionalize(p.graph);
  ASSERT_EQ(prepared.core->mutations.size(), 2u);
}

TEST(Functionalize, WriteToExpandedTensorIsRefused) {
  Program p;
  Value* x = p.input(floats({1, 3}));
  Value* wide = p.call("expand", {x, std::vector<Sym>{2, 3}, false});
  p.in_place("fill", {wide, Sym(0)});
  p.returns({x});
  EXPECT_THROW(functionalize(p.graph), UserError);
}

TEST(Functionalize, FreshResultsWithGapsAreRefused) {
  Program p;
  Value* x = p.input(floats({4}));
  Value* y = p.call("neg", {x});
  y->type.strides = {6};  // what a faulty entry may infer: writing it would leave the output's buffer
  p.returns({y});
  EXPECT_THROW(functionalize(p.graph), Unsupported);
}

TEST(Functionalize, SymbolicSizes) {
  Program p;
  Sym rows = p.graph.sym->new_symbol("s0", 5), columns = p.graph.sym->new_symbol("s1", 6);
  Value* x = p.input(floats({rows, columns}));
  Value* t = p.view(p.call("clone", {x}), {rows * columns});
  p.in_place("add", {p.call("slice", {t, Sym(0), columns, rows * columns, Sym(1)}), Sym(1)});
  p.returns({p.view(t, {columns, rows}), p.transpose(x, 0, 1)});
  EXPECT_LIKE_EAGER(p);
}

// Random programs of views, writes and arithmetic on tensors of one or two dimensions.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  void build(Program& p) {
    for (int i = 0; i < 2; ++i) values_.push_back(p.input(i ? floats({3, 4}, {1, 3}) : floats({4, 3})));
    for (int step = 0; step < 14; ++step) add_step(p);
    for (int i = 0; i < 4; ++i) p.graph.outputs.push_back(any());
  }

 private:
  int below(int n) { return static_cast<int>(random_() % n); }
  Value* any() { return values_[below(static_cast<int>(values_.size()))]; }
  static int64_t size(const Value* x, int dim) { return x->type.sizes[dim].constant(); }

  void add_step(Program& p) {
    Value* x = any();
    switch (below(10)) {
      case 0:
      case 1: return values_.push_back(p.call(below(2) ? "neg" : "abs", {x}));
      case 2: return values_.push_back(p.call("clone", {x}));
      case 3:
      case 4: return write(p, x);
      case 5: return values_.push_back(p.call("contiguous", {x}));
      case 6: return values_.push_back(p.reshape(x, {x->type.numel()}));
      default: return view(p, x);
    }
  }

  void view(Program& p, Value* x) {
    const int rank = x->type.rank();
    if (rank == 0) return values_.push_back(p.call("unsqueeze", {x, Sym(0)}));
    const int dim = below(rank);
    const int64_t extent = size(x, dim);
    switch (below(6)) {
      case 0:
        if (extent > 1) return values_.push_back(p.select(x, dim, below(static_cast<int>(extent))));
        return;
      case 1: {
        const int64_t start = below(static_cast<int>(extent));
        return values_.push_back(
            p.slice(x, dim, start, start + 1 + below(static_cast<int>(extent)), 1 + below(2)));
      }
      case 2: return values_.push_back(p.transpose(x, dim, below(rank)));
      case 3:
        if (rank < 3) values_.push_back(p.call("unsqueeze", {x, Sym(dim)}));
        return;
      case 4:
        if (rank == 2) values_.push_back(p.call("diagonal", {x, Sym(below(3) - 1), Sym(0), Sym(1)}));
        return;
      default:
        if (rank == 1 && extent % 2 == 0) values_.push_back(p.reshape(x, {2, extent / 2}));
        return;
    }
  }

  // Operands are copied first: eager refuses operands that overlap with what is written.
  void write(Program& p, Value* x) {
    if (x->type.numel() == Sym(0)) return;
    Value* other = p.call("abs", {x});
    static constexpr const char* kWrites[] = {"add", "mul", "neg", "copy", "sub"};
    const std::string name = kWrites[below(5)];
    if (name == "neg")
      values_.push_back(p.in_place("neg", {x}));
    else
      values_.push_back(p.in_place(name, {x, other}));
  }

  std::mt19937 random_;
  std::vector<Value*> values_;
};

TEST(Functionalize, RandomProgramsEqualEager) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Program p;
    RandomProgram(seed).build(p);
    ASSERT_EQ(compare_with_eager(p.graph), "") << "seed " << seed << "\n" << print_readable(p.graph);
  }
}

}  // namespace
}  // namespace cdynamo::graph
