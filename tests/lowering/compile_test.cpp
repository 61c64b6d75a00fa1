// Scheduling, fusion and the executor against the interpreter of graphs; kernels are interpreted too.
#include <cmath>

#include "graph/reference.h"
#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Tensor;

class CompileTest : public ::testing::Test {
 protected:
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  std::mt19937 rng{7};

  Tensor input(std::vector<Sym> sizes, DType dtype = DType::kF32) {
    return input_strided(sizes, graph::contiguous_strides(sizes), dtype);
  }
  Tensor input_strided(std::vector<Sym> sizes, std::vector<Sym> strides, DType dtype = DType::kF32) {
    graph::TensorType type = tensor_type(sizes, dtype);
    type.strides = std::move(strides);
    Value* value = graph.add_input(type, "x" + std::to_string(graph.inputs.size()));
    inputs.push_back(random_tensor(dtype, hints(sizes), rng));
    return graph::wrap(builder, value);
  }
  Tensor indices(std::vector<Sym> sizes, int64_t below) {
    Tensor x = input(sizes, DType::kI64);
    for (auto& element : inputs.back().elements)
      element.integer = static_cast<int64_t>(rng() % (2 * below)) - below;
    return x;
  }
  std::vector<int64_t> hints(const std::vector<Sym>& sizes) {
    std::vector<int64_t> result;
    for (const Sym& size : sizes) result.push_back(graph.sym->hint(size));
    return result;
  }
  void output(Tensor x) { graph.outputs.push_back(x.value); }
  // With machine code, then with interpreted kernels.
  RunResult check(std::vector<int64_t> symbols = {}) {
    compile_and_compare(graph, inputs, symbols, interpreted_target());
    compile_and_compare(graph, inputs, symbols, emulated_gpu_target());
    if (HasFailure()) return {};
    return compile_and_compare(graph, inputs, symbols, cpu_target());
  }
  Tensor call(std::string_view op, std::vector<graph::Arg> args) {
    return graph::wrap(builder, builder.call1(op, std::move(args)));
  }

  Tensor softmax(Tensor x, int64_t dim) {
    Tensor e = exp(x - amax(x, {dim}, true));
    return e / sum(e, {dim}, true);
  }
  Tensor layer_norm(Tensor x, Tensor weight, Tensor bias) {
    Tensor centred = x - mean(x, {-1}, true);
    Tensor variance = mean(centred * centred, {-1}, true);
    return centred * rsqrt(variance + 1e-5) * weight + bias;
  }
};

TEST_F(CompileTest, Pointwise) {
  Tensor x = input({4, 5}), y = input({5});
  output(x * y + 1.0);
  EXPECT_EQ(check().report.kernels, 1);
}

TEST_F(CompileTest, ScalarsAndZeroDims) {
  Tensor x = input({}), y = input({});
  output(x * y);
  output(sum(x, {}));
  check();
}

TEST_F(CompileTest, StridedInputsAndOutputs) {
  Tensor x = input_strided({4, 6}, {1, 4}), y = input_strided({4, 6}, {20, 3}),
         z = input_strided({4, 6}, {0, 1});
  Tensor r = x + y * z;
  r.value->type.strides = {1, 4};
  output(r);
  check();
}

TEST_F(CompileTest, Views) {
  Tensor x = input({2, 6, 4});
  output(permute(reshape(x, {2, 2, 3, 4}), {0, 2, 1, 3}) + 1.0);
  output(reshape(transpose(x, 0, 1), {12, 4}) * 2.0);
  output(flip(x, {0, 2}));
  output(reshape(transpose(x, 1, 2), {48}) + 0.5);
  output(slice(x, 1, 1, 3, 2) * 3.0);
  output(call("core.diagonal", {x.value, Sym(1), Sym(1), Sym(2)}));
  check();
}

TEST_F(CompileTest, ReshapeThatIsNotAffine) {
  Tensor x = input({3, 4});
  output(reshape(slice(reshape(x, {12}), 0, 1, 10), {5, 2}) +
         reshape(slice(reshape(transpose(x, 0, 1), {12}), 0, 2, 10), {5, 2}));
  check();
}

TEST_F(CompileTest, Reductions) {
  Tensor x = input({3, 5, 4});
  for (graph::Dims dims : {graph::Dims{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}}) {
    output(sum(x, dims));
    output(amax(x, dims, true));
  }
  output(prod(x, {1}));
  output(amin(x, {0}));
  check();
}

TEST_F(CompileTest, ArgmaxTakesTheFirst) {
  Tensor x = input({3, 7});
  inputs[0].set(2, 9);
  inputs[0].set(5, 9);
  inputs[0].set(9, NAN);
  output(call("core.argmax", {x.value, std::vector<Sym>{1}}));
  output(call("core.argmin", {x.value, std::vector<Sym>{0}}));
  output(call("core.argmax", {x.value, std::vector<Sym>{0, 1}}));
  check();
}

TEST_F(CompileTest, SoftmaxIsOneKernel) {
  output(softmax(input({6, 33}), -1));
  EXPECT_EQ(check().report.kernels, 1);
}

TEST_F(CompileTest, SoftmaxOverColumnsIsOneKernel) {
  output(softmax(input({9, 33}), 0));
  EXPECT_EQ(check().report.kernels, 1);
}

TEST_F(CompileTest, LayerNormWithNeighboursIsOneKernel) {
  Tensor x = input({4, 3, 16}), y = input({4, 3, 16}), weight = input({16}), bias = input({16});
  Tensor sum_of = x + y;
  output(sum_of);
  Tensor normal = layer_norm(sum_of, weight, bias);
  output(normal * sigmoid(normal));
  EXPECT_EQ(check().report.kernels, 1);
}

TEST_F(CompileTest, GroupNormSplitsTheChannelAxis) {
  Tensor x = input({2, 6, 2, 2}), weight = input({6});
  Tensor grouped = reshape(x, {2, 3, 8});
  Tensor centred = grouped - mean(grouped, {2}, true);
  Tensor normal = centred * rsqrt(mean(centred * centred, {2}, true) + 1e-5);
  output(reshape(normal, {2, 6, 2, 2}) * expand(reshape(weight, {1, 6, 1, 1}), {2, 6, 2, 2}));
  EXPECT_EQ(check().report.kernels, 1);
}

TEST_F(CompileTest, SiblingsShareOneKernel) {
  Tensor x = input({8, 8});
  output(sin(x));
  output(exp(x) + 1.0);
  output(sum(x, {1}));
  EXPECT_LE(check().report.kernels, 2);
}

TEST_F(CompileTest, ExpensiveOperatorsAreNotRepeated) {
  Tensor x = input({8}), y = input({32, 8});
  output(y * expand(reshape(exp(x), {1, 8}), {32, 8}));
  EXPECT_EQ(check().report.kernels, 2);
}

TEST_F(CompileTest, PadWindowAndPooling) {
  Tensor x = input({1, 2, 5, 6});
  output(pad(x, {0, 0, 1, 2}, {0, 0, 2, 0}, 1.5));
  auto list = [](int64_t a, int64_t b) { return std::vector<Sym>{a, b}; };
  Tensor windows = call("core.window", {x.value, list(2, 3), list(3, 2), list(2, 1), list(1, 0), list(1, 2),
                                        list(3, 4), -INFINITY});
  output(amax(windows, {4, 5}));
  // Windows that lie inside: nothing is masked.
  Tensor y = input({2, 6, 40});
  output(sum(call("core.window",
                  {y.value, list(1, 2), list(2, 2), list(2, 2), list(0, 0), list(1, 1), list(3, 20), 0.0}),
             {3, 4}));
  check();
}

// Pairs along the last axis: of two values, of one value twice, of two planes.
TEST_F(CompileTest, Interleaving) {
  Tensor a = input({3, 37}), b = input({3, 37});
  auto column = [](Tensor x) { return reshape(x, {3, 37, 1}); };
  output(graph::concat({column(a * b), column(exp(a))}, 2));
  output(reshape(expand(reshape(a, {3, 1, 37, 1}), {3, 2, 37, 2}), {6, 74}));
  output(reshape(permute(input({2, 4, 5, 18}), {0, 2, 3, 1}), {2, 5, 72}));
  output(exp(cast(reshape(permute(input({2, 2, 33}, DType::kBF16), {0, 2, 1}), {2, 66}), DType::kF32)));
  check();
}

TEST_F(CompileTest, SumsOfRowsAndOfColumnsAreTwoKernels) {
  Tensor x = input({32, 32}), y = input({32});
  output(sum(x * reshape(y, {32, 1}), {0}));
  output(sum(x * y, {1}));
  EXPECT_EQ(check().report.kernels, 2);
}

TEST_F(CompileTest, Concat) {
  Tensor x = input({3, 2}), y = input({3, 4}), z = input({3, 1});
  output(graph::concat({x, exp(y), z}, 1));
  output(graph::concat({x, x}, 0) * 2.0);
  check();
}

TEST_F(CompileTest, GatherAndIndex) {
  Tensor table = input({7, 3}), rows = indices({2, 4}, 7), columns = indices({5, 3}, 3);
  output(call("core.index", {table.value, std::vector<Value*>{rows.value}}) + 1.0);
  output(call("core.gather", {slice(table, 0, 0, 5).value, columns.value, Sym(1)}));
  check();
}

TEST_F(CompileTest, IndexOutOfRangeIsAnError) {
  Tensor table = input({7, 3}), rows = indices({2}, 7);
  output(call("core.index", {table.value, std::vector<Value*>{rows.value}}));
  inputs[1].elements[1].integer = 7;
  const RunResult result = check();
  EXPECT_EQ(result.error.kind, runtime::RunError::kIndexError);
  EXPECT_EQ(result.error.message, "index 7 is out of bounds for dimension with size 7");
}

TEST_F(CompileTest, Scatter) {
  Tensor x = input({6, 4}), at = indices({5, 4}, 6), src = input({5, 4});
  for (const char* reduce : {"", "sum", "prod", "amax", "amin"})
    output(call("core.scatter", {x.value, at.value, src.value, Sym(0), std::string(reduce)}));
  Tensor at1 = indices({6, 2}, 4), src1 = input({6, 2});
  output(call("core.scatter", {x.value, at1.value, src1.value, Sym(1), std::string("sum")}));
  check();
}

// What only a scatter or a scan reads is computed in it.
TEST_F(CompileTest, SequentialKernelsComputeTheirOperands) {
  Tensor x = input({6, 4}), at = indices({5, 4}, 6), src = input({5, 4});
  output(call("core.scatter", {(x + 1.0).value, at.value, (src * 2.0).value, Sym(0), std::string("sum")}));
  output(call("core.cumsum", {(x * x).value, Sym(1)}));
  EXPECT_EQ(check().report.kernels, 3);
}

TEST_F(CompileTest, ScatterOfTheInputItWritesTo) {
  Tensor x = input({5, 4}), at = indices({5, 4}, 5);
  graph.mutations.push_back(
      {0, call("core.scatter", {x.value, at.value, (x * 2.0).value, Sym(0), std::string("sum")}).value});
  check();
}

TEST_F(CompileTest, IndexPut) {
  Tensor x = input({6, 4}), rows = indices({3}, 6), columns = indices({3}, 4);
  output(call("core.index_put", {x.value, std::vector<Value*>{rows.value}, input({3, 4}).value, true}));
  output(call("core.index_put",
              {x.value, std::vector<Value*>{rows.value, columns.value}, input({3}).value, false}));
  check();
}

TEST_F(CompileTest, SliceAndDiagonalScatter) {
  Tensor x = input({6, 5}), y = input({2, 5}), d = input({4});
  output(call("core.slice_scatter", {x.value, y.value, std::vector<Sym>{1, 0}, std::vector<Sym>{3, 1}}));
  output(call("core.diagonal_scatter", {x.value, d.value, Sym(1), Sym(0), Sym(1)}));
  output(call("core.slice_scatter", {x.value, y.value, std::vector<Sym>{4, 0}, std::vector<Sym>{-2, 1}}));
  check();
}

TEST_F(CompileTest, Scans) {
  Tensor x = input({3, 5, 2});
  for (const char* op : {"core.cumsum", "core.cumprod", "core.cummax_values", "core.cummin_values"})
    for (int64_t dim : {0, 1, 2}) output(call(op, {x.value, Sym(dim)}));
  check();
}

// Values that show where they are rounded, and beyond the range on the way.
TEST_F(CompileTest, ScansRoundedAtEachStep) {
  for (DType dtype : {DType::kF16, DType::kF32, DType::kF64})
    for (const std::vector<Sym>& sizes : {std::vector<Sym>{40}, {3, 33}, {33, 3}, {2, 5, 9}})
      for (const char* op : {"core.cumsum", "core.cumprod"}) {
        Tensor x = input(sizes, dtype);
        for (graph::Element& element : inputs.back().elements)
          element.real = graph::round_to(std::exp(element.real * 3), dtype);
        for (int64_t dim = 0; dim < x.rank(); ++dim) output(call(op, {x.value, Sym(dim), true}));
      }
  check();
}

TEST_F(CompileTest, LongScans) {
  for (const char* op : {"core.cumsum", "core.cummax_values"}) {
    output(call(op, {input({2, 40000}).value, Sym(1)}));
    output(call(op, {(input({20011}) * 2.0).value, Sym(0)}));
    output(call(op, {input({3, 5003, 7}).value, Sym(1)}));
  }
  for (auto& input : inputs)
    for (auto& element : input.elements) element.real = std::round(element.real * 4) / 4;  // exact sums
  check();
}

TEST_F(CompileTest, LongScanOfAGpuIsDoneInBlocks) {
  output(call("core.cumsum", {input({40000}).value, Sym(0)}));
  EXPECT_EQ(compile_and_compare(graph, inputs, {}, emulated_gpu_target()).report.kernels, 3);
}

// Of masks of one block, of whole ones and of one that is not; the elements as they are, and computed.
TEST_F(CompileTest, WhatAMaskSelects) {
  struct Case {
    int64_t size, block;
  };
  for (const auto [size, block] :
       {Case{1, 16}, {100, 100}, {1000, 1000}, {1000, 256}, {8192, 4096}, {9001, 4096}}) {
    Tensor x = input({size}), mask = input({size}, DType::kBool);
    int64_t count = 0;
    for (graph::Element& element : inputs.back().elements) {
      element.integer = (count * 7 + size) % 5 < 3 || count % 64 > 40;
      count += 1;
    }
    count = std::ranges::count_if(inputs.back().elements, [](const auto& e) { return e.integer != 0; });
    Tensor counts = call("core.running_counts", {mask.value, Sym(block)});
    output(counts);
    const auto selected = [&](Tensor of) {
      output(call("core.compress", {of.value, mask.value, counts.value, Sym(block), Sym(count)}));
    };
    selected(x);
    selected(x * 2.0);
    selected(cast(x, DType::kBF16));
    selected(graph::iota(builder, {size}, 0, DType::kI64));
  }
  check();
}

TEST_F(CompileTest, LongReductionIsSplitInBlocks) {
  output(sum(sin(input({300000})), {0}));
  const RunResult result = check();
  EXPECT_EQ(result.report.kernels, 2);
}

TEST_F(CompileTest, LongReductionOfOddLength) {
  Tensor x = input({100003});
  output(sum(x, {0}));
  output(amax(x, {0}));
  check();
}

TEST_F(CompileTest, LongColumns) {
  output(sum(input({70000, 3}), {0}));
  check();
}

// In blocks of rows, whose number has divisors, or none, or is not known.
TEST_F(CompileTest, ColumnsOfManyPages) {
  const Sym n = graph.sym->new_symbol("s0", 1031);
  for (const Sym& rows : {Sym(1024), Sym(1031), n}) {
    const Tensor x = input({rows, 600}), y = input({rows, 600});
    output(sum(x * x, {0}));
    output(sum(x * x + y * y, {0}));
    output(x - expand(amax(y, {0}), {rows, 600}));
  }
  check({1031});
}

// One accumulator a column would be off by more than 1e-4 here.
TEST_F(CompileTest, SumsOfLongColumnsAreCascaded) {
  Tensor x = input({40000, 32});
  for (auto& element : inputs[0].elements) element.real = 0.1f;
  output(sum(x, {0}));
  const RunResult result = check();
  for (double total : result.outputs.at(0).numbers()) EXPECT_NEAR(total, 4000.0, 4000 * 2e-6);
}

TEST_F(CompileTest, TransposedCopies) {
  Tensor x = input({40, 64}), y = input({3, 33, 48});
  output(transpose(x, 0, 1) + 1.0);
  output(transpose(y, 1, 2) * 2.0);
  output(transpose(x, 0, 1) + reshape(x, {64, 40}));
  check();
}

TEST_F(CompileTest, DynamicSizes) {
  Sym n = graph.sym->new_symbol("s0", 6), m = graph.sym->new_symbol("s1", 5);
  Tensor x = input({n, m}), y = input({m});
  Tensor z = softmax(x * y, -1);
  output(z);
  output(reshape(transpose(z, 0, 1), {n * m}));
  output(sum(x, {0}));
  for (auto symbols : {std::vector<int64_t>{6, 5}, {3, 17}, {64, 2}}) {
    inputs = {random_tensor(DType::kF32, {symbols[0], symbols[1]}, rng),
              random_tensor(DType::kF32, {symbols[1]}, rng)};
    check(symbols);
  }
}

TEST_F(CompileTest, DynamicMatmulAndArena) {
  Sym n = graph.sym->new_symbol("s0", 6);
  Tensor x = input({n, 8}), w = input({8, 8});
  Tensor h = mm(exp(mm(x, w)), w);
  output(mm(h + 1.0, w));
  for (int64_t size : {6, 31, 2}) {
    inputs[0] = random_tensor(DType::kF32, {size, 8}, rng);
    for (auto& element : inputs[1].elements) element.real *= 0.1;
    check({size});
  }
}

TEST_F(CompileTest, EmptyTensors) {
  Tensor x = input({0, 4}), y = input({3, 0});
  output(x + 1.0);
  output(sum(x, {0}));
  output(sum(y, {1}) + 2.0);
  output(sum(x, {1}));
  output(graph::concat({x, x}, 0));
  check();
}

TEST_F(CompileTest, MatmulWithTransposedOperandsAndEpilogue) {
  Tensor x = input({5, 7}), w = input({6, 7}), bias = input({6});
  output(maximum(mm(x, transpose(w, 0, 1)) + bias, 0.0));
  const RunResult result = check();
  EXPECT_EQ(result.report.library_calls, 1);
  EXPECT_EQ(result.report.kernels, 1);
}

TEST_F(CompileTest, BatchedMatmulOfPermutedViews) {
  Tensor x = input({2, 5, 3, 4});
  Tensor q = reshape(permute(x, {0, 2, 1, 3}), {6, 5, 4});
  output(bmm(q, transpose(q, 1, 2)));
  output(
      bmm(expand(reshape(slice(x, 1, 0, 1), {2, 3, 4}), {2, 3, 4}), transpose(reshape(x, {2, 15, 4}), 1, 2)));
  check();
}

// Rows of several dims are rows of a matrix: what is multiplied lies in memory once.
TEST_F(CompileTest, MatmulOfMergedDimsCopiesNothing) {
  Tensor x = input({2, 3, 7}), w = input({7, 6});
  Tensor y = reshape(mm(reshape(exp(x), {6, 7}), w), {2, 3, 6});
  output(mm(reshape(tanh(y), {6, 6}), reshape(input({2, 3, 4}), {6, 4})));
  const RunResult result = check();
  EXPECT_EQ(result.report.library_calls, 2);
  EXPECT_EQ(result.report.kernels, 2);
}

TEST_F(CompileTest, MatmulOfMergedDimsOfStridedViews) {
  Tensor x = input({4, 3, 8}), rows = input_strided({2, 3, 8}, {32, 8, 1}), w = input({8, 5});
  Sym n = graph.sym->new_symbol("s0", 5), m = graph.sym->new_symbol("s1", 3);
  Tensor y = input({n, m, 8});
  std::vector<Tensor> operands{reshape(slice(x, 2, 0, 8), {12, 8}),                     // as it lies
                               reshape(slice(x, 0, 1, 2), {6, 8}),                      // from an offset
                               reshape(slice(x, 0, 0, 2, 2), {6, 8}),                   // rows that are apart
                               reshape(permute(x, {1, 0, 2}), {12, 8}),                 // in another order
                               reshape(rows, {6, 8}),                                   // apart, of an input
                               reshape(reshape(x, {2, 6, 8}), {12, 8}),                 // twice
                               reshape(expand(slice(x, 0, 0, 1), {4, 3, 8}), {12, 8}),  // one row for several
                               reshape(expand(slice(x, 1, 0, 1), {4, 3, 8}), {12, 8}),
                               reshape(y, {n * m, 8}),  // of sizes unknown
                               reshape(tanh(y), {n * m, 8})};
  for (Tensor operand : operands) output(mm(operand, w));
  check({5, 3});
}

// What a kernel writes takes the place of what it reads for the last time, where it reads it element by element.
TEST_F(CompileTest, IntermediatesAreOverwritten) {
  Tensor x = input({16, 16}), w = input({16, 16});
  Tensor y = mm(x, w);
  output(mm(tanh(y) * y, w));
  EXPECT_NE(check().report.plan.find("arena: 1024 bytes"), std::string::npos);
}

TEST_F(CompileTest, IntermediatesOfRowsAreOverwritten) {
  Tensor x = input({16, 16}), w = input({16, 16});
  output(mm(softmax(mm(x, w), -1), w));
  EXPECT_NE(check().report.plan.find("arena: 1024 bytes"), std::string::npos);
}

TEST_F(CompileTest, IntermediatesThatAreReadElsewhereAreNotOverwritten) {
  Tensor x = input({16, 16}), w = input({16, 16});
  Tensor y = mm(x, w), z = mm(w, x), shifted = z * graph::flip(z, {1});
  output(mm(y + transpose(y, 0, 1), w));
  output(mm(shifted, w));
  output(mm(softmax(transpose(mm(w, w), 0, 1), -1), mm(x, x)));
  Tensor both = mm(x, tanh(w));
  output(mm(tanh(both), both));
  check();
}

TEST_F(CompileTest, OutputsThatAreViewsInputsAndRepeated) {
  Tensor x = input({4, 3}), w = input({3, 6});
  Tensor y = mm(x, w);
  output(reshape(y, {2, 2, 6}));
  output(y);
  output(y);
  output(x);
  output(transpose(x, 0, 1));
  output(graph::full(builder, {2, 2}, 3.5, DType::kF32));
  output(graph::iota(builder, {3, 2}, 0, DType::kI64));
  check();
}

TEST_F(CompileTest, MutationsAreWrittenAfterAllReads) {
  Tensor x = input({4}), y = input({4});
  Tensor z = x + 1.0;
  graph.mutations.push_back({0, z.value});
  output(flip(x, {0}) * y);
  graph.mutations.push_back({1, x.value});
  check();
}

TEST_F(CompileTest, MutationsInPlaceNeedNoCopy) {
  Tensor x = input({40}), y = input({40});
  Tensor z = x * y + 1.0;
  graph.mutations.push_back({0, z.value});
  output(sin(z) + y);
  const RunResult result = check();
  EXPECT_EQ(result.report.kernels, 1);
  EXPECT_EQ(result.report.plan.find("buffer "), std::string::npos) << result.report.plan;
}

TEST_F(CompileTest, MutationsThatAreReadLaterAreCopied) {
  Tensor x = input({6, 6});
  Tensor z = x + 1.0;
  graph.mutations.push_back({0, z.value});
  output(mm(z, x));
  output(x);
  check();
}

TEST_F(CompileTest, MutationsThatReadTheirNeighbours) {
  Tensor x = input({6, 6});
  graph.mutations.push_back({0, (exp(transpose(x, 0, 1)) + x).value});
  check();
}

TEST_F(CompileTest, HalfTypesRoundAtEachOperator) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Tensor x = input({4, 8}, dtype), y = input({4, 8}, dtype);
    Tensor z = softmax(x * y + x, -1);
    output(z);
    output(sum(cast(z, DType::kF32), {0}));
    output(mm(z, transpose(y, 0, 1)));
  }
  check();
}

TEST_F(CompileTest, Attention) {
  Tensor q = input({2, 3, 70, 8}), k = input({2, 3, 70, 8}), v = input({2, 3, 70, 8}),
         mask = input({1, 1, 70, 70});
  output(call("core.sdpa", {q.value, k.value, v.value, std::monostate{}, true, 0.35}));
  output(call("core.sdpa", {q.value, k.value, v.value, expand(mask, {2, 3, 70, 70}).value, false, 0.35}));
  Tensor flat = input({70, 70});
  for (size_t i = 0; i < 70; ++i) inputs.back().set(70 * 3 + i, -INFINITY);  // a row that sees nothing is 0
  output(call("core.sdpa", {q.value, k.value, v.value, flat.value, false, 0.35}));
  check();
}

TEST_F(CompileTest, Convolution) {
  Tensor x = input({2, 4, 6, 7}), w = input({6, 2, 3, 2}), b = input({6});
  auto two = [](int64_t a, int64_t b) { return std::vector<Sym>{a, b}; };
  output(maximum(call("core.convolution",
                      {x.value, w.value, b.value, two(2, 1), two(1, 0), two(1, 2), false, two(0, 0), Sym(2)}),
                 0.0));
  output(call("core.convolution", {x.value, input({4, 3, 3, 2}).value, std::monostate{}, two(2, 1), two(1, 0),
                                   two(1, 1), true, two(1, 0), Sym(1)}));
  check();
}

TEST_F(CompileTest, ConvolutionOfManyShapes) {
  struct Case {
    int64_t batch, channels, out_channels, height, width, kernel, stride, padding, dilation, groups;
    bool bias;
  };
  const Case cases[] = {{1, 4, 9, 5, 5, 3, 1, 0, 1, 1, false},   {1, 3, 8, 9, 11, 3, 1, 1, 1, 1, true},
                        {3, 4, 16, 7, 7, 1, 1, 0, 1, 1, false},  {2, 4, 15, 8, 8, 1, 2, 0, 1, 1, true},
                        {2, 3, 8, 23, 21, 7, 2, 3, 1, 1, false}, {1, 8, 16, 6, 40, 3, 1, 2, 2, 2, true},
                        {2, 6, 6, 5, 5, 3, 1, 1, 1, 6, true},    {5, 2, 200, 4, 3, 3, 3, 1, 1, 1, true}};
  for (const Case& c : cases) {
    Tensor x = input({c.batch, c.channels, c.height, c.width}),
           w = input({c.out_channels, c.channels / c.groups, c.kernel, c.kernel});
    graph::Arg bias = c.bias ? graph::Arg(input({c.out_channels}).value) : graph::Arg();
    auto two = [](int64_t a) { return std::vector<Sym>{a, a}; };
    output(call("core.convolution", {x.value, w.value, bias, two(c.stride), two(c.padding), two(c.dilation),
                                     false, two(0), Sym(c.groups)}));
  }
  Tensor line = input({2, 3, 30}), w = input({9, 3, 4});
  output(call("core.convolution",
              {line.value, w.value, std::monostate{}, std::vector<Sym>{2}, std::vector<Sym>{1},
               std::vector<Sym>{2}, false, std::vector<Sym>{Sym()}, Sym(1)}));
  check();
}

// Loops that run in order cannot be cut: the index of a reshape is divided instead.
TEST_F(CompileTest, RunningSumOfAReshapedInput) {
  output(call("core.cumsum", {reshape(permute(input({4, 5}), {1, 0}), {20}).value, Sym(0)}));
  check();
}

TEST_F(CompileTest, OutputThatIsAReshapedView) {
  output(reshape(permute(input({2, 3, 4}), {2, 0, 1}), {24}));
  check();
}

}  // namespace
}  // namespace cdynamo::lowering::testing
