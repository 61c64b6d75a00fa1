// One graph for many sizes: what is built with a symbol gives, for another size, what a graph of that size
// gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"
#include "graph/interpreter.h"

namespace cdynamo::graph {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// -1 stands for the size that varies.
struct Input {
  std::vector<int64_t> sizes;
  DType dtype = DType::kF32;
};
using Body = std::function<std::vector<Value*>(Builder&, const std::vector<Value*>&, const Sym&)>;

TensorType type_of(const Input& input, const Sym& varying) {
  TensorType type;
  type.dtype = input.dtype;
  for (int64_t size : input.sizes) type.sizes.push_back(size == -1 ? varying : Sym(size));
  type.strides = contiguous_strides(type.sizes);
  return type;
}

DenseTensor content(const Input& input, int64_t varying) {
  std::vector<int64_t> sizes = input.sizes;
  for (int64_t& size : sizes)
    if (size == -1) size = varying;
  DenseTensor tensor(input.dtype, sizes);
  for (size_t i = 0; i < tensor.elements.size(); ++i) {
    bool real = runtime::is_float(input.dtype);
    tensor.set(i, real ? static_cast<double>((i * 37) % 19) / 7 - 1 : static_cast<double>(i % 3));
  }
  return tensor;
}

std::unique_ptr<Graph> build(Level level, const std::vector<Input>& inputs, const Body& body, const Sym& size,
                             std::shared_ptr<SymContext> context) {
  auto graph = std::make_unique<Graph>(std::move(context));
  Builder b(*graph, level);
  std::vector<Value*> values;
  for (const Input& input : inputs) values.push_back(graph->add_input(type_of(input, size), "x"));
  graph->outputs = body(b, values, size);
  return graph;
}

// Allows `guards` assumptions about the size.
void check(const std::vector<Input>& inputs, const Body& body, size_t guards = 0) {
  auto context = std::make_shared<SymContext>();
  Sym symbol = context->new_symbol("s0", 8);
  build(Level::kCaptured, inputs, body, symbol, context);
  EXPECT_LE(context->guards().size(), guards) << "first: " << context->guards()[0].left.str();
  auto dynamic = build(Level::kCore, inputs, body, symbol, context);
  constexpr int64_t kOther = 6;
  auto fixed = build(Level::kCore, inputs, body, kOther, std::make_shared<SymContext>());
  std::vector<DenseTensor> contents;
  for (const Input& input : inputs) contents.push_back(content(input, kOther));
  auto found = interpret(*dynamic, contents, {kOther}), expected = interpret(*fixed, contents);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sizes, expected[i].sizes);
    EXPECT_THAT(found[i].numbers(), Pointwise(DoubleNear(1e-6), expected[i].numbers()));
  }
}

Body call(std::string op, std::vector<Arg> more = {}) {
  return [op, more](Builder& b, const std::vector<Value*>& x, const Sym&) {
    std::vector<Arg> args(x.begin(), x.end());
    args.insert(args.end(), more.begin(), more.end());
    return b.call(op, args);
  };
}

TEST(SymbolicSize, PointwiseAndBroadcast) {
  check({{{-1, 4}}, {{4}}}, call("add"));
  check({{{-1, 4}}, {{-1, 1}}}, call("mul"));
  check({{{4, -1}}, {{-1}}}, call("maximum"));
  check({{{-1, 4}}}, call("gelu"));
}

TEST(SymbolicSize, ReductionsAndNorms) {
  check({{{-1, 4}}}, call("sum"));
  check({{{4, -1}}}, call("mean"));
  check({{{-1, 4}}}, call("var"));
  check({{{4, -1}}}, call("softmax", {Sym(-1)}));
  check({{{-1, 4}}}, call("log_softmax", {Sym(0)}));
  check({{{-1, 3, 4}}}, call("layer_norm", {std::vector<Sym>{4}}));
  check({{{-1, 4}}}, call("argmax"));
  check({{{-1, 4}}}, call("cumsum", {Sym(0)}));
}

TEST(SymbolicSize, Views) {
  check({{{-1, 6}}}, call("reshape", {std::vector<Sym>{-1}}));
  check({{{-1, 6}}}, call("reshape", {std::vector<Sym>{-1, 2, 3}}));
  check({{{-1, 6}}}, [](Builder& b, const std::vector<Value*>& x, const Sym& s) {
    Value* split = b.call1("view", {x[0], std::vector<Sym>{s, 2, 3}});
    Value* moved = b.call1("transpose", {split, Sym(0), Sym(1)});
    return b.call("reshape", {moved, std::vector<Sym>{2, s * 3}});
  });
  check({{{-1, 6}}}, call("chunk", {Sym(3), Sym(-1)}));
  check({{{-1, 6}}}, call("flatten"));
  check({{{-1, 6}}}, call("slice", {Sym(0), Sym(1), Arg(), Sym(1)}));
  check({{{-1, 6}}}, call("select", {Sym(0), Sym(-1)}));
  check({{{-1, 6}}}, call("flip", {std::vector<Sym>{0}}));
  check({{{-1, 6}}}, call("unsqueeze", {Sym(1)}));
  check({{{1, 6}}}, [](Builder& b, const std::vector<Value*>& x, const Sym& s) {
    return b.call("expand", {x[0], std::vector<Sym>{s, -1}});
  });
}

TEST(SymbolicSize, JoinsAndIndexing) {
  check({{{-1, 4}}, {{3, 4}}}, [](Builder& b, const std::vector<Value*>& x, const Sym&) {
    return b.call("cat", {std::vector<Value*>{x[0], x[1]}});
  });
  check({{{-1, 4}}, {{-1, 4}}}, [](Builder& b, const std::vector<Value*>& x, const Sym&) {
    return b.call("stack", {std::vector<Value*>{x[0], x[1]}});
  });
  check({{{5, 4}}, {{-1}, DType::kI64}}, call("embedding"));
  check({{{-1, 4}}, {{2, 2}, DType::kI64}}, [](Builder& b, const std::vector<Value*>& x, const Sym&) {
    return b.call("index", {x[0], std::vector<Value*>{x[1]}});
  });
  check({{{4}}}, [](Builder& b, const std::vector<Value*>&, const Sym& s) { return b.call("arange", {s}); });
  check({{{-1, 4}}}, call("tril"));
}

TEST(SymbolicSize, ProductsAndConvolutions) {
  check({{{-1, 4}}, {{3, 4}}, {{3}}}, call("linear"));
  check({{{-1, 2, 4}}, {{3, 4}}}, call("linear"));
  check({{{2, -1, 4}}, {{2, 4, -1}}}, call("matmul"));
  check({{{-1, 2, 5, 5}}, {{3, 2, 3, 3}}}, call("conv2d"));
  check({{{-1, 2, 6, 6}}}, call("max_pool2d", {std::vector<Sym>{2, 2}}));
  check({{{-1, 2, 6, 6}}}, call("adaptive_avg_pool2d", {std::vector<Sym>{1, 1}}));
  check({{{-1, 2, 3, 4}}, {{-1, 2, 3, 4}}, {{-1, 2, 3, 4}}}, call("scaled_dot_product_attention"));
  check({{{2, 2, -1, 4}}, {{2, 2, -1, 4}}, {{2, 2, -1, 4}}},
        call("scaled_dot_product_attention", {Arg(), 0.0, true}));
  check({{{-1, 3}}, {{-1}, DType::kI64}}, call("cross_entropy_loss"));
  check({{{-1, 2, 3}}, {{2}}, {{2}}, {{2}}, {{2}}}, [](Builder& b, const std::vector<Value*>& x, const Sym&) {
    return b.call("batch_norm",
                  {x[0], x[1], x[2], b.call1("abs", {x[3]}), b.call1("abs", {x[4]}), false, 0.1, 1e-5, true});
  });
}

}  // namespace
}  // namespace cdynamo::graph
