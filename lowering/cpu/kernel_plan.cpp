// What emission decides before it emits: lanes, unrolling, work items, scratch memory, cost.
#include <algorithm>

#include "lowering/cpu/kernel_emitter.h"
#include "lowering/loops/index_map.h"
#include "lowering/loops/kernel_hash.h"

namespace cdynamo::lowering::emit {
namespace {

// Lanes by the dtype that most of the work is done in: a register of that type is filled, wider ones take
// several.
int choose_lanes(const ScheduledKernel& kernel, const std::vector<const Phase*>& phases, int vector_bytes) {
  int counts[9] = {};
  for (const Phase* phase : phases) {
    for (const Stmt& stmt : phase->body) {
      if (stmt.kind == StmtKind::kConstant || stmt.kind == StmtKind::kSize) continue;
      bool memory = stmt.kind == StmtKind::kLoad || stmt.kind == StmtKind::kStore;
      // bool has no width of its own: it follows what it was compared from.
      if (stmt.dtype == DType::kBool && !memory) continue;
      ++counts[runtime::bytes(runtime::compute_type(stmt.dtype))];
    }
  }
  int widest = counts[8] ? 8 : counts[4] ? 4 : counts[2] ? 2 : 1;
  int width = widest == 8 && counts[4] >= counts[8] ? 4 : widest;
  return std::clamp(vector_bytes / width, 2, 64);
}

// How much of a body to have in flight. Short bodies are unrolled, so that loads and additions overlap. Long
// ones take vectors of several registers: instruction by instruction the chains of their polynomials then
// interleave. The longest have no registers to spare.
struct Unrolling {
  double up_to_cost;
  int registers, copies;
};
constexpr Unrolling kUnrollings[] = {{5, 1, 4}, {9, 1, 2}, {18, 2, 1}, {50, 4, 1}, {1e30, 1, 1}};

Unrolling choose_unrolling(double cost) {
  for (const Unrolling& unrolling : kUnrollings)
    if (cost <= unrolling.up_to_cost) return unrolling;
  return {0, 1, 1};
}

// Does not run past a short static extent.
VectorWidth fit(VectorWidth width, const Sym& extent) {
  if (!extent.is_constant()) return width;
  int64_t n = std::max<int64_t>(extent.constant(), 1);
  while (width.copies > 1 && int64_t{width.lanes} * width.copies > n) width.copies /= 2;
  while (width.lanes > 2 && width.lanes / 2 >= n) width.lanes /= 2;
  return width;
}

VectorWidth choose_vector_width(const ScheduledKernel& kernel, const std::vector<const Phase*>& phases,
                                const Sym& extent, int vector_bytes) {
  double cost = 0;
  for (const Phase* phase : phases)
    for (const Stmt& stmt : phase->body) cost += statement_cost(stmt, kernel);
  const int lanes = choose_lanes(kernel, phases, vector_bytes);
  Unrolling unrolling = choose_unrolling(cost);
  // float32 does such work in float64, two registers a vector; float64 itself has room for a second.
  if (cost > kUnrollings[3].up_to_cost && lanes * 8 <= vector_bytes) unrolling.registers = 2;
  return fit({std::min(lanes * unrolling.registers, 64), unrolling.copies}, extent);
}

// A reduction across long rows walks down a strip of columns. One of several cache lines is read ahead by the processor, line
// by line in each row; of a narrower one every line is a miss. (What a kernel keeps of its rows would have to be as wide.)
void widen_strip(const ScheduledKernel& kernel, VectorWidth& width) {
  constexpr int64_t kStripBytes = 256, kLongRowBytes = 1024, kManyRows = 64;
  if (std::ranges::any_of(kernel.buffers,
                          [](const KernelBuffer& b) { return b.kind == BufferKind::kRowScratch; }))
    return;
  const int lane = static_cast<int>(kernel.outer.size()) - 1;
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body) {
      if (stmt.kind != StmtKind::kLoad || kernel.buffers[stmt.buffer].kind != BufferKind::kGlobal) continue;
      const int64_t bytes = runtime::bytes(kernel.buffers[stmt.buffer].dtype);
      bool along = false, down = false;
      for (const IndexTerm& term : stmt.index.terms) {
        if (term.axis == lane) along = term.stride == Sym(1);
        if (term.axis > lane)
          down |= term.stride.maybe_constant().value_or(kLongRowBytes) * bytes >= kLongRowBytes &&
                  phase.inner[term.axis - lane - 1].maybe_constant().value_or(kManyRows) >= kManyRows;
      }
      if (along && down)
        width.copies = std::max(width.copies, static_cast<int>(kStripBytes / (width.lanes * bytes)));
    }
}

// See KernelPlan::tile_axis.
int choose_tile_axis(const ScheduledKernel& kernel) {
  const int last = static_cast<int>(kernel.outer.size()) - 1;
  for (const Phase& phase : kernel.phases) {
    for (const Stmt& stmt : phase.body) {
      int contiguous = -1;
      bool strided = false;
      for (const IndexTerm& term : stmt.index.terms) {
        if (term.axis == last)
          strided = !(term.stride == Sym(1)) && !(term.stride == Sym(0)) && !(term.stride == Sym(-1));
        if (term.axis >= 0 && term.axis < last && term.stride == Sym(1)) contiguous = term.axis;
      }
      if (strided && contiguous >= 0 && !(kernel.outer[contiguous] == Sym(1))) return contiguous;
    }
  }
  return -1;
}

// A last axis but one of two or four points that are next to each other in memory, and its lanes right behind
// them: pairs, quarters of a pixel. -1: none.
int choose_interleaved_axis(const ScheduledKernel& kernel) {
  const int last = static_cast<int>(kernel.outer.size()) - 1, axis = last - 1;
  if (axis < 0 || !(kernel.outer[axis] == Sym(2) || kernel.outer[axis] == Sym(4))) return -1;
  if (kernel.phases.size() != 1 || !kernel.phases[0].inner.empty()) return -1;
  bool found = false;
  for (const Stmt& stmt : kernel.phases[0].body) {
    if (stmt.kind != StmtKind::kStore) continue;
    Sym across, along;
    for (const IndexTerm& term : stmt.index.terms) {
      if (term.axis == axis) across = term.stride;
      if (term.axis == last) along = term.stride;
    }
    if (stmt.mask >= 0 || !(across == Sym(1)) || !(along == kernel.outer[axis])) return -1;
    found = true;
  }
  return found ? axis : -1;
}

// Tiles are square; those that are transposed in registers hold one copy of the body a row, so it has to be
// short.
void choose_tile(const ScheduledKernel& kernel, KernelPlan& plan, VectorWidth& width, int vector_bytes) {
  constexpr double kMaxCost = 10;
  plan.tile_axis = choose_interleaved_axis(kernel);
  if (plan.tile_axis >= 0) {
    plan.interleaves = plan.transposes = true;
    plan.tile_rows = static_cast<int>(kernel.outer[plan.tile_axis].constant());
    plan.work[plan.tile_axis] = Sym(1);
    width.copies = 1;
    width.lanes = std::min(width.lanes, std::max(vector_bytes / 4, 4));
    return;
  }
  plan.tile_axis = choose_tile_axis(kernel);
  if (plan.tile_axis < 0) return;
  double cost = 0;
  for (const Stmt& stmt : kernel.phases[0].body) cost += statement_cost(stmt, kernel);
  width.copies = 1;
  width.lanes = std::min(width.lanes, std::max(vector_bytes / 4, 4));
  plan.tile_rows = width.lanes;
  plan.transposes = kernel.phases.size() == 1 && kernel.phases[0].inner.empty() && cost <= kMaxCost &&
                    kernel.outer[plan.tile_axis].maybe_constant().value_or(plan.tile_rows) >= plan.tile_rows;
  Sym& rows = plan.work[plan.tile_axis];
  rows = floordiv(rows + Sym(plan.tile_rows - 1), Sym(plan.tile_rows));
}

// Code is written once more for each piece, and a piece should be long enough to be worth its rest.
Joints choose_joints(const ScheduledKernel& kernel, int phase, const VectorWidth& width,
                     const graph::SymContext& context) {
  constexpr double kMostCost = 600;
  constexpr int64_t kFewestBlocks = 2;
  Joints joints = find_joints(kernel, phase, context);
  const auto pieces = static_cast<int64_t>(joints.at.size()) + 1;
  double cost = 0;
  for (size_t p = 0; p < kernel.phases.size(); ++p)
    if (kernel.lanes_outer || static_cast<int>(p) == phase)
      for (const Stmt& stmt : kernel.phases[p].body) cost += statement_cost(stmt, kernel);
  if (cost * static_cast<double>(pieces * width.copies) > kMostCost) return {};
  const int64_t least = kFewestBlocks * width.lanes * width.copies;
  Index begin = constant_index(0);
  auto too_short = [&](const Index& end) {
    const Index length = add(end, scale(begin, -1));
    begin = end;
    return is_constant(length) && length.offset.maybe_constant().value_or(least) < least;
  };
  if (std::ranges::any_of(joints.at, too_short)) return {};
  const Sym& extent = kernel.lanes_outer ? kernel.outer.back() : kernel.phases[phase].inner.back();
  if (too_short(constant_index(extent))) return {};
  return joints;
}

// Nanoseconds for one item, at 3 GHz; statement costs are those of 16 float32.
double item_cost(const ScheduledKernel& kernel, const KernelPlan& plan, const graph::SymContext& context) {
  double cycles = 2;
  for (size_t p = 0; p < kernel.phases.size(); ++p) {
    const Phase& phase = kernel.phases[p];
    double body = 0;
    for (const Stmt& stmt : phase.body) body += statement_cost(stmt, kernel);
    double trips = 1;
    for (const Sym& extent : phase.inner)
      trips *= static_cast<double>(std::max<int64_t>(context.hint(extent), 1));
    const VectorWidth& width = plan.phases[p];
    double vectors = std::max(1.0, kernel.lanes_outer ? trips * width.lanes * width.copies / 16
                                                      : trips / (width.lanes > 1 ? 16 : 1));
    cycles += body * vectors;
  }
  if (plan.tile_axis >= 0) cycles *= plan.tile_rows;
  return cycles / 3;
}

}  // namespace

KernelPlan plan_kernel(const ScheduledKernel& kernel, const graph::SymContext& context,
                       const runtime::HostTarget& host) {
  KernelPlan plan;
  plan.work = kernel.outer;
  if (kernel.lanes_outer) {
    std::vector<const Phase*> all;
    for (const Phase& phase : kernel.phases) all.push_back(&phase);
    VectorWidth width;
    if (!kernel.outer.empty()) {
      width = choose_vector_width(kernel, all, kernel.outer.back(), host.vector_bytes);
      widen_strip(kernel, width);
      width = fit(width, kernel.outer.back());
    }
    choose_tile(kernel, plan, width, host.vector_bytes);
    plan.phases.assign(kernel.phases.size(), width);
    plan.joints.resize(1);
    if (!kernel.outer.empty() && plan.tile_axis < 0)
      plan.joints[0] = choose_joints(kernel, 0, width, context);
    Sym block = int64_t{width.lanes} * width.copies;
    if (!plan.work.empty()) plan.work.back() = floordiv(plan.work.back() + block - Sym(1), block);
  } else {
    for (const Phase& phase : kernel.phases) {
      const int scan_lanes = scan_lanes_limit(phase);
      const bool one_by_one = phase.inner.empty() || (phase.sequential && scan_lanes == 0);
      VectorWidth width;
      if (!one_by_one) width = choose_vector_width(kernel, {&phase}, phase.inner.back(), host.vector_bytes);
      if (scan_lanes > 0) width = {std::min(width.lanes, scan_lanes), 1};
      plan.phases.push_back(width);
      plan.joints.push_back(
          one_by_one || phase.sequential
              ? Joints{}
              : choose_joints(kernel, static_cast<int>(plan.joints.size()), width, context));
    }
  }
  int64_t interleaved = 1;
  if (kernel.lanes_outer && !plan.phases.empty())
    interleaved = int64_t{plan.phases[0].lanes} * plan.phases[0].copies;
  for (const KernelBuffer& buffer : kernel.buffers) {
    if (buffer.kind != BufferKind::kRowScratch) continue;
    plan.scratch_offsets.push_back(plan.scratch_bytes);
    Sym bytes = buffer.size * Sym(interleaved * runtime::bytes(buffer.dtype));
    plan.scratch_bytes = plan.scratch_bytes + floordiv(bytes + Sym(63), Sym(64)) * Sym(64);
  }
  plan.cost_per_item = item_cost(kernel, plan, context);
  return plan;
}

}  // namespace cdynamo::lowering::emit
