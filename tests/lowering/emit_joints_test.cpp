// Loops of lanes that are cut where comparisons along them change.
#include "emit_testing.h"
#include "lowering/cpu/joints.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

constexpr int64_t kRows = 3;

// Rows of three pieces next to each other, the second one doubled; as fusion has them, the first whose conditions hold. With
// `inner` lanes along rows, whose largest value is stored as well.
ScheduledKernel concat(DType dtype, const std::vector<Sym>& pieces, bool inner) {
  const Sym length = pieces[0] + pieces[1] + pieces[2];
  KernelWriter w(inner ? std::vector<Sym>{kRows} : std::vector<Sym>{kRows, length}, !inner);
  w.begin(inner ? std::vector<Sym>{length} : std::vector<Sym>{});
  int result = -1;
  Sym start = length;
  for (int piece = 2; piece >= 0; --piece) {
    start = start - pieces[piece];
    int at = w.add({.kind = StmtKind::kAxis, .dtype = DType::kI64, .axis = 1});
    at = w.prim(Prim::k_add, DType::kI64, {at, w.size(Sym(0) - start)});
    int inside = -1;
    if (piece > 0) inside = w.prim(Prim::k_ge, DType::kBool, {at, w.constant(DType::kI64, 0)});
    if (piece < 2) {
      const int below = w.prim(Prim::k_lt, DType::kBool, {at, w.size(pieces[piece])});
      inside = inside < 0 ? below : w.prim(Prim::k_bit_and, DType::kBool, {inside, below});
    }
    const int from = w.buffer(dtype, Sym(kRows) * pieces[piece]);
    int value = w.load(from, w.index({{0, pieces[piece]}, {1, 1}}, Sym(0) - start), inside);
    if (piece == 1 && dtype == DType::kF32) value = w.prim(Prim::k_add, dtype, {value, value});
    result = result < 0 ? value : w.select(dtype, inside, value, result);
  }
  w.store(w.buffer(dtype, Sym(kRows) * length, true), w.index({{0, length}, {1, 1}}), result);
  if (inner) {
    const int largest = w.reduce(kMax, dtype, result);
    w.begin();
    w.store(w.buffer(dtype, kRows, true), w.index({{0, 1}}), largest);
  }
  return w.kernel;
}

TEST(EmitJoints, PiecesOfManySizes) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kU8})
    for (bool inner : {false, true})
      for (const auto& sizes : std::vector<std::vector<int64_t>>{
               {256, 256, 512}, {1, 400, 300}, {300, 1, 400}, {333, 444, 5}, {1024, 1, 1}, {2, 3, 4}}) {
        SCOPED_TRACE(std::to_string(sizes[0]) + " " + std::to_string(sizes[1]));
        graph::SymContext context;
        const ScheduledKernel kernel = concat(dtype, {sizes[0], sizes[1], sizes[2]}, inner);
        EXPECT_EQ(emit::find_joints(kernel, 0, context).at.size(), 2);
        for (int parts : {1, 3}) check(kernel, context, {.parts = parts});
        if (HasFatalFailure()) return;
      }
}

TEST(EmitJoints, SymbolicSizes) {
  for (bool inner : {false, true}) {
    graph::SymContext context;
    std::vector<Sym> pieces;
    for (const char* name : {"s0", "s1", "s2"}) pieces.push_back(context.new_symbol(name, 100));
    const ScheduledKernel kernel = concat(DType::kF32, pieces, inner);
    EXPECT_EQ(emit::find_joints(kernel, 0, context).at.size(), 2);
    auto held = emit_cpu({&kernel, 1}, context, {.use_disk_cache = false});
    for (const auto& sizes : std::vector<std::vector<int64_t>>{
             {256, 256, 512}, {2, 400, 300}, {300, 2, 400}, {333, 444, 5}, {1024, 2, 2}, {2, 3, 4}}) {
      for (int parts : {1, 4}) check(kernel, context, {.symbols = sizes, .parts = parts});
      if (HasFatalFailure()) return;
    }
  }
}

// x where direction * lane (+ row) `op` a bound, y elsewhere.
ScheduledKernel choice(Prim op, int direction, Sym length, const std::vector<Sym>& bounds, bool by_row) {
  KernelWriter w({kRows, length}, true);
  w.begin();
  const Sym size = Sym(kRows) * length;
  const int x = w.buffer(DType::kF32, size), y = w.buffer(DType::kF32, size);
  const Index at = w.index({{0, length}, {1, 1}});
  int lane = w.axis(1);
  if (direction < 0) lane = w.prim(Prim::k_mul, DType::kI64, {lane, w.constant(DType::kI64, -1)});
  if (by_row) lane = w.prim(Prim::k_add, DType::kI64, {lane, w.axis(0)});
  int result = w.load(y, at);
  for (const Sym& bound : bounds) {
    const int inside = w.prim(op, DType::kBool, {lane, w.size(bound)});
    result = w.select(DType::kF32, inside, w.load(x, at, inside), result);
  }
  w.store(w.buffer(DType::kF32, size, true), at, result);
  return w.kernel;
}

TEST(EmitJoints, EveryComparisonOfLanesThatRunUpOrDown) {
  for (Prim op : {Prim::k_lt, Prim::k_le, Prim::k_gt, Prim::k_ge})
    for (int direction : {1, -1})
      for (bool by_row : {false, true})
        for (int64_t bound : {-5, 0, 1, 100, 256, 700, 999, 1000, 2000}) {
          SCOPED_TRACE(bound);
          graph::SymContext context;
          const ScheduledKernel kernel = choice(op, direction, 1000, {direction * bound}, by_row);
          EXPECT_EQ(emit::find_joints(kernel, 0, context).at.size(), 1);
          check(kernel, context);
          if (HasFatalFailure()) return;
        }
}

// Which of two symbols is larger is not known: the second comparison stays a mask.
TEST(EmitJoints, JointsWithoutAnOrder) {
  graph::SymContext context;
  const Sym a = context.new_symbol("s0", 100), b = context.new_symbol("s1", 200);
  const ScheduledKernel kernel = choice(Prim::k_lt, 1, 1000, {a, b, a}, false);
  const emit::Joints joints = emit::find_joints(kernel, 0, context);
  EXPECT_EQ(joints.at.size(), 1);
  EXPECT_EQ(joints.comparisons.size(), 2);
  for (const std::vector<int64_t>& symbols : {std::vector<int64_t>{100, 600}, {600, 100}, {300, 300}})
    check(kernel, context, {.symbols = symbols});
}

// An axis of a loop further in moves the joint while the lanes stand: there is none.
TEST(EmitJoints, LoopsFurtherIn) {
  graph::SymContext context;
  KernelWriter w({1000}, true);
  w.begin({5});
  const int at = w.prim(Prim::k_add, DType::kI64, {w.axis(0), w.axis(1)});
  const int inside = w.prim(Prim::k_lt, DType::kBool, {at, w.constant(DType::kI64, 700)});
  const int sum =
      w.reduce(kSum, DType::kF32, w.load(w.buffer(DType::kF32, 700), w.index({{0, 1}, {1, 1}}), inside));
  w.begin();
  w.store(w.buffer(DType::kF32, 1000, true), w.index({{0, 1}}), sum);
  EXPECT_EQ(emit::find_joints(w.kernel, 0, context).at.size(), 0);
  check(w.kernel, context, {.whole_values = true});
}

}  // namespace
}  // namespace cdynamo::lowering
