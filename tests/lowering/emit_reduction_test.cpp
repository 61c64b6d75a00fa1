// Reductions of every shape: lanes along the reduced axis or across it, several axes, several phases,
// indices, scans.
#include "emit_testing.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

// Rows of `inner`, reduced; lanes along the last inner axis.
ScheduledKernel rows(const graph::ReductionDef& def, DType dtype, Sym outer, std::vector<Sym> inner) {
  KernelWriter w({outer}, false);
  w.begin(inner);
  Sym row = 1;
  std::vector<std::pair<int, Sym>> axes;
  for (size_t i = inner.size(); i-- > 0;) {
    axes.push_back({static_cast<int>(i) + 1, row});
    row = row * inner[i];
  }
  axes.push_back({0, row});
  int x = w.load(w.buffer(dtype, outer * row), w.index(axes));
  int r = w.reduce(def, runtime::compute_type(dtype), x);
  w.begin();
  DType result = def.returns_index ? DType::kI64 : dtype;
  w.store(w.buffer(result, outer, true), w.index({{0, 1}}), r);
  return w.kernel;
}

// Columns of a rows x columns matrix, reduced; lanes across them.
ScheduledKernel columns(const graph::ReductionDef& def, DType dtype, Sym rows, Sym columns) {
  KernelWriter w({columns}, true);
  w.begin({rows});
  int x = w.load(w.buffer(dtype, rows * columns), w.index({{0, 1}, {1, columns}}));
  int r = w.reduce(def, runtime::compute_type(dtype), x);
  w.begin();
  DType result = def.returns_index ? DType::kI64 : dtype;
  w.store(w.buffer(result, columns, true), w.index({{0, 1}}), r);
  return w.kernel;
}

struct Case {
  const char* name;
  const graph::ReductionDef* def;
  DType dtype;
  double tolerance;
};
const Case kCases[] = {
    {"sum f32", &kSum, DType::kF32, 1e-4},    {"sum f64", &kSum, DType::kF64, 1e-10},
    {"sum i64", &kSum, DType::kI64, 0},       {"sum i32", &kSum, DType::kI32, 0},
    {"max f32", &kMax, DType::kF32, 0},       {"max f64", &kMax, DType::kF64, 0},
    {"max i8", &kMax, DType::kI8, 0},         {"max u8", &kMax, DType::kU8, 0},
    {"max i64", &kMax, DType::kI64, 0},       {"all", &kAll, DType::kBool, 0},
    {"argmax f32", &kArgmax, DType::kF32, 0}, {"argmax i16", &kArgmax, DType::kI16, 0},
    {"argmax f64", &kArgmax, DType::kF64, 0}, {"max f16", &kMax, DType::kF16, 0},
    {"argmax u8", &kArgmax, DType::kU8, 0},   {"sum u64", &kSum, DType::kU64, 0},
    {"max u64", &kMax, DType::kU64, 0},       {"argmax u64", &kArgmax, DType::kU64, 0},
    {"max u16", &kMax, DType::kU16, 0},       {"argmax u32", &kArgmax, DType::kU32, 0},
};

class EmitReduction : public ::testing::TestWithParam<Case> {};

TEST_P(EmitReduction, Rows) {
  const Case& c = GetParam();
  for (bool is_static : {true, false}) {
    for (int64_t n : {1, 2, 5, 16, 17, 31, 64, 65, 128, 200, 1000}) {
      graph::SymContext context;
      Sym length = is_static ? Sym(n) : context.new_symbol("s0", 64);
      // Sums of small values, so that the order shows little.
      check(rows(*c.def, c.dtype, 3, {length}), context,
            {.tolerance = c.tolerance, .small_values = c.def == &kSum, .symbols = {n}});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EmitReduction, SeveralAxes) {
  const Case& c = GetParam();
  for (auto [a, b] : {std::pair{3, 5}, {4, 100}, {7, 129}, {1, 1}, {40, 3}}) {
    graph::SymContext context;
    Sym last = context.new_symbol("s0", 64);
    check(rows(*c.def, c.dtype, 2, {Sym(a), last}), context,
          {.tolerance = c.tolerance, .small_values = c.def == &kSum, .symbols = {b}});
    check(rows(*c.def, c.dtype, 2, {Sym(2), Sym(a), Sym(b)}), context,
          {.tolerance = c.tolerance, .small_values = c.def == &kSum});
    if (HasFatalFailure()) return;
  }
}

TEST_P(EmitReduction, Columns) {
  const Case& c = GetParam();
  for (int64_t m : {1, 3, 70}) {
    for (int64_t n : {1, 2, 15, 16, 33, 64, 200}) {
      graph::SymContext context;
      Sym length = context.new_symbol("s0", 64);
      check(columns(*c.def, c.dtype, Sym(m), length), context,
            {.tolerance = c.tolerance, .small_values = c.def == &kSum, .symbols = {n}});
      check(columns(*c.def, c.dtype, length, Sym(n)), context,
            {.tolerance = c.tolerance, .small_values = c.def == &kSum, .symbols = {m}});
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmitReduction, ::testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
});

TEST(EmitArgmax, TiesAndNaN) {
  graph::SymContext context;
  // Float rows through int64 contents: 4 rows of 40 float32 each = 20 int64s a row.
  std::vector<float> values(4 * 40, 1.0f);
  values[40 + 7] = 2, values[40 + 30] = 2;                             // ties: the first
  values[80 + 33] = NAN, values[80 + 35] = NAN, values[80 + 2] = 100;  // NaN wins, the first one
  for (int i = 0; i < 40; ++i) values[120 + i] = -INFINITY;            // the identity itself
  std::vector<int64_t> packed(values.size() / 2);
  std::memcpy(packed.data(), values.data(), values.size() * sizeof(float));
  ScheduledKernel kernel = rows(kArgmax, DType::kF32, 4, {Sym(40)});
  check(kernel, context, {.contents = {{0, packed}}});
  check(columns(kArgmax, DType::kF32, 4, Sym(40)), context, {.contents = {{0, packed}}});
}

// Strips of several vectors, and what is left of them.
TEST(EmitReduction, ColumnsOfLongRows) {
  for (int64_t width : {256, 300, 1000, 1031}) {
    graph::SymContext context;
    KernelWriter w({width}, true);
    const Sym size = Sym(100) * Sym(width);
    w.begin({100});
    const int x = w.load(w.buffer(DType::kF32, size), w.index({{0, 1}, {1, width}}));
    const int sum = w.reduce(kSum, DType::kF32, x), largest = w.reduce(kMax, DType::kF32, x);
    w.begin();
    w.store(w.buffer(DType::kF32, width, true), w.index({{0, 1}}), sum);
    w.store(w.buffer(DType::kF32, width, true), w.index({{0, 1}}), largest);
    check(w.kernel, context, {.whole_values = true});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Rows in three phases; with `scratch` the exponentials are kept for the last one.
ScheduledKernel softmax(Sym outer, Sym n, bool scratch) {
  KernelWriter w({outer}, false);
  int x = w.buffer(DType::kF32, outer * n), y = w.buffer(DType::kF32, outer * n, true);
  int row = scratch ? w.buffer(DType::kF32, n, true, BufferKind::kRowScratch) : -1;
  auto at = w.index({{0, n}, {1, 1}});
  w.begin({n});
  int m = w.reduce(kMax, DType::kF32, w.load(x, at));
  auto e = [&] {
    return w.prim(Prim::k_exp, DType::kF32, {w.prim(Prim::k_sub, DType::kF32, {w.load(x, at), m})});
  };
  w.begin({n});
  int first = e();
  if (scratch) w.store(row, w.index({{1, 1}}), first);
  int sum = w.reduce(kSum, DType::kF32, first);
  w.begin({n});
  int again = scratch ? w.load(row, w.index({{1, 1}})) : e();
  w.store(y, at, w.prim(Prim::k_div, DType::kF32, {again, sum}));
  return w.kernel;
}

TEST(EmitPhases, Softmax) {
  for (bool scratch : {false, true}) {
    for (int64_t n : {1, 3, 16, 63, 64, 100, 517}) {
      graph::SymContext context;
      Sym length = context.new_symbol("s0", 64);
      check(softmax(5, length, scratch), context, {.tolerance = 1e-5, .small_values = true, .symbols = {n}});
      check(softmax(5, Sym(n), scratch), context, {.tolerance = 1e-5, .small_values = true});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// The same over the leading axis, lanes across; the scratch holds its rows interleaved.
TEST(EmitPhases, SoftmaxOfColumns) {
  for (int64_t n : {1, 15, 64, 100, 300}) {
    graph::SymContext context;
    Sym length = context.new_symbol("s0", 64), rows = context.new_symbol("s1", 8);
    KernelWriter w({length}, true);
    int x = w.buffer(DType::kF32, rows * length), y = w.buffer(DType::kF32, rows * length, true);
    int row = w.buffer(DType::kF32, rows, true, BufferKind::kRowScratch);
    auto at = w.index({{0, 1}, {1, length}});
    w.begin({rows});
    int m = w.reduce(kMax, DType::kF32, w.load(x, at));
    w.begin({rows});
    int e = w.prim(Prim::k_exp, DType::kF32, {w.prim(Prim::k_sub, DType::kF32, {w.load(x, at), m})});
    w.store(row, w.index({{1, 1}}), e);
    int sum = w.reduce(kSum, DType::kF32, e);
    w.begin({rows});
    w.store(y, at, w.prim(Prim::k_div, DType::kF32, {w.load(row, w.index({{1, 1}})), sum}));
    check(w.kernel, context, {.tolerance = 1e-5, .small_values = true, .symbols = {n, 9}});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Registers of a phase without inner axes are read by later phases.
TEST(EmitPhases, LayerNorm) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 64);
  KernelWriter w({4}, false);
  int x = w.buffer(DType::kF32, Sym(4) * n), y = w.buffer(DType::kF32, Sym(4) * n, true),
      g = w.buffer(DType::kF32, n);
  auto at = w.index({{0, n}, {1, 1}});
  w.begin({n});
  int sum = w.reduce(kSum, DType::kF32, w.load(x, at));
  w.begin();
  int count = w.cast(DType::kF32, w.size(n));
  int mean = w.prim(Prim::k_div, DType::kF32, {sum, count});
  w.begin({n});
  int d = w.prim(Prim::k_sub, DType::kF32, {w.load(x, at), mean});
  int squares = w.reduce(kSum, DType::kF32, w.prim(Prim::k_mul, DType::kF32, {d, d}));
  w.begin();
  int deviation =
      w.prim(Prim::k_sqrt, DType::kF32,
             {w.prim(Prim::k_add, DType::kF32,
                     {w.prim(Prim::k_div, DType::kF32, {squares, count}), w.constant(DType::kF32, 1e-5)})});
  w.begin({n});
  int centred = w.prim(Prim::k_sub, DType::kF32, {w.load(x, at), mean});
  int scaled = w.prim(Prim::k_mul, DType::kF32,
                      {w.prim(Prim::k_div, DType::kF32, {centred, deviation}), w.load(g, w.index({{1, 1}}))});
  w.store(y, at, scaled);
  for (int64_t v : {2, 50, 513})
    check(w.kernel, context, {.tolerance = 1e-3, .small_values = true, .symbols = {v}});
}

TEST(EmitPhases, EmptyReduction) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 64, 0);
  check(rows(kSum, DType::kF32, 3, {n}), context, {.symbols = {0}});
  check(columns(kSum, DType::kF32, n, Sym(40)), context, {.symbols = {0}});
}

// A window of 3 x 3 over a padded image, as pooling is written.
TEST(EmitPhases, MaxPool) {
  graph::SymContext context;
  Sym h = context.new_symbol("s0", 10), width = context.new_symbol("s1", 20);
  KernelWriter w({h, width}, true);
  int x = w.buffer(DType::kF32, h * width), y = w.buffer(DType::kF32, h * width, true);
  w.begin({Sym(3), Sym(3)});
  auto coordinate = [&](int out, int window) {
    return w.prim(
        Prim::k_sub, DType::kI64,
        {w.prim(Prim::k_add, DType::kI64, {w.axis(out), w.axis(window)}), w.constant(DType::kI64, 1)});
  };
  auto inside = [&](int i, Sym n) {
    int low = w.prim(Prim::k_ge, DType::kBool, {i, w.constant(DType::kI64, 0)});
    return w.prim(Prim::k_bit_and, DType::kBool, {low, w.prim(Prim::k_lt, DType::kBool, {i, w.size(n)})});
  };
  int mask =
      w.prim(Prim::k_bit_and, DType::kBool, {inside(coordinate(0, 2), h), inside(coordinate(1, 3), width)});
  int v =
      w.load(x, w.index({{0, width}, {2, width}, {1, 1}, {3, 1}}, Sym(-1) * width - Sym(1)), mask, -INFINITY);
  int r = w.reduce(kMax, DType::kF32, v);
  w.begin();
  w.store(y, w.index({{0, width}, {1, 1}}), r);
  for (bool front : {false, true}) check(w.kernel, context, {.guard_front = front, .symbols = {5, 37}});
}

TEST(EmitSequential, RunningSum) {
  for (bool outer : {true, false}) {
    graph::SymContext context;
    Sym n = context.new_symbol("s0", 64);
    KernelWriter w({Sym(33)}, outer);
    w.begin({n}, true);
    auto at = outer ? w.index({{0, 1}, {1, 33}}) : w.index({{0, n}, {1, 1}});
    int x = w.load(w.buffer(DType::kF64, Sym(33) * n), at);
    w.store(w.buffer(DType::kF64, Sym(33) * n, true), at, w.scan(kSum, DType::kF64, x));
    check(w.kernel, context, {.small_values = true, .symbols = {19}});
  }
}

// Lanes along the rows of a scan: whole vectors, rests, rows shorter than a vector.
TEST(EmitSequential, ScansInLanes) {
  const graph::ReductionDef kProduct{[](ScalarBuilder& b, DType t) { return number(b, t, 1); },
                                     [](ScalarBuilder& b, Scalar x, Scalar y) { return b.mul(x, y); }};
  struct Scan {
    const graph::ReductionDef& def;
    DType dtype;
    double tolerance;
  };
  for (const Scan& scan : {Scan{kSum, DType::kF32, 1e-6}, Scan{kSum, DType::kI64, 0},
                           Scan{kSum, DType::kI32, 0}, Scan{kMax, DType::kF32, 0}, Scan{kMax, DType::kF64, 0},
                           Scan{kProduct, DType::kF32, 1e-6}, Scan{kProduct, DType::kF64, 0}})
    for (int64_t length : {1, 7, 16, 33, 128}) {
      graph::SymContext context;
      const Sym n = context.new_symbol("s0", 64);
      KernelWriter w({Sym(3)}, false);
      w.begin({n}, true);
      const auto at = w.index({{0, n}, {1, 1}});
      const int x = w.load(w.buffer(scan.dtype, Sym(3) * n), at);
      w.store(w.buffer(scan.dtype, Sym(3) * n, true), at, w.scan(scan.def, scan.dtype, x));
      check(w.kernel, context, {.tolerance = scan.tolerance, .symbols = {length}});
    }
}

// The error of a sum does not grow with its length, whatever the lanes run along.
TEST(EmitLongReduction, Sums) {
  const int64_t length = 300006;
  // All values alike and positive: partial sums grow, and no rounding error meets one of the other sign.
  constexpr int64_t kPair = 0x3F3333333F333333;  // 0.7 twice
  for (bool known : {true, false}) {
    graph::SymContext context;
    const Sym n = known ? Sym(length) : context.new_symbol("s0", 64);
    CheckOptions options{.tolerance = 2e-6};
    if (!known) options.symbols = {length};
    options.contents = {{0, std::vector<int64_t>(length / 2, kPair)}};
    check(rows(kSum, DType::kF32, 1, {n}), context, options);
    options.contents = {{0, std::vector<int64_t>(3 * length / 2, kPair)}};
    check(columns(kSum, DType::kF32, n, 3), context, options);
  }
}

// out[index[i]] += x[i], in order: each point's load sees the stores before it.
TEST(EmitSequential, Scatter) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 64);
  KernelWriter w({}, false);
  int out = w.buffer(DType::kF32, 10, true), indices = w.buffer(DType::kI64, n),
      from = w.buffer(DType::kF32, n);
  w.begin({n}, true);
  int row = w.check(w.load(indices, w.index({{0, 1}})), 10);
  Index at;
  at.terms = {{-1, row, 1}};
  w.store(out, at, w.prim(Prim::k_add, DType::kF32, {w.load(out, at), w.load(from, w.index({{0, 1}}))}));
  std::vector<int64_t> contents;
  for (int i = 0; i < 45; ++i) contents.push_back(i * i % 10);
  check(w.kernel, context,
        {.small_values = true, .symbols = {45}, .parts = 1, .contents = {{indices, contents}}});
}

}  // namespace
}  // namespace cdynamo::lowering
