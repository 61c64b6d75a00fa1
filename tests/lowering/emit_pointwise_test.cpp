// Pointwise kernels: every primitive of every dtype, casts, half types, lengths, strides, masks, indirect
// loads.
#include "emit_testing.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

const DType kAllDTypes[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kU16, DType::kI16,
                            DType::kU32,  DType::kI32, DType::kU64, DType::kI64, DType::kF16,
                            DType::kBF16, DType::kF32, DType::kF64};

struct PrimRow {
  Prim prim;
  const char* name;
  int arity;
};
const PrimRow kPrims[] = {
#define CDYNAMO_PRIM(name, arity, doc) {Prim::k_##name, #name, arity},
#include "graph/prims.def"
#undef CDYNAMO_PRIM
};

bool valid(Prim prim, DType dtype) {
  bool float_only = prim == Prim::k_fma || prim >= Prim::k_sqrt;
  bool bits_only = prim >= Prim::k_bit_and && prim <= Prim::k_shr;
  if (runtime::is_float(dtype)) return !bits_only;
  if (float_only) return false;
  if (dtype != DType::kBool) return true;
  return prim == Prim::k_bit_and || prim == Prim::k_bit_or || prim == Prim::k_bit_xor ||
         prim == Prim::k_bit_not || prim == Prim::k_eq || prim == Prim::k_ne;
}

ScheduledKernel pointwise(Prim prim, int arity, DType dtype, Sym n) {
  KernelWriter w({n}, true);
  w.begin();
  std::vector<int> operands;
  for (int i = 0; i < arity; ++i) operands.push_back(w.load(w.buffer(dtype, n), w.index({{0, 1}})));
  // Shifts have counts below the width.
  if (prim == Prim::k_shl || prim == Prim::k_shr)
    operands[1] = w.prim(Prim::k_bit_and, dtype, {operands[1], w.constant(dtype, 7)});
  bool comparison = prim >= Prim::k_eq && prim <= Prim::k_ge;
  DType result = comparison ? DType::kBool : dtype;
  int r = w.prim(prim, result, operands);
  if (runtime::is_half(result)) r = w.cast(result, r);
  w.store(w.buffer(result, n, true), w.index({{0, 1}}), r);
  return w.kernel;
}

TEST(EmitPointwise, EveryPrimitiveOfEveryDType) {
  for (const PrimRow& row : kPrims) {
    for (DType dtype : kAllDTypes) {
      if (!valid(row.prim, dtype)) continue;
      SCOPED_TRACE(std::string(row.name) + " " + runtime::info(dtype).name);
      graph::SymContext context;
      Sym n = context.new_symbol("s0", 100);
      CheckOptions options{.symbols = {333}};
      bool math = row.prim >= Prim::k_exp;
      // A result a hair off may round to the neighbour in a half type.
      if (math)
        options.tolerance = dtype == DType::kF64    ? 1e-12
                            : dtype == DType::kF16  ? 2e-3
                            : dtype == DType::kBF16 ? 1e-2
                                                    : 2e-6;
      if (math) options.small_values = true;
      check(pointwise(row.prim, row.arity, dtype, n), context, options);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// inner(x, y) and a constant, one on either side of outer.
ScheduledKernel pair(const PrimRow& inner, const PrimRow& outer, double constant, bool constant_first) {
  const Sym n = 67;
  KernelWriter w({n}, true);
  w.begin();
  std::vector<int> operands;
  for (int i = 0; i < inner.arity; ++i)
    operands.push_back(w.load(w.buffer(DType::kF32, n), w.index({{0, 1}})));
  operands = {w.prim(inner.prim, DType::kF32, operands), w.constant(DType::kF32, constant)};
  if (constant_first) std::swap(operands[0], operands[1]);
  const bool comparison = outer.prim >= Prim::k_eq && outer.prim <= Prim::k_ge;
  const DType result = comparison ? DType::kBool : DType::kF32;
  w.store(w.buffer(result, n, true), w.index({{0, 1}}), w.prim(outer.prim, result, operands));
  return w.kernel;
}

// What LLVM makes of one primitive after another where a constant lets it see through both.
TEST(EmitPointwise, PairsOfPrimitivesAndAConstant) {
  const auto is_cheap = [](const PrimRow& row) {
    return row.arity <= 2 && valid(row.prim, DType::kF32) && row.prim < Prim::k_exp;
  };
  for (const PrimRow& inner : kPrims) {
    if (!is_cheap(inner) || (inner.prim >= Prim::k_eq && inner.prim <= Prim::k_ge)) continue;
    for (const PrimRow& outer : kPrims) {
      if (!is_cheap(outer) || outer.arity != 2) continue;
      SCOPED_TRACE(std::string(outer.name) + " of " + inner.name);
      for (double constant : {0.0, 1.0}) {
        for (bool constant_first : {false, true}) {
          graph::SymContext context;
          check(pair(inner, outer, constant, constant_first), context, {});
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(EmitPointwise, EveryCast) {
  for (DType from : kAllDTypes) {
    for (DType to : kAllDTypes) {
      SCOPED_TRACE(std::string(runtime::info(from).name) + " to " + runtime::info(to).name);
      graph::SymContext context;
      Sym n = 203;
      KernelWriter w({n}, true);
      w.begin();
      int x = w.load(w.buffer(from, n), w.index({{0, 1}}));
      w.store(w.buffer(to, n, true), w.index({{0, 1}}), w.cast(to, x));
      check(w.kernel, context, {.small_values = runtime::is_float(from) && !runtime::is_float(to)});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(EmitPointwise, LengthsAndParts) {
  std::vector<std::unique_ptr<CompiledModule>> held;
  for (bool is_static : {false, true}) {
    for (bool outer : {true, false}) {
      for (int64_t n = 0; n < 300; n = is_static ? 2 * n + 1 : n < 70 ? n + 1 : n + 37) {
        SCOPED_TRACE(std::to_string(n));
        graph::SymContext context;
        Sym length = is_static ? Sym(n) : context.new_symbol("s0", 64);
        std::vector<Sym> axes = {3, length};
        KernelWriter w(outer ? axes : std::vector<Sym>{3}, outer);
        w.begin(outer ? std::vector<Sym>{} : std::vector<Sym>{length});
        Sym size = Sym(3) * length;
        int x = w.load(w.buffer(DType::kF32, size), w.index({{0, length}, {1, 1}}));
        int y = w.load(w.buffer(DType::kF32, 3), w.index({{0, 1}}));
        int z = w.prim(Prim::k_mul, DType::kF32, {x, y});
        w.store(w.buffer(DType::kF32, size, true), w.index({{0, length}, {1, 1}}), z);
        // Held, so that the symbolic kernel is compiled once for all lengths.
        held.push_back(emit_cpu({&w.kernel, 1}, context, {.use_disk_cache = false}));
        for (int parts : {1, 4}) check(w.kernel, context, {.symbols = {n}, .parts = parts});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(EmitPointwise, MixedDTypesInOneLoop) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 100);
  for (bool outer : {true, false}) {
    KernelWriter w(outer ? std::vector<Sym>{n} : std::vector<Sym>{}, outer);
    w.begin(outer ? std::vector<Sym>{} : std::vector<Sym>{n});
    std::vector<int> values;
    for (DType dtype : kAllDTypes)
      values.push_back(w.cast(DType::kF64, w.load(w.buffer(dtype, n), w.index({{0, 1}}))));
    int sum = values[0];
    for (size_t i = 1; i < values.size(); ++i) sum = w.prim(Prim::k_add, DType::kF64, {sum, values[i]});
    sum = w.prim(Prim::k_add, DType::kF64, {sum, w.cast(DType::kF64, w.axis(0))});
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16})
      w.store(w.buffer(dtype, n, true), w.index({{0, 1}}), w.cast(dtype, sum));
    check(w.kernel, context, {.symbols = {101}});
  }
}

TEST(EmitPointwise, Strides) {
  std::vector<std::unique_ptr<CompiledModule>> held;
  for (DType dtype : {DType::kF32, DType::kI8, DType::kF64, DType::kBF16, DType::kBool}) {
    for (int64_t stride : {-3, -1, 0, 1, 2, 3, 4}) {
      for (int64_t n : {7, 130}) {
        for (bool symbolic : {false, true}) {
          if (symbolic && dtype != DType::kF32) continue;
          graph::SymContext context;
          Sym s = symbolic ? context.new_symbol("s0", 2) : Sym(stride);
          int64_t size = std::abs(stride) * (n - 1) + 1, offset = stride < 0 ? size - 1 : 0;
          KernelWriter w({Sym(n)}, true);
          w.begin();
          int x = w.load(w.buffer(dtype, size), w.index({{0, s}}, offset));
          w.store(w.buffer(dtype, n, true), w.index({{0, 1}}), x);
          held.push_back(emit_cpu({&w.kernel, 1}, context, {.use_disk_cache = false}));
          for (bool front : {false, true})
            check(w.kernel, context, {.guard_front = front, .symbols = {stride}});
          if (stride == 0) continue;
          KernelWriter v({Sym(n)}, true);
          v.begin();
          int y = v.load(v.buffer(dtype, n), v.index({{0, 1}}));
          v.store(v.buffer(dtype, size, true), v.index({{0, s}}, offset), y);
          held.push_back(emit_cpu({&v.kernel, 1}, context, {.use_disk_cache = false}));
          for (bool front : {false, true})
            check(v.kernel, context, {.guard_front = front, .symbols = {stride}});
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// x + transposed y: the loop goes by tiles.
TEST(EmitPointwise, Transposes) {
  for (auto [m, n] : {std::pair{1, 1}, {16, 16}, {17, 40}, {3, 100}, {50, 7}, {64, 64}}) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kBool}) {
      graph::SymContext context;
      Sym rows = context.new_symbol("s0", 8), columns = context.new_symbol("s1", 8);
      KernelWriter w({Sym(2), rows, columns}, true);
      w.begin();
      Sym size = Sym(2) * rows * columns;
      int x = w.load(w.buffer(dtype, size), w.index({{0, rows * columns}, {1, columns}, {2, 1}}));
      int y = w.load(w.buffer(dtype, size), w.index({{0, rows * columns}, {1, 1}, {2, rows}}));
      int r = w.cast(DType::kF32, w.load(w.buffer(DType::kF32, rows), w.index({{1, 1}})));
      int sum = w.prim(Prim::k_add, DType::kF32, {w.cast(DType::kF32, x), w.cast(DType::kF32, y)});
      sum = w.prim(Prim::k_add, DType::kF32,
                   {sum, w.prim(Prim::k_sub, DType::kF32, {r, w.cast(DType::kF32, w.axis(1))})});
      w.store(w.buffer(DType::kF32, size, true), w.index({{0, rows * columns}, {1, columns}, {2, 1}}), sum);
      w.store(w.buffer(dtype, size, true), w.index({{0, rows * columns}, {1, 1}, {2, rows}}), x);
      check(w.kernel, context, {.symbols = {m, n}});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Pairs and fours at the end of a row: what is next to each other, repeated, in planes, and a number by place.
TEST(EmitPointwise, Interleaves) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kBool}) {
    for (int64_t n : {1, 5, 16, 28, 40}) {
      for (int64_t pair : {2, 4}) {
        graph::SymContext context;
        const Sym length = n == 28 ? Sym(n) : context.new_symbol("s0", 28), size = Sym(3 * pair) * length;
        KernelWriter w({Sym(3), Sym(pair), length}, true);
        w.begin();
        const auto dense = w.index({{0, Sym(pair) * length}, {1, 1}, {2, pair}});
        const auto planes = w.index({{0, Sym(pair) * length}, {1, length}, {2, 1}});
        const int x = w.load(w.buffer(dtype, size), dense), z = w.load(w.buffer(dtype, size), planes);
        const int y = w.load(w.buffer(dtype, length), w.index({{2, 1}}));
        int sum = w.prim(Prim::k_add, DType::kF32, {w.cast(DType::kF32, x), w.cast(DType::kF32, y)});
        sum = w.prim(Prim::k_add, DType::kF32, {sum, w.cast(DType::kF32, w.axis(1))});
        sum = w.prim(Prim::k_sub, DType::kF32, {sum, w.cast(DType::kF32, z)});
        w.store(w.buffer(DType::kF32, size, true), dense, sum);
        w.store(w.buffer(dtype, size, true), dense, y);
        for (bool front : {false, true}) check(w.kernel, context, {.guard_front = front, .symbols = {n}});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// out[i] = i in [3, n-5) ? x[i - 3] : 9, and a store under a mask.
TEST(EmitPointwise, Masks) {
  for (DType dtype : kAllDTypes) {
    for (int64_t n : {1, 8, 20, 64, 200}) {
      graph::SymContext context;
      Sym length = context.new_symbol("s0", 64);
      KernelWriter w({length}, true);
      w.begin();
      int i = w.axis(0);
      int low = w.prim(Prim::k_ge, DType::kBool, {i, w.constant(DType::kI64, 3)});
      int high = w.prim(Prim::k_lt, DType::kBool,
                        {i, w.prim(Prim::k_sub, DType::kI64, {w.size(length), w.constant(DType::kI64, 5)})});
      int inside = w.prim(Prim::k_bit_and, DType::kBool, {low, high});
      int from = w.buffer(dtype, max(length - Sym(8), Sym(0)));
      int x = w.load(from, w.index({{0, 1}}, -3), inside, 9);
      w.store(w.buffer(dtype, length, true), w.index({{0, 1}}), x);
      w.store(w.buffer(dtype, max(length - Sym(8), Sym(0)), true), w.index({{0, 1}}, -3), x, inside);
      for (bool front : {false, true}) check(w.kernel, context, {.guard_front = front, .symbols = {n}});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// A mask that is the same for all lanes, over loads that vary and loads that do not.
TEST(EmitPointwise, UniformMasks) {
  graph::SymContext context;
  KernelWriter w({Sym(5), Sym(40)}, true);
  w.begin();
  int wanted = w.prim(Prim::k_lt, DType::kBool, {w.axis(0), w.constant(DType::kI64, 3)});
  int x = w.load(w.buffer(DType::kF32, 3 * 40), w.index({{0, 40}, {1, 1}}), wanted, 1);
  int y = w.load(w.buffer(DType::kF32, 3), w.index({{0, 1}}), wanted, 2);
  int lane = w.prim(Prim::k_lt, DType::kBool, {w.axis(1), w.constant(DType::kI64, 7)});
  int z = w.load(w.buffer(DType::kF32, 1), w.index({}), lane, 3);
  int sum = w.prim(Prim::k_add, DType::kF32, {w.prim(Prim::k_add, DType::kF32, {x, y}), z});
  w.store(w.buffer(DType::kF32, 200, true), w.index({{0, 40}, {1, 1}}), sum);
  check(w.kernel, context, {});
}

ScheduledKernel embedding(Sym n) {
  KernelWriter w({n, Sym(20)}, true);
  w.begin();
  int index = w.load(w.buffer(DType::kI64, n), w.index({{0, 1}}));
  int row = w.check(index, 10);
  Index at;
  at.terms = {{-1, row, 20}, {1, -1, 1}};
  w.store(w.buffer(DType::kF32, n * Sym(20), true), w.index({{0, 20}, {1, 1}}),
          w.load(w.buffer(DType::kF32, 200), at));
  return w.kernel;
}

// Buffers: 0 the indices, 1 the output, 2 the table.
ScheduledKernel gather(Sym n) {
  KernelWriter w({n}, true);
  w.begin();
  int index = w.check(w.load(w.buffer(DType::kI64, n), w.index({{0, 1}})), 10);
  Index at;
  at.terms = {{-1, index, 2}, {0, -1, 0}};
  at.offset = 1;
  w.store(w.buffer(DType::kF32, n, true), w.index({{0, 1}}), w.load(w.buffer(DType::kF32, 20), at));
  return w.kernel;
}

TEST(EmitPointwise, IndirectLoads) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 16);
  std::vector<int64_t> indices;
  for (int i = 0; i < 37; ++i) indices.push_back(i % 20 - 10);
  for (const ScheduledKernel& kernel : {embedding(n), gather(n)})
    check(kernel, context, {.symbols = {37}, .contents = {{0, indices}}});
}

TEST(EmitPointwise, IndexErrors) {
  graph::SymContext context;
  Sym n = context.new_symbol("s0", 16);
  for (int64_t bad : {int64_t{10}, int64_t{-11}, INT64_MIN, INT64_MAX}) {
    for (int position : {0, 5, 36}) {
      std::vector<int64_t> indices(37, 3);
      indices[position] = bad;
      for (const ScheduledKernel& kernel : {embedding(n), gather(n)}) {
        int64_t error[3] = {};
        check(kernel, context, {.symbols = {37}, .parts = 1, .contents = {{0, indices}}}, error);
        EXPECT_EQ(error[0], 1);
        EXPECT_EQ(error[1], bad);
        EXPECT_EQ(error[2], 10);
      }
    }
  }
}

TEST(EmitPointwise, ScalarKernels) {
  graph::SymContext context;
  KernelWriter w({}, false);
  w.begin();
  int x = w.load(w.buffer(DType::kF32, 1), w.index({}));
  int yes = w.prim(Prim::k_gt, DType::kBool, {x, w.constant(DType::kF32, 0)});
  w.store(w.buffer(DType::kF32, 1, true), w.index({}),
          w.select(DType::kF32, yes, w.prim(Prim::k_exp, DType::kF32, {x}), x));
  check(w.kernel, context, {.tolerance = 1e-6, .small_values = true, .parts = 1});
}

TEST(EmitPointwise, SymbolicSizes) {
  graph::SymContext context;
  Sym a = context.new_symbol("s0", 10), b = context.new_symbol("s1", 3);
  Sym expression = floordiv(a * Sym(7) + b, Sym(4)) + mod(a, b) + min(a, b) * max(a, Sym(5)) - Sym(2);
  KernelWriter w({a}, true);
  w.begin();
  int x = w.prim(Prim::k_add, DType::kI64, {w.axis(0), w.size(expression)});
  w.store(w.buffer(DType::kI64, a, true), w.index({{0, 1}}), x);
  for (int64_t v : {2, 9, 70}) check(w.kernel, context, {.symbols = {v, 3}});
}

}  // namespace
}  // namespace cdynamo::lowering
